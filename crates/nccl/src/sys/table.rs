//! The functions of NCCL's library, found by name when it opens, and where the library is looked for.
//!
//! Not by a crate of bindings: cudarc's is closed enums for answers, which is undefined for a number that a newer library
//! answers with, and it panics where the library is missing. rig needs seventeen functions.

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

use super::abi::{Code, Comm, Stream, UniqueId};

macro_rules! table {
    ($($field:ident = $name:literal ($($type:ty),*) -> $answer:ty;)*) => {
        /// NCCL's functions, by rig's names.
        pub(crate) struct Table {
            $(pub $field: unsafe extern "C" fn($($type),*) -> $answer,)*
            /// Never unloaded: NCCL's threads run in it.
            _library: std::mem::ManuallyDrop<libloading::Library>,
        }

        impl Table {
            /// Finds every function.
            fn find(library: libloading::Library) -> Result<Table, String> {
                Ok(Table {
                    $($field: {
                        // SAFETY: the type is the function's in nccl.h.
                        let found = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> $answer>($name.to_bytes_with_nul())
                        };
                        *found.map_err(|_| missing($name))?
                    },)*
                    _library: std::mem::ManuallyDrop::new(library),
                })
            }
        }
    };
}

/// That the library lacks a function.
fn missing(name: &CStr) -> String {
    format!("NCCL's library has no {}: install NCCL 2.18 or later", name.to_string_lossy())
}

table! {
    version = c"ncclGetVersion" (*mut c_int) -> Code;
    unique_id = c"ncclGetUniqueId" (*mut UniqueId) -> Code;
    init = c"ncclCommInitRank" (*mut Comm, c_int, UniqueId, c_int) -> Code;
    finalize = c"ncclCommFinalize" (Comm) -> Code;
    destroy = c"ncclCommDestroy" (Comm) -> Code;
    abort = c"ncclCommAbort" (Comm) -> Code;
    async_error = c"ncclCommGetAsyncError" (Comm, *mut Code) -> Code;
    error_string = c"ncclGetErrorString" (Code) -> *const c_char;
    last_error = c"ncclGetLastError" (Comm) -> *const c_char;
    group_start = c"ncclGroupStart" () -> Code;
    group_end = c"ncclGroupEnd" () -> Code;
    all_reduce = c"ncclAllReduce" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Code;
    broadcast = c"ncclBroadcast" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Code;
    all_gather = c"ncclAllGather" (*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> Code;
    reduce_scatter = c"ncclReduceScatter" (*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Code;
    send = c"ncclSend" (*const c_void, usize, c_int, c_int, Comm, Stream) -> Code;
    receive = c"ncclRecv" (*mut c_void, usize, c_int, c_int, Comm, Stream) -> Code;
}

/// The variable that names the library's file.
pub(crate) const VARIABLE: &str = "RIG_NCCL";
/// The names that the system's loader is asked for.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// Where a Python environment has NCCL's wheel, below its folder of packages.
const WHEEL: &str = "nvidia/nccl/lib/libnccl.so.2";

impl Table {
    /// Opens NCCL's library: the file that the variable names, and no other where it is set; else what the system's loader
    /// finds; else the wheel of a Python environment (that of `VIRTUAL_ENV`, those of the `python3`s on `PATH`).
    pub fn open() -> Result<Table, String> {
        Table::open_one_of(&candidates(&|name| std::env::var_os(name)))
    }

    fn open_one_of(files: &[PathBuf]) -> Result<Table, String> {
        let mut whys = Vec::new();
        for file in files {
            // SAFETY: opening runs the initialisers of NVIDIA's library, whose name this is, or of the file that the user
            // names as such; it has none that rig must do something for.
            match unsafe { libloading::Library::new(file) } {
                Ok(library) => return Table::find(library),
                Err(why) => {
                    let cause = std::error::Error::source(&why).map(ToString::to_string);
                    whys.push(format!("{}: {}", file.display(), cause.unwrap_or_else(|| why.to_string())));
                }
            }
        }
        Err(format!(
            "there is no NCCL here: install libnccl2, or let {VARIABLE} name the file libnccl.so.2 ({})",
            whys.join("; ")
        ))
    }
}

/// The files to try, in this order.
fn candidates(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(file) = variable(VARIABLE).filter(|file| !file.is_empty()) {
        return vec![file.into()];
    }
    let mut files: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    let mut roots: Vec<PathBuf> = variable("VIRTUAL_ENV").map(PathBuf::from).into_iter().collect();
    for folder in variable("PATH").iter().flat_map(std::env::split_paths) {
        // The environment that a python3 on the path belongs to: the folder above its `bin`.
        if folder.join("python3").exists()
            && let Some(root) = folder.parent()
        {
            roots.push(root.to_owned());
        }
    }
    for root in roots {
        for found in wheels(&root) {
            if !files.contains(&found) {
                files.push(found);
            }
        }
    }
    files
}

/// NCCL's wheels in a Python environment.
fn wheels(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for lib in ["lib", "lib64", "local/lib"] {
        let Ok(entries) = std::fs::read_dir(root.join(lib)) else { continue };
        for python in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with("python3")) {
            for packages in ["site-packages", "dist-packages"] {
                found.push(python.path().join(packages).join(WHEEL));
            }
        }
    }
    found.retain(|file| file.exists());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_reason_that_says_what_to_install() {
        let why = Table::open_one_of(&["libnccl-of-no-machine.so".into()]).err().unwrap();
        assert!(why.contains("install libnccl2") && why.contains(VARIABLE), "{why}");
        assert!(why.contains("libnccl-of-no-machine.so"), "{why}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_functions_is_too_old() {
        let why = Table::open_one_of(&["libc.so.6".into()]).err().unwrap();
        assert!(why.contains("ncclGetVersion") && why.contains("2.18"), "{why}");
    }

    #[test]
    fn the_variable_comes_alone_and_else_the_loader_comes_before_pythons_wheels() {
        let named = candidates(&|name| (name == VARIABLE).then(|| "/a/libnccl.so.2".into()));
        assert_eq!(named, [PathBuf::from("/a/libnccl.so.2")]);
        let root = std::env::temp_dir().join(format!("rig-nccl-wheel-{}", std::process::id()));
        let wheel = root.join("lib/python3.12/site-packages").join(WHEEL);
        std::fs::create_dir_all(wheel.parent().unwrap()).unwrap();
        std::fs::write(&wheel, "").unwrap();
        let found = candidates(&|name| (name == "VIRTUAL_ENV").then(|| root.clone().into()));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [PathBuf::from(NAMES[0]), PathBuf::from(NAMES[1]), wheel]);
    }
}
