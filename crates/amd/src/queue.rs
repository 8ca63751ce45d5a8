//! The two queues of a device, with the memory that they run from: the compute queue of AQL packets and the copy queue of SDMA
//! packets.
//!
//! # What is whose
//!
//! A ring's bytes between what is freed and what is written belong to the GPU; all others are the host's. Each slot of the
//! compute ring has 64 bytes beside it for the PM4 commands that its packet may run, and they share its fate. The arguments of
//! launches have a ring of their own, in memory that no cache of the GPU's holds.
//!
//! # Memory ordering
//!
//! 1. A packet of the compute ring: its last fifteen words, then its first with Release. The GPU takes a packet once its header
//!    is valid.
//! 2. Then the write positions of both queues with Release, then a fence, then the doorbells. The fence also drains the
//!    processor's buffers of combined writes.

use std::sync::atomic::{Ordering, fence};

use crate::abi::{self, queue_page, queue_type};
use crate::aql::{self, Packet};
use crate::gpu::Gpu;
use crate::kfd::Result;
use crate::memory::{Kind, Region};
use crate::raw::Raw;
use crate::ring::Ring;
use crate::windows::Windows;

/// The bytes of the compute ring: 16,384 packets, so that thousands of launches fit one submission.
pub(crate) const COMPUTE_BYTES: usize = 1 << 20;
/// The bytes of the copy ring: some ten thousand copies.
pub(crate) const COPY_BYTES: usize = 1 << 20;
/// The bytes of the ring of arguments: 256 for each packet of the compute ring.
pub(crate) const ARGUMENTS_BYTES: usize = 4 << 20;
/// What a launch's arguments are aligned to: a line of the GPU's.
pub(crate) const ARGUMENTS_ALIGN: u64 = 64;

const PAGE: usize = 4096;
/// The end-of-pipe buffer, of the one size that the kernel takes.
const EOP_BYTES: usize = 4096;
/// Where in the copy queue's page its positions are.
const COPY_READ: usize = 0;
const COPY_WRITE: usize = 64;
/// All of a queue's share of the GPU's time, and the middle of the normal priorities.
const PERCENTAGE: u32 = 100;
const PRIORITY: u32 = 7;

/// Memory of the driver's own.
#[derive(Debug)]
pub(crate) struct Own {
    region: Region,
    raw: Option<Raw>,
}

impl Own {
    pub fn new(gpu: &Gpu, kind: Kind, len: usize) -> Result<Own> {
        let region = Region::make(gpu, kind, len)?;
        let host = region.location().host;
        // SAFETY: the region has these bytes, mapped for the host, and keeps them until `free`, which nothing uses them after.
        #[expect(unsafe_code, reason = "the driver's own memory")]
        let raw = (!host.is_null()).then(|| unsafe { Raw::new(host, len) });
        Ok(Own { region, raw })
    }

    /// The bytes, as the host reaches them.
    pub fn raw(&self) -> Raw {
        // PANIC: asked only of kinds that the host addresses.
        self.raw.expect("memory that the host addresses")
    }

    /// The address of the first byte.
    pub fn address(&self) -> u64 {
        self.region.location().device
    }

    /// Gives the memory back.
    ///
    /// # Safety
    ///
    /// Nothing uses it, on the GPU or the host.
    #[expect(unsafe_code, reason = "gives memory back")]
    pub unsafe fn free(self, gpu: &Gpu) {
        // SAFETY: the caller's promise.
        unsafe { self.region.free(gpu) };
    }
}

/// Memory that a queue is being made of; given back if it is not.
pub(crate) struct Making<'a> {
    gpu: &'a Gpu,
    memory: Vec<Own>,
}

