//! The core of a device: what every handle, buffer, image and submission of it reaches.
//!
//! # Invariants
//!
//! 1. `submitted` is written only under the turn.
//! 2. `committed` only rises, and every value up to it runs without further calls.
//! 3. Counted calls go through [`Core::counted`], hot calls through the turn: none overlaps stop (E03).
//! 4. No lock is held in [`Core::counted`]'s call, but by a caller that says so.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Instant;

use rig_edge::erased::{AnyDriver, AnyImage, AnyRegion, Bound};
use rig_edge::{Facts, Fault, Sleep, WordIndex, WordSource, Words};

use super::loss::panic_message;
use super::mark;
use crate::allocation::Allocation;
use crate::dropped::{DroppedList, Taken};
use crate::future::Waiting;
use crate::gate::{Gate, Left};
use crate::image::ImageCode;
use crate::mapped::Mapped;
use crate::memory::Pool;
use crate::peer::Peer;
use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::{Condvar, Mutex, process_wide};
use crate::timeline::{Lost, Stamp, Timelines, shown, timelines, word_shows};
use crate::{Error, Result};

pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    pub(crate) facts: Facts,
    pub(crate) slot: u32,
    /// Whether the word is one of the driver's own.
    own_word: bool,
    /// Whether the driver's own word was freed. Held over each mirroring of it, so that none meets a word that is freed or
    /// the slot's next device.
    pub(super) word_freed: Mutex<bool>,
    pub(crate) timelines: &'static Timelines,
    pub(crate) gate: Gate,
    /// The last value given to the driver's submit.
    pub(crate) submitted: AtomicU64,
    /// Every value up to this one runs without further calls.
    pub(crate) committed: AtomicU64,
    pub(crate) driver: Box<dyn AnyDriver>,
    pub(crate) pool: Mutex<Pool>,
    dropped: DroppedList,
    pub(crate) retired: Mutex<Vec<Retired>>,
    /// The device's mappings of other devices' memory, by address.
    pub(crate) mappings: Mutex<BTreeMap<usize, Arc<Mapped>>>,
    /// What is known of devices whose memory this one maps.
    pub(crate) peers: Mutex<Vec<Peer>>,
    /// Who waits for points of the device without a thread.
    pub(crate) futures: Mutex<Waiting>,
    /// Why the device is lost or closed: the first reason.
    pub(super) reason: Mutex<Option<Reason>>,
    /// Unreached values that wait, on a queue, for other devices' or their own device's earlier such values.
    pub(crate) dependents: Mutex<Vec<Dependent>>,
    /// The least value in `dependents`; `u64::MAX` if there is none.
    pub(crate) oldest_dependent: AtomicU64,
    sleeper: Mutex<Sleeper>,
    woken: Condvar,
    /// Set once the device is stopped, its word shows the end, and all memory that nobody holds is back.
    pub(super) finished: AtomicBool,
    /// Set once stop has returned.
    pub(super) stopped: AtomicBool,
}

/// Why a device was lost or closed.
pub(super) struct Reason {
    pub(super) lost: Lost,
    /// Whether a fault or the hang bound was the reason, which stop is told.
    pub(super) fault: bool,
    /// When it was.
    pub(super) since: Instant,
}

/// A value that cannot be right unless another is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependent {
    pub(crate) value: u64,
    pub(crate) on: Stamp,
}

/// Who sits in the driver's sleep.
#[derive(Default)]
struct Sleeper {
    sleeping: bool,
    waiting: u32,
}

/// What waits to be given back once no work uses it.
pub(crate) enum Retired {
    /// An image whose last handle is gone; submissions may still hold its code.
    Image(Arc<ImageCode>),
    /// A submission whose last handle is gone.
    Submission(SubmissionEnd),
}

/// What a submission leaves behind: used until its last value is shown.
pub(crate) struct SubmissionEnd {
    pub(crate) last: u64,
    pub(crate) bound: Box<dyn Bound>,
    pub(crate) images: Vec<Arc<ImageCode>>,
    pub(crate) kept: Kept,
}

/// Objects of the caller's that a submission keeps.
pub(crate) type Kept = Mutex<Vec<Box<dyn Any + Send>>>;

process_wide! {
    /// Every device that was opened and is not gone.
    fn devices() -> Mutex<Vec<Weak<Core>>> { Mutex::new(Vec::new()) }
}

/// How many devices with words of their own there have been since the process began.
// The standard library's also under shuttle: it spans the process, and shuttle's own would be of several tests at once.
static OWN_WORDS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Brings the words of all drivers that have their own into the table: memory that such a device borrowed comes back by
/// them. Nothing where there are none, as nearly everywhere. Called with no lock held.
pub(crate) fn refresh_own_words() {
    // ORDERING: Relaxed: a device that opened a moment ago has used nothing yet that its opener does not order.
    if OWN_WORDS.load(Ordering::Relaxed) > 0 {
        known().iter().for_each(|core| core.refresh());
    }
}

