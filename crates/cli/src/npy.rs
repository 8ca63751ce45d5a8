//! The header of a .npy file, as numpy's `numpy.lib.format` documents it: a magic of 6 bytes, a version of 2, the length
//! of the dictionary (2 bytes in version 1, 4 in versions 2 and 3, little-endian), and the dictionary as Python text.
//!
//! Leaves out what no kernel takes as a plain array: other byte orders, structured types, and Fortran order, which is
//! refused rather than transposed behind the user's back. The shape is only multiplied out.

use std::io::{self, Read};

use crate::element::Element;

const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// Enough for any header that numpy itself reads without being told to trust it (10,000 characters), so that a bad
/// length allocates nothing large.
const DICTIONARY_BYTES_MAX: usize = 64 * 1024;

/// Reads past the header of a .npy file of `element` values in C order, and gives how many there are.
///
/// The outer error is the file's; the inner one says what is wrong with the header.
pub fn read_header(file: &mut impl Read, element: Element) -> io::Result<Result<u64, String>> {
    let mut start = [0; 8];
    if !fill(file, &mut start)? || &start[..6] != MAGIC {
        return Ok(Err("it does not start as one does".into()));
    }
    let mut length = [0; 4];
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        other => return Ok(Err(format!("its version is {other}, and this program reads 1 to 3"))),
    };
    if !fill(file, &mut length[..length_bytes])? {
        return Ok(Err("it ends inside its header".into()));
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > DICTIONARY_BYTES_MAX {
        return Ok(Err(format!("its header has {length} bytes, above {DICTIONARY_BYTES_MAX}")));
    }
    let mut dictionary = vec![0; length];
    if !fill(file, &mut dictionary)? {
        return Ok(Err("it ends inside its header".into()));
    }
    Ok(String::from_utf8(dictionary).map_err(|_| "its header is no text".into()).and_then(|text| count(&text, element)))
}

/// Whether `bytes` could be filled.
fn fill(file: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(why) => Err(why),
    }
}

/// The text after a key of the dictionary.
fn after<'a>(dictionary: &'a str, key: &str) -> Result<&'a str, String> {
    dictionary
        .split_once(&format!("'{key}'"))
        .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'))
        .map(str::trim_start)
        .ok_or_else(|| format!("its header says no {key}"))
}

fn count(dictionary: &str, element: Element) -> Result<u64, String> {
    let descr = after(dictionary, "descr")?;
    let descr = descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map_or(descr, |(descr, _)| descr);
    if descr != element.npy() {
        return Err(format!(
            "it holds values of numpy's type {descr}, and the command line says {element} ({})",
            element.npy()
        ));
    }
    let shape = after(dictionary, "shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let (shape, _) = shape.ok_or("its header says no shape")?;
    let mut dimensions = 0;
    let mut count = 1_u64;
    for dimension in shape.split(',').map(str::trim).filter(|dimension| !dimension.is_empty()) {
        let dimension: u64 = dimension.parse().map_err(|_| format!("its shape is ({shape})"))?;
        count = count.checked_mul(dimension).ok_or_else(|| format!("its shape ({shape}) is too large"))?;
        dimensions += 1;
    }
    if dimensions > 1 && !after(dictionary, "fortran_order")?.starts_with("False") {
        return Err("its columns come first (fortran_order): save numpy.ascontiguousarray of it".into());
    }
    Ok(count)
}

/// The header of a .npy file of `count` values of `element`, one dimension.
pub fn header(element: Element, count: usize) -> Vec<u8> {
    let dictionary = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({count},), }}", element.npy());
    // The values start on a multiple of 64 bytes; the dictionary is padded with spaces and ends with a newline.
    let start = MAGIC.len() + 4;
    let padded = (start + dictionary.len() + 1).next_multiple_of(64) - start;
    let mut header = Vec::with_capacity(start + padded);
    header.extend_from_slice(MAGIC);
    header.extend_from_slice(&[1, 0]);
    // PANIC: the dictionary has fewer than 100 characters, so its length fits 16 bits.
    header.extend_from_slice(&u16::try_from(padded).expect("a short dictionary").to_le_bytes());
    header.extend_from_slice(format!("{dictionary:<width$}\n", width = padded - 1).as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(dictionary: &str) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend_from_slice(&u16::try_from(dictionary.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(dictionary.as_bytes());
        bytes
    }

    fn read(dictionary: &str, element: Element) -> Result<u64, String> {
        read_header(&mut &file(dictionary)[..], element).unwrap()
    }

    #[test]
    fn a_header_that_we_write_is_read_back_and_its_values_start_on_64_bytes() {
        for (element, count) in [(Element::F32, 16 << 20), (Element::U8, 0), (Element::I64, 7)] {
            let header = header(element, count);
            assert_eq!(header.len() % 64, 0);
            let mut rest = &header[..];
            assert_eq!(read_header(&mut rest, element).unwrap(), Ok(count as u64));
            assert!(rest.is_empty());
        }
    }

    #[test]
    fn a_shape_is_multiplied_out() {
        let shape = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
        assert_eq!(read(&shape("(3, 5)"), Element::F32), Ok(15));
        assert_eq!(read(&shape("()"), Element::F32), Ok(1));
        assert_eq!(read(&shape("(0,)"), Element::F32), Ok(0));
        assert!(read(&shape("(-1,)"), Element::F32).is_err());
        assert!(read(&shape("(18446744073709551615, 2)"), Element::F32).unwrap_err().contains("too large"));
        assert!(read(&shape("3"), Element::F32).unwrap_err().contains("no shape"));
    }

    #[test]
    fn another_type_another_order_and_no_npy_file_are_refused() {
        let plain = "{'descr': '<f8', 'fortran_order': True, 'shape': (2, 2), }\n";
        assert!(read(plain, Element::F32).unwrap_err().contains("numpy's type <f8"));
        assert!(read(plain, Element::F64).unwrap_err().contains("ascontiguousarray"));
        let record = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,), }\n";
        assert!(read(record, Element::F32).unwrap_err().contains("numpy's type"));
        let mut bytes = file(plain);
        bytes[6] = 9;
        assert!(read_header(&mut &bytes[..], Element::F64).unwrap().unwrap_err().contains("version is 9"));
        for end in [0, 5, 7, 9, 20] {
            assert!(read_header(&mut &file(plain)[..end], Element::F64).unwrap().is_err(), "{end}");
        }
        assert!(read_header(&mut &b"not a numpy file"[..], Element::F64).unwrap().is_err());
        let long = b"\x93NUMPY\x02\x00\xff\xff\xff\xff";
        assert!(read_header(&mut &long[..], Element::F64).unwrap().unwrap_err().contains("above 65536"));
    }
}
