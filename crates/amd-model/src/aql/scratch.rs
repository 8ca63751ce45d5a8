//! Scratch: what a compute queue's own struct says of it, and which waves of the queue's dispatches have which piece.
//!
//! The fields of `amd_queue_t` (ROCr's `amd_hsa_queue.h`), as a queue of gfx11 has them: COMPUTE_TMPRING_SIZE with the waves of
//! each shader engine and the size of a wave in units of 256 bytes; the words of a buffer descriptor; the place and size of the
//! memory; the bytes of a lane of a wave of 64. They must agree with one another in every packet that needs them.
//!
//! # Invariants
//!
//! 1. The fields are read when a dispatch is taken from the ring, and must be the same when it begins. What they say then stays
//!    the dispatch's own: a queue's fields may change while its dispatches run.
//! 2. A wave has a piece of its shader engine's from its start to its end, which no other wave has.

use std::collections::BTreeSet;

use crate::isa::Dispatch;
use crate::queue::Queue;
use crate::rng::Rng;
use crate::scheduler::Stop;
use crate::state::Core;
use crate::topology::{COMPUTE_UNITS, ENGINES, SCRATCH_SLOTS};
use crate::violation::{PacketFault, PublicationFault, Want};

/// The unit of a wave's size.
const UNIT: u64 = 256;
/// Word 1 of a descriptor: SWIZZLE_ENABLE, above the high bits of the address.
const SWIZZLE: u32 = 1 << 30;
/// Word 3: a buffer of 32 bits an element, x to w, with the thread's number added, and no bounds where it is swizzled.
const WORD3: u32 = 0x2081_4fac;

/// Where fields stand in the struct.
const TMPRING_SIZE: u64 = 0x8c;
const DESCRIPTOR: u64 = 0x90;
const LOCATION: u64 = 0xa0;
const BYTES: u64 = 0xa8;
const LANE_BYTES: u64 = 0xb0;

/// The scratch of a queue, as a dispatch found it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub(crate) va: u64,
    pub(crate) bytes: u64,
    /// Bytes of a wave.
    wave: u64,
    /// Waves of each shader engine.
    waves: u32,
}

/// The pieces that waves have: by the memory, and the piece's number.
#[derive(Debug, Default)]
pub(crate) struct Pieces(BTreeSet<(u64, u32)>);

impl Scratch {
    /// Takes pieces for the waves of a work-group, all of one shader engine: none if an engine that the seed chose has too few.
    pub(super) fn take(&self, pieces: &mut Pieces, waves: u32, rng: &mut Rng) -> Option<Vec<u64>> {
        let engine = rng.below(ENGINES as usize) as u32;
        let mut free: Vec<u32> =
            (0..self.waves).map(|n| engine * self.waves + n).filter(|&n| !pieces.0.contains(&(self.va, n))).collect();
        if free.len() < waves as usize {
            return None;
        }
        let taken: Vec<u32> = (0..waves).map(|_| free.swap_remove(rng.below(free.len()))).collect();
        pieces.0.extend(taken.iter().map(|&n| (self.va, n)));
        Some(taken.into_iter().map(|n| self.va + u64::from(n) * self.wave).collect())
    }

    /// Gives pieces back.
    pub(super) fn give(&self, pieces: &mut Pieces, bases: &[u64]) {
        for base in bases {
            pieces.0.remove(&(self.va, ((base - self.va) / self.wave) as u32));
        }
    }
}

impl Core {
    /// The scratch that a dispatch finds in its queue's struct, if it needs any.
    pub(super) fn scratch_of(&self, queue: &Queue, dispatch: &Dispatch) -> Result<Option<Scratch>, Stop> {
        if dispatch.private_bytes == 0 {
            return Ok(None);
        }
        let (gpu, base) = (queue.gpu, queue.write_pointer.wrapping_sub(0x38));
        let size = self.word32(gpu, base + TMPRING_SIZE)?;
        let (waves, wave) = (size & 0xfff, u64::from(size >> 12 & 0x7fff) * UNIT);
        let scratch =
            Scratch { va: self.word64(gpu, base + LOCATION)?, bytes: self.word64(gpu, base + BYTES)?, wave, waves };
        let wants = dispatch.wave_scratch();
        if wave < wants {
            let field = "WAVESIZE of the queue's compute_tmpring_size, in bytes";
            return Err(PacketFault::TooSmall { field, value: wave, wants }.into());
        }
        if waves < dispatch.waves() {
            let (field, value) = ("WAVES of the queue's compute_tmpring_size", u64::from(waves));
            return Err(PacketFault::TooSmall { field, value, wants: u64::from(dispatch.waves()) }.into());
        }
        self.check_scratch(queue, size, &scratch)?;
        Ok(Some(scratch))
    }

    /// The fields agree with one another, and the memory is there.
    fn check_scratch(&self, queue: &Queue, size: u32, scratch: &Scratch) -> Result<(), Stop> {
        let (gpu, base) = (queue.gpu, queue.write_pointer.wrapping_sub(0x38));
        let Scratch { va, bytes, wave, waves } = *scratch;
        let all = u64::from(waves * ENGINES) * wave;
        let mut fields = vec![
            ("compute_tmpring_size, bits 27 to 31", u64::from(size >> 27), 0),
            ("scratch_backing_memory_location, below 256 bytes", va % UNIT, 0),
            ("scratch_backing_memory_byte_size", bytes, bytes.max(all)),
            ("scratch_wave64_lane_byte_size", u64::from(self.word32(gpu, base + LANE_BYTES)?), wave / 64),
            ("WAVES", u64::from(waves), u64::from(waves.min(COMPUTE_UNITS / ENGINES * SCRATCH_SLOTS))),
        ];
        let words = [va as u32, (va >> 32) as u32 & 0xffff | SWIZZLE, bytes as u32, WORD3];
        for (n, due) in words.into_iter().enumerate() {
            let is = self.word32(gpu, base + DESCRIPTOR + 4 * n as u64)?;
            fields.push(("scratch_resource_descriptor", u64::from(is), u64::from(due)));
        }
        if let Some(&(field, value, wants)) = fields.iter().find(|(_, value, wants)| value != wants) {
            return Err(Stop::Publication(PublicationFault::QueueStruct { field, value, wants }));
        }
        Ok(self.space.covers(gpu, va, all, Want::Write)?)
    }
}
