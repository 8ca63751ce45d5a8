//! Steps that submit work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rig::{Device, Point, Run, read, write};
use rig_conformance::model::{Encoder, Grid, ModelDevice, ModelDriver};
use rig_edge::Slot;

use crate::log::{Key, Log, Op, Outcome, Part, Place};
use crate::player::{Numbers, Player, uses};
use crate::world::{Dev, Handle};

/// How many submissions a thread keeps for later.
const MADE: usize = 4;

/// The parts of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Mix,
    Copy,
    Memset,
    Fill,
    /// mix of 0 into 1, copy of 1 to 2, memset of 0, mix of 2 into 1.
    Four,
}

/// Points that work follows.
pub type Follows = (Vec<Point>, Vec<Key>);

/// A submission that was made.
pub struct Work {
    pub shape: Shape,
    device: usize,
    byte: u8,
    run: Run,
    cell: Arc<Cell>,
    last: Arc<AtomicU64>,
}

/// What a fill's code is to do this time.
#[derive(Default)]
struct Cell {
    op: AtomicU64,
    c: AtomicU64,
    fails: Mutex<Option<String>>,
    calls: Mutex<Option<(Device, Point)>>,
}

/// An object that a submission keeps: dropped only once no work of the submission can run.
struct Kept {
    control: ModelDevice,
    last: Arc<AtomicU64>,
    log: Arc<Log>,
    count: Arc<[AtomicU64; 2]>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let (last, shown) = (self.last.load(Ordering::SeqCst), self.control.shown());
        if shown < last {
            let how = format!("a kept object was dropped while the word shows {shown}, and {last} was submitted");
            self.log.broken("C21", &how);
        }
        self.count[1].fetch_add(1, Ordering::SeqCst);
    }
}

