//! Steps over memory itself: allocations, views, drops, budgets, claims, donations, borrows, wrapped memory, code.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rig::{Buffer, Error, HostMemory, HostPages, Memory};

use crate::log::{Budget, Consumed, Log, Outcome};
use crate::player::{Numbers, Player, pattern, put, uses};
use crate::primitive::lock;
use crate::world::{Claimed, Dev, Handle};

impl Player {
    pub fn allocate(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let len = match n.below(12) {
            0..=3 => 4 + n.below(60),
            4..=6 => 65 + n.below(900),
            7 | 8 => 5000 + n.below(15_000),
            9 | 10 => 20_000 + n.below(100_000),
            _ => n.below(2),
        };
        self.allocate_on(&dev, len, n)
    }

    pub fn allocate_on(&mut self, dev: &Arc<Dev>, len: usize, n: &mut Numbers<'_>) -> Option<Outcome> {
        self.thin(n.next());
        let device = dev.device()?;
        let memory = match n.below(6) {
            0 => Memory::Pinned,
            1 => Memory::Mapped,
            _ => Memory::Device,
        };
        let begun = self.world.log.now();
        // Noted before, so that what is asked for counts for what others are answered meanwhile.
        let allocation = self.world.allocated(dev.number, len, true, begun);
        let result = device.buffer_in(memory, len);
        let outcome = self.told(&format!("m{allocation} = buffer of {len} on d{} ({memory:?})", dev.number), &result);
        let ret = self.world.log.now();
        let buffer = match result {
            Ok(buffer) => buffer,
            Err(error) => {
                self.world.log.lock().allocations[allocation].dropped = Some(ret);
                if let Error::OutOfMemory { .. } = error {
                    self.world.judge_shortage(dev, len, allocation, begun, ret);
                }
                self.not_invalid("an allocation", &outcome);
                return Some(outcome);
            }
        };
        let place = crate::log::Place { allocation, range: 0..len };
        let handle = Handle::new(&self.world.log, buffer, place, dev, begun);
        if !n.one_in(5) {
            self.fill_anew(&handle, n.next());
        }
        self.world.keep(handle);
        Some(outcome)
    }

