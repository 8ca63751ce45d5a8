//! A system that is played, for tests and for fuzzing: texts, and device files with what opening each answers.
//!
//! Its kernel answers no request, and maps nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::{Errno, Fd, Place, Port, Protection};

/// A system of texts and of device files. Paths are whole.
#[derive(Clone, Default)]
pub(crate) struct Played {
    pub texts: BTreeMap<String, String>,
    pub files: BTreeMap<String, Result<Fd, Errno>>,
}

impl Played {
    /// A system of these texts, each with its path below a folder.
    pub fn below<'a>(folder: &str, texts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Played {
        let texts = texts.into_iter().map(|(path, text)| (format!("{folder}/{path}"), text.to_owned()));
        Played { texts: texts.collect(), files: BTreeMap::new() }
    }
}

#[expect(unsafe_code, reason = "a port of texts and answers alone")]
impl Port for Played {
    fn open(&self, path: &str) -> Result<Fd, Errno> {
        self.files.get(path).copied().unwrap_or(Err(Errno::NOENT))
    }

    fn close(&self, _: Fd) {}

    unsafe fn ioctl(&self, _: Fd, _: u32, _: *mut u8) -> Result<i32, Errno> {
        Err(Errno::NODEV)
    }

    unsafe fn mmap(&self, _: Place, _: usize, _: Protection, _: Option<(Fd, u64)>) -> Result<usize, Errno> {
        Err(Errno::NOMEM)
    }

    unsafe fn munmap(&self, _: usize, _: usize) -> Result<(), Errno> {
        Err(Errno::INVAL)
    }

    fn read_text(&self, path: &str) -> Result<String, Errno> {
        self.texts.get(path).cloned().ok_or(Errno::NOENT)
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        let folder = format!("{path}/");
        let names = self.texts.keys().filter_map(|file| file.strip_prefix(&folder)?.split('/').next());
        let names: BTreeSet<&str> = names.collect();
        if names.is_empty() { Err(Errno::NOENT) } else { Ok(names.into_iter().map(str::to_owned).collect()) }
    }
}
