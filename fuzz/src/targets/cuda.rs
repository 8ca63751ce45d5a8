//! What CUDA's library is handed: an image that was seen to hold every range that it names.

use crate::container::contain;

/// The library reads from an address, with no length: what passes is the image and a zero byte, and no header in it names what
/// lies outside, by a reader of its own.
pub fn image(bytes: &[u8]) {
    let Ok(contained) = contain(bytes) else { return };
    assert_eq!(contained.split_last(), Some((&0, bytes)), "the image and a zero byte");
    if !bytes.starts_with(b"\x7fELF") {
        return;
    }
    let number = |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0_u128, |n, &b| n << 8 | u128::from(b));
    let len = bytes.len() as u128;
    for (table, each, count, offset, size) in [(40, 58, 60, 24, 32), (32, 54, 56, 8, 32)] {
        let (at, each, count) = (number(table, 8), number(each, 2), number(count, 2));
        assert!(at + each * count <= len, "a table");
        for index in 0..count {
            let header = (at + index * each) as usize;
            let is_empty = table == 40 && number(header + 4, 4) == 8;
            let end = number(header + offset, 8) + number(header + size, 8);
            assert!(is_empty || end <= len, "what the header {index} names ends at {end} of {len}");
        }
    }
}
