//! The reader of the container: a header of 88 bytes, the list of functions, and where their bitcode lies.
//!
//! Integers are little-endian. The list is a count and entries; an entry is its size, which counts itself, and tags of
//! four letters, each with its size in 16 bits and its bytes, up to the tag `ENDT`, which has neither.

use std::ops::Range;

use super::{ContainerError, Entry, FunctionKind};

/// Bytes of the header.
pub(super) const HEADER: usize = 88;

/// What a section's place is named in errors, and where the header states it.
const FUNCTIONS_AT: usize = 24;
const BITCODE_AT: usize = 72;

/// A read-only view of foreign bytes whose every look is checked.
#[derive(Clone, Copy)]
struct View<'a>(&'a [u8]);

impl<'a> View<'a> {
    fn slice(self, range: Range<usize>, what: &'static str) -> Result<&'a [u8], ContainerError> {
        self.0.get(range).ok_or(ContainerError::Truncated { what, len: self.0.len() })
    }

    fn array<const N: usize>(self, at: usize, what: &'static str) -> Result<[u8; N], ContainerError> {
        let rest = self.0.get(at..).unwrap_or_default();
        rest.first_chunk().copied().ok_or(ContainerError::Truncated { what, len: self.0.len() })
    }

    fn u32(self, at: usize, what: &'static str) -> Result<usize, ContainerError> {
        Ok(u32::from_le_bytes(self.array(at, what)?) as usize)
    }

    fn u64(self, at: usize, what: &'static str) -> Result<usize, ContainerError> {
        usize::try_from(u64::from_le_bytes(self.array(at, what)?))
            .map_err(|_| ContainerError::Truncated { what, len: self.0.len() })
    }

    /// The bytes that an offset and a size in the header name.
    fn section(self, at: usize, what: &'static str) -> Result<Range<usize>, ContainerError> {
        within(0..self.0.len(), self.u64(at, what)?, self.u64(at + 8, what)?)
            .ok_or(ContainerError::Truncated { what, len: self.0.len() })
    }
}

/// `len` bytes from `start` of an outer range, if it has them.
fn within(outer: Range<usize>, start: usize, len: usize) -> Option<Range<usize>> {
    let start = outer.start.checked_add(start)?;
    let end = start.checked_add(len)?;
    (end <= outer.end).then_some(start..end)
}

/// The functions of a library.
pub(super) fn functions(bytes: &[u8]) -> Result<Box<[Entry]>, ContainerError> {
    if !bytes.starts_with(b"MTLB") {
        return Err(ContainerError::Foreign);
    }
    let view = View(bytes);
    view.slice(0..HEADER, "the header")?;
    let size = view.u64(16, "the header")?;
    let view = View(view.slice(0..size, "the library's end")?);
    view.slice(0..HEADER, "the header")?;
    let list = view.section(FUNCTIONS_AT, "the list of functions")?;
    let bitcode = view.section(BITCODE_AT, "the code")?;
    let count = view.u32(list.start, "the list of functions")?;
    let mut at = list.start + 4;
    // An entry has 8 bytes at least: a count beyond that is damage, and must not size an allocation.
    let mut entries = Vec::with_capacity(count.min(view.0.len() / 8));
    for _ in 0..count {
        let size = view.u32(at, "an entry of the list of functions")?;
        let entry = within(at..view.0.len(), 0, size).filter(|_| size >= 8);
        let entry = entry.ok_or_else(|| ContainerError::Damaged(format!("an entry at {at} has {size} bytes")))?;
        at = entry.end;
        entries.push(function(view, entry, &bitcode)?);
    }
    Ok(entries.into())
}

/// One entry of the list.
fn function(view: View<'_>, entry: Range<usize>, code: &Range<usize>) -> Result<Entry, ContainerError> {
    let damaged = |what: &str| ContainerError::Damaged(format!("the entry at {} {what}", entry.start));
    let (mut name, mut kind, mut hash, mut offset, mut size) = (None, None, None, None, None);
    let mut at = entry.start + 4;
    loop {
        let tag: [u8; 4] = view.array(at, "a tag")?;
        if &tag == b"ENDT" {
            break;
        }
        let bytes = usize::from(u16::from_le_bytes(view.array(at + 4, "a tag")?));
        let value = within(at..entry.end, 6, bytes).ok_or_else(|| damaged("has a tag past its end"))?;
        match &tag {
            b"NAME" => name = Some(value.start..value.end.saturating_sub(1).max(value.start)),
            b"TYPE" => kind = view.slice(value.clone(), "a type")?.first().copied(),
            b"HASH" => hash = view.slice(value.clone(), "a hash")?.try_into().ok(),
            // Places in the public data, the private data and the code.
            b"OFFT" if bytes >= 24 => offset = Some(view.u64(value.start + 16, "an offset")?),
            b"MDSZ" if bytes >= 8 => size = Some(view.u64(value.start, "a size")?),
            _ => {}
        }
        at = value.end;
    }
    let name = name.ok_or_else(|| damaged("has no name"))?;
    str::from_utf8(view.slice(name.clone(), "a name")?).map_err(|_| damaged("has a name that is not UTF-8"))?;
    let kind = FunctionKind::from_code(kind.ok_or_else(|| damaged("has no type"))?);
    let (offset, size) = offset.zip(size).ok_or_else(|| damaged("names no code"))?;
    let bitcode = within(code.clone(), offset, size).ok_or_else(|| damaged("has its code past the end"))?;
    Ok(Entry { name, kind, hash, bitcode })
}
