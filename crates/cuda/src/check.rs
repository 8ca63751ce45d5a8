//! What keeps CUDA from a process, by kinds that a program can act on: for tools that tell a user how to mend it.

use std::fmt;

use crate::sys::api;

/// What stands in the way, with the reason that an open gives. Every open of a GPU goes by the same check.
///
/// ```
/// use rig_cuda::Obstacle;
///
/// /// What a program tells its user to do.
/// fn advice(obstacle: &Obstacle) -> &'static str {
///     match obstacle {
///         Obstacle::NoLibrary(_) => "install NVIDIA's driver",
///         Obstacle::OldDriver(_) => "install a newer driver",
///         Obstacle::NoGpu => "see that CUDA_VISIBLE_DEVICES names a GPU",
///         _ => "see what nvidia-smi says",
///     }
/// }
///
/// let refused = Obstacle::Refused { code: 100, why: "no CUDA-capable device is detected".to_owned() };
/// assert_eq!(format!("{refused}: {}", advice(&refused)), "no CUDA-capable device is detected: see what nvidia-smi says");
/// assert_eq!(Obstacle::NoGpu.to_string(), "CUDA sees no GPU");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The library that comes with NVIDIA's driver is not found, or does not load.
    NoLibrary(String),
    /// The driver is for an older CUDA than rig needs.
    OldDriver(String),
    /// CUDA does not start.
    Refused {
        /// Its number (`CUresult`), such as 100 for no device.
        code: i32,
        /// The reason, in CUDA's words.
        why: String,
    },
    /// CUDA starts, and sees no GPU.
    NoGpu,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::NoLibrary(why) | Obstacle::OldDriver(why) | Obstacle::Refused { why, .. } => f.write_str(why),
            Obstacle::NoGpu => f.write_str("CUDA sees no GPU"),
        }
    }
}

impl From<Obstacle> for String {
    fn from(obstacle: Obstacle) -> String {
        obstacle.to_string()
    }
}

/// How many GPUs CUDA sees here, or what stands in the way of it. A GPU that is counted may still not open.
///
/// # Errors
///
/// The obstacle that every open of a GPU would meet.
///
/// # Examples
///
/// ```
/// match rig_cuda::check() {
///     Ok(count) => assert_eq!(count, rig_cuda::count()),
///     Err(obstacle) => {
///         println!("no GPU, since {obstacle}");
///         assert!(rig::open(rig_cuda::gpu(0)).is_err());
///     }
/// }
/// ```
pub fn check() -> Result<usize, Obstacle> {
    let api = api()?;
    let count = api.device_count();
    match count.map_err(|failure| Obstacle::Refused { code: failure.code.0, why: api.describe(failure) })? {
        ..=0 => Err(Obstacle::NoGpu),
        count => Ok(count as usize),
    }
}

#[cfg(test)]
mod tests {
    use rig_edge::{Opener, Timeline, WordIndex};

    use super::*;

    /// Promise N01.
    #[test]
    fn what_the_check_meets_an_open_meets_too() {
        let Err(obstacle) = check() else { return println!("skipped: there is a CUDA device here") };
        let why = crate::gpu(0).make(Timeline::new(WordIndex::new(1))).map(drop).unwrap_err();
        if obstacle != Obstacle::NoGpu {
            assert_eq!(why, obstacle.to_string());
        }
    }
}
