//! The host's loader of ELF objects.

use rig_host::fuzz::{Linked, linked, loaded};

/// Where an image is linked for: the upper half of the addresses of programs, so that a distance cut to 32 bits shows.
const BASE: u64 = 0x7f12_3456_7000;

/// The longest image that is made here; what an object asks for in zeros is its own.
const IMAGE_MOST: u64 = 32 << 10;

/// An object is refused, or linked with each part in its place and no two in one; it is linked the same at every look, and for
/// this machine it loads if it links.
pub fn object(bytes: &[u8]) {
    let answer = linked(bytes, BASE, IMAGE_MOST);
    let Ok(Some(image)) = &answer else { return };
    parts_lie_apart(image);
    for (name, place) in image.functions.iter().flatten() {
        assert!(*place < image.ends.0, "{name} lies at {place}, past the code's end");
    }
    assert_eq!(linked(bytes, BASE, IMAGE_MOST), answer, "a second look");
    // e_machine: x86-64.
    if bytes[18] == 62 {
        let names = loaded(bytes);
        match (&image.functions, names) {
            (Some(functions), Ok(names)) => {
                assert!(functions.iter().map(|(name, _)| name).eq(&names), "{functions:?}, {names:?}");
            }
            (None, Err(_)) => {}
            // At its real place, a distance may be too long for a field.
            (Some(_), Err(why)) => assert!(why.contains("relocation"), "it linked and does not load: {why}"),
            (None, Ok(names)) => panic!("refused, and loaded {names:?}"),
        }
    }
}

fn parts_lie_apart(image: &Linked) {
    let len = image.bytes.len() as u64;
    let (code, constants) = image.ends;
    assert!(code <= constants && constants <= len && [code, constants, len].iter().all(|end| end % 4096 == 0));
    let mut sections = image.sections.clone();
    sections.sort_by_key(|&(_, place, size)| (place, size));
    let mut end = 0;
    for (segment, place, size) in sections {
        let within = [0..code, code..constants, constants..len][usize::from(segment)].clone();
        assert!(place >= end && within.start <= place && place + size <= within.end, "{size} bytes at {place}");
        end = place + size;
    }
}
