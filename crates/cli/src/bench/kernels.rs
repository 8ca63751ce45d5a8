//! The kernel of the bench, for each driver: one group of [`THREADS`] threads, each of which counts a number up.
//!
//! `kernels/bench` has the sources, and each says how its binary is made of it.

/// The threads of the launch, and so the numbers.
pub const THREADS: usize = 64;
/// The function.
pub const FUNCTION: &str = "rig_count";

/// The image for a driver's devices.
pub fn image(driver: &str) -> Vec<u8> {
    match driver {
        "cuda" => include_bytes!("../../kernels/bench/cuda.ptx").to_vec(),
        "amd" => include_bytes!("../../kernels/bench/amd.co").to_vec(),
        "metal" => include_bytes!("../../kernels/bench/metal.metallib").to_vec(),
        #[cfg(feature = "host")]
        "host" => host(),
        // PANIC of none: a driver that has no kernel takes no empty image either, and says so.
        _ => Vec::new(),
    }
}

/// A Rust function, so that the bench runs where no object does.
#[cfg(feature = "host")]
fn host() -> Vec<u8> {
    let kernels = rig_host::Kernels::new().group(FUNCTION, 8, |params, _| {
        // SAFETY: slot 0 holds so many numbers, and the launch has one group.
        #[expect(unsafe_code, reason = "a kernel works on memory that its launch names")]
        let numbers: &mut [u32] = unsafe { params.slice_mut(0, 0, THREADS) };
        numbers.iter_mut().for_each(|number| *number = number.wrapping_add(1));
    });
    kernels.image().to_vec()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::image;

    #[test]
    fn every_driver_has_a_kernel_that_rig_run_would_know() {
        for driver in ["cuda", "amd", "metal"] {
            assert_eq!(image::kind(&image(driver)).map(|kind| kind.driver), Some(driver));
        }
    }

    /// The text without what names the compiler's build.
    fn code(bytes: &[u8]) -> Vec<u8> {
        match image::kind(bytes).map(|kind| kind.words) {
            Some("PTX") => {
                bytes.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"//")).flatten().copied().collect()
            }
            _ => bytes.to_vec(),
        }
    }

    #[test]
    fn the_committed_binaries_are_what_the_commands_in_their_sources_make() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/bench");
        for (source, binary) in [("cuda.c", image("cuda")), ("amd.c", image("amd"))] {
            let text = std::fs::read_to_string(folder.join(source)).unwrap();
            let command = text.lines().find_map(|line| line.trim().strip_prefix("clang-19 ")).unwrap();
            let (arguments, _) = command.split_once(" -o ").unwrap();
            let made = std::env::temp_dir().join(format!("rig-bench-{}-{source}", std::process::id()));
            let mut clang = Command::new("clang-19");
            match clang.args(arguments.split(' ')).arg("-o").arg(&made).current_dir(&folder).status() {
                Err(why) => return println!("skipped: no clang-19 here: {why}"),
                Ok(status) => assert!(status.success(), "clang-19 refuses {source}"),
            }
            let fresh = std::fs::read(&made).unwrap();
            let _ = std::fs::remove_file(&made);
            assert!(code(&fresh) == code(&binary), "make it anew: clang-19 {command}");
        }
    }
}
