//! The files of the system that tell what can be mended: the one seam between `rig doctor` and the machine.

use std::fs;
use std::path::PathBuf;

/// The questions that a diagnosis asks.
pub trait System {
    /// The text of a file; `None` where there is none or it cannot be read.
    fn text(&self, path: &str) -> Option<String>;

    /// The names in a folder, in any order; none where there is no such folder.
    fn list(&self, path: &str) -> Vec<String>;

    /// Whether a file or a folder is there.
    fn is_there(&self, path: &str) -> bool;

    /// Whether the user may read and write a file that is there.
    fn may_use(&self, path: &str) -> bool;

    /// The number of the group that owns a file.
    fn owner(&self, path: &str) -> Option<u32>;

    /// A variable of the environment, unless it is empty.
    fn variable(&self, name: &str) -> Option<String>;

    /// The group that owns a file: its name, or its number where it has none.
    fn group(&self, path: &str) -> Option<String> {
        let number = self.owner(path)?.to_string();
        let groups = self.text("/etc/group").unwrap_or_default();
        let named = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == number).then(|| name.to_owned())
        });
        Some(named.unwrap_or(number))
    }
}

/// The files below a folder.
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// This machine.
    pub fn root() -> Folder {
        Folder { root: "/".into() }
    }

    /// A system that is laid out below a folder.
    #[cfg(all(test, feature = "cuda", feature = "amd"))]
    pub fn below(root: PathBuf) -> Folder {
        Folder { root }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl System for Folder {
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at(path)).ok()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path));
        entries.into_iter().flatten().flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn is_there(&self, path: &str) -> bool {
        self.at(path).exists()
    }

    fn may_use(&self, path: &str) -> bool {
        let opened = fs::OpenOptions::new().read(true).write(true).open(self.at(path));
        !opened.is_err_and(|why| why.kind() == std::io::ErrorKind::PermissionDenied)
    }

    fn owner(&self, path: &str) -> Option<u32> {
        #[cfg(unix)]
        return fs::metadata(self.at(path)).ok().map(|facts| std::os::unix::fs::MetadataExt::gid(&facts));
        #[cfg(not(unix))]
        None
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}
