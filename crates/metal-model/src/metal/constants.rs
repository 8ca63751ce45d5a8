//! The values of function constants, as a program hands them.

use std::{cell::RefCell, collections::BTreeMap, ffi::c_void, ptr::NonNull};

use objc2_foundation::{NSRange, NSUInteger};

use crate::{
    kernel::{ConstantValue, Constants},
    protocol::{MTLDataType, MTLLibraryError},
};

/// One value: its type and its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) of: MTLDataType,
    pub(crate) bytes: Vec<u8>,
}

/// Values by index and by name.
#[derive(Default)]
pub struct ConstantValues {
    pub(crate) by_index: RefCell<BTreeMap<NSUInteger, Value>>,
    pub(crate) by_name: RefCell<BTreeMap<String, Value>>,
}

impl ConstantValues {
    /// Takes the values of a range of indices.
    ///
    /// # Safety
    /// `values` points to as many values of the type as the range is long.
    pub(crate) unsafe fn put(&self, values: NonNull<c_void>, of: MTLDataType, range: NSRange) {
        let size = size(of);
        for at in 0..range.length {
            // SAFETY: within the caller's values.
            let value = unsafe { values.cast::<u8>().add(at * size) };
            // SAFETY: as above; the value is as long as its type.
            let bytes = unsafe { std::slice::from_raw_parts(value.as_ptr(), size) }.to_vec();
            self.by_index.borrow_mut().insert(range.location + at, Value { of, bytes });
        }
    }

    /// Takes the value of a name.
    ///
    /// # Safety
    /// `value` points to a value of the type.
    pub(crate) unsafe fn put_named(&self, value: NonNull<c_void>, of: MTLDataType, name: &str) {
        // SAFETY: the value is as long as its type.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>().as_ptr(), size(of)) }.to_vec();
        self.by_name.borrow_mut().insert(name.to_owned(), Value { of, bytes });
    }

    /// Forgets every value.
    pub(crate) fn reset(&self) {
        self.by_index.borrow_mut().clear();
        self.by_name.borrow_mut().clear();
    }
}

/// Bytes of a value of the type: vectors of three take the room of four.
pub(crate) fn size(of: MTLDataType) -> usize {
    let (scalar, first) = match of.0 {
        3..=6 => (4, 3),
        16..=19 => (2, 16),
        29..=32 => (4, 29),
        33..=36 => (4, 33),
        37..=40 => (2, 37),
        41..=44 => (2, 41),
        45..=48 => (1, 45),
        49..=52 => (1, 49),
        53..=56 => (1, 53),
        81..=84 => (8, 81),
        85..=88 => (8, 85),
        121..=124 => (2, 121),
        other => panic!("a function constant of data type {other} is none that Metal has"),
    };
    scalar * [1, 2, 4, 4][of.0 - first]
}

/// The values as the compiler takes them.
pub(crate) fn of(values: &ConstantValues) -> Result<Constants, (MTLLibraryError, String)> {
    let mut constants = Constants::default();
    for (index, value) in values.by_index.borrow().iter() {
        let index = u32::try_from(*index).map_err(|_| unfit(&format!("index {index} is past every constant")))?;
        constants.by_index.insert(index, converted(value)?);
    }
    for (name, value) in values.by_name.borrow().iter() {
        constants.by_name.insert(name.clone(), converted(value)?);
    }
    Ok(constants)
}

fn unfit(why: &str) -> (MTLLibraryError, String) {
    (MTLLibraryError::CompileFailure, format!("function constants: {why}"))
}

/// One value as the compiler takes it.
fn converted(value: &Value) -> Result<ConstantValue, (MTLLibraryError, String)> {
    let first = [3, 16, 29, 33, 37, 41, 45, 49, 53, 81, 85, 121].into_iter().rev().find(|first| *first <= value.of.0);
    let first = first.ok_or_else(|| unfit("a type that is no scalar or vector"))?;
    let lanes = value.of.0 - first + 1;
    let scalar = value.bytes.len() / [1, 2, 4, 4][lanes - 1];
    let mut all = value.bytes.chunks_exact(scalar).take(lanes).map(|bytes| one(first, bytes));
    match all.next() {
        Some(only) if lanes == 1 => Ok(only),
        Some(first) => Ok(ConstantValue::Vector(std::iter::once(first).chain(all).collect())),
        None => Err(unfit("a value of no bytes")),
    }
}

/// A scalar of the family of types that starts at `first`.
fn one(first: NSUInteger, bytes: &[u8]) -> ConstantValue {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let [low, second, third, fourth, ..] = word;
    let (two, four) = ([low, second], [low, second, third, fourth]);
    match first {
        3 => ConstantValue::F32(f32::from_ne_bytes(four)),
        16 => ConstantValue::F16(u16::from_ne_bytes(two)),
        29 => ConstantValue::I32(i32::from_ne_bytes(four)),
        33 => ConstantValue::U32(u32::from_ne_bytes(four)),
        37 => ConstantValue::I16(i16::from_ne_bytes(two)),
        41 => ConstantValue::U16(u16::from_ne_bytes(two)),
        45 => ConstantValue::I8(i8::from_ne_bytes([low])),
        49 => ConstantValue::U8(low),
        53 => ConstantValue::Bool(low != 0),
        81 => ConstantValue::I64(i64::from_ne_bytes(word)),
        85 => ConstantValue::U64(u64::from_ne_bytes(word)),
        _ => ConstantValue::BF16(u16::from_ne_bytes(two)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_type_and_their_lanes() {
        let values = ConstantValues::default();
        let number = 7_i32;
        // SAFETY: one value of the type.
        unsafe { values.put(NonNull::from(&number).cast(), MTLDataType::Int, NSRange { location: 3, length: 1 }) };
        let three = [1.0_f32, 2.0, 3.0, 0.0];
        // SAFETY: one value of the type, whose vectors of three take the room of four.
        unsafe { values.put_named(NonNull::from(&three).cast(), MTLDataType::Float3, "v") };
        let constants = of(&values).expect("values of Metal's types");
        assert_eq!(constants.by_index.get(&3), Some(&ConstantValue::I32(7)));
        let lanes = vec![ConstantValue::F32(1.0), ConstantValue::F32(2.0), ConstantValue::F32(3.0)];
        assert_eq!(constants.by_name.get("v"), Some(&ConstantValue::Vector(lanes)));
    }
}
