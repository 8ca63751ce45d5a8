//! Values in buffers: filled before the function runs, and shown after it.
//!
//! A buffer is filled in place where the host addresses its memory: a file's bytes go from the system straight into it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use rig::{Buffer, Device};
use serde::Serialize;

use crate::element::{Element, Value, with_element};
use crate::error::{Error, Result};
use crate::members::{BufferSpec, Source};
use crate::{npy, output};

#[cfg(target_endian = "big")]
compile_error!("files hold little-endian values, and this program copies them as they are");

/// Makes the buffer that the command line asks for.
pub fn make(device: &Device, spec: &BufferSpec) -> Result<Buffer> {
    match &spec.source {
        Source::File(path) => from_file(device, spec.element, path),
        Source::Zeros(count) => {
            let buffer = device.buffer(bytes_of(*count, spec.element)?)?;
            buffer.memset(0)?;
            Ok(buffer)
        }
        Source::Iota(count) => {
            let buffer = device.buffer(bytes_of(*count, spec.element)?)?;
            with_element!(spec.element, T => buffer.write(|values: &mut [T]| {
                for (index, value) in values.iter_mut().enumerate() {
                    *value = T::at_index(index);
                }
            }))?;
            Ok(buffer)
        }
    }
}

/// The bytes of `count` values.
fn bytes_of(count: u64, element: Element) -> Result<usize> {
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(element.size()));
    // No allocation is larger than isize::MAX bytes.
    bytes.filter(|bytes| isize::try_from(*bytes).is_ok()).ok_or(Error::TooLarge { count, element })
}

fn from_file(device: &Device, element: Element, path: &Path) -> Result<Buffer> {
    let failed = |why| Error::File { what: "read", path: path.into(), why };
    let mut file = File::open(path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if !facts.is_file() {
        return Err(failed(std::io::Error::other("it is no regular file, so its length is not known")));
    }
    let bytes = if output::is_npy(path) {
        let wrong = |why| Error::Npy { path: path.into(), why };
        let count = npy::read_header(&mut file, element).map_err(failed)?.map_err(wrong)?;
        let bytes = bytes_of(count, element)?;
        // Before any memory is asked for: a header may say anything.
        if bytes as u64 > facts.len() {
            return Err(wrong(format!("its header says {count} values, and it ends before them")));
        }
        bytes
    } else {
        if !facts.len().is_multiple_of(element.size() as u64) {
            return Err(Error::NotWhole { path: path.into(), bytes: facts.len(), element });
        }
        bytes_of(facts.len() / element.size() as u64, element)?
    };
    let buffer = device.buffer(bytes)?;
    buffer.write(|bytes: &mut [u8]| file.read_exact(bytes))?.map_err(failed)?;
    Ok(buffer)
}

/// Values of any type, as JSON and text have them.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Values {
    /// Of that type.
    U8(Vec<u8>),
    /// Of that type.
    I8(Vec<i8>),
    /// Of that type.
    U16(Vec<u16>),
    /// Of that type.
    I16(Vec<i16>),
    /// Of that type.
    U32(Vec<u32>),
    /// Of that type.
    I32(Vec<i32>),
    /// Of that type.
    U64(Vec<u64>),
    /// Of that type.
    I64(Vec<i64>),
    /// Of that type; what is not finite is null in JSON.
    F32(Vec<f32>),
    /// Of that type; what is not finite is null in JSON.
    F64(Vec<f64>),
}

/// The first `most` values of a buffer.
pub fn first(element: Element, buffer: &Buffer, most: u64) -> Result<Values> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    fn take<T: Value>(buffer: &Buffer, most: usize) -> Result<Vec<T>> {
        Ok(buffer.read(|values: &[T]| values[..values.len().min(most)].to_vec())?)
    }
    Ok(match element {
        Element::U8 => Values::U8(take(buffer, most)?),
        Element::I8 => Values::I8(take(buffer, most)?),
        Element::U16 => Values::U16(take(buffer, most)?),
        Element::I16 => Values::I16(take(buffer, most)?),
        Element::U32 => Values::U32(take(buffer, most)?),
        Element::I32 => Values::I32(take(buffer, most)?),
        Element::U64 => Values::U64(take(buffer, most)?),
        Element::I64 => Values::I64(take(buffer, most)?),
        Element::F32 => Values::F32(take(buffer, most)?),
        Element::F64 => Values::F64(take(buffer, most)?),
    })
}

impl std::fmt::Display for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn list<T: Value>(f: &mut std::fmt::Formatter<'_>, values: &[T]) -> std::fmt::Result {
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index == 0 { "" } else { " " })?;
                value.show(f)?;
            }
            Ok(())
        }
        match self {
            Values::U8(values) => list(f, values),
            Values::I8(values) => list(f, values),
            Values::U16(values) => list(f, values),
            Values::I16(values) => list(f, values),
            Values::U32(values) => list(f, values),
            Values::I32(values) => list(f, values),
            Values::U64(values) => list(f, values),
            Values::I64(values) => list(f, values),
            Values::F32(values) => list(f, values),
            Values::F64(values) => list(f, values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_their_own_digits_in_text_and_json() {
        let values = Values::F32(vec![0.1, 16777216.0, f32::NAN]);
        assert_eq!(values.to_string(), "0.1 16777216 NaN");
        assert_eq!(serde_json::to_string(&values).unwrap(), "[0.1,16777216.0,null]");
        assert_eq!(Values::F64(vec![-1e-9, 1e300, -0.0, 1e15]).to_string(), "-1e-9 1e300 -0 1000000000000000");
        assert_eq!(serde_json::to_string(&Values::U64(vec![u64::MAX])).unwrap(), "[18446744073709551615]");
        assert_eq!(Values::I8(vec![]).to_string(), "");
    }

    #[test]
    fn a_buffer_above_the_address_space_is_refused() {
        assert!(bytes_of(u64::MAX, Element::U8).is_err());
        assert!(bytes_of(1 << 62, Element::F32).is_err());
        assert_eq!(bytes_of(16 << 20, Element::F32).unwrap(), 64 << 20);
    }
}