/// Makes the device known to losses and opens.
pub(super) fn register(core: &Arc<Core>) {
    if core.own_word {
        OWN_WORDS.fetch_add(1, Ordering::Relaxed);
    }
    let mut devices = devices().lock();
    devices.retain(|device| device.strong_count() > 0);
    devices.push(Arc::downgrade(core));
}

/// The devices that are not gone.
pub(super) fn known() -> Vec<Arc<Core>> {
    devices().lock().iter().filter_map(Weak::upgrade).collect()
}

impl Core {
    pub(super) fn new(name: String, driver: Box<dyn AnyDriver>, slot: u32, start: u64) -> Core {
        let facts = driver.facts().clone();
        Core {
            name: name.into(),
            gate: Gate::new(),
            slot,
            own_word: facts.word == WordSource::Own,
            word_freed: Mutex::new(false),
            timelines: timelines(),
            submitted: mark(start),
            committed: mark(start),
            pool: Mutex::new(Pool::new(&facts)),
            facts,
            driver,
            dropped: DroppedList::new(),
            retired: Mutex::new(Vec::new()),
            mappings: Mutex::new(BTreeMap::new()),
            peers: Mutex::new(Vec::new()),
            futures: Mutex::new(Waiting::new()),
            reason: Mutex::new(None),
            dependents: Mutex::new(Vec::new()),
            oldest_dependent: AtomicU64::new(u64::MAX),
            sleeper: Mutex::new(Sleeper::default()),
            woken: Condvar::new(),
            finished: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
        }
    }

    /// Brings a word of the driver's own into the table.
    #[inline]
    pub(crate) fn refresh(&self) {
        if self.own_word {
            self.mirror();
        }
    }

    #[cold]
    fn mirror(&self) {
        // `signaled` never blocks nor calls rig (E23).
        let freed = self.word_freed.lock();
        if !*freed {
            Words::get().word(WordIndex::new(self.slot as usize)).lift(self.driver.signaled());
        }
    }

    /// What the device's word shows.
    #[inline]
    pub(crate) fn shown(&self) -> u64 {
        self.refresh();
        shown(self.slot)
    }

    /// Makes a counted call, with no lock of rig's held. A fault or a panic of it loses the device.
    pub(crate) fn counted<R>(&self, call: impl FnOnce(&dyn AnyDriver) -> std::result::Result<R, Fault>) -> Result<R> {
        if self.gate.enter().is_err() {
            return Err(self.lost_error());
        }
        let answer = self.caught(|| call(&*self.driver));
        if let Err(fault) = &answer {
            self.lose(fault.clone());
        }
        self.after(self.gate.leave());
        answer.map_err(|_| self.lost_error())
    }

    /// Calls the driver; a panic is a fault (E19).
    pub(crate) fn caught<R>(
        &self,
        call: impl FnOnce() -> std::result::Result<R, Fault>,
    ) -> std::result::Result<R, Fault> {
        catch_unwind(AssertUnwindSafe(call))
            .unwrap_or_else(|payload| Err(Fault::here(format!("its driver panicked: {}", panic_message(&*payload)))))
    }

    /// Does what leaving the gate asks for.
    #[inline]
    pub(crate) fn after(&self, left: Left) {
        if left == Left::Stop {
            self.stop();
        }
    }

    /// Commits the work of every value up to `value`, unless a mark says that it is.
    pub(crate) fn commit_through(&self, value: u64) -> Result<()> {
        if self.committed.load(Ordering::Acquire) >= value {
            return Ok(());
        }
        if self.gate.take_turn().is_err() {
            return Err(self.lost_error());
        }
        let answer = if self.committed.load(Ordering::Acquire) >= value {
            Ok(())
        } else {
            self.caught(|| self.driver.commit(value))
        };
        if answer.is_ok() {
            // ORDERING: Release: who reads the mark sees the commit. Only the turn's holder writes it.
            self.committed.store(self.committed.load(Ordering::Relaxed).max(value), Ordering::Release);
        }
        let left = self.gate.give_turn();
        if let Err(fault) = &answer {
            // After the turn: a loss wakes futures, whose wakers are the caller's code.
            self.lose(fault.clone());
        }
        self.after(left);
        answer.map_err(|_| self.lost_error())
    }

    /// Sits in the driver's sleep until the word differs from `sleep.seen` or some time has passed: one thread does, and
    /// the others wait for it to come back.
    pub(crate) fn sleep(&self, sleep: Sleep) -> Result<()> {
        let mut sleeper = self.sleeper.lock();
        if sleeper.sleeping {
            sleeper.waiting += 1;
            let mut sleeper = self.woken.wait_timeout(sleeper, sleep.still);
            sleeper.waiting -= 1;
            return Ok(());
        }
        sleeper.sleeping = true;
        drop(sleeper);
        let answer = self.counted(|driver| driver.sleep(sleep));
        let mut sleeper = self.sleeper.lock();
        sleeper.sleeping = false;
        let wake = sleeper.waiting > 0;
        drop(sleeper);
        if wake {
            self.woken.notify_all();
        }
        answer
    }

