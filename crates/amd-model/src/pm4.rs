//! The processor of PM4 packets, as far as an indirect buffer of an AQL queue has them on gfx1100.
//!
//! Figures: Linux' and ROCr's headers of packets (soc15d.h, nvd.h), and the public description of IREE's driver.

use crate::caches::Cache;
use crate::memory::Miss;
use crate::queue::{Processor, Queue};
use crate::scheduler::{Blocked, Readiness, Stop};
use crate::state::Core;
use crate::trace::Traced;
use crate::violation::{PacketFault, PublicationFault, Violation, Want};
use crate::words::{aligned, zero};

const NOP: u32 = 0x10;
const WRITE_DATA: u32 = 0x37;
const RELEASE_MEM: u32 = 0x49;
const ACQUIRE_MEM: u32 = 0x58;
const WAIT_REG_MEM64: u32 = 0x93;

/// An indirect buffer that is being processed.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) va: u64,
    words: Vec<u32>,
    at: usize,
}

impl Buffer {
    pub(crate) fn bytes(&self) -> u64 {
        self.words.len() as u64 * 4
    }

    /// The packet at the place where the processor is, if all of it is there.
    fn packet(&self) -> Option<&[u32]> {
        let header = *self.words.get(self.at)?;
        let len = (header >> 16 & 0x3fff) as usize + 2;
        self.words.get(self.at..self.at + len)
    }
}

fn op(header: u32) -> u32 {
    header >> 8 & 0xff
}

fn wide(words: &[u32], at: usize) -> u64 {
    u64::from(words[at]) | u64::from(words[at + 1]) << 32
}

fn field(field: &'static str, value: u32, wants: &'static str) -> Stop {
    PacketFault::Field { field, value: u64::from(value), wants }.into()
}

/// Whether a wait's function holds of a word.
pub(crate) fn holds(function: u32, word: u64, reference: u64) -> bool {
    match function {
        0 => true,
        1 => word < reference,
        2 => word <= reference,
        3 => word == reference,
        4 => word != reference,
        5 => word >= reference,
        6 => word > reference,
        _ => false,
    }
}

impl Core {
    /// Reads an indirect buffer.
    pub(crate) fn pm4_fetch(&self, gpu: usize, va: u64, count: usize) -> Result<Buffer, Stop> {
        self.space.covers(gpu, va, count as u64 * 4, Want::Read)?;
        let mut bytes = vec![0; count * 4];
        self.bytes(gpu, va, &mut bytes)?;
        let words = bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
        Ok(Buffer { va, words, at: 0 })
    }

    /// Whether the next packet of a buffer can be processed; `ended`: every dispatch before it has ended.
    pub(crate) fn pm4_readiness(&self, gpu: usize, buffer: &Buffer, ended: bool) -> Readiness {
        let Some(packet) = buffer.packet() else { return Readiness::Ready };
        match op(packet[0]) {
            RELEASE_MEM if !ended => Readiness::Not,
            WAIT_REG_MEM64 if packet.len() == 9 => {
                let (va, wants, mask) = (wide(packet, 2), wide(packet, 4), wide(packet, 6));
                if !va.is_multiple_of(8) {
                    return Readiness::Ready;
                }
                match self.word64(gpu, va) {
                    Ok(word) if !holds(packet[1] & 7, word & mask, wants) => {
                        Readiness::Blocked(Blocked { va, holds: word, wants })
                    }
                    _ => Readiness::Ready,
                }
            }
            _ => Readiness::Ready,
        }
    }

    /// Processes one packet of a buffer. Whether that was the last.
    pub(crate) fn pm4_step(&mut self, queue: &mut Queue, buffer: &mut Buffer) -> Result<bool, Stop> {
        let Some(packet) = buffer.packet() else {
            let left = (buffer.words.len() - buffer.at) as u64 * 4;
            let bytes = u64::from(buffer.words[buffer.at] >> 16 & 0x3fff) * 4 + 8;
            return Err(PacketFault::Truncated { bytes, left }.into());
        };
        let header = packet[0];
        let len = packet.len();
        let sized = |len: usize| 0xc000_0000 | (len as u32 - 2) << 16 | op(header) << 8;
        let known = match op(header) {
            RELEASE_MEM => Some(8),
            ACQUIRE_MEM => Some(8),
            WAIT_REG_MEM64 => Some(9),
            WRITE_DATA => Some(len.max(5)),
            NOP => Some(len),
            _ => None,
        };
        if known.is_none_or(|len| header != sized(len)) {
            return Err(PacketFault::Unknown { words: [header, packet.get(1).copied().unwrap_or(0)] }.into());
        }
        let packet = packet.to_vec();
        match op(header) {
            RELEASE_MEM => self.release_mem(queue, &packet)?,
            ACQUIRE_MEM => self.acquire_mem(queue.gpu, &packet)?,
            WAIT_REG_MEM64 => self.wait_reg_mem(queue, &packet)?,
            WRITE_DATA => self.write_data(queue.gpu, &packet)?,
            _ => {}
        }
        buffer.at += len;
        if buffer.at < buffer.words.len() {
            return Ok(false);
        }
        self.unchanged(queue.gpu, buffer)?;
        Ok(true)
    }

    /// A buffer must stay as it is until its packet retires.
    fn unchanged(&self, gpu: usize, buffer: &Buffer) -> Result<(), Stop> {
        let mut bytes = vec![0; buffer.words.len() * 4];
        self.bytes(gpu, buffer.va, &mut bytes)?;
        let same = bytes.as_chunks().0.iter().zip(&buffer.words).all(|(&now, &then)| u32::from_le_bytes(now) == then);
        let fault = PublicationFault::StorageChanged { va: buffer.va, what: "an indirect buffer" };
        if same { Ok(()) } else { Err(Stop::Publication(fault)) }
    }

