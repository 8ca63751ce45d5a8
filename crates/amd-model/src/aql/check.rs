//! The checks of AQL packets, and of the struct that a compute queue stands on.

use super::{BARRIER_AND, BARRIER_OR, DISPATCH, INVALID, PACKET, Packet, VENDOR, Work, acquire_scope, release_scope};
use crate::isa::{Descriptor, Dispatch};
use crate::queue::Queue;
use crate::scheduler::Stop;
use crate::state::Core;
use crate::topology::COMPUTE_UNITS;
use crate::violation::{PacketFault, PublicationFault, Want};
use crate::words::{aligned, zero};

/// Group memory of a work-group.
const GROUP_BYTES_MAX: u32 = 64 * 1024;

impl Core {
    /// The struct that the runtime and the processor share: amd_queue_t, around the two indices.
    pub(super) fn queue_struct(&self, queue: &Queue) -> Result<(), Stop> {
        let base = queue.write_pointer.wrapping_sub(0x38);
        let gpu = queue.gpu;
        let wrong = |field, value, wants| Err(Stop::Publication(PublicationFault::QueueStruct { field, value, wants }));
        if queue.read_pointer != base + 0x80 {
            return wrong("read_dispatch_id", queue.read_pointer, base + 0x80);
        }
        let offset = u64::from(self.word32(gpu, base + 0x88)?);
        if offset != 0x80 {
            return wrong("read_dispatch_id_field_base_byte_offset", offset, 0x80);
        }
        let properties = u64::from(self.word32(gpu, base + 0xb4)?);
        if properties & 2 == 0 {
            return wrong("queue_properties", properties, properties | 2);
        }
        let units = u64::from(self.word32(gpu, base + 0x48)?);
        if units != u64::from(COMPUTE_UNITS) - 1 {
            return wrong("max_cu_id", units, u64::from(COMPUTE_UNITS) - 1);
        }
        let waves = u64::from(self.word32(gpu, base + 0x4c)?);
        if waves != 31 {
            return wrong("max_wave_id", waves, 31);
        }
        for index in self.word64(gpu, queue.write_pointer)?..queue.size / PACKET as u64 {
            let packet = self.slot(queue, index)?;
            let header = packet.header() & 0xff;
            // A slot with a body is being written: packets may be there before the write index says so.
            if header != INVALID && (8..PACKET).step_by(8).all(|at| packet.u64(at) == 0) {
                return wrong("the header of a slot that was not written", u64::from(header), u64::from(INVALID));
            }
        }
        Ok(())
    }

    /// Checks a packet, and reads what it names.
    pub(super) fn check(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let header = packet.header();
        zero("header bits 13 to 15", u64::from(header >> 13))?;
        if acquire_scope(header) == 3 || release_scope(header) == 3 {
            let value = u64::from(header);
            return Err(PacketFault::Field { field: "header", value, wants: "scopes of 0, 1 or 2" }.into());
        }
        let signal = packet.signal();
        aligned("completion_signal", signal, 64)?;
        match header & 0xff {
            DISPATCH => self.check_dispatch(queue, packet),
            kind @ (BARRIER_AND | BARRIER_OR) => {
                zero("bytes 2 to 7", packet.u64(0) >> 16)?;
                zero("bytes 48 to 55", packet.u64(48))?;
                let signals = std::array::from_fn(|i| packet.u64(8 + i * 8));
                for signal in signals {
                    aligned("dep_signal", signal, 64)?;
                }
                Ok(Work::Barrier { signals, all: kind == BARRIER_AND })
            }
            VENDOR if packet.u16(2) == 1 => self.check_buffer(queue, packet),
            _ => Err(PacketFault::Unknown { words: [packet.u32(0), packet.u32(4)] }.into()),
        }
    }

    fn check_buffer(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let field =
            |field, at: usize, wants| Err(PacketFault::Field { field, value: u64::from(packet.u32(at)), wants }.into());
        if packet.u32(4) != 0xc002_3f00 {
            return field("INDIRECT_BUFFER", 4, "0xc0023f00");
        }
        aligned("the buffer's address", u64::from(packet.u32(8)), 4)?;
        zero("the buffer's address bits 48 to 63", u64::from(packet.u32(12) >> 16))?;
        let words = packet.u32(16) & 0xf_ffff;
        if packet.u32(16) & !0xf_ffff != 1 << 23 || words == 0 {
            return field("the buffer's length", 16, "a number of words, and the bit 23");
        }
        if packet.u32(20) != 10 {
            return field("the words that follow", 20, "10");
        }
        for at in (24..56).step_by(8) {
            zero("bytes 24 to 55", packet.u64(at))?;
        }
        let va = u64::from(packet.u32(8)) | u64::from(packet.u32(12)) << 32;
        Ok(Work::Buffer(self.pm4_fetch(queue.gpu, va, words as usize)?))
    }

