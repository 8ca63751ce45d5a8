//! AMD's code objects, their metadata, and the kernel's topology.

use std::collections::BTreeMap;

use rig_amd::fuzz;

/// An object that asks to be loaded to more bytes than this is not read: its zeros are its own.
const LOADED_MOST: u64 = 32 << 10;

/// A code object is refused, or every descriptor and every hidden argument of it lies inside.
pub fn object(bytes: &[u8]) {
    if loaded(bytes) > LOADED_MOST {
        return;
    }
    let Ok((image, functions)) = fuzz::object(bytes, 0x10_0000) else { return };
    assert!(image.len() as u64 <= LOADED_MOST, "{} bytes are loaded", image.len());
    for function in &functions {
        let at = function.descriptor as usize;
        assert!(at.is_multiple_of(64) && at + 64 <= image.len(), "a descriptor at {at:#x}");
        let (all, params) = function.arguments;
        assert!(params <= all, "{function:?}");
        assert!(function.hidden.iter().all(|&at| params <= at && at + 2 <= all), "{function:?}");
    }
    let (elsewhere, same) = fuzz::object(bytes, 0x20_0000).unwrap_or_default();
    assert_eq!((elsewhere.len(), same), (image.len(), functions), "another base");
}

/// What the program headers ask for, read without the parser.
fn loaded(bytes: &[u8]) -> u64 {
    let number = |at: usize, len: usize| {
        let part = bytes.get(at..at.saturating_add(len)).unwrap_or_default();
        part.iter().rev().fold(0_u64, |number, &byte| number << 8 | u64::from(byte))
    };
    let (headers, each, count) = (number(32, 8), number(54, 2), number(56, 2));
    let ends = (0..count).map(|index| {
        let at = headers.saturating_add(index * each) as usize;
        // Type PT_LOAD; address and length.
        if number(at, 4) == 1 {
            number(at.saturating_add(16), 8).saturating_add(number(at.saturating_add(40), 8))
        } else {
            0
        }
    });
    ends.max().unwrap_or(0)
}

/// What is read is what was written: a value written anew reads as the same value, which is written the same.
pub fn msgpack(bytes: &[u8]) {
    let Some(written) = fuzz::msgpack(bytes) else { return };
    assert_eq!(fuzz::msgpack(&written), Some(written));
}

/// Any texts in the kernel's place are read. The input is `path\ntext\0` over and over.
pub fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let files: BTreeMap<String, String> = text
        .split('\0')
        .filter_map(|file| file.split_once('\n'))
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    let gpus = fuzz::topology(&files);
    assert!(gpus.len() <= files.len(), "more GPUs than files");
}
