//! gfx1100: the Radeon RX 7900 cards.

use super::{Chip, SavedState};
use crate::topology::Node;

pub(crate) struct Gfx1100;

const PAGE: u64 = 4096;

/// Bytes that are saved of each compute unit: vector registers, scalar registers, group memory, hardware registers.
const SAVED_PER_UNIT: u64 = 0x6_0000 + 0x4000 + 0x1_0000 + 0x1000;
/// Waves that a compute unit holds.
const WAVES_PER_UNIT: u64 = 32;
/// Bytes of the control stack for each wave, and those around them.
const STACK_PER_WAVE: u64 = 12;
const STACK_HEADER: u64 = 40;
const STACK_END: u64 = 8;
/// Bytes that debuggers keep for each wave.
const DEBUG_PER_WAVE: u64 = 32;
const DEBUG_ALIGN: u64 = 64;

impl Chip for Gfx1100 {
    fn arch(&self) -> &'static str {
        "gfx1100"
    }

    fn mach(&self) -> u32 {
        0x41
    }

    fn saved_state(&self, node: &Node) -> SavedState {
        // As Linux's kfd_queue_ctx_save_restore_size has it.
        let units = u64::from(node.compute_units() / node.num_xcc.max(1));
        let waves = units * WAVES_PER_UNIT;
        let groups = (units * SAVED_PER_UNIT).next_multiple_of(PAGE);
        let stack = (STACK_HEADER + waves * STACK_PER_WAVE + STACK_END).next_multiple_of(PAGE);
        let (stack, whole) = match (node.ctl_stack_size, node.cwsr_size) {
            (0, _) | (_, 0) => (stack, groups + stack),
            (stack, whole) => (stack.into(), whole.into()),
        };
        let debug = (waves * DEBUG_PER_WAVE).next_multiple_of(DEBUG_ALIGN);
        let mapping = ((whole + debug) * u64::from(node.num_xcc.max(1))).next_multiple_of(PAGE);
        SavedState { ctl_stack: stack as u32, save_restore: whole as u32, mapping }
    }

    fn group_bytes_most(&self) -> u32 {
        64 << 10
    }

    fn threads_most(&self) -> u32 {
        1024
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_saved_state_of_a_7900_xtx_is_what_the_kernel_computes() {
        let node = Node { simd_count: 192, simd_per_cu: 2, num_xcc: 1, ..Node::default() };
        // 96 units of 0x75000 bytes; 3,072 waves of 12 bytes and 48, on pages; 3,072 waves of 32 bytes.
        let due = SavedState { ctl_stack: 40_960, save_restore: 46_006_272 + 40_960, mapping: 46_047_232 + 98_304 };
        assert_eq!(Gfx1100.saved_state(&node), due);
        assert_eq!(96 * 0x7_5000, 46_006_272);
    }

    #[test]
    fn sizes_that_the_kernel_tells_are_taken() {
        let told = Node {
            simd_count: 4,
            simd_per_cu: 2,
            num_xcc: 1,
            cwsr_size: 0x10_0000,
            ctl_stack_size: 0x2000,
            ..Node::default()
        };
        assert_eq!(
            Gfx1100.saved_state(&told),
            SavedState { ctl_stack: 0x2000, save_restore: 0x10_0000, mapping: 0x10_0000 + 4096 }
        );
    }
}