    fn check_dispatch(&self, queue: &Queue, packet: &Packet) -> Result<Work, Stop> {
        let setup = packet.u16(2);
        let dims = usize::from(setup & 3);
        if dims == 0 || setup & !3 != 0 {
            let value = u64::from(setup);
            return Err(PacketFault::Field { field: "setup", value, wants: "1, 2 or 3 dimensions" }.into());
        }
        zero("bytes 10 and 11", u64::from(packet.u16(10)))?;
        zero("bytes 48 to 55", packet.u64(48))?;
        let sizes = [4, 6, 8].map(|at| u32::from(packet.u16(at)));
        let grid = [12, 16, 20].map(|at| packet.u32(at));
        let all: u64 = sizes.iter().map(|&size| u64::from(size)).product();
        if all == 0 || all > 1024 {
            return Err(
                PacketFault::Field { field: "workgroup_size", value: all, wants: "1 to 1024 work-items" }.into()
            );
        }
        for axis in 0..3 {
            let value = u64::from(grid[axis]);
            if value == 0 {
                return Err(PacketFault::Field { field: "grid_size", value, wants: "at least 1" }.into());
            }
            if axis >= dims && (value != 1 || sizes[axis] != 1) {
                return Err(PacketFault::Field { field: "grid_size", value, wants: "1 beyond the dimensions" }.into());
            }
        }
        let descriptor = self.descriptor(queue, packet.u64(32))?;
        at_least("group_segment_size", packet.u32(28), descriptor.group_bytes)?;
        at_least("private_segment_size", packet.u32(24), descriptor.private_bytes)?;
        if packet.u32(28) > GROUP_BYTES_MAX {
            let value = u64::from(packet.u32(28));
            return Err(PacketFault::Field { field: "group_segment_size", value, wants: "65536 or less" }.into());
        }
        let kernarg = packet.u64(40);
        aligned("kernarg_address", kernarg, 16)?;
        let bytes = u64::from(descriptor.kernarg_bytes);
        if self.space.covers(queue.gpu, kernarg, bytes, Want::Read).is_err() {
            let field = "kernarg_address";
            return Err(PacketFault::Field {
                field,
                value: kernarg,
                wants: "mapped as long as the kernel's arguments",
            }
            .into());
        }
        let no_kernel = |why: String| PacketFault::NoKernel { va: packet.u64(32), why };
        let mut dispatch = Dispatch::new(queue.slot_va(packet.index), &packet.bytes, descriptor)
            .map_err(|fault| no_kernel(fault.to_string()))?;
        if !dispatch.entry.is_multiple_of(256) {
            return Err(no_kernel(format!("its entry {:#x} is not a multiple of 256", dispatch.entry)).into());
        }
        dispatch.queue = queue.write_pointer.wrapping_sub(0x38);
        dispatch.id = packet.index;
        dispatch.budget = self.options.wave_budget;
        let scratch = self.scratch_of(queue, &dispatch)?;
        Ok(Work::Dispatch(Box::new(dispatch), scratch))
    }

    /// The descriptor that a packet's kernel_object names.
    fn descriptor(&self, queue: &Queue, va: u64) -> Result<Descriptor, Stop> {
        let no = |why: &str| PacketFault::NoKernel { va, why: why.to_owned() };
        if !va.is_multiple_of(64) {
            return Err(no("not a multiple of 64").into());
        }
        if self.space.covers(queue.gpu, va, 64, Want::Execute).is_err() {
            return Err(no("not in memory that may run").into());
        }
        let mut bytes = [0; 64];
        self.bytes(queue.gpu, va, &mut bytes)?;
        let reserved = [12..16, 24..44, 60..64];
        if reserved.into_iter().any(|range| bytes[range].iter().any(|&byte| byte != 0)) {
            return Err(no("no descriptor: bytes that are zero in one are not").into());
        }
        let descriptor = Descriptor::read(&bytes);
        if descriptor.entry_offset == 0 {
            return Err(no("no descriptor: its entry is itself").into());
        }
        Ok(descriptor)
    }
}

fn at_least(field: &'static str, value: u32, wants: u32) -> Result<(), PacketFault> {
    let (value, wants) = (u64::from(value), u64::from(wants));
    if value < wants { Err(PacketFault::TooSmall { field, value, wants }) } else { Ok(()) }
}
