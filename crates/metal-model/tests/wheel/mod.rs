//! A metallib of 17,248 functions that Apple's compiler made: the one in the wheel `mlx-metal`.
//!
//! It is fetched once, by pip, into the user's cache folder (or `RIG_WHEEL_CACHE`), and read from there. Where there is no
//! python, no pip or no network, what needs it is skipped, and says so.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The release whose functions the tests name.
const RELEASE: &str = "mlx-metal==0.32.4";
/// The library's path in the wheel.
const INSIDE: &str = "mlx/lib/mlx.metallib";
/// The library's bytes, which tell a whole file from one that a killed process left.
const BYTES: u64 = 146_876_416;

/// The library's path, or why it is not to be had. The first call may fetch it, which takes up to a minute.
pub fn library() -> Result<&'static Path, &'static str> {
    static LIBRARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    LIBRARY.get_or_init(find).as_deref().map_err(String::as_str)
}

fn find() -> Result<PathBuf, String> {
    let folder = cache().ok_or("skipped: neither RIG_WHEEL_CACHE nor HOME says where to keep the wheel")?;
    let library = folder.join(INSIDE);
    if is_whole(&library) {
        return Ok(library);
    }
    // Several test processes may fetch at once: each into a folder of its own, and the last rename wins with the same bytes.
    let mine = folder.join(format!("fetch-{}", std::process::id()));
    let fetched = fetch(&mine, &library);
    let _ = std::fs::remove_dir_all(&mine);
    match fetched {
        _ if is_whole(&library) => Ok(library),
        Ok(()) => Err(format!("skipped: the wheel {RELEASE} holds no {INSIDE} of {BYTES} bytes")),
        Err(why) => Err(format!("skipped: the wheel {RELEASE} cannot be fetched: {why}")),
    }
}

fn cache() -> Option<PathBuf> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    std::env::var_os("RIG_WHEEL_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?.join("rig-wheel")))
}

fn is_whole(library: &Path) -> bool {
    std::fs::metadata(library).is_ok_and(|file| file.len() == BYTES)
}

fn fetch(mine: &Path, library: &Path) -> Result<(), String> {
    std::fs::create_dir_all(mine).map_err(|error| error.to_string())?;
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"];
    let platform = ["--platform", "macosx_14_0_arm64", "--dest"];
    python(Command::new("python3").args(pip).args(platform).arg(mine).arg(RELEASE))?;
    let wheels = std::fs::read_dir(mine).map_err(|error| error.to_string())?;
    let wheel =
        wheels.flatten().map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "whl"));
    let wheel = wheel.ok_or("pip downloaded no wheel")?;
    python(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(mine))?;
    let parent = library.parent().ok_or("the library lies in no folder")?;
    std::fs::create_dir_all(parent).map_err(|error| error.to_string())?;
    std::fs::rename(mine.join(INSIDE), library).map_err(|error| error.to_string())
}

fn python(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("python3 does not start: {error}"))?;
    let why = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(why.lines().last().unwrap_or("python3 failed").to_owned()) }
}
