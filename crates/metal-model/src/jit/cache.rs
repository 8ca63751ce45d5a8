//! Objects on disk.
//!
//! An object is a file named by what it was made from. A file holds a hash of its content: one that is damaged, or cut
//! off, is as good as none. It appears under its name whole: it is written under another, and renamed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

use super::compile::{Form, Object};

/// What the file starts with: a kind and a version.
const MAGIC: [u8; 8] = *b"rigmtlo1";
/// Magic, hash, form, tables, proved.
const HEADER: usize = 8 + 32 + 3;

fn path(folder: &Path, key: &[u8; 32]) -> PathBuf {
    let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(name + ".o")
}

/// The object of this key, if there is one and it is whole.
pub(crate) fn take(folder: &Path, key: &[u8; 32]) -> Option<Object> {
    let bytes = fs::read(path(folder, key)).ok()?;
    let content = bytes.get(40..)?;
    if bytes.get(..8)? != MAGIC || bytes.get(8..40)? != Sha256::digest(content).as_slice() {
        return None;
    }
    let form = match content.first()? {
        0 => Form::Loop,
        1 => Form::Fibers,
        _ => return None,
    };
    let (tables, proved) = (*content.get(1)? != 0, *content.get(2)? != 0);
    Some(Object { form, tables, proved, code: bytes.get(HEADER..)?.to_vec() })
}

/// Keeps an object. A folder that cannot be written keeps nothing: the next compile is as slow as this one.
pub(crate) fn keep(folder: &Path, key: &[u8; 32], object: &Object) {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut content = vec![u8::from(object.form == Form::Fibers), u8::from(object.tables), u8::from(object.proved)];
    content.extend_from_slice(&object.code);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&Sha256::digest(&content));
    bytes.extend_from_slice(&content);
    let path = path(folder, key);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
    let written = fs::create_dir_all(folder).and_then(|()| fs::write(&draft, bytes));
    if written.and_then(|()| fs::rename(&draft, &path)).is_err() {
        let _ = fs::remove_file(&draft);
    }
}
