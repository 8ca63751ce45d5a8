//! What keeps a GPU of AMD's from opening, by kinds that a program can act on: for tools that tell a user how to mend it.
//!
//! The check asks the port, the topology and the table of chips that an open goes by, in the order of an open, and takes
//! nothing.

use crate::hal;
use crate::sys::{Errno, Port, This};
use crate::topology;

/// The device file of the kernel's driver.
const KFD: &str = "/dev/kfd";

/// The chips that this driver knows, by their names.
///
/// ```
/// // What an image is to be compiled for: clang's -mcpu.
/// assert!(rig_amd::CHIPS.contains(&"gfx1100"));
/// ```
pub const CHIPS: [&str; 1] = ["gfx1100"];

/// What stands in the way of a GPU; the reason in words is what its open answers.
///
/// ```
/// use rig_amd::Obstacle;
///
/// /// What a program tells its user.
/// fn advice(obstacle: &Obstacle) -> String {
///     match obstacle {
///         Obstacle::NoKernelDriver { path } => format!("{path} is missing: load the module amdgpu"),
///         Obstacle::NoAccess { path } => format!("join the group that owns {path}"),
///         Obstacle::Chip { name } => format!("{name} is none of {:?}", rig_amd::CHIPS),
///         other => format!("{other:?}"),
///     }
/// }
/// let obstacle = Obstacle::Chip { name: "gfx1030".into() };
/// assert_eq!(advice(&obstacle), r#"gfx1030 is none of ["gfx1100"]"#);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The kernel's driver is not there: its device file is missing.
    NoKernelDriver {
        /// The file.
        path: String,
    },
    /// The user may not use a device file.
    NoAccess {
        /// The file.
        path: String,
    },
    /// The kernel's driver is there, and shows the process no such GPU.
    NoGpu,
    /// The GPU is a chip that this driver does not know.
    Chip {
        /// Its name, such as gfx1030.
        name: String,
    },
    /// The GPU's render node is missing.
    NoRenderNode {
        /// The file.
        path: String,
    },
    /// Something else, which the open says.
    Other,
}

/// Whether the GPU `index` of this machine can be reached, counted from 0, or what stands in the way. A GPU that can be reached
/// may still not open.
///
/// # Errors
///
/// The first obstacle that an open of the GPU would meet.
///
/// # Examples
///
/// ```
/// use rig_amd::{Obstacle, check};
///
/// match check(0) {
///     Ok(()) => println!("there is a GPU that this driver knows"),
///     Err(Obstacle::NoAccess { path }) => println!("join the group that owns {path}"),
///     Err(obstacle) => println!("no GPU: {obstacle:?}"),
/// }
/// assert!(check(1000).is_err(), "no machine has so many");
/// ```
pub fn check(index: usize) -> Result<(), Obstacle> {
    check_by(&This, index)
}

fn check_by(port: &dyn Port, index: usize) -> Result<(), Obstacle> {
    let opens = |path: String, missing: fn(String) -> Obstacle| match port.open(&path) {
        Ok(fd) => {
            port.close(fd);
            Ok(())
        }
        Err(Errno::NOENT) => Err(missing(path)),
        Err(Errno::ACCES | Errno::PERM) => Err(Obstacle::NoAccess { path }),
        Err(_) => Err(Obstacle::Other),
    };
    opens(KFD.into(), |path| Obstacle::NoKernelDriver { path })?;
    let node = topology::gpus(port).ok().and_then(|nodes| nodes.into_iter().nth(index)).ok_or(Obstacle::NoGpu)?;
    hal::chip(node.gfx_target_version).map_err(|name| Obstacle::Chip { name })?;
    opens(format!("/dev/dri/renderD{}", node.drm_render_minor), |path| Obstacle::NoRenderNode { path })
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
