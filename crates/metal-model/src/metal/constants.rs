//! The values of function constants, as a program hands them.

use std::{cell::RefCell, collections::BTreeMap, ffi::c_void, ptr::NonNull};

use objc2_foundation::{NSRange, NSUInteger};

use crate::protocol::MTLDataType;

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