impl<'a> Making<'a> {
    pub fn new(gpu: &'a Gpu) -> Making<'a> {
        Making { gpu, memory: Vec::new() }
    }

    /// Makes memory: its address, and its bytes where the host reaches them.
    fn make(&mut self, kind: Kind, len: usize) -> Result<(u64, Option<Raw>)> {
        let own = Own::new(self.gpu, kind, len)?;
        let made = (own.address(), own.raw);
        self.memory.push(own);
        Ok(made)
    }

    /// Makes memory that the GPU alone reaches.
    pub fn vram(&mut self, len: usize) -> Result<u64> {
        Ok(self.make(Kind::Vram, len)?.0)
    }

    /// Makes memory for commands.
    pub fn commands(&mut self, len: usize) -> Result<(u64, Raw)> {
        let (address, raw) = self.make(Kind::Commands, len)?;
        // PANIC: the host addresses memory of this kind.
        Ok((address, raw.expect("memory that the host addresses")))
    }

    /// The memory, which is somebody's now.
    pub fn done(mut self) -> Vec<Own> {
        std::mem::take(&mut self.memory)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        for own in self.memory.drain(..) {
            // SAFETY: nobody was told of it.
            #[expect(unsafe_code, reason = "gives memory back")]
            unsafe {
                own.free(self.gpu);
            }
        }
    }
}

/// A queue that the kernel made.
#[derive(Debug)]
struct Made {
    id: u32,
    doorbell: Raw,
    /// What it runs from.
    memory: Vec<Own>,
}

impl Made {
    fn new(making: Making<'_>, mut args: abi::CreateQueue) -> Result<Made> {
        let gpu = making.gpu;
        // SAFETY: the memory that the struct names is `making`'s, which is kept until the queue is destroyed.
        #[expect(unsafe_code, reason = "the kernel makes a queue")]
        unsafe { gpu.kfd().create_queue(&mut args) }?;
        match gpu.doorbell(args.doorbell_offset) {
            Ok(address) => {
                // SAFETY: the page of doorbells stays mapped as long as the GPU is open, which outlives its queues.
                #[expect(unsafe_code, reason = "a doorbell")]
                let doorbell = unsafe { Raw::new(std::ptr::with_exposed_provenance_mut(address), 8) };
                Ok(Made { id: args.queue_id, doorbell, memory: making.done() })
            }
            Err(failure) => {
                if gpu.kfd().destroy_queue(args.queue_id).is_err() {
                    // What still stands keeps its memory.
                    drop(making.done());
                }
                Err(failure)
            }
        }
    }

    /// Ends the queue and gives back what it ran from. Where the kernel does not end it, its memory stays.
    fn end(self, gpu: &Gpu) -> Result<()> {
        gpu.kfd().destroy_queue(self.id)?;
        for own in self.memory {
            // SAFETY: the queue is no more.
            #[expect(unsafe_code, reason = "gives memory back")]
            unsafe {
                own.free(gpu);
            }
        }
        Ok(())
    }
}

/// The compute queue.
#[derive(Debug)]
pub(crate) struct Compute {
    pub ring: Ring,
    slots: Raw,
    /// The commands beside the slots: the host's bytes and the GPU's address.
    commands: Raw,
    commands_at: u64,
    page: Raw,
    page_at: u64,
    /// How far the doorbell has been rung.
    rung: u64,
    made: Made,
}

impl Compute {
    pub fn new(gpu: &Gpu) -> Result<Compute> {
        let node = gpu.node();
        let state = gpu.chip().saved_state(node);
        let mut making = Making::new(gpu);
        let (ring_at, slots) = making.commands(COMPUTE_BYTES)?;
        let (commands_at, commands) = making.commands(COMPUTE_BYTES)?;
        let (page_at, page) = making.commands(PAGE)?;
        let (eop, saved) = (making.vram(EOP_BYTES)?, making.vram(state.mapping as usize)?);
        for slot in (0..COMPUTE_BYTES).step_by(aql::BYTES as usize) {
            slots.put_words(slot, &[aql::INVALID]);
        }
        page.put_words(queue_page::MAX_CU_ID, &[node.compute_units().saturating_sub(1)]);
        page.put_words(queue_page::MAX_WAVE_ID, &[(node.max_waves_per_simd * node.simd_per_cu).saturating_sub(1)]);
        page.put_words(queue_page::READ_INDEX_OFFSET, &[queue_page::READ_INDEX as u32]);
        page.put_words(queue_page::PROPERTIES, &[queue_page::PROPERTY_IS_PTR64]);
        fence(Ordering::SeqCst);
        let args = abi::CreateQueue {
            ring_base_address: ring_at,
            write_pointer_address: page_at + queue_page::WRITE_INDEX as u64,
            read_pointer_address: page_at + queue_page::READ_INDEX as u64,
            ring_size: COMPUTE_BYTES as u32,
            gpu_id: gpu.id(),
            queue_type: queue_type::COMPUTE_AQL,
            queue_percentage: PERCENTAGE,
            queue_priority: PRIORITY,
            eop_buffer_address: eop,
            eop_buffer_size: EOP_BYTES as u64,
            ctx_save_restore_address: saved,
            ctx_save_restore_size: state.save_restore,
            ctl_stack_size: state.ctl_stack,
            ..abi::CreateQueue::default()
        };
        let made = Made::new(making, args)?;
        Ok(Compute {
            ring: Ring::new(COMPUTE_BYTES as u64, 0),
            slots,
            commands,
            commands_at,
            page,
            page_at,
            rung: 0,
            made,
        })
    }

