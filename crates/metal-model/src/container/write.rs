//! The writer of the container: what Apple's tools write, without the parts that serve debuggers.

use sha2::{Digest, Sha256};

use super::read::HEADER;
use super::{FunctionKind, PackError};

/// A function to write.
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) kind: FunctionKind,
    pub(super) bitcode: Vec<u8>,
}

/// What public and private data of a function without any are: their size, and the end.
const NO_DATA: [u8; 8] = [4, 0, 0, 0, b'E', b'N', b'D', b'T'];

/// The library of these functions.
pub(super) fn library(functions: &[Function<'_>]) -> Result<Vec<u8>, PackError> {
    let mut list = Vec::new();
    let mut code = Vec::new();
    list.extend((functions.len() as u32).to_le_bytes());
    for (place, function) in functions.iter().enumerate() {
        let data = (place * NO_DATA.len()) as u64;
        entry(&mut list, function, data, code.len() as u64)?;
        code.extend_from_slice(&function.bitcode);
    }
    let data = (functions.len() * NO_DATA.len()) as u64;
    let public = HEADER as u64 + list.len() as u64 + 4;
    let sections = [(HEADER as u64, list.len() as u64 - 4), (public, data), (public + data, data)];
    let code_at = public + 2 * data;
    let mut file = Vec::new();
    file.extend(*b"MTLB");
    // macOS, format 1.2, an executable library, for macOS 14.0.
    file.extend([0x01, 0x80, 0x02, 0x00, 0x07, 0x00, 0x00, 0x81, 0x0e, 0x00, 0x00, 0x00]);
    file.extend((code_at + code.len() as u64).to_le_bytes());
    for (at, size) in sections.into_iter().chain([(code_at, code.len() as u64)]) {
        file.extend(at.to_le_bytes());
        file.extend(size.to_le_bytes());
    }
    file.extend(list);
    file.extend(*b"ENDT");
    for _ in 0..2 * functions.len() {
        file.extend(NO_DATA);
    }
    file.extend(code);
    Ok(file)
}

fn entry(list: &mut Vec<u8>, function: &Function<'_>, data: u64, code: u64) -> Result<(), PackError> {
    let mut tags = Vec::new();
    let mut tag = |name: &[u8; 4], value: &[u8]| {
        let size = u16::try_from(value.len()).map_err(|_| PackError {
            name: function.name.to_owned(),
            why: "its name is longer than a library can hold".to_owned(),
        })?;
        tags.extend(name);
        tags.extend(size.to_le_bytes());
        tags.extend(value);
        Ok::<(), PackError>(())
    };
    let mut name = function.name.as_bytes().to_vec();
    name.push(0);
    tag(b"NAME", &name)?;
    tag(b"TYPE", &[function.kind.code()])?;
    tag(b"HASH", &Sha256::digest(&function.bitcode))?;
    let places: Vec<u8> = [data, data, code].iter().flat_map(|place| place.to_le_bytes()).collect();
    tag(b"OFFT", &places)?;
    // AIR 2.6, Metal 3.1.
    tag(b"VERS", &[2, 0, 6, 0, 3, 0, 1, 0])?;
    tag(b"MDSZ", &(function.bitcode.len() as u64).to_le_bytes())?;
    tags.extend(*b"ENDT");
    list.extend((tags.len() as u32 + 4).to_le_bytes());
    list.extend(tags);
    Ok(())
}
