//! gfx1100: the Radeon RX 7900 cards.

use super::{Chip, SavedState, ScratchSize};
use crate::aql::halves;
use crate::scratch;
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

/// The unit of a wave's scratch, and the most of them: `WAVESIZE` of `COMPUTE_TMPRING_SIZE` has 15 bits.
const SCRATCH_UNIT: u64 = 256;
const SCRATCH_UNITS_MOST: u64 = (1 << 15) - 1;
/// Where `WAVESIZE` stands in it; below is `WAVES`, of each shader engine.
const WAVESIZE_SHIFT: u32 = 12;
const WAVES_MOST: u64 = (1 << WAVESIZE_SHIFT) - 1;
/// Waves of the largest group: all of them must have scratch at a time.
const GROUP_WAVES: u64 = 1024 / 32;
/// The part of the GPU's memory that one scratch takes at most, unless a group could not run with that: where it is less than
/// all waves would need, fewer run at a time.
const SCRATCH_SHARE: u64 = 8;
/// Words of the buffer descriptor in the queue's page. Word 1: swizzled, above the address. Word 3: the type is a buffer of 32
/// bits an element, x to w as they come, with the thread's number added, and bounds that swizzled buffers have none of.
const SWIZZLE_ENABLE: u32 = 1 << 30;
const BUFFER_WORD3: u32 = 2 << 28 | 1 << 23 | 20 << 12 | 7 << 9 | 6 << 6 | 5 << 3 | 4;

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

    fn scratch_units(&self, bytes: u32, lanes: u32) -> Option<u32> {
        let units = (u64::from(bytes) * u64::from(lanes)).div_ceil(SCRATCH_UNIT);
        (units <= SCRATCH_UNITS_MOST).then_some(units as u32)
    }

    fn scratch_size(&self, node: &Node, units: u32) -> ScratchSize {
        let engines = u64::from(node.shader_engines());
        let all = u64::from(node.compute_units()).div_ceil(engines) * u64::from(node.scratch_waves_per_unit);
        let wave = u64::from(units) * SCRATCH_UNIT;
        let share = node.vram / SCRATCH_SHARE / (wave.max(1) * engines);
        let waves = all.min(share).clamp(GROUP_WAVES, WAVES_MOST);
        ScratchSize { units, waves: waves as u32, bytes: waves * engines * wave }
    }

    fn scratch_fields(&self, address: u64, size: &ScratchSize) -> [u32; scratch::FIELDS] {
        let ([low, high], [bytes, bytes_high]) = (halves(address), halves(size.bytes));
        // Of a lane of a wave of 64, whatever the waves are.
        let lane = size.units * SCRATCH_UNIT as u32 / 64;
        [
            size.waves | size.units << WAVESIZE_SHIFT,
            low,
            high & 0xffff | SWIZZLE_ENABLE,
            bytes,
            BUFFER_WORD3,
            low,
            high,
            bytes,
            bytes_high,
            lane,
        ]
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

    fn xtx() -> Node {
        Node {
            simd_count: 192,
            simd_per_cu: 2,
            array_count: 12,
            simd_arrays_per_engine: 2,
            scratch_waves_per_unit: 32,
            vram: 24 << 30,
            ..Node::default()
        }
    }

    /// Promise A10: pieces of 256 bytes, for all 512 waves of each of six engines where that is no more than an eighth of the
    /// memory, and for a group's in any case.
    #[test]
    fn scratch_is_for_all_waves_or_for_fewer_and_never_for_less_than_a_group() {
        let units = |bytes, lanes| Gfx1100.scratch_units(bytes, lanes);
        assert_eq!((units(1, 32), units(8, 32), units(9, 32), units(4, 64)), (Some(1), Some(1), Some(2), Some(1)));
        assert_eq!((units(262_136, 32), units(262_137, 32), units(u32::MAX, 64)), (Some(32_767), None, None));
        let size = |units| Gfx1100.scratch_size(&xtx(), units);
        assert_eq!(size(9), ScratchSize { units: 9, waves: 512, bytes: 6 * 512 * 9 * 256 });
        // Half a megabyte for each wave: 1,024 of six megabytes would be 3 GiB.
        assert_eq!(size(4096), ScratchSize { units: 4096, waves: 512, bytes: 3 << 30 });
        assert_eq!(size(8192), ScratchSize { units: 8192, waves: 256, bytes: 3 << 30 });
        assert_eq!(size(32_767).waves, 64);
        let small = Node { vram: 1 << 30, ..xtx() };
        assert_eq!(Gfx1100.scratch_size(&small, 32_767).waves, 32);
        // Engines that have lost units count as full ones: waves are counted for each alike.
        let xt = Node { simd_count: 168, ..xtx() };
        assert_eq!(Gfx1100.scratch_size(&xt, 1).waves, 14 * 32);
    }

    /// Promise A10: the words as ROCR-Runtime and tinygrad write them for this chip.
    #[test]
    fn the_queues_page_tells_of_scratch_in_ten_words() {
        let size = ScratchSize { units: 9, waves: 512, bytes: 0x1_2345_6700 };
        let due = [
            512 | 9 << 12,
            0x3456_7800,
            0x7f12 | 1 << 30,
            0x2345_6700,
            0x2081_4fac,
            0x3456_7800,
            0x7f12,
            0x2345_6700,
            1,
            36,
        ];
        assert_eq!(Gfx1100.scratch_fields(0x7f12_3456_7800, &size), due);
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
