//! Steps of PCI functions: they are given access to memory, and read and write it on their own.
//!
//! rig does not order a function's accesses, so the program must. It does so in a closure of the host's, which has the bytes
//! to itself: what the function reads there is what the host sees, what it writes is what the host and all later work find.
//! Memory whose buffers are gone belongs to the function alone, for as long as the process lives, once what used it has ended.

use std::hint::black_box;

use rig::Dma;
use rig_conformance::model::ModelDevice;

use crate::log::{Inner, Outcome, Place};
use crate::plan::Answers;
use crate::player::{Numbers, Player, pattern, put, uses};
use crate::primitive::{lock, pause};
use crate::world::{Handle, World};

/// The function that asks.
const FUNCTION: &str = "0000:41:00.0";

/// Buffers up to this size may share a region with others, which no function reaches.
const SMALL: usize = 4 << 10;

/// Memory that a function reaches by bus addresses.
pub struct Export {
    control: ModelDevice,
    model: usize,
    place: Place,
    ranges: Vec<(u64, u64)>,
    /// What the function wrote last, since it is alone there.
    last: Option<Vec<u8>>,
}

/// How a function reaches bytes.
enum Way {
    Bus(ModelDevice, Vec<(u64, u64)>),
    #[cfg(target_os = "linux")]
    File(std::fs::File, u64),
}

impl Way {
    fn read(&self, len: usize) -> Vec<u8> {
        match self {
            Way::Bus(control, ranges) => read(control, ranges),
            #[cfg(target_os = "linux")]
            Way::File(file, at) => {
                let mut bytes = vec![0; len];
                std::os::unix::fs::FileExt::read_exact_at(file, &mut bytes, *at).expect("the memory's file");
                bytes
            }
        }
    }

    fn write(&self, bytes: &[u8]) {
        match self {
            Way::Bus(control, ranges) => write(control, ranges, bytes),
            #[cfg(target_os = "linux")]
            Way::File(file, at) => {
                std::os::unix::fs::FileExt::write_all_at(file, bytes, *at).expect("the memory's file");
            }
        }
    }
}

fn read(control: &ModelDevice, ranges: &[(u64, u64)]) -> Vec<u8> {
    ranges.iter().flat_map(|&(start, len)| control.dma_read(start, len as usize)).collect()
}

fn write(control: &ModelDevice, ranges: &[(u64, u64)], mut bytes: &[u8]) {
    for &(start, len) in ranges {
        let (now, later) = bytes.split_at(len as usize);
        control.dma_write(start, now);
        bytes = later;
    }
}

impl Player {
    pub fn dma(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = if n.one_in(4) { self.world.some(None, n.next())? } else { self.whole_region(n)? };
        Some(self.give(&handle, n))
    }

    /// A handle to memory that a device made and that shares its region with none; makes some where there is none.
    fn whole_region(&mut self, n: &mut Numbers<'_>) -> Option<Handle> {
        let found = self.world.whole_region(n.next());
        if found.is_some() && !n.one_in(4) {
            return found;
        }
        let dev = self.world.seat(n.next());
        self.allocate_on(&dev, SMALL + 1 + n.below(12_000), n);
        self.world.whole_region(n.next())
    }

    /// Gives a function access, and has it use that.
    fn give(&self, handle: &Handle, n: &mut Numbers<'_>) -> Outcome {
        let function = if n.one_in(8) { "41:00" } else { FUNCTION };
        let result = handle.buffer().dma(function);
        let what = format!("dma of {} (d{}) for {function}", handle.place, handle.dev.number);
        let outcome = self.told(&what, &result);
        self.judge(handle, function, &what, &outcome);
        let Ok(dma) = result else { return outcome };
        let Some(way) = self.way(handle, dma, &what) else { return outcome };
        if n.one_in(2) {
            self.function_reads(handle, &way)
        } else {
            self.function_writes(handle, &way, n.next())
        }
        outcome
    }

    /// Whether the answer is one that there may be (E34).
    fn judge(&self, handle: &Handle, function: &str, what: &str, outcome: &Outcome) {
        let (home, len, made) = {
            let inner = self.world.log.lock();
            let of = &inner.allocations[handle.place.allocation];
            (of.device, of.len, of.counts)
        };
        if home != handle.dev.number || !made || len == 0 {
            return self.must_be_invalid("E34", what, outcome);
        }
        if len > SMALL {
            self.not_invalid(what, outcome);
        }
        let gives = function == FUNCTION && self.world.plans[handle.dev.model].dma != Answers::None;
        let wrong = match outcome {
            Outcome::Done => !gives,
            Outcome::Refused(_) => gives,
            Outcome::OutOfMemory => true,
            _ => false,
        };
        if wrong {
            self.world.log.broken("E34", &format!("{what} came to {outcome}"));
        }
    }

    /// How the function reaches the handle's bytes. Bus addresses are noted for ever.
    fn way(&self, handle: &Handle, dma: Dma, what: &str) -> Option<Way> {
        match dma {
            Dma::Bus(ranges) => {
                let bytes: u64 = ranges.iter().map(|range| range.1).sum();
                if bytes != handle.len() as u64 {
                    self.world.log.broken("E34", &format!("{what} gave {bytes} bytes: {ranges:?}"));
                }
                self.world.log.lock().allocations[handle.place.allocation].exported = true;
                let (control, place) = (handle.dev.control.clone(), handle.place.clone());
                let export = Export { control, model: handle.dev.model, place, ranges: ranges.clone(), last: None };
                lock(&self.world.exports).push(export);
                Some(Way::Bus(handle.dev.control.clone(), ranges))
            }
            Dma::DmaBuf { descriptor, offset } => file(descriptor, offset),
            _ => None,
        }
    }

