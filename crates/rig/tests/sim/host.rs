//! Steps in which the host reads and writes memory.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::log::{Outcome, Part};
use crate::player::{Numbers, Player, pattern, put, uses};
use crate::primitive::pause;
use crate::world::Handle;

impl Player {
    pub fn write_slice(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let bytes = pattern(handle.len(), n.next());
        let what = format!("copy_from_slice to {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, true, true)]);
        let result = handle.buffer().copy_from_slice(&bytes);
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        Some(self.end(op, outcome, |op| op.parts.push(put(&handle.place, bytes))))
    }

    pub fn read_slice(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        Some(self.read_all(&handle))
    }

    /// Reads what a handle reaches, for the checkers.
    pub fn read_all(&self, handle: &Handle) -> Outcome {
        let mut bytes = vec![0; handle.len()];
        let what = format!("copy_to_slice of {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(handle, false, false)]);
        let result = handle.buffer().copy_to_slice(&mut bytes);
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        self.end(op, outcome.clone(), |op| {
            if outcome == Outcome::Done {
                op.seen.push((handle.place.clone(), bytes));
            }
        })
    }

    pub fn read(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let what = format!("read of {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, false, false)]);
        let log = &self.world.log;
        let mut found = None;
        let result = handle.buffer().read(|bytes: &[u8]| {
            let from = log.now();
            let before = black_box(bytes).to_vec();
            pause();
            if black_box(bytes) != before {
                log.broken("C30", &format!("{what}: something wrote while the closure ran"));
            }
            found = Some((from, before, log.now()));
        });
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        if outcome != Outcome::Done && found.is_some() {
            log.broken("C26", &format!("{what} ran its closure and came to {outcome}"));
        }
        Some(self.end(op, outcome, |op| {
            if let Some((from, bytes, to)) = found {
                op.window = Some((from, to));
                op.seen.push((handle.place.clone(), bytes));
            }
        }))
    }

    pub fn write(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        self.write_and(n, |_, _| {})
    }

    /// A write whose closure does something else too.
    pub fn write_and(&mut self, n: &mut Numbers<'_>, does: impl FnOnce(&Player, &Handle)) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let what = format!("write of {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, true, false)]);
        let log = &self.world.log;
        let (seed, half) = (n.next(), n.one_in(2));
        let mut found = None;
        let result = handle.buffer().write(|bytes: &mut [u8]| {
            let from = log.now();
            let before = bytes.to_vec();
            // What the closure does not touch stays.
            let mut after = pattern(before.len(), seed);
            if half {
                let at = before.len() / 2;
                after[at..].copy_from_slice(&before[at..]);
            }
            bytes[..if half { before.len() / 2 } else { before.len() }]
                .copy_from_slice(&after[..if half { before.len() / 2 } else { before.len() }]);
            does(self, &handle);
            pause();
            if *black_box(&mut *bytes) != *after {
                log.broken("C30", &format!("{what}: something wrote while the closure ran"));
            }
            found = Some((from, before, after, log.now()));
        });
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        Some(self.end(op, outcome, |op| {
            if let Some((from, before, after, to)) = found {
                op.window = Some((from, to));
                op.seen.push((handle.place.clone(), before));
                op.parts.push(put(&handle.place, after));
            }
        }))
    }

    pub fn panic_in_closure(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let writes = n.one_in(2);
        let what = format!("a closure that panics over {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, writes, false)]);
        let log = &self.world.log;
        let mut window = None;
        let mut panics = || {
            let from = log.now();
            pause();
            window = Some((from, log.now()));
            // No panic hook is to take this for a failure of the run.
            resume_unwind(Box::new("wanted"))
        };
        let caught = catch_unwind(AssertUnwindSafe(|| {
            if writes {
                handle.buffer().write(|_: &mut [u8]| -> () { panics() })
            } else {
                handle.buffer().read(|_: &[u8]| -> () { panics() })
            }
        }));
        let outcome = match caught {
            Err(_) => Outcome::Done,
            Ok(Err(error)) => Outcome::of(&error),
            Ok(Ok(())) => log.broken("C23", &format!("{what}: the panic was swallowed")),
        };
        self.not_invalid(&what, &outcome);
        Some(self.end(op, outcome, |op| op.window = window))
    }

    pub fn in_closure(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        if handle.len() == 0 {
            return None;
        }
        let device = handle.dev.device()?;
        let what = format!("a closure with calls in it over {} (d{})", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, true, false)]);
        let log = &self.world.log;
        let mut found = None;
        let result = handle.buffer().write(|bytes: &mut [u8]| {
            let from = log.now();
            let before = bytes.to_vec();
            let conflicting = handle.buffer().memset(7);
            let outcome = conflicting.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
            // A submission for the memset may itself find no memory.
            if outcome != Outcome::OutOfMemory {
                self.must_be_invalid("C30", "a memset of what this thread has in a closure", &outcome);
            }
            // It counts for what others are answered meanwhile.
            self.world.allocated(handle.dev.number, 64, true, from);
            if let Err(error @ rig::Error::Invalid(_)) = device.buffer(64) {
                log.broken("errors of the right kind", &format!("a buffer made in a closure: {error}"));
            }
            if *black_box(&mut *bytes) != *before {
                log.broken("C30", &format!("{what}: something wrote while the closure ran"));
            }
            found = Some((from, before, log.now()));
        });
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        Some(self.end(op, outcome, |op| {
            if let Some((from, before, to)) = found {
                op.window = Some((from, to));
                op.seen.push((handle.place.clone(), before));
            }
        }))
    }

    pub fn copy(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let (from, to) = (self.world.some(None, n.next())?, self.world.some(None, n.next())?);
        let len = from.len().min(to.len());
        let len = if n.one_in(2) { len } else { len.min(1 + n.below(64)) };
        let (a, b) = (n.below(from.len() - len + 1), n.below(to.len() - len + 1));
        let (from, to) = (from.view(a..a + len).ok()?, to.view(b..b + len).ok()?);
        Some(self.copy_to(&from, &to))
    }

    pub fn copy_inside(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let all = self.world.some(None, n.next())?;
        let len = all.len() / 2 + usize::from(n.one_in(2) && all.len() % 2 == 1);
        let len = len.min(200);
        let (a, b) = (n.below(all.len() - len + 1), n.below(all.len() - len + 1));
        // Often ranges that touch or overlap a little.
        let b = if n.one_in(2) { (a + len).saturating_sub(n.below(3)).min(all.len() - len) } else { b };
        let (from, to) = (all.view(a..a + len).ok()?, all.view(b..b + len).ok()?);
        Some(self.copy_to(&from, &to))
    }

    fn copy_to(&self, from: &Handle, to: &Handle) -> Outcome {
        let what = format!("copy_to of {} (d{}) to {} (d{})", from.place, from.dev.number, to.place, to.dev.number);
        let apart = from.place.allocation != to.place.allocation;
        let op = self.begin(what.clone(), &[&from.dev, &to.dev], vec![uses(from, false, false), uses(to, true, apart)]);
        let result = from.buffer().copy_to(to.buffer());
        let mut how = String::new();
        let outcome = match &result {
            Ok(copied) => {
                how = format!("{:?}", copied.path);
                copied.point.map_or(Outcome::Done, |point| Outcome::Point(self.world.point(point)))
            }
            Err(error) => Outcome::of(error),
        };
        self.not_invalid(&what, &outcome);
        self.end(op, outcome, |op| {
            op.what = format!("{what} by {how}");
            op.parts.push(Part::Copy { from: from.place.clone(), to: to.place.clone() });
        })
    }

    pub fn memset(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let handle = self.world.some(None, n.next())?;
        let byte = n.next() as u8;
        let what = format!("memset of {} (d{}) to {byte}", handle.place, handle.dev.number);
        let op = self.begin(what.clone(), &[&handle.dev], vec![uses(&handle, true, true)]);
        let result = handle.buffer().memset(byte);
        let outcome = result.as_ref().map_or_else(Outcome::of, |()| Outcome::Done);
        self.not_invalid(&what, &outcome);
        let blind = self.world.plans[handle.dev.model].copies;
        Some(self.end(op, outcome, |op| {
            op.blind = blind;
            op.parts.push(Part::Memset { to: handle.place.clone(), byte });
        }))
    }
}
