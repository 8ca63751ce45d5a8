//! Profiles: what every device and the host did while a closure ran.
//!
//! # Invariants
//!
//! 1. While nobody takes a profile, a submit and a wait pay one relaxed read of a static, and nothing else is done.
//! 2. A recording is told to the profiles that were open when its submit began; a profile ends only once each value that it
//!    was told of is reached or can no longer be, so times are read after the driver noted them.
//! 3. What a profile gives is causal, whatever the clocks of devices say: nothing ends before it starts, or starts before its
//!    submit, the device's value before, or what it waited for.
//!
//! Nothing here blocks but the end of [`Profile::take`], and no lock of it is held while anything else is called.

mod causal;
mod html;
pub(crate) mod process;
mod record;
mod summary;
mod trace;

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use record::collect;
pub(crate) use record::{Recording, host, is_on, submit};

use crate::error::invalid;
use crate::{CopyPath, Result};

/// What the devices and the host did while a closure ran: see [`Profile::take`].
///
/// All times are since the profile began, on the host's clock.
///
/// A program that takes no profile is traced as it is by the variable `RIG_TRACE`: see [Seeing what runs](crate#seeing-what-runs).
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// println!("{} values in {:?}", profile.values.len(), profile.took);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Profile {
    /// How long it took: the closure, and the wait for the work that was submitted in it.
    pub took: Duration,
    /// The values that were submitted, in the order of their submits' ends.
    pub values: Vec<ValueSpan>,
    /// What threads of the host did in rig, in the order of their ends.
    pub host: Vec<HostSpan>,
}

/// From when to when something ran, since the profile began.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// for value in &profile.values {
///     println!("{} submitted {} for {:?}", value.device, value.value, value.submit.took());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// The beginning.
    pub start: Duration,
    /// The end: no earlier.
    pub end: Duration,
}

impl Interval {
    /// How long it lasted.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use std::time::Duration;
    /// let span = rig::Interval { start: Duration::from_millis(2), end: Duration::from_millis(5) };
    /// assert_eq!(span.took(), Duration::from_millis(3));
    /// # Ok(())
    /// # }
    /// ```
    pub fn took(&self) -> Duration {
        self.end - self.start
    }

    /// Whether both were under way at some time.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// use std::time::Duration;
    /// let span = |start, end| rig::Interval { start: Duration::from_millis(start), end: Duration::from_millis(end) };
    /// assert!(span(0, 2).overlaps(&span(1, 3)));
    /// assert!(!span(0, 2).overlaps(&span(2, 3)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn overlaps(&self, other: &Interval) -> bool {
        self.start < other.end && other.start < self.end
    }
}

/// The work of one submit.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// for value in profile.of(device.name()) {
///     println!("value {} ran for {:?}", value.value, value.ran.map(|ran| ran.took()));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ValueSpan {
    /// The device's name.
    pub device: Arc<str>,
    /// Tells devices of one name apart: the number of the device's timeline in the process.
    pub timeline: u32,
    /// The value: that of the submit's point.
    pub value: u64,
    /// When the submit itself ran on the host, waits of it included.
    pub submit: Interval,
    /// When the device ran the work; `None` where the driver does not tell, or the work never ran whole.
    pub ran: Option<Interval>,
    /// By how much the ends of `ran` may be wrong, since the device has a clock of its own; 0 on the host's.
    pub error: Duration,
    /// The parts of the submission, in its order.
    pub parts: Vec<PartRan>,
    /// What the work waited for on other devices: each device's timeline and value.
    pub follows: Vec<(u32, u64)>,
    /// Whether the work failed with its device.
    pub lost: bool,
}

/// One part of a value's work.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// for part in profile.values.iter().flat_map(|value| &value.parts) {
///     println!("{}: {} bytes", part.name, part.bytes);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PartRan {
    /// The function's name, or `copy`, `memset` or `fill`.
    pub name: Arc<str>,
    /// The device's queue that ran it, as [`Facts::queues`](crate::Facts::queues) lists them.
    pub queue: u32,
    /// When it ran; `None` where the driver tells only of the value as a whole.
    pub ran: Option<Interval>,
    /// The bytes of the buffers that the part reads or writes, each buffer once.
    pub bytes: u64,
}

/// What a thread of the host did in rig.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// for span in &profile.host {
///     println!("{} on {}: {:?}", span.work.name(), span.thread, span.ran.took());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostSpan {
    /// What it did.
    pub work: HostWork,
    /// The thread: its name, or its number in the process.
    pub thread: Arc<str>,
    /// The device that it was about.
    pub device: Arc<str>,
    /// When.
    pub ran: Interval,
    /// The bytes that a copy moved.
    pub bytes: u64,
}