    fn function_reads(&self, handle: &Handle, way: &Way) {
        let what = format!("a function's read of {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(handle, false, false)]);
        let log = &self.world.log;
        let mut found = None;
        let result = handle.buffer().read(|bytes: &[u8]| {
            let from = log.now();
            let seen = way.read(bytes.len());
            if seen != black_box(bytes) {
                log.broken("E34, E35", &format!("{what} found other bytes than the host"));
            }
            found = Some((from, seen, log.now()));
        });
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        self.end(op, outcome, |op| {
            if let Some((from, seen, to)) = found {
                op.window = Some((from, to));
                op.seen.push((handle.place.clone(), seen));
            }
        });
    }

    fn function_writes(&self, handle: &Handle, way: &Way, seed: u32) {
        let what = format!("a function's write of {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(handle, true, false)]);
        let (log, hides) = (&self.world.log, self.world.plans[handle.dev.model].hides);
        let mut found = None;
        let result = handle.buffer().write(|bytes: &mut [u8]| {
            let from = log.now();
            let (before, after) = (bytes.to_vec(), pattern(bytes.len(), seed));
            way.write(&after);
            pause();
            if *black_box(&mut *bytes) != *after {
                if !hides || *bytes != *before {
                    log.broken("E34, E35", &format!("{what} is not what the host finds"));
                }
                // The host has a copy, which takes the place of the bytes after the closure.
                bytes.copy_from_slice(&after);
            }
            found = Some((from, before, after, log.now()));
        });
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        self.end(op, outcome, |op| {
            if let Some((from, before, after, to)) = found {
                op.window = Some((from, to));
                op.seen.push((handle.place.clone(), before));
                op.parts.push(put(&handle.place, after));
            }
        });
    }

    /// What a function does with memory that it was given: also when the buffers are gone.
    pub fn function(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let allocation = {
            let mut exports = lock(&self.world.exports);
            if exports.is_empty() {
                return None;
            }
            let at = n.below(exports.len());
            let export = &mut exports[at];
            if ended(&self.world.log.lock(), export.place.allocation) {
                self.world.check_export(export);
                let bytes = pattern(export.place.range.len(), n.next());
                write(&export.control, &export.ranges, &bytes);
                self.world.log.say(self.thread, &format!("a function writes {}, whose buffers are gone", export.place));
                // What another of its accesses wrote there is gone.
                let allocation = export.place.allocation;
                export.last = Some(bytes);
                let others = exports
                    .iter_mut()
                    .enumerate()
                    .filter(|(index, of)| *index != at && of.place.allocation == allocation);
                others.for_each(|(_, of)| of.last = None);
                return Some(Outcome::Done);
            }
            export.place.allocation
        };
        let handle = {
            let handles = lock(&self.world.handles);
            let home = self.world.log.lock().allocations[allocation].device;
            let fits = |handle: &&Handle| handle.place.allocation == allocation && handle.dev.number == home;
            handles.iter().find(fits).map(Handle::again)
        }?;
        Some(self.give(&handle, n))
    }
}

/// Whether no handle to the memory is left, and all that used it has surely ended.
fn ended(inner: &Inner, allocation: usize) -> bool {
    let of = &inner.allocations[allocation];
    let over = |outcome: &Outcome| match outcome {
        Outcome::Point(key) => inner.ran.get(key).is_some_and(|ran| ran.1.is_some()),
        Outcome::Done | Outcome::Invalid(_) | Outcome::OutOfMemory | Outcome::Refused(_) => true,
        Outcome::Running | Outcome::Lost { .. } => false,
    };
    let mut users = inner.ops.iter().filter(|op| op.meets.contains(&allocation));
    of.handles == 0 && of.dropped.is_some() && users.all(|op| !op.blind && over(&op.outcome))
}

impl World {
    fn whole_region(&self, number: u32) -> Option<Handle> {
        let handles = lock(&self.handles);
        let inner = self.log.lock();
        let fits = |handle: &&Handle| {
            let of = &inner.allocations[handle.place.allocation];
            of.len > SMALL && of.counts && of.device == handle.dev.number
        };
        let fitting: Vec<&Handle> = handles.iter().filter(fits).collect();
        drop(inner);
        if fitting.is_empty() { None } else { Some(fitting[number as usize % fitting.len()].again()) }
    }

    /// Whether a function was given bus addresses of the model's memory: then its hardware does not open again (E36).
    pub fn is_given(&self, model: usize) -> bool {
        self.extras.functions && lock(&self.exports).iter().any(|export| export.model == model)
    }

    /// What the function wrote where it is alone is there until the process ends.
    fn check_export(&self, export: &Export) {
        let found = read(&export.control, &export.ranges);
        if export.last.as_ref().is_some_and(|last| *last != found) {
            let how = format!("{} is a function's alone, and something else wrote there", export.place);
            self.log.broken("E36", &how);
        }
    }

    /// Also after all devices are gone.
    pub fn check_exports(&self) {
        if self.extras.functions {
            lock(&self.exports).iter().for_each(|export| self.check_export(export));
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a descriptor that was given")]
fn file(descriptor: i32, offset: u64) -> Option<Way> {
    use std::os::fd::FromRawFd;
    // SAFETY: the descriptor is open, and its caller's to close.
    Some(Way::File(unsafe { std::fs::File::from_raw_fd(descriptor) }, offset))
}

#[cfg(not(target_os = "linux"))]
fn file(_descriptor: i32, _offset: u64) -> Option<Way> {
    None
}
