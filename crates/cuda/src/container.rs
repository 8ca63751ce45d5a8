//! What an image's bytes are, and that every range which they name lies inside: CUDA takes an address without a length and
//! reads on.
//!
//! A cubin is an ELF object for NVIDIA's machine (`e_machine` 190), a fatbin a header and what follows, PTX a text.

/// The magic number of a fatbin's header.
const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
/// The bytes of a fatbin's header.
const FATBIN_HEADER: usize = 16;
/// The bytes of an ELF object's header.
const ELF_HEADER: usize = 64;
/// `EM_CUDA`.
const ELF_CUDA: u64 = 190;
/// `SHT_NOBITS`: a section that has no bytes in the file.
const ELF_NO_BITS: u64 = 8;

/// The image as CUDA takes it: seen to hold what it names, and ended by a zero byte.
pub(crate) fn contain(bytes: &[u8]) -> Result<Vec<u8>, String> {
    if bytes.starts_with(b"\x7fELF") {
        check_cubin(bytes)?;
    } else if bytes.starts_with(&FATBIN) {
        check_fatbin(bytes)?;
    } else {
        check_ptx(bytes)?;
    }
    Ok([bytes, b"\0"].concat())
}

/// The number of `len` bytes at `at`.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(len)?)?;
    Some(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn check_ptx(bytes: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(bytes.strip_suffix(b"\0").unwrap_or(bytes)).unwrap_or("");
    if text.contains('\0') || !text.contains(".version") {
        return Err(
            "the image is no PTX, cubin or fatbin: it is neither an ELF object nor a text with a .version".into()
        );
    }
    Ok(())
}

fn check_fatbin(bytes: &[u8]) -> Result<(), String> {
    let cut = || format!("the fatbin is cut short: it has {} bytes", bytes.len());
    let header = number(bytes, 6, 2).ok_or_else(cut)?;
    let body = number(bytes, 8, 8).ok_or_else(cut)?;
    if (header as usize) < FATBIN_HEADER || header.checked_add(body).is_none_or(|end| end > bytes.len() as u64) {
        return Err(format!("{}, and states {header} and {body}", cut()));
    }
    Ok(())
}

fn check_cubin(bytes: &[u8]) -> Result<(), String> {
    let len = bytes.len() as u64;
    if bytes.len() < ELF_HEADER {
        return Err(format!("the ELF object is cut short: it has {len} bytes"));
    }
    if bytes[4] != 2 || bytes[5] != 1 {
        return Err("the ELF object is not one of 64 bits and little-endian, as cubins are".into());
    }
    // PANIC: the header is there whole.
    let field = |at, len| number(bytes, at, len).expect("a field of the header");
    let machine = field(18, 2);
    if machine != ELF_CUDA {
        return Err(format!("the ELF object is for machine {machine}: cubins are for {ELF_CUDA}"));
    }
    let table = |what: &str, at: u64, count: u64, each: u64| {
        let end = count.checked_mul(each).and_then(|bytes| bytes.checked_add(at));
        match end {
            Some(end) if end <= len => Ok(()),
            _ => Err(format!("the cubin is cut short: its {what} end after its {len} bytes")),
        }
    };
    let (programs, program_bytes, program_count) = (field(32, 8), field(54, 2), field(56, 2));
    let (sections, section_bytes, section_count) = (field(40, 8), field(58, 2), field(60, 2));
    table("program headers", programs, program_count, program_bytes)?;
    table("section headers", sections, section_count, section_bytes)?;
    if (section_count > 0 && section_bytes < 64) || (program_count > 0 && program_bytes < 56) {
        return Err(format!(
            "the cubin's headers have {section_bytes} and {program_bytes} bytes: an ELF object's have 64 and 56"
        ));
    }
    for index in 0..section_count {
        let at = (sections + index * section_bytes) as usize;
        // PANIC: the table of headers lies inside.
        let field = |offset, len| number(bytes, at + offset, len).expect("a field of a header inside the table");
        if field(4, 4) != ELF_NO_BITS {
            table("sections", field(24, 8), 1, field(32, 8))?;
        }
    }
    for index in 0..program_count {
        let at = (programs + index * program_bytes) as usize;
        // PANIC: as above.
        let field = |offset, len| number(bytes, at + offset, len).expect("a field of a header inside the table");
        table("segments", field(8, 8), 1, field(32, 8))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cubin of one section of ten bytes, and no code.
    fn cubin() -> Vec<u8> {
        let mut bytes = vec![0; 64 + 10 + 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = 190;
        bytes[40] = 74;
        bytes[58] = 64;
        bytes[60] = 1;
        bytes[74 + 4] = 1;
        bytes[74 + 24] = 64;
        bytes[74 + 32] = 10;
        bytes
    }

    #[test]
    fn texts_end_with_a_zero_byte_whatever_their_length() {
        for text in [".version 8", ".version 8.0", ".version 8.0\0", ".version 8.01"] {
            let bytes = contain(text.as_bytes()).unwrap();
            assert!(bytes.starts_with(text.as_bytes()) && bytes.ends_with(b"\0"), "{bytes:?}");
        }
        for nonsense in [&b"nonsense"[..], b"", b".version\0 8.0", b"\xff\xfe.version"] {
            assert!(contain(nonsense).unwrap_err().contains("no PTX, cubin or fatbin"));
        }
    }

    #[test]
    fn a_cubin_is_refused_at_every_length_but_its_own() {
        let whole = cubin();
        assert_eq!(contain(&whole).unwrap()[..whole.len()], whole);
        for len in 4..whole.len() {
            assert!(contain(&whole[..len]).unwrap_err().contains("cut short"), "{len} bytes");
        }
    }

    #[test]
    fn a_cubin_whose_ranges_leave_it_or_wrap_is_refused() {
        for (at, value) in
            [(40, 0xff), (47, 0xff), (60, 2), (61, 0xff), (74 + 24, 0xff), (74 + 39, 0xff), (74 + 31, 0xff)]
        {
            let mut bytes = cubin();
            bytes[at] = value;
            assert!(contain(&bytes).unwrap_err().contains("cut short"), "byte {at}");
        }
        let mut bytes = cubin();
        bytes[74 + 4] = 8;
        bytes[74 + 39] = 0xff;
        assert!(contain(&bytes).is_ok(), "a section without bytes has no range");
        let mut host = cubin();
        host[18] = 62;
        assert!(contain(&host).unwrap_err().contains("for machine 62"));
        let mut narrow = cubin();
        narrow[58] = 40;
        assert!(contain(&narrow).unwrap_err().contains("40"));
    }

    #[test]
    fn a_fatbin_is_as_long_as_it_states() {
        let mut bytes = [&FATBIN[..], &[1, 0, 16, 0], &8_u64.to_le_bytes(), &[7; 8]].concat();
        assert!(contain(&bytes).is_ok());
        for len in 4..bytes.len() {
            assert!(contain(&bytes[..len]).unwrap_err().contains("cut short"), "{len} bytes");
        }
        bytes[15] = 0xff;
        assert!(contain(&bytes).is_err());
        bytes[8..16].fill(0xff);
        assert!(contain(&bytes).is_err(), "the sum wraps");
    }
}