/// What the host does in rig.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # let x = device.buffer(1 << 20)?;
/// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
/// # answer?;
/// let submits = profile.host.iter().filter(|span| span.work == rig::HostWork::Submit);
/// println!("{} submits", submits.count());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostWork {
    /// A submit.
    Submit,
    /// A wait for a point that was not reached yet.
    Wait,
    /// A round of reclamation, for an allocation that does not fit or at the program's wish.
    Reclaim,
    /// A copy of a buffer, and the path that it took. What a queue runs of it is a value too.
    Copy(CopyPath),
}

impl HostWork {
    /// In a word, as traces write it.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// assert_eq!(rig::HostWork::Wait.name(), "wait");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            HostWork::Submit => "submit",
            HostWork::Wait => "wait",
            HostWork::Reclaim => "reclaim",
            HostWork::Copy(CopyPath::Nothing) => "copy of nothing",
            HostWork::Copy(CopyPath::Queue) => "copy by a queue",
            HostWork::Copy(CopyPath::Peer) => "copy by a peer",
            HostWork::Copy(CopyPath::Host) => "copy by the host",
            HostWork::Copy(CopyPath::Staging) => "copy by staging",
        }
    }
}

impl Profile {
    /// Runs `closure` and gives what every device and the host did in rig meanwhile, on any thread: each submit that began
    /// while it ran. Work submitted before is not in it.
    ///
    /// Blocks, after the closure, until each of those values is reached or lost. While a profile is taken, submits cost a few
    /// allocations more, and some devices run each value by itself: a Metal device commits each in command buffers of its
    /// own. Several may be taken at the same time, and each sees all.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let x = device.buffer(1 << 20)?;
    /// let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
    /// answer?;
    /// let memset = profile.of(device.name()).flat_map(|value| &value.parts).find(|part| &*part.name == "memset");
    /// assert_eq!(memset.map(|part| part.bytes), Some(1 << 20));
    /// println!("{profile}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Invalid inside a fill or a kernel, which cannot wait; the closure has not run.
    pub fn take<R>(closure: impl FnOnce() -> R) -> Result<(R, Profile)> {
        if rig_edge::callback::inside() {
            return invalid!("a fill or a kernel takes no profile: take it around the submit");
        }
        let (answer, recorded) = collect(closure);
        Ok((answer, causal::profile(recorded)))
    }

    /// Writes the profile to a file as its name says: `.html` as a page ([`write_html`](Profile::write_html)), `.txt` as the
    /// text of its `Display`, and any other as a Chrome trace ([`write_chrome_trace`](Profile::write_chrome_trace)).
    ///
    /// A regular file takes the place of one that was there once it is whole, so nobody finds a part of it.
    ///
    /// # Errors
    ///
    /// Those of the file system; what was there is then as it was.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.buffer(1 << 20)?;
    /// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
    /// # answer?;
    /// let path = std::env::temp_dir().join(format!("profile-{}.txt", std::process::id()));
    /// profile.write_file(&path).map_err(|error| rig::Error::Refused(error.to_string()))?;
    /// # let _ = std::fs::remove_file(path);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write_file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        // A pipe or a terminal is written to, and not replaced.
        if fs::metadata(path).is_ok_and(|facts| !facts.is_file()) {
            return self.write_as(path, path);
        }
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        let part = Path::new(&part);
        self.write_as(path, part).and_then(|()| fs::rename(part, path)).inspect_err(|_| {
            // It may not be there, or not be removed: the first error is the one to tell.
            let _ = fs::remove_file(part);
        })
    }

    /// Writes to the file `to`, as the name of `path` says.
    fn write_as(&self, path: &Path, to: &Path) -> io::Result<()> {
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let mut file = BufWriter::new(fs::File::create(to)?);
        match ending.as_deref() {
            Some("html" | "htm") => self.write_html(file),
            Some("txt") => {
                write!(file, "{self}")?;
                file.flush()
            }
            _ => self.write_chrome_trace(file),
        }
    }

    /// The values of the devices of this name, in the order of their submits' ends.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.buffer(1 << 20)?;
    /// # let (answer, profile) = rig::Profile::take(|| x.memset(7))?;
    /// # answer?;
    /// assert!(profile.of(device.name()).count() >= 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn of<'a>(&'a self, device: &'a str) -> impl Iterator<Item = &'a ValueSpan> {
        self.values.iter().filter(move |value| &*value.device == device)
    }
}

/// A lock without poison: what it guards is plain lists.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
