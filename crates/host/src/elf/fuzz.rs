//! What fuzzing reaches of the loader: no part of the crate's interface.

use super::parse::{self, Segment};
use super::{kernels, link, load};
use crate::symbols;

/// A page, as most hosts have them.
const PAGE: u64 = 4096;

/// An object linked into memory that nothing runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// Its functions and their places in the image, by name. None where the object's kernels are refused.
    pub functions: Option<Vec<(String, u64)>>,
    /// Each section: whether it is code, constants or variables (0, 1, 2), its place, its bytes.
    pub sections: Vec<(u8, u64, u64)>,
    /// Where code ends, where constants end.
    pub ends: (u64, u64),
    /// The image.
    pub bytes: Vec<u8>,
}

/// Reads and links an object for either machine as if it were loaded at `base`. None where its image would be longer than `most`
/// bytes.
///
/// # Errors
///
/// It is none that a host could run.
pub fn linked(binary: &[u8], base: u64, most: u64) -> Result<Option<Linked>, String> {
    let object = parse::parse(binary)?;
    let functions = kernels(&object);
    let layout = link::layout(&object, PAGE, &symbols::address)?;
    if layout.len > most {
        return Ok(None);
    }
    let mut bytes = vec![0; layout.len as usize];
    link::link(&object, &layout, base, &mut bytes, &symbols::address)?;
    let segment = |segment| match segment {
        Segment::Code => 0,
        Segment::Constants => 1,
        Segment::Variables => 2,
    };
    let places = object.sections.iter().zip(&layout.sections);
    Ok(Some(Linked {
        functions: functions.ok().map(|kernels| {
            let place = |kernel: &super::Kernel<'_>| layout.sections[kernel.section] + kernel.offset;
            kernels.iter().map(|kernel| (kernel.name.to_owned(), place(kernel))).collect()
        }),
        sections: places.map(|(section, &place)| (segment(section.segment), place, section.size)).collect(),
        ends: (layout.code.end, layout.constants.end),
        bytes,
    }))
}

/// Loads an object as a device does, and gives the names of its functions.
///
/// # Errors
///
/// The host's devices cannot run it.
pub fn loaded(binary: &[u8]) -> Result<Vec<String>, String> {
    Ok(load(binary)?.into_iter().map(|function| function.name.to_string()).collect())
}
