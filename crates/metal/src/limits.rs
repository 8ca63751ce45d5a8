//! What a launch may ask for.

use objc2::runtime::ProtocolObject;
use rig_edge::Block;

use crate::code::Entry;
use crate::sys::MTLDevice;

/// Metal takes lengths of threadgroup memory in multiples of this.
pub(crate) const GROUP_MEMORY: u32 = 16;

/// A GPU's limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The least of the axes of the largest threadgroup.
    pub threads: u32,
    /// The most threadgroup memory in bytes, what the function declares included.
    pub group_bytes: u64,
    /// The longest buffer in bytes.
    pub buffer_bytes: u64,
}

impl Limits {
    pub fn of(gpu: &ProtocolObject<dyn MTLDevice>) -> Limits {
        let axes = gpu.maxThreadsPerThreadgroup();
        Limits {
            threads: clamped(axes.width.min(axes.height).min(axes.depth)),
            group_bytes: gpu.maxThreadgroupMemoryLength() as u64,
            buffer_bytes: gpu.maxBufferLength() as u64,
        }
    }

    /// Why a launch can never run, if it cannot.
    #[inline]
    pub fn refuse(&self, entry: &Entry, block: &Block) -> Option<String> {
        let axes = block.groups.iter().chain(&block.threads).copied();
        let threads = block.threads.iter().map(|&axis| u64::from(axis)).try_fold(1u64, u64::checked_mul);
        let most = u64::from(entry.threads());
        let group_bytes = u64::from(block.group_bytes).next_multiple_of(u64::from(GROUP_MEMORY));
        let left = self.group_bytes.saturating_sub(u64::from(entry.group_bytes()));
        // The product alone bounds each axis too, since none is zero.
        if axes.min() != Some(0) && threads.is_some_and(|threads| threads <= most) && group_bytes <= left {
            return None;
        }
        Some(self.reason(entry, block))
    }

    #[cold]
    fn reason(&self, entry: &Entry, block: &Block) -> String {
        let (groups, threads, most) = (block.groups, block.threads, entry.threads());
        if let Some(axis) = groups.iter().chain(&threads).position(|&axis| axis == 0) {
            let of = if axis < 3 { "groups" } else { "threads" };
            return format!("no {of} along {}: every axis is at least 1", ["x", "y", "z"][axis % 3]);
        }
        if let Some(axis) = threads.iter().position(|&axis| axis > most) {
            return format!("{} threads along {} of a group, of at most {most}", threads[axis], ["x", "y", "z"][axis]);
        }
        let all = threads.iter().map(|&axis| u128::from(axis)).product::<u128>();
        if all > u128::from(most) {
            return format!("groups of {all} threads, of at most {most}");
        }
        format!(
            "{} bytes of threadgroup memory, a multiple of {GROUP_MEMORY} taken, of the {} that the GPU has beside the {} that \
             the function declares",
            block.group_bytes,
            self.group_bytes.saturating_sub(u64::from(entry.group_bytes())),
            entry.group_bytes()
        )
    }
}

/// A count of Metal's as 32 bits.
pub(crate) fn clamped(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
