//! `--out`: which buffer goes to which file.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rig::Buffer;

use crate::element::Element;
use crate::error::{Error, Result};
use crate::members::BufferSpec;
use crate::npy;

/// A file for a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The buffer; `None` for the last that the function may write.
    pub slot: Option<usize>,
    /// The file.
    pub path: PathBuf,
}

/// `FILE` or `SLOT:FILE`. A file whose name starts so is written `./0:FILE`.
pub fn parse(text: &str) -> std::result::Result<Output, String> {
    let (slot, path) = match text.split_once(':') {
        Some((slot, path)) if !slot.is_empty() && slot.chars().all(|c| c.is_ascii_digit()) => {
            (Some(slot.parse().map_err(|_| format!("there is no slot {slot}"))?), path)
        }
        _ => (None, text),
    };
    if path.is_empty() {
        return Err(format!("{text} names no file"));
    }
    Ok(Output { slot, path: path.into() })
}

impl Output {
    /// The slot that goes to the file, checked before anything runs.
    pub fn slot_of(&self, buffers: &[&BufferSpec]) -> Result<usize> {
        match self.slot {
            Some(slot) if slot < buffers.len() => Ok(slot),
            Some(slot) => Err(Error::NoSlot { slot, path: self.path.clone(), buffers: buffers.len() }),
            None => buffers
                .iter()
                .rposition(|buffer| buffer.written)
                .ok_or_else(|| Error::NothingWritten { path: self.path.clone() }),
        }
    }

    /// Writes the buffer, straight from its memory where the host addresses it.
    pub fn write(&self, element: Element, buffer: &Buffer) -> Result<()> {
        let count = buffer.len() / element.size();
        buffer
            .read(|bytes: &[u8]| {
                let mut file = File::create(&self.path)?;
                if is_npy(&self.path) {
                    file.write_all(&npy::header(element, count))?;
                }
                file.write_all(bytes)
            })?
            .map_err(|why| Error::File { what: "write", path: self.path.clone(), why })
    }
}

/// Whether a file's name says that it is .npy.
pub fn is_npy(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::members::Source;

    #[test]
    fn a_slot_may_stand_before_the_file() {
        let output = |slot, path: &str| Ok(Output { slot, path: path.into() });
        assert_eq!(parse("y.bin"), output(None, "y.bin"));
        assert_eq!(parse("3:y.bin"), output(Some(3), "y.bin"));
        assert_eq!(parse("./3:y.bin"), output(None, "./3:y.bin"));
        assert_eq!(parse("c:y"), output(None, "c:y"));
        assert!(parse("3:").is_err());
        assert!(parse("").is_err());
        assert!(parse("99999999999999999999:y").is_err());
    }

    #[test]
    fn without_a_slot_the_last_written_buffer_is_meant() {
        let buffer = |written| BufferSpec { element: Element::U8, source: Source::Zeros(1), written };
        let buffers = [buffer(true), buffer(true), buffer(false)];
        let all: Vec<&BufferSpec> = buffers.iter().collect();
        let slot = |text: &str, buffers: &[&BufferSpec]| parse(text).unwrap().slot_of(buffers);
        assert_eq!(slot("y", &all).unwrap(), 1);
        assert_eq!(slot("2:y", &all).unwrap(), 2);
        assert!(slot("3:y", &all).unwrap_err().to_string().contains("there are 3 buffers"));
        assert!(slot("y", &all[2..]).unwrap_err().to_string().contains("--inout"));
    }
}
