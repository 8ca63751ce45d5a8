//! A queue: what its owner named when it was made, and how far its processor is.

use crate::aql::AqlState;
use crate::sdma::SdmaState;

/// What runs a queue's packets.
#[derive(Debug)]
pub(crate) enum Processor {
    /// AQL packets, on the shaders.
    Aql(AqlState),
    /// SDMA packets, on a copy engine.
    Sdma(SdmaState),
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: u32,
    pub(crate) gpu: usize,
    pub(crate) ring: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// The word that the device raises.
    pub(crate) read_pointer: u64,
    /// The word that the driver raises.
    pub(crate) write_pointer: u64,
    /// Its doorbell, in words from the beginning of the GPU's doorbells.
    pub(crate) slot: usize,
    /// How far work is published by doorbells: packets (AQL) or bytes (SDMA).
    pub(crate) rung: u64,
    /// How far packets have retired: what the read index says.
    pub(crate) read: u64,
    /// The packet that its processor worked on last.
    pub(crate) at: u64,
    /// The highest write index that was seen.
    pub(crate) written: u64,
    /// A fault or a reset has stopped it.
    pub(crate) stopped: bool,
    /// Steps until the next packet may begin, where delays are planned.
    pub(crate) delay: u64,
    /// What it stands on: handles of memories.
    pub(crate) stands_on: Vec<u64>,
    pub(crate) processor: Processor,
}

impl Queue {
    /// Bytes of a unit of its indices.
    pub(crate) fn unit(&self) -> u64 {
        match self.processor {
            Processor::Aql(_) => 64,
            Processor::Sdma(_) => 1,
        }
    }

    /// The address of a packet.
    pub(crate) fn slot_va(&self, index: u64) -> u64 {
        self.ring + index * self.unit() % self.size
    }

    /// Whether published work has not retired.
    pub(crate) fn busy(&self) -> bool {
        let moving = matches!(&self.processor, Processor::Sdma(sdma) if !sdma.moves.is_empty());
        !self.stopped && (self.read < self.rung || moving)
    }
}