    /// Places a packet.
    #[inline]
    pub fn packet(&mut self, packet: &Packet) {
        let piece = self.ring.take(aql::BYTES);
        let at = self.ring.offset(piece.start);
        self.slots.put_words(at + 4, &packet[1..]);
        self.slots.publish(at, packet[0]);
    }

    /// Places a packet that runs commands.
    #[inline]
    pub fn run(&mut self, words: &[u32]) {
        let at = self.ring.offset(self.ring.write());
        self.commands.put_words(at, words);
        self.packet(&aql::indirect(self.commands_at + at as u64, words.len() as u32));
    }

    /// The address of what the queue's page says of scratch.
    pub fn scratch_at(&self) -> u64 {
        self.page_at + queue_page::SCRATCH as u64
    }

    /// How far the GPU has taken packets.
    pub fn read(&self) -> u64 {
        self.page.load_long(queue_page::READ_INDEX).wrapping_mul(aql::BYTES)
    }

    /// Tells how far packets are written. Whether the doorbell is to be rung.
    #[inline]
    fn write(&mut self) -> bool {
        let is_new = self.ring.write() != self.rung;
        if is_new {
            self.page.publish_long(queue_page::WRITE_INDEX, self.ring.write() / aql::BYTES);
        }
        is_new
    }

    /// Rings the doorbell for the last packet.
    #[inline]
    fn ring_doorbell(&mut self) {
        self.rung = self.ring.write();
        self.made.doorbell.publish_long(0, self.rung / aql::BYTES - 1);
    }

    /// Ends the queue.
    pub fn end(self, gpu: &Gpu) -> Result<()> {
        self.made.end(gpu)
    }
}

/// The copy queue.
#[derive(Debug)]
pub(crate) struct Copier {
    pub ring: Ring,
    bytes: Raw,
    page: Raw,
    rung: u64,
    made: Made,
}

impl Copier {
    pub fn new(gpu: &Gpu) -> Result<Copier> {
        let mut making = Making::new(gpu);
        let (ring_at, bytes) = making.commands(COPY_BYTES)?;
        let (page_at, page) = making.commands(PAGE)?;
        let args = abi::CreateQueue {
            ring_base_address: ring_at,
            write_pointer_address: page_at + COPY_WRITE as u64,
            read_pointer_address: page_at + COPY_READ as u64,
            ring_size: COPY_BYTES as u32,
            gpu_id: gpu.id(),
            queue_type: queue_type::SDMA,
            queue_percentage: PERCENTAGE,
            queue_priority: PRIORITY,
            ..abi::CreateQueue::default()
        };
        let made = Made::new(making, args)?;
        // A full ring would look empty: one word stays free.
        Ok(Copier { ring: Ring::new(COPY_BYTES as u64, 4), bytes, page, rung: 0, made })
    }