fn std_lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Player {
    /// A submission of the shape, made or made before.
    pub fn work(&mut self, dev: &Arc<Dev>, shape: Shape, n: &mut Numbers<'_>) -> rig::Result<Work> {
        let known = self.made.iter().position(|work| work.shape == shape && work.device == dev.number);
        if let Some(known) = known.filter(|_| !n.one_in(4)) {
            return Ok(self.made.swap_remove(known));
        }
        let gone = || rig::Error::Refused("the program has no handle to the device".into());
        let (device, (mix, _)) = (dev.device().ok_or_else(gone)?, dev.functions().ok_or_else(gone)?);
        let (byte, cell, last) = (n.next() as u8, Arc::new(Cell::default()), Arc::new(AtomicU64::new(0)));
        let builder = device.submission();
        let mut builder = match shape {
            Shape::Mix => builder.launch(&mix, [read(0), write(1)]),
            Shape::Copy => builder.copy(0, 1),
            Shape::Memset => builder.memset(0, byte),
            Shape::Fill => {
                let (cell, log) = (Arc::clone(&cell), Arc::clone(&self.world.log));
                builder.fill::<ModelDriver>([write(0)], move |encoder, slots| fill(encoder, slots, &cell, &log))
            }
            Shape::Four => {
                let builder = builder.launch(&mix, [read(0), write(1)]).copy(1, 2).memset(0, byte);
                builder.launch(&mix, [read(2), write(1)])
            }
        };
        if n.one_in(2) {
            let (log, count) = (Arc::clone(&self.world.log), Arc::clone(&self.world.kept));
            count[0].fetch_add(1, Ordering::SeqCst);
            builder = builder.keep(Kept { control: dev.control.clone(), last: Arc::clone(&last), log, count });
        }
        Ok(Work { shape, device: dev.number, byte, run: builder.make()?.take(), cell, last })
    }

    /// Keeps a submission for later, or drops it right after its submit.
    fn put_away(&mut self, work: Work, n: &mut Numbers<'_>) {
        if !n.one_in(3) {
            self.made.push(work);
        }
        if self.made.len() > MADE {
            drop(self.made.swap_remove(n.below(MADE)));
        }
    }

    /// Submits and notes all of it.
    #[expect(unsafe_code, reason = "a launch")]
    pub fn submit(
        &mut self,
        mut work: Work,
        dev: &Dev,
        handles: &[(&Handle, bool, bool)],
        (what, parts, (points, after)): (String, Vec<Part>, Follows),
        n: &mut Numbers<'_>,
    ) -> Outcome {
        let used = handles.iter().map(|(handle, writes, whole)| uses(handle, *writes, *whole)).collect();
        let names: Vec<String> = handles.iter().map(|(handle, ..)| handle.place.to_string()).collect();
        let what = format!("{what} on d{}: {}", dev.number, names.join(" "));
        let op = self.begin(what, &[dev], used);
        work.cell.op.store(op as u64, Ordering::SeqCst);
        for part in 0..if work.shape == Shape::Four { 4 } else { 1 } {
            if work.shape == Shape::Mix || work.shape == Shape::Four && part % 3 == 0 {
                work.run.part(part).set(24, op as u64);
            }
        }
        work.run.after(&points);
        let buffers: Vec<_> = handles.iter().map(|(handle, ..)| handle.buffer()).collect();
        let safe = matches!(work.shape, Shape::Copy | Shape::Memset) && n.one_in(2);
        let result = if safe {
            work.run.submit(&buffers)
        } else {
            // SAFETY: the model's kernels check every access against the slots, and fault instead of touching more.
            unsafe { work.run.launch(&buffers) }
        };
        if let Ok(point) = &result {
            work.last.fetch_max(point.value(), Ordering::SeqCst);
        }
        let outcome = self.outcome_of(&result);
        self.put_away(work, n);
        let outcome = self.end(op, outcome, |op: &mut Op| {
            op.parts = parts;
            op.after = after;
        });
        if let Outcome::Lost { .. } = outcome {
            self.probe(dev);
        }
        outcome
    }

    pub fn launch(&mut self, n: &mut Numbers<'_>, follows: usize) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        self.launch_on(&dev, n, |player, n| {
            let follows = if follows == 0 { usize::from(n.one_in(6)) } else { follows };
            player.some_points(follows, n)
        })
    }

    /// A launch that follows what `follows` gives, which is asked for last.
    pub fn launch_on(
        &mut self,
        dev: &Arc<Dev>,
        n: &mut Numbers<'_>,
        follows: impl FnOnce(&Player, &mut Numbers<'_>) -> Follows,
    ) -> Option<Outcome> {
        let (x, y) = (self.handle(dev, n)?, self.handle(dev, n)?);
        let (work, c) = (self.work(dev, Shape::Mix, n), n.next() as u8);
        let mut work = match work {
            Ok(work) => work,
            Err(error) => return Some(self.told::<()>("making of a launch", &Err(error))),
        };
        let (a, b) = (n.below(x.len().clamp(1, 64)), n.below(y.len().clamp(1, 64)));
        let len = x.len().saturating_sub(a).min(y.len().saturating_sub(b)).min(128);
        set_mix(&mut work.run, 0, (a, b), len, c);
        work.run.part(0).groups([1, 1, 1]).threads([1, 1, 1]);
        let parts = vec![Part::Mix {
            x: x.part(a.min(x.len())..a.min(x.len()) + len),
            y: y.part(b.min(y.len())..b.min(y.len()) + len),
            c,
        }];
        let told = ("launch".into(), parts, follows(self, n));
        let outcome = self.submit(work, dev, &[(&x, false, false), (&y, true, false)], told, n);
        self.not_invalid("a launch", &outcome);
        Some(outcome)
    }

    pub fn submit_copy(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.copying_seat(n)?;
        let (from, to) = self.equal(&dev, n)?;
        let work = match self.work(&dev, Shape::Copy, n) {
            Ok(work) => work,
            Err(error) => return Some(self.told::<()>("making of a copy", &Err(error))),
        };
        let parts = vec![Part::Copy { from: from.place.clone(), to: to.place.clone() }];
        let overlap = overlaps(&from.place, &to.place);
        let apart = from.place.allocation != to.place.allocation;
        let outcome = self.submit(
            work,
            &dev,
            &[(&from, false, false), (&to, true, apart)],
            ("copy".into(), parts, Follows::default()),
            n,
        );
        self.invalid_if(overlap, "a copy onto bytes of itself", &outcome);
        Some(outcome)
    }

    pub fn submit_memset(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.copying_seat(n)?;
        let handle = self.handle(&dev, n)?;
        let work = match self.work(&dev, Shape::Memset, n) {
            Ok(work) => work,
            Err(error) => return Some(self.told::<()>("making of a memset", &Err(error))),
        };
        let parts = vec![Part::Memset { to: handle.place.clone(), byte: work.byte }];
        let follows = usize::from(n.one_in(6));
        let follows = self.some_points(follows, n);
        let outcome = self.submit(work, &dev, &[(&handle, true, true)], ("memset".into(), parts, follows), n);
        self.not_invalid("a memset", &outcome);
        Some(outcome)
    }

    pub fn fill(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        self.fill_that(n, |_, _| {})
    }

    fn fill_that(&mut self, n: &mut Numbers<'_>, prepare: impl FnOnce(&Player, &Cell)) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let handle = self.handle(&dev, n)?;
        if handle.len() == 0 {
            return None;
        }
        let handle = handle.view(0..handle.len().min(128)).ok()?;
        let work = match self.work(&dev, Shape::Fill, n) {
            Ok(work) => work,
            Err(error) => return Some(self.told::<()>("making of a fill", &Err(error))),
        };
        let c = n.next() as u8;
        work.cell.c.store(u64::from(c), Ordering::SeqCst);
        prepare(self, &work.cell);
        let cell = Arc::clone(&work.cell);
        let parts = vec![Part::Scale { y: handle.place.clone(), c }];
        let told = ("fill".into(), parts, Follows::default());
        let outcome = self.submit(work, &dev, &[(&handle, true, false)], told, n);
        // What was not reached is for no later submit.
        let (fails, calls) = (std_lock(&cell.fails).take(), std_lock(&cell.calls).take());
        drop((fails, calls));
        self.not_invalid("a fill", &outcome);
        Some(outcome)
    }

    pub fn fill_fault(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let why = self.world.name("a fill failed");
        for dev in crate::primitive::lock(&self.world.devices).iter() {
            self.world.cause(dev, &why);
        }
        self.fill_that(n, |_, cell| *std_lock(&cell.fails) = Some(why))
    }

    pub fn calls_in_fill(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let (device, (point, _)) = (dev.device()?, self.world.some_point(n.next())?);
        self.fill_that(n, |_, cell| *std_lock(&cell.calls) = Some((device, point)))
    }

    pub fn combination(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.copying_seat(n)?;
        let (x, y) = self.equal(&dev, n)?;
        let z = self.handle(&dev, n)?;
        let len = x.len().min(z.len()).min(128);
        let (x, y) = (x.view(0..len).ok()?, y.view(0..len).ok()?);
        let at = n.below(z.len() - len + 1);
        let z = z.view(at..at + len).ok()?;
        let mut work = match self.work(&dev, Shape::Four, n) {
            Ok(work) => work,
            Err(error) => return Some(self.told::<()>("making of four parts", &Err(error))),
        };
        let (c, d) = (n.next() as u8, n.next() as u8);
        set_mix(&mut work.run, 0, (0, 0), len, c);
        set_mix(&mut work.run, 3, (0, 0), len, d);
        let parts = vec![
            Part::Mix { x: x.place.clone(), y: y.place.clone(), c },
            Part::Copy { from: y.place.clone(), to: z.place.clone() },
            Part::Memset { to: x.place.clone(), byte: work.byte },
            Part::Mix { x: z.place.clone(), y: y.place.clone(), c: d },
        ];
        let overlap = overlaps(&y.place, &z.place);
        let apart = z.place.allocation != x.place.allocation && z.place.allocation != y.place.allocation;
        let used = [(&x, true, false), (&y, true, false), (&z, true, apart)];
        let outcome = self.submit(work, &dev, &used, ("four parts".into(), parts, Follows::default()), n);
        self.invalid_if(overlap, "a copy part onto bytes of itself", &outcome);
        Some(outcome)
    }

    fn invalid_if(&self, expected: bool, what: &str, outcome: &Outcome) {
        if expected {
            self.must_be_invalid("errors of the right kind", what, outcome);
        } else {
            self.not_invalid(what, outcome);
        }
    }

    /// A submit that is wrong in one way.
    pub fn wrong(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let (x, y) = (self.handle(&dev, n)?, self.handle(&dev, n)?);
        let mut work = self.work(&dev, Shape::Mix, n).ok()?;
        set_mix(&mut work.run, 0, (0, 0), 0, 1);
        let stranger = self.world.some(None, n.next())?;
        let (what, buffers) = match n.below(4) {
            0 => ("a submit of one buffer for two slots", vec![&x]),
            1 if stranger.dev.number != dev.number => ("a submit of another device's buffer", vec![&x, &stranger]),
            2 => {
                work.run.part(0).set(0, x.len().max(1) as u64);
                ("an offset out of the buffer", vec![&x, &y])
            }
            _ => {
                work.run.part(0).groups([1, 0, 1]);
                ("a grid with an axis of zero", vec![&x, &y])
            }
        };
        let outcome = self.submit_wrong(work, &buffers, what, n);
        self.must_be_invalid("C12, errors of the right kind", what, &outcome);
        Some(outcome)
    }

    /// A submit that the driver's room refuses.
    pub fn refused(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let (x, y) = (self.handle(&dev, n)?, self.handle(&dev, n)?);
        let mut work = self.work(&dev, Shape::Mix, n).ok()?;
        set_mix(&mut work.run, 0, (0, 0), 0, 1);
        work.run.part(0).threads([2048, 1, 1]);
        let (points, _) = self.some_points(usize::from(n.one_in(2)), n);
        work.run.after(&points);
        let outcome = self.submit_wrong(work, &[&x, &y], "a group of too many threads", n);
        if outcome != Outcome::OutOfMemory {
            self.must_be_invalid("S12, errors of the right kind", "a group of too many threads", &outcome);
        }
        Some(outcome)
    }

    #[expect(unsafe_code, reason = "a launch")]
    fn submit_wrong(&mut self, mut work: Work, handles: &[&Handle], what: &str, n: &mut Numbers<'_>) -> Outcome {
        let buffers: Vec<_> = handles.iter().map(|handle| handle.buffer()).collect();
        // SAFETY: as in `submit`.
        let result = unsafe { work.run.launch(&buffers) };
        let outcome = self.outcome_of(&result);
        self.told(what, &result);
        set_mix(&mut work.run, 0, (0, 0), 0, 1);
        work.run.part(0).groups([1, 1, 1]).threads([1, 1, 1]);
        self.put_away(work, n);
        outcome
    }

    #[expect(unsafe_code, reason = "a launch")]
    pub fn kernel_fault(&mut self, n: &mut Numbers<'_>) -> Option<Outcome> {
        let dev = self.world.seat(n.next());
        let (device, image) = (dev.device()?, dev.image()?);
        for dev in crate::primitive::lock(&self.world.devices).iter() {
            self.world.cause(dev, "the kernel faulted");
        }
        let launch = || {
            let fault = image.function("fault")?;
            let mut run = device.submission().launch(&fault, []).make()?.take();
            // SAFETY: the kernel touches nothing.
            unsafe { run.launch(&[]) }
        };
        let result = launch();
        let outcome = self.outcome_of(&result);
        self.told(&format!("launch of a kernel that faults on d{}", dev.number), &result);
        Some(outcome)
    }

    /// The device of a seat whose queues copy.
    fn copying_seat(&self, n: &mut Numbers<'_>) -> Option<Arc<Dev>> {
        let dev = self.world.seat(n.next());
        self.world.plans[dev.model].copies.then_some(dev)
    }

    /// Two views of one length.
    fn equal(&mut self, dev: &Arc<Dev>, n: &mut Numbers<'_>) -> Option<(Handle, Handle)> {
        let (x, y) = (self.handle(dev, n)?, self.handle(dev, n)?);
        let len = x.len().min(y.len());
        let len = if n.one_in(2) { len } else { len.min(1 + n.below(64)) };
        let (a, b) = (n.below(x.len() - len + 1), n.below(y.len() - len + 1));
        Some((x.view(a..a + len).ok()?, y.view(b..b + len).ok()?))
    }
}

