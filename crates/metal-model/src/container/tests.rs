//! Tests of the container: what is written is read, and damage is an error.

use super::*;

/// The document's kernel: `y[i] = x[i] + 1`, through an indirect struct.
pub(crate) const ADD: &str = include_str!("../../fixtures/add.ll");

fn open(bytes: Vec<u8>) -> Result<Library, ContainerError> {
    Library::open(Arc::new(bytes))
}

#[test]
fn what_is_packed_is_opened() {
    let second = ADD.replace("@add", "@second");
    let library = open(pack(&[("add", ADD), ("second", &second)]).unwrap()).unwrap();
    assert_eq!(library.names().collect::<Vec<_>>(), ["add", "second"]);
    for name in ["add", "second"] {
        assert_eq!(library.kind(name), Some(FunctionKind::Kernel));
        let code = library.bitcode(name).unwrap();
        assert_eq!(code[..4], [0xde, 0xc0, 0x17, 0x0b], "bitcode in Apple's wrapper");
        assert!(library.hash(name).is_some());
    }
    assert_ne!(library.hash("add"), library.hash("second"));
    assert_eq!(library.kind("third"), None);
    assert!(library.bitcode("third").is_none());
}

#[test]
fn a_text_that_is_no_ir_or_lacks_the_function_is_refused_with_the_reason() {
    let nonsense = pack(&[("add", "define what")]).unwrap_err();
    assert!(nonsense.to_string().starts_with("cannot pack add: "), "{nonsense}");
    let absent = pack(&[("sub", ADD)]).unwrap_err();
    assert_eq!(absent.why, "the text defines no function sub");
    let unlisted = pack(&[("add", "define void @add() { ret void }")]).unwrap_err();
    assert_eq!(unlisted.why, "no list such as !air.kernel names add");
}

#[test]
fn foreign_bytes_are_no_library() {
    for bytes in [&b""[..], b"MTL", b"\x7fELF\x02\x01\x01", &[0; 200]] {
        assert_eq!(open(bytes.to_vec()).unwrap_err(), ContainerError::Foreign);
    }
}

#[test]
fn a_library_cut_off_at_any_length_is_an_error() {
    let whole = pack(&[("add", ADD)]).unwrap();
    for len in 0..whole.len() {
        assert!(open(whole[..len].to_vec()).is_err(), "cut at {len}");
    }
    assert!(open(whole).is_ok());
}

#[test]
fn flipped_bits_are_errors_or_other_names_and_never_panics() {
    let whole = pack(&[("add", ADD), ("second", &ADD.replace("@add", "@second"))]).unwrap();
    let list = whole.len().min(1024);
    for bit in 0..list * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(library) = open(bytes) {
            for name in library.names() {
                let _ = (library.kind(name), library.bitcode(name), library.hash(name));
            }
        }
    }
}

#[test]
fn bytes_that_change_under_a_library_are_looked_up_again() {
    struct Shrinking(std::sync::atomic::AtomicBool, Vec<u8>);
    impl AsRef<[u8]> for Shrinking {
        fn as_ref(&self) -> &[u8] {
            if self.0.load(std::sync::atomic::Ordering::Relaxed) { &[] } else { &self.1 }
        }
    }
    let bytes = Arc::new(Shrinking(false.into(), pack(&[("add", ADD)]).unwrap()));
    let library = Library::open(bytes.clone()).unwrap();
    bytes.0.store(true, std::sync::atomic::Ordering::Relaxed);
    assert!(library.bitcode("add").is_none());
    assert_eq!(library.names().collect::<Vec<_>>(), [""]);
}