    fn release_mem(&mut self, queue: &mut Queue, packet: &[u32]) -> Result<(), Stop> {
        let (gpu, id) = (queue.gpu, queue.id);
        let (event, select, va, value) = (packet[1], packet[2], wide(packet, 3), wide(packet, 5));
        if event & 0xf3f != 0x514 {
            return Err(field("event_type and event_index", event & 0xfff, "0x514: an end of pipe"));
        }
        zero("RELEASE_MEM word 1, bits 6, 7, 29 to 31", u64::from(event & 0xe000_00c0))?;
        zero("RELEASE_MEM word 2, bits 0 to 15, 18 to 23, 27, 28", u64::from(select & 0x18fc_ffff))?;
        let (data, interrupt) = (select >> 29, select >> 24 & 7);
        if data > 3 {
            return Err(field("data_sel", data, "0 to 3"));
        }
        if !matches!(interrupt, 0 | 2 | 3) {
            return Err(field("int_sel", interrupt, "0 (none), 2 (after the write) or 3 (none, confirmed)"));
        }
        if let Processor::Aql(aql) = &mut queue.processor {
            aql.unreleased.release(&self.space, gpu, &mut self.gpus[gpu].caches.l2);
        }
        let caches = &mut self.gpus[gpu].caches;
        if event & 1 << 14 != 0 {
            caches.gl0.iter_mut().for_each(Cache::clear);
        }
        let l2 = &mut caches.l2;
        if event & 1 << 21 != 0 {
            l2.write_back(&self.space, gpu);
        }
        if event & 1 << 20 != 0 {
            l2.drop_clean();
        }
        let dirty = l2.first_dirty(Some(id)).filter(|_| matches!(data, 1 | 2));
        if let Some(dirty) = dirty {
            self.violate(Violation::Unreleased { queue: id, word: va, va: dirty, cache: "L2" });
        }
        match data {
            1 => {
                if let Some(from) = self.raise32((gpu, id), va, value as u32)? {
                    let to = self.word64(gpu, va - va % 8)?;
                    self.violate(Violation::Fell { queue: id, va, from, to });
                }
            }
            2 => self.raise64((gpu, id), va, value)?,
            3 => {
                aligned("address", va, 8)?;
                let clock = self.clock();
                self.put64(gpu, va, clock)?;
                self.traced(Traced::Stamped { queue: id, va });
            }
            _ => {}
        }
        if interrupt == 2 {
            self.interrupt(packet[7])?;
        }
        Ok(())
    }

    fn acquire_mem(&mut self, gpu: usize, packet: &[u32]) -> Result<(), Stop> {
        zero("ACQUIRE_MEM coher_cntl", u64::from(packet[1] & 0x7fff_ffff))?;
        zero("ACQUIRE_MEM gcr_cntl, bits 19 to 31", u64::from(packet[7] & 0xfff8_0000))?;
        if packet[2] == 0 && packet[3] == 0 {
            return Err(field("coher_size", 0, "not 0"));
        }
        self.control_caches(gpu, packet[7]);
        Ok(())
    }

    /// Does what the bits of GCR_CNTL say: GLI_INV 0 and 1, GLK_INV 7, GLV_INV 8, GL2_INV 14, GL2_WB 15.
    fn control_caches(&mut self, gpu: usize, control: u32) {
        let space = &self.space;
        let caches = &mut self.gpus[gpu].caches;
        if control & 3 != 0 {
            caches.invalidate_code();
        }
        if control & 1 << 7 != 0 {
            caches.scalar.iter_mut().for_each(Cache::clear);
        }
        if control & 1 << 8 != 0 {
            caches.gl0.iter_mut().for_each(Cache::clear);
        }
        if control & 1 << 15 != 0 {
            caches.l2.write_back(space, gpu);
        }
        if control & 1 << 14 != 0 {
            caches.l2.drop_clean();
        }
    }

    fn wait_reg_mem(&mut self, queue: &Queue, packet: &[u32]) -> Result<(), Stop> {
        let va = wide(packet, 2);
        if packet[1] & !7 != 1 << 4 || packet[1] & 7 == 7 {
            return Err(field("WAIT_REG_MEM64 word 1", packet[1], "a function, and the bit 4: memory"));
        }
        aligned("poll_address", va, 8)?;
        zero("WAIT_REG_MEM64 word 8, bits 16 to 30", u64::from(packet[8] & 0x7fff_0000))?;
        self.word64(queue.gpu, va)?;
        self.traced(Traced::Waited { queue: queue.id, va });
        Ok(())
    }

    fn write_data(&mut self, gpu: usize, packet: &[u32]) -> Result<(), Stop> {
        let target = packet[1] >> 8 & 0xf;
        if !matches!(target, 2 | 5) || packet[1] & !(0xf << 8 | 1 << 20) != 0 {
            return Err(field("WRITE_DATA word 1", packet[1], "memory, and the bit that confirms"));
        }
        let va = wide(packet, 2);
        aligned("dst_mem_addr", va, 4)?;
        for (at, &word) in packet[4..].iter().enumerate() {
            self.store32(gpu, va + at as u64 * 4, word)?;
        }
        Ok(())
    }

    /// Stores a word beside the caches.
    fn store32(&mut self, gpu: usize, va: u64, word: u32) -> Result<(), Miss> {
        let found = self.space.reach(gpu, va, Want::Write)?;
        found.write(&word.to_le_bytes());
        Ok(())
    }
}