fn overlaps(a: &Place, b: &Place) -> bool {
    a.allocation == b.allocation && a.range.start < b.range.end && b.range.start < a.range.end
}

pub fn set_mix(run: &mut Run, part: usize, (a, b): (usize, usize), len: usize, c: u8) {
    run.part(part).set(0, a as u64).set(8, b as u64).set(16, len as u32).set(20, u32::from(c));
}

/// A fill's code.
fn fill(encoder: &mut Encoder<'_>, slots: &[Slot], cell: &Cell, log: &Log) -> Result<(), String> {
    if let Some(why) = std_lock(&cell.fails).take() {
        return Err(why);
    }
    let calls = std_lock(&cell.calls).take();
    if let Some((device, point)) = calls {
        // A reason that nobody may find.
        device.lose("a fill gave it up");
        let answers = [device.buffer(64).err(), device.load(b"").err(), rig::Profile::take(|| ()).err()];
        let waited = point.wait();
        let invalid = |error: &Option<rig::Error>| matches!(error, Some(rig::Error::Invalid(_)));
        if !answers.iter().all(invalid) {
            log.broken("C24", &format!("calls in a fill came to {answers:?}"));
        }
        if let Err(rig::Error::OutOfMemory { .. } | rig::Error::Refused(_)) = waited {
            log.broken("C24", &format!("a wait in a fill came to {waited:?}"));
        }
    }
    let mut params = [0; 32];
    params[16..20].copy_from_slice(&(slots[0].len as u32).to_ne_bytes());
    params[20..24].copy_from_slice(&(cell.c.load(Ordering::SeqCst) as u32).to_ne_bytes());
    params[24..].copy_from_slice(&cell.op.load(Ordering::SeqCst).to_ne_bytes());
    encoder.launch("scale", Grid { groups: [1; 3], threads: [1; 3], group_bytes: 0 }, &slots[..1], &params)
}
