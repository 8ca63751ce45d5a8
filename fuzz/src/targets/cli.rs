//! The program's command line and the files that it reads: values of options, and .npy.

use clap::{Args as _, Command, FromArgMatches as _};

use crate::element::{Element, Value, with_element};
use crate::members::Members;
use crate::{image, npy, size};

/// The types, by the names that the command line has for them.
const TYPES: [&str; 10] = ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64"];

/// An input is one of: a header of .npy, an image, the words of a command line.
pub fn values(bytes: &[u8]) {
    let Some((&kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => array(rest),
        1 => {
            image::kind(rest);
        }
        2 => std::str::from_utf8(rest).into_iter().for_each(number),
        _ => std::str::from_utf8(rest).into_iter().for_each(members),
    }
}

/// A header of any bytes is refused or counts values, of one type alone, whose header written anew counts as many.
fn array(bytes: &[u8]) {
    let mut takers = 0;
    for name in TYPES {
        let element = Element::parse(name).unwrap_or_else(|why| panic!("{why}"));
        let mut rest = bytes;
        let Ok(Ok(count)) = npy::read_header(&mut rest, element) else { continue };
        takers += 1;
        assert!(rest.len() < bytes.len());
        let Ok(count) = usize::try_from(count) else { continue };
        let written = npy::header(element, count);
        assert!(matches!(npy::read_header(&mut &written[..], element), Ok(Ok(again)) if again == count as u64));
    }
    assert!(takers <= 1, "{takers} types take the header");
}

/// A value as it is shown.
struct Shown<T>(T);

impl<T: Value> std::fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.show(f)
    }
}

/// A number is refused, or is the one that Rust reads; a value that is shown reads as itself.
fn number(text: &str) {
    if let Ok(number) = size::parse(text) {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            assert_eq!(text.parse(), Ok(number));
        }
        assert!(!size::bytes(number).is_empty());
        assert_eq!(size::parse(&number.to_string()), Ok(number));
    }
    if let Ok(axes) = size::parse_axes(text) {
        let written = axes.map(|axis| axis.to_string()).join(",");
        assert_eq!(size::parse_axes(&written), Ok(axes));
    }
    for name in TYPES {
        let element = Element::parse(name).unwrap_or_else(|why| panic!("{why}"));
        let Ok(value) = element.value(text) else { continue };
        assert_eq!(value.len(), element.size());
        let shown = with_element!(element, T => Shown(bytemuck::pod_read_unaligned::<T>(&value)).to_string());
        // What is no number has many patterns of bits.
        if shown != "NaN" {
            assert_eq!(element.value(&shown), Ok(value), "{text} shows as {shown}");
        }
    }
}

/// A command line is refused, or its parameters are laid out as a struct of C: each in its place, none over another.
fn members(line: &str) {
    let command = Members::augment_args(Command::new("rig").no_binary_name(true));
    let Ok(matches) = command.try_get_matches_from(line.split_whitespace()) else { return };
    let Ok(members) = Members::from_arg_matches(&matches) else { return };
    let (places, len) = members.layout();
    assert_eq!(places.len(), members.0.len());
    assert!(places.is_sorted_by(|one, next| one < next) && places.last().is_none_or(|last| *last < len));
    assert!(members.buffers().count() <= members.0.len());
}
