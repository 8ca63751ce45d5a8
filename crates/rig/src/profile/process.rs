//! The profile of a whole process, which its environment asks for: `RIG_TRACE` names the files that it goes to.
//!
//! So any program is traced as it is, with nothing built anew. The first open looks at the environment, and from then on the
//! process takes one profile more; when it exits, the profile is written.
//!
//! Why at exit and not when the last device closes: a program may open and close devices any number of times, and may end with
//! some of them open, in statics, in other threads or leaked. The C library calls what is registered with it (`atexit`) in each
//! of these cases, also where the program calls `exit` or its `main` panics, and not where a signal or an abort ends it.
//!
//! # Invariants
//!
//! 1. Without the variable an open pays one look at a static, the first one at the environment, and nothing else pays.
//! 2. The exit waits for no work: what is not done by then is in the trace as submitted, with no time at which it ran.
//! 3. Handlers are registered after each open, and the last that is registered runs first: so the profile is written before a
//!    vendor's library, which an open loaded, takes itself down. The first that runs writes.
//! 4. Values are settled as soon as they are reached, so that a driver's objects do not add up over a long run; each once, by
//!    whoever moves `settled` past it, with no lock held.
//! 5. A profile ends after [`SPANS_MOST`] spans: a trace of a long run has a bound, and the run goes on.

use std::ffi::c_int;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rig_edge::times::{self, Span};

use super::record::{Recorded, Value, begin, end};
use super::{causal, lock};
use crate::device::refresh_own_words;
use crate::timeline::{State, timelines};

/// The variable: files, parted as in `PATH`. `%p` in a name is the process's number.
const VARIABLE: &str = "RIG_TRACE";

/// The most values and spans of the host in one trace, together: about 100 MB while it is taken, and a file that a viewer still
/// opens.
const SPANS_MOST: usize = 1 << 18;

/// What the environment asked for when the first device was opened.
static ASKED: OnceLock<Option<Asked>> = OnceLock::new();

struct Asked {
    files: Vec<PathBuf>,
    recorded: Arc<Recorded>,
    start: u64,
    /// The process that began: a fork of it writes nothing over its parent's file.
    process: u32,
    /// How many of the values were settled.
    settled: AtomicUsize,
    /// When the profile ended for its length, where it did.
    full: OnceLock<u64>,
}

/// Begins the profile, if the environment asks for one: called before each open.
pub(crate) fn look() {
    ASKED.get_or_init(|| {
        let asked = std::env::var_os(VARIABLE).filter(|files| !files.is_empty())?;
        let files = std::env::split_paths(&asked).filter(|file| !file.as_os_str().is_empty()).map(named).collect();
        let asked = Asked {
            files,
            recorded: Arc::new(Recorded::default()),
            start: times::now(),
            process: std::process::id(),
            settled: AtomicUsize::new(0),
            full: OnceLock::new(),
        };
        begin(&asked.recorded);
        Some(asked)
    });
}

/// Has the profile written at the process's exit, if there is one: called after each device that opened.
pub(crate) fn opened() {
    if asked().is_some() && !at_exit(write) {
        say("the system takes no more calls for its exit, so there may be no trace");
    }
}

/// What is to be done every now and then: called after each thing that was told to a profile.
pub(super) fn tend() {
    if let Some(asked) = asked() {
        asked.settle();
        asked.look_at_length();
    }
}

fn asked() -> Option<&'static Asked> {
    ASKED.get()?.as_ref()
}

/// The file, with the process's number where it is asked for.
fn named(file: PathBuf) -> PathBuf {
    match file.to_str() {
        Some(name) if name.contains("%p") => name.replace("%p", &std::process::id().to_string()).into(),
        _ => file,
    }
}

impl Asked {
    /// Settles the values that are reached, up to the first that is not.
    fn settle(&self) {
        loop {
            let next = self.settled.load(Ordering::Acquire);
            let Some(value) = lock(&self.recorded.values).get(next).cloned() else { return };
            if !is_over(&value) {
                return;
            }
            // ORDERING: who moves the count past a value settles it; nothing else is published by the count.
            if self.settled.compare_exchange(next, next + 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                value.times.settle();
            }
        }
    }

    /// Ends the profile where it is long enough.
    fn look_at_length(&self) {
        if lock(&self.recorded.values).len() + lock(&self.recorded.host).len() >= SPANS_MOST
            && self.full.set(times::now()).is_ok()
        {
            end(&self.recorded);
        }
    }

    /// Writes the profile.
    fn write(&self) {
        if self.full.get().is_none() {
            end(&self.recorded);
        }
        refresh_own_words();
        let values = lock(&self.recorded.values).clone();
        // Behind one that is still at work others may be done.
        values.iter().skip(self.settled.load(Ordering::Acquire)).filter(|value| is_over(value)).for_each(|value| {
            value.times.settle();
        });
        *lock(&self.recorded.span) = Some(Span { start: self.start, end: times::now() });
        let profile = causal::profile(Arc::clone(&self.recorded));
        if let Some(full) = self.full.get() {
            let after = std::time::Duration::from_nanos(full - self.start);
            say(&format!(
                "the trace ends {after:.1?} after the first open, with {SPANS_MOST} spans, the most that one has"
            ));
        }
        for file in &self.files {
            if let Err(why) = profile.write_file(file) {
                say(&format!("cannot write the trace {} (of the variable {VARIABLE}): {why}", file.display()));
            }
        }
    }
}

/// Whether the value is reached, or can no longer be.
fn is_over(value: &Value) -> bool {
    !matches!(timelines().state(value.stamp), State::Pending)
}

/// Says something to the user. A closed standard error loses it, and no more.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "rig: {what}");
}

/// Writes the profile, once.
extern "C" fn write() {
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    let Some(asked) = asked() else { return };
    if asked.process != std::process::id() || WRITTEN.swap(true, Ordering::AcqRel) {
        return;
    }
    // No panic may leave a function that C calls; the process ends in any case.
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| asked.write())).is_err() {
        say("the trace could not be made, by a mistake of rig's");
    }
}

/// Has `call` called when the process exits. False where the system has no room for it.
#[expect(unsafe_code, reason = "the C library's function")]
fn at_exit(call: extern "C" fn()) -> bool {
    // SAFETY: as the C standard declares it (ISO C 7.24.4.2): a function of no arguments, and 0 for success. The C library is
    // linked wherever the standard library is.
    unsafe extern "C" {
        fn atexit(call: extern "C" fn()) -> c_int;
    }
    // SAFETY: `call` is a function of this program, which never unwinds.
    unsafe { atexit(call) == 0 }
}