    /// Places a packet; what is left before it at the ring's end becomes NOPs.
    #[inline]
    pub fn packet(&mut self, words: &[u32]) {
        let piece = self.ring.take(size_of_val(words) as u64);
        if piece.skipped > 0 {
            let at = self.ring.offset(piece.start - piece.skipped);
            self.bytes.zero(at, piece.skipped as usize);
        }
        self.bytes.put_words(self.ring.offset(piece.start), words);
    }

    /// How far the GPU has taken packets.
    pub fn read(&self) -> u64 {
        self.page.load_long(COPY_READ)
    }

    #[inline]
    fn write(&mut self) -> bool {
        let is_new = self.ring.write() != self.rung;
        if is_new {
            self.page.publish_long(COPY_WRITE, self.ring.write());
        }
        is_new
    }

    #[inline]
    fn ring_doorbell(&mut self) {
        self.rung = self.ring.write();
        self.made.doorbell.publish_long(0, self.rung);
    }

    /// Ends the queue.
    pub fn end(self, gpu: &Gpu) -> Result<()> {
        self.made.end(gpu)
    }
}

/// Both queues, and the arguments of launches.
#[derive(Debug)]
pub(crate) struct Queues {
    pub compute: Compute,
    pub copier: Copier,
    pub arguments: Arguments,
}

impl Queues {
    pub fn new(gpu: &Gpu) -> Result<Queues> {
        let arguments = Arguments::new(gpu)?;
        let made = Compute::new(gpu).and_then(|compute| match Copier::new(gpu) {
            Ok(copier) => Ok((compute, copier)),
            Err(failure) => {
                let _ = compute.end(gpu);
                Err(failure)
            }
        });
        match made {
            Ok((compute, copier)) => Ok(Queues { compute, copier, arguments }),
            Err(failure) => {
                // SAFETY: no launch was placed.
                #[expect(unsafe_code, reason = "gives memory back")]
                unsafe {
                    arguments.memory.free(gpu);
                }
                Err(failure)
            }
        }
    }

    /// Tells the GPU of all that was placed: the write positions, the host's writes through windows, then the doorbells.
    #[inline]
    pub fn publish(&mut self, windows: &Windows) {
        let (compute, copier) = (self.compute.write(), self.copier.write());
        fence(Ordering::SeqCst);
        windows.flush();
        if compute {
            self.compute.ring_doorbell();
        }
        if copier {
            self.copier.ring_doorbell();
        }
    }

    /// Ends both queues: once it answers Ok, nothing of them runs.
    pub fn end(self, gpu: &Gpu) -> Result<()> {
        let (compute, copier) = (self.compute.end(gpu), self.copier.end(gpu));
        compute.and(copier)?;
        // SAFETY: nothing runs that reads arguments.
        #[expect(unsafe_code, reason = "gives memory back")]
        unsafe {
            self.arguments.memory.free(gpu);
        }
        Ok(())
    }
}

/// The ring of launches' arguments.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub ring: Ring,
    pub raw: Raw,
    address: u64,
    memory: Own,
}

impl Arguments {
    fn new(gpu: &Gpu) -> Result<Arguments> {
        let memory = Own::new(gpu, Kind::Commands, ARGUMENTS_BYTES)?;
        let ring = Ring::new(ARGUMENTS_BYTES as u64, 0);
        Ok(Arguments { ring, raw: memory.raw(), address: memory.address(), memory })
    }

    /// Takes `len` bytes: their offset and their address.
    #[inline]
    pub fn take(&mut self, len: u64) -> (usize, u64) {
        let piece = self.ring.take(len);
        let at = self.ring.offset(piece.start);
        (at, self.address + at as u64)
    }
}

#[cfg(all(test, unix, feature = "model"))]
#[path = "queue_tests.rs"]
mod tests;
