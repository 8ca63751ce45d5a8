//! Words in memory as processors of packets reach them: beside every cache, with the order of the host's atomics.

use crate::caches::LINE;
use crate::events::UNSIGNALLED;
use crate::memory::Miss;
use crate::scheduler::Stop;
use crate::state::Core;
use crate::trace::Traced;
use crate::violation::{PacketFault, Violation, Want};
use std::sync::atomic::Ordering;

/// Refuses an address that is not a multiple of what a field needs.
pub(crate) fn aligned(field: &'static str, value: u64, align: u64) -> Result<(), PacketFault> {
    if value.is_multiple_of(align) { Ok(()) } else { Err(PacketFault::Misaligned { field, value, align }) }
}

/// Refuses a field that must be zero.
pub(crate) fn zero(field: &'static str, value: u64) -> Result<(), PacketFault> {
    if value == 0 { Ok(()) } else { Err(PacketFault::Reserved { field, value }) }
}

impl Core {
    /// Bytes of memory, beside every cache.
    pub(crate) fn bytes(&self, gpu: usize, va: u64, bytes: &mut [u8]) -> Result<(), Miss> {
        let mut at = 0;
        while at < bytes.len() {
            let found = self.space.reach(gpu, va + at as u64, Want::Read)?;
            let n = found.len.min((bytes.len() - at) as u64) as usize;
            found.raw.read(found.at, &mut bytes[at..at + n]);
            at += n;
        }
        Ok(())
    }

    pub(crate) fn word32(&self, gpu: usize, va: u64) -> Result<u32, Miss> {
        let found = self.space.reach(gpu, va, Want::Read)?;
        Ok(found.raw.u32(found.at).load(Ordering::Acquire))
    }

    pub(crate) fn word64(&self, gpu: usize, va: u64) -> Result<u64, Miss> {
        let found = self.space.reach(gpu, va, Want::Read)?;
        Ok(found.raw.u64(found.at).load(Ordering::Acquire))
    }

    /// Stores a word without any check of its own: a pointer of a queue, a timestamp.
    pub(crate) fn put64(&mut self, gpu: usize, va: u64, value: u64) -> Result<(), Miss> {
        let found = self.space.reach(gpu, va, Want::Write)?;
        found.raw.u64(found.at).store(value, Ordering::Release);
        found.show(8);
        self.forget(gpu, va);
        Ok(())
    }

    /// A word was stored beside the caches: no line of it is to stay.
    fn forget(&mut self, gpu: usize, va: u64) {
        self.gpus[gpu].caches.l2.drop_line(va - va % LINE);
    }

    /// Stores the 64 bits of a word that queues raise: the end of a value's work. Such a word does not fall.
    pub(crate) fn raise64(&mut self, (gpu, queue): (usize, u32), va: u64, value: u64) -> Result<(), Stop> {
        aligned("address", va, 8)?;
        let found = self.space.reach(gpu, va, Want::Write)?;
        // ORDERING: Release pairs with the driver's acquire load of its word; all that was written back is before it.
        let from = found.raw.u64(found.at).swap(value, Ordering::AcqRel);
        found.show(8);
        self.forget(gpu, va);
        if value < from && !self.in_event_page(va) {
            self.violate(Violation::Fell { queue, va, from, to: value });
        }
        self.traced(Traced::Stored { queue, va, value });
        Ok(())
    }

    /// Stores 32 bits of a word. Whether the 64 bits around them fell, and from what.
    pub(crate) fn raise32(&mut self, (gpu, queue): (usize, u32), va: u64, value: u32) -> Result<Option<u64>, Stop> {
        aligned("address", va, 4)?;
        let whole = va - va % 8;
        let found = self.space.reach(gpu, va, Want::Write)?;
        let around = |core: &Self| core.word64(gpu, whole);
        let from = around(self)?;
        found.raw.u32(found.at).store(value, Ordering::Release);
        found.show(4);
        self.forget(gpu, va);
        let to = around(self)?;
        self.traced(Traced::Stored { queue, va: whole, value: to });
        Ok((to < from && !self.in_event_page(va)).then_some(from))
    }

    /// Adds to a word, as one.
    pub(crate) fn add64(&mut self, (gpu, queue): (usize, u32), va: u64, add: u64) -> Result<u64, Stop> {
        aligned("address", va, 8)?;
        let found = self.space.reach(gpu, va, Want::Write)?;
        let from = found.raw.u64(found.at).fetch_add(add, Ordering::AcqRel);
        found.show(8);
        self.forget(gpu, va);
        self.traced(Traced::Stored { queue, va, value: from.wrapping_add(add) });
        Ok(from)
    }

    fn in_event_page(&self, va: u64) -> bool {
        let page = self.events.given_page().and_then(|handle| self.space.get(handle));
        page.is_some_and(|memory| (memory.va..memory.va + memory.size).contains(&va))
    }

    /// An interrupt that names an event: its slot must have been written before.
    pub(crate) fn interrupt(&mut self, event: u32) -> Result<(), Stop> {
        if self.faults.lose_interrupts > 0 {
            self.faults.lose_interrupts -= 1;
            return Ok(());
        }
        if !self.events.contains(event) {
            return Ok(());
        }
        let raw = match self.events.given_page() {
            Some(handle) => self.space.get(handle).and_then(|memory| memory.raw()),
            None => self.events.own_page().map(|pages| pages.raw()),
        };
        let at = event as usize * 8;
        let Some(raw) = raw.filter(|raw| at + 8 <= raw.len()) else { return Ok(()) };
        if raw.u64(at).swap(UNSIGNALLED, Ordering::AcqRel) == UNSIGNALLED {
            return Err(PacketFault::EmptyInterrupt { event }.into());
        }
        self.events.set(event);
        self.changed = true;
        Ok(())
    }

    /// Takes one off a signal, as the end of a packet does, and wakes who sleeps on it.
    pub(crate) fn complete(&mut self, (gpu, queue): (usize, u32), signal: u64) -> Result<(), Stop> {
        if signal == 0 {
            return Ok(());
        }
        aligned("completion_signal", signal, 64)?;
        self.space.covers(gpu, signal, 64, Want::Write)?;
        self.add64((gpu, queue), signal + 8, u64::MAX)?;
        let mailbox = self.word64(gpu, signal + 16)?;
        if mailbox != 0 {
            let event = self.word32(gpu, signal + 24)?;
            aligned("event_mailbox_ptr", mailbox, 8)?;
            self.put64(gpu, mailbox, u64::from(event))?;
            self.interrupt(event)?;
        }
        Ok(())
    }

    /// The value of a signal that a packet waits for.
    pub(crate) fn signal(&self, gpu: usize, signal: u64) -> Result<i64, Miss> {
        Ok(self.word64(gpu, signal + 8)? as i64)
    }
}