    /// Writes all of the memory, so that the replay knows it.
    fn fill_anew(&self, handle: &Handle, seed: u32) {
        let bytes = pattern(handle.len(), seed);
        let what = format!("first copy_from_slice to {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what, &[&handle.dev], vec![uses(handle, true, true)]);
        let result = handle.buffer().copy_from_slice(&bytes);
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid("a first copy", &outcome);
        self.end(op, outcome, |op| op.parts.push(put(&handle.place, bytes)));
    }

    pub fn view(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let start = n.below(handle.len() + 1);
        let len = n.below(handle.len() - start + 1);
        let result = handle.view(start..start + len);
        let outcome = self.told(&format!("view of {} at {start}, {len} bytes", handle.place), &result);
        self.not_invalid("a view inside its buffer", &outcome);
        // And one that leaves it.
        let outside = handle.buffer().view(start..handle.len() + 1);
        if !matches!(outside, Err(Error::Invalid(_))) {
            self.world.log.broken("C07", "a view past its buffer's end was given");
        }
        self.thin(n.next());
        if let Ok(view) = result {
            self.world.keep(view);
        }
        Some(outcome)
    }

    pub fn drop_some(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let count = 1 + n.below(3);
        for _ in 0..count {
            let Some(handle) = self.world.take(n.next()) else { break };
            self.say(&format!("drop of {} (d{})", handle.place, handle.dev.number));
            drop(handle);
        }
        Some(Outcome::Done)
    }

    /// Several at once, larger than the budget in all, and gone at once.
    pub fn burst(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let device = dev.device()?;
        let budget = self.world.plans[dev.model].budget as usize;
        let mut mine = Vec::new();
        for _ in 0..2 + n.below(5) {
            let len = budget / 16 + n.below(budget / 3);
            let begun = self.world.log.now();
            let allocation = self.world.allocated(dev.number, len, true, begun);
            let result = device.buffer(len);
            let outcome = self.told(&format!("m{allocation} = buffer of {len} on d{}", dev.number), &result);
            let ret = self.world.log.now();
            match result {
                Ok(buffer) => {
                    let place = crate::log::Place { allocation, range: 0..len };
                    mine.push(Handle::new(&self.world.log, buffer, place, &dev, begun));
                }
                Err(error) => {
                    self.world.log.lock().allocations[allocation].dropped = Some(ret);
                    if let Error::OutOfMemory { .. } = error {
                        self.world.judge_shortage(&dev, len, allocation, begun, ret);
                        self.world.log.count("allocate and drop many", &outcome);
                    }
                }
            }
        }
        if let Some(handle) = mine.first() {
            self.fill_anew(handle, n.next());
        }
        Some(Outcome::Done)
    }

    pub fn reclaim(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        dev.device()?.reclaim();
        self.say(&format!("reclaim of d{}", dev.number));
        Some(Outcome::Done)
    }

    pub fn set_budget(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let device = dev.device()?;
        let base = self.world.plans[dev.model].budget;
        let bytes = [base / 2, base, base / 4 * 3, base + base / 2][n.below(4)];
        let at = {
            let mut inner = self.world.log.lock();
            inner.clock += 1;
            let begun = inner.clock;
            let budgets = &mut inner.devices[dev.number].budgets;
            budgets.push(Budget { bytes, begun, set: u64::MAX });
            budgets.len() - 1
        };
        device.set_budget(bytes);
        let mut inner = self.world.log.lock();
        inner.clock += 1;
        let now = inner.clock;
        inner.devices[dev.number].budgets[at].set = now;
        drop(inner);
        self.say(&format!("budget of d{} is {bytes}", dev.number));
        Some(Outcome::Done)
    }

    pub fn claim(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let claim = Claimed::new(&handle);
        self.say(&format!("claim of {}", handle.place));
        let mut claims = lock(&self.world.claims);
        let old = if claims.len() > 3 { Some(claims.swap_remove(0)) } else { None };
        claims.push(claim);
        drop(claims);
        drop(old);
        Some(Outcome::Done)
    }

    pub fn end_claim(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let claim = {
            let mut claims = lock(&self.world.claims);
            if claims.is_empty() {
                return None;
            }
            let at = n.below(claims.len());
            claims.swap_remove(at)
        };
        drop(claim);
        self.say("end of a claim");
        Some(Outcome::Done)
    }

    pub fn consume(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.take(n.next())?;
        let what = handle.place.to_string();
        let log = Arc::clone(&self.world.log);
        let (buffer, place, dev, number) = handle.take();
        let call = log.now();
        let result = buffer.consume();
        let ret = log.now();
        let given = result.is_ok();
        self.say(&format!("consume of {what}: {given}"));
        log.lock().consumed.push(Consumed { handle: number, call, ret, given, what });
        let buffer = result.unwrap_or_else(|buffer| buffer);
        self.world.keep(Handle::back(&log, buffer, place, dev, number));
        Some(if given { Outcome::Done } else { Outcome::Refused("others can see it".into()) })
    }

    pub fn borrow(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (handle, dev) = (self.world.some(None, n.next())?, self.world.seat(n.next()));
        let device = dev.device()?;
        let begun = self.world.log.now();
        let result = handle.buffer().borrow(&device);
        let what = format!("borrow of {} (d{}) for d{}", handle.place, handle.dev.number, dev.number);
        let outcome = self.told(&what, &result);
        self.not_invalid(&what, &outcome);
        self.thin(n.next());
        if let Ok(borrow) = result {
            self.world.keep(Handle::new(&self.world.log, borrow, handle.place.clone(), &dev, begun));
        }
        Some(outcome)
    }

    pub fn wrap_host(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let device = dev.device()?;
        let len = if n.one_in(8) { 0 } else { 1 + n.below(6000) };
        let memory = HostMemory::zeroed(len).ok()?;
        let begun = self.world.log.now();
        let allocation = self.world.allocated(dev.number, len, false, begun);
        let log = Arc::clone(&self.world.log);
        let owner = Owner { memory, allocation, log, count: Some(Arc::clone(&self.world.owners)) };
        self.world.owners[0].fetch_add(1, Ordering::SeqCst);
        let result = Buffer::from_host(&device, owner).map_err(|not| {
            // The owner comes back unharmed, and its end is nobody's business.
            let mut owner = not.memory;
            owner.count = None;
            self.world.owners[0].fetch_sub(1, Ordering::SeqCst);
            not.error
        });
        let what = format!("m{allocation} = from_host of {len} on d{}", dev.number);
        let outcome = self.told(&what, &result);
        self.not_invalid(&what, &outcome);
        self.thin(n.next());
        match result {
            Ok(buffer) => {
                let place = crate::log::Place { allocation, range: 0..len };
                let handle = Handle::new(&self.world.log, buffer, place, &dev, begun);
                self.fill_anew(&handle, n.next());
                self.world.keep(handle);
            }
            Err(_) => self.world.log.lock().allocations[allocation].dropped = Some(begun),
        }
        Some(outcome)
    }

    pub fn code(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let device = dev.device()?;
        let lines = ["mix params=32", "scale params=32", "iota"];
        let load = || {
            let image = device.load(&rig_conformance::model::image(&lines))?;
            image.prepare(&["scale", "iota"]);
            let absent = image.resolve("nothing")?;
            if absent.is_some() {
                self.world.log.broken("C10", "a function that is not there was resolved");
            }
            image.function("scale").map(drop)
        };
        let result = load();
        let outcome = self.told(&format!("load on d{}", dev.number), &result);
        self.not_invalid("load and resolve", &outcome);
        Some(outcome)
    }
}

/// An owner of host memory that tells when it is dropped.
struct Owner {
    memory: HostMemory,
    allocation: usize,
    log: Arc<Log>,
    count: Option<Arc<[AtomicU64; 2]>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Some(count) = &self.count {
            let mut inner = self.log.lock();
            inner.clock += 1;
            let now = inner.clock;
            inner.owners.push((self.allocation, now));
            count[1].fetch_add(1, Ordering::SeqCst);
        }
    }
}

// SAFETY: `HostMemory` gives the same pages wherever it is moved, and nobody touches them but through what it gives.
#[expect(unsafe_code, reason = "an owner around an owner")]
unsafe impl HostPages for Owner {
    fn pages(&mut self) -> NonNull<[u8]> {
        self.memory.pages()
    }
}