    /// Lets waiters look at the state of things again. Called with no lock held.
    pub(crate) fn wake_waiters(&self) {
        drop(self.sleeper.lock());
        self.woken.notify_all();
        self.wake_futures();
    }

    /// Takes over an allocation whose last handle is gone.
    pub(crate) fn dropped(&self, allocation: NonNull<Allocation>) {
        self.dropped.push(allocation);
    }

    pub(crate) fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    pub(crate) fn take_dropped(&self) -> Taken {
        self.dropped.take()
    }

    /// Takes over what no handle refers to any more. Runs no code of a driver or a caller.
    pub(crate) fn retire(&self, retired: Retired) {
        self.retired.lock().push(retired);
    }

    /// Gives back what was retired and whose work is done. Called with no lock held.
    pub(crate) fn sweep_retired(&self) {
        self.refresh();
        let mut again = Vec::new();
        let mut images = Vec::new();
        loop {
            let retired = std::mem::take(&mut *self.retired.lock());
            if retired.is_empty() {
                break;
            }
            for item in retired {
                match item {
                    Retired::Submission(end) if !word_shows(Stamp { slot: self.slot, value: end.last }) => {
                        again.push(Retired::Submission(end));
                    }
                    Retired::Submission(end) => {
                        // A plan's drop is the driver's code.
                        let _ = catch_unwind(AssertUnwindSafe(|| drop(end.bound)));
                        for object in std::mem::take(&mut *end.kept.lock()) {
                            // And an object's is the caller's.
                            let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
                        }
                        images.extend(end.images);
                    }
                    Retired::Image(image) => images.push(image),
                }
            }
        }
        for image in images {
            if let Some(code) = Arc::into_inner(image)
                && let Err(code) = self.unload(code)
            {
                again.push(Retired::Image(Arc::new(code)));
            }
        }
        self.retired.lock().append(&mut again);
    }

    /// Unloads an image that nothing uses, then frees the region of its code. Gives it back if the driver may not be
    /// called now.
    fn unload(&self, mut code: ImageCode) -> std::result::Result<(), ImageCode> {
        let unload = |driver: &dyn AnyDriver, image: AnyImage| {
            // SAFETY: no handle refers to the image and no unfinished submission holds it, so none of its work can run
            // and its entries are gone.
            #[expect(unsafe_code, reason = "the debt of unload is paid here")]
            unsafe {
                driver.unload(image)
            }
        };
        if let Some(image) = code.image.take()
            && let Err(image) = self.give_back(image, unload)
        {
            code.image = Some(image);
            return Err(code);
        }
        if let Some((region, len)) = code.region.take() {
            match self.free_region(region) {
                Ok(()) => self.pool.lock().live -= len,
                Err(region) => {
                    code.region = Some((region, len));
                    return Err(code);
                }
            }
        }
        Ok(())
    }

    /// Frees a region that no work uses; gives it back if the driver may not be called now.
    pub(crate) fn free_region(&self, region: AnyRegion) -> std::result::Result<(), AnyRegion> {
        self.give_back(region, |driver, region| {
            // SAFETY: the region left the pool once the words showed all stamps of its memory, so no work uses it, and
            // no handle refers to it, so no slice over it is alive.
            #[expect(unsafe_code, reason = "the debt of free is paid here")]
            unsafe {
                driver.free(region)
            }
        })
    }

    /// Calls `give` with the driver and `what`: counted while the device is open, uncounted once it is stopped and its
    /// word shows the end, and not at all between (E22).
    fn give_back<T>(
        &self,
        what: T,
        give: impl FnOnce(&dyn AnyDriver, T) -> std::result::Result<(), Fault>,
    ) -> std::result::Result<(), T> {
        if self.gate.enter().is_ok() {
            let answer = self.caught(|| give(&*self.driver, what));
            if let Err(fault) = answer {
                self.lose(fault);
            }
            self.after(self.gate.leave());
            return Ok(());
        }
        if !self.is_over() {
            return Err(what);
        }
        // After stop, faults are dropped (E19).
        let _ = self.caught(|| give(&*self.driver, what));
        Ok(())
    }

    /// Whether stop has returned and the word shows the last value given to submit: nothing of the device runs.
    pub(super) fn is_over(&self) -> bool {
        self.stopped.load(Ordering::Acquire) && self.shown() >= self.submitted.load(Ordering::Acquire)
    }

    /// Whether calls may still be made: Lost where the device is lost or closed.
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.gate.is_shut() { Err(self.lost_error()) } else { Ok(()) }
    }

    /// The error of calls on a device that is lost or closed.
    pub(crate) fn lost_error(&self) -> Error {
        let reason = self.reason.lock();
        // PANIC: called after the gate was seen shut, and the reason is written before the gate shuts.
        reason.as_ref().expect("a shut gate has a reason").lost.clone().into()
    }
}
