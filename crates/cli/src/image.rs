//! What kind of image a file is, by how it begins: so `rig run` finds the device that takes it.
//!
//! Only the driver is picked here. Whether its device takes the image is the driver's to say.

/// A kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In words, such as `an object for x86-64`.
    pub words: &'static str,
    /// The driver whose devices run it, as its cargo feature is named.
    pub driver: &'static str,
}

/// How long a text may be until it says that it is PTX: its comments come first.
const PTX_HEAD: usize = 64 << 10;

/// The kind of an image; `None` for what no driver takes.
pub fn kind(binary: &[u8]) -> Option<Kind> {
    let of = |words, driver| Some(Kind { words, driver });
    match binary {
        // ELF: little-endian, 64 bits; e_machine stands at byte 18.
        [0x7f, b'E', b'L', b'F', ..] => match binary.get(18..20).map(|machine| [machine[0], machine[1]]) {
            Some([224, 0]) => of("a code object for AMD's GPUs", "amd"),
            Some([190, 0]) => of("a cubin", "cuda"),
            Some([62, 0]) => of("an object for x86-64", "host"),
            Some([183, 0]) => of("an object for aarch64", "host"),
            _ => of("an object", "host"),
        },
        [0x50, 0xed, 0x55, 0xba, ..] | [0xb1, 0x43, 0x62, 0x46, ..] => of("a fatbin", "cuda"),
        // A library, and several in one file.
        [b'M', b'T', b'L', b'B', ..] | [0xcb, 0xfe, 0xba, 0xbe, ..] => of("a metallib", "metal"),
        _ if binary.starts_with(b"__CLANG_OFFLOAD_BUNDLE__") => of("a bundle of code objects for AMD's GPUs", "amd"),
        _ if is_ptx(binary) => of("PTX", "cuda"),
        _ => None,
    }
}

/// PTX is text whose first directive is its version.
fn is_ptx(binary: &[u8]) -> bool {
    let head = &binary[..binary.len().min(PTX_HEAD)];
    head.split(|&byte| byte == b'\n').any(|line| line.trim_ascii().starts_with(b".version "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_how_it_begins() {
        let driver = |binary: &[u8]| kind(binary).map(|kind| kind.driver);
        let elf = |machine: u8| [b"\x7fELF\x02\x01\x01".as_slice(), &[0; 11], &[machine, 0]].concat();
        for (machine, takes) in [(62, "host"), (183, "host"), (243, "host"), (224, "amd"), (190, "cuda")] {
            assert_eq!(driver(&elf(machine)), Some(takes), "{machine}");
        }
        assert_eq!(driver(b"\x7fELF"), Some("host"), "what is cut short is the loader's to refuse");
        assert_eq!(driver(b"MTLB\x01"), Some("metal"));
        assert_eq!(driver(&0xba55_ed50_u32.to_le_bytes()), Some("cuda"));
        assert_eq!(driver(b"//\n// by a compiler\n//\n\n.version 8.4\n.target sm_80\n"), Some("cuda"));
        assert_eq!(driver(b"__CLANG_OFFLOAD_BUNDLE__\0"), Some("amd"));
        for nothing in [b"".as_slice(), b"int main() {}", b"the .version of a text", b"MTL"] {
            assert_eq!(driver(nothing), None);
        }
    }
}
