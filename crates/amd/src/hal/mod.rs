//! What differs from chip to chip, behind one trait that is picked when a GPU opens.
//!
//! Packets are those of the eleventh graphics core and of SDMA 6; a chip that needs others gets them here.

mod gfx1100;

use crate::scratch;
use crate::topology::Node;

/// A kind of GPU.
pub(crate) trait Chip: Send + Sync {
    /// The architecture, as compilers name it.
    fn arch(&self) -> &'static str;

    /// The architecture in the flags of its code objects (`EF_AMDGPU_MACH`).
    fn mach(&self) -> u32;

    /// The memory that a compute queue saves its waves to.
    fn saved_state(&self, node: &Node) -> SavedState;

    /// The bytes of group memory that a group can have.
    fn group_bytes_most(&self) -> u32;

    /// The most threads of a group.
    fn threads_most(&self) -> u32;

    /// The size of a wave's piece of scratch, in the chip's units, where each of its `lanes` has `bytes` of private memory; none
    /// where a wave cannot have so much.
    fn scratch_units(&self, bytes: u32, lanes: u32) -> Option<u32>;

    /// The scratch of a queue whose waves have pieces of `units`.
    fn scratch_size(&self, node: &Node, units: u32) -> ScratchSize;

    /// What a queue's page says of scratch at `address`.
    fn scratch_fields(&self, address: u64, size: &ScratchSize) -> [u32; scratch::FIELDS];
}

/// The scratch of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScratchSize {
    /// The size of a wave's piece, in the chip's units.
    pub units: u32,
    /// The waves that have pieces, of each shader engine.
    pub waves: u32,
    /// The bytes of all.
    pub bytes: u64,
}

/// The memory that a compute queue saves its waves to, when the kernel takes the queue off the GPU. The kernel compares these
/// sizes with its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SavedState {
    /// The bytes of the control stack.
    pub ctl_stack: u32,
    /// The bytes of one graphics core's state, with the control stack.
    pub save_restore: u32,
    /// The bytes of the mapping: of all graphics cores, with what debuggers keep.
    pub mapping: u64,
}

/// The chip of a version of the graphics core, or its name where there is no driver for it.
pub(crate) fn chip(gfx_target_version: u32) -> Result<&'static dyn Chip, String> {
    match gfx_target_version {
        110_000 => Ok(&gfx1100::Gfx1100),
        other => Err(name(other)),
    }
}

/// The name of a version: 90402 is gfx942.
fn name(version: u32) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_chips_are_refused_by_their_names() {
        assert_eq!(chip(110_000).map(Chip::arch), Ok("gfx1100"));
        for (version, name) in [(90_402, "gfx942"), (90_010, "gfx90a"), (110_003, "gfx1103"), (120_001, "gfx1201")] {
            assert_eq!(chip(version).map(Chip::arch), Err(name.into()));
        }
    }
}
