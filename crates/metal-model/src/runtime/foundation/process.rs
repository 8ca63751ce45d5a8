//! `NSProcessInfo`: the version of the system that the program believes it runs on, and a little more.
//!
//! Each call of `processInfo` answers with an object of its own, so that no object outlives the program's use of it.

use std::{
    ffi::c_int,
    sync::{Mutex, PoisonError},
};

use objc2::{
    AllocAnyThread, ClassType, define_class, msg_send,
    rc::Retained,
    runtime::{NSObject, NSObjectProtocol},
};
use objc2_foundation::{NSOperatingSystemVersion, NSString};

use crate::runtime::class::export_class;

export_class!("NSProcessInfo", || {
    Process::class();
});

/// Answers major, minor and patch.
type Version = fn() -> [usize; 3];

static VERSION: Mutex<Version> = Mutex::new(|| [15, 0, 0]);

/// Says who knows the version of macOS that programs are told. Without it they are told 15.0.0.
pub fn version_comes_from(version: fn() -> [usize; 3]) {
    *VERSION.lock().unwrap_or_else(PoisonError::into_inner) = version;
}

/// Seconds since the system started, the clock of Metal's times too.
pub(crate) fn uptime() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn version() -> [usize; 3] {
    let version = *VERSION.lock().unwrap_or_else(PoisonError::into_inner);
    version()
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "NSProcessInfo"]
    pub(super) struct Process;

    unsafe impl NSObjectProtocol for Process {}

    impl Process {
        #[unsafe(method_id(processInfo))]
        fn this() -> Retained<Self> {
            let this = Process::alloc().set_ivars(());
            // SAFETY: `init` of the root class takes nothing and returns its receiver.
            unsafe { msg_send![super(this), init] }
        }

        #[unsafe(method(operatingSystemVersion))]
        fn version(&self) -> NSOperatingSystemVersion {
            let [major, minor, patch] = version().map(usize::cast_signed);
            NSOperatingSystemVersion { majorVersion: major, minorVersion: minor, patchVersion: patch }
        }

        #[unsafe(method(isOperatingSystemAtLeastVersion:))]
        fn is_at_least(&self, least: NSOperatingSystemVersion) -> bool {
            let least = [least.majorVersion, least.minorVersion, least.patchVersion];
            version().map(usize::cast_signed) >= least
        }

        #[unsafe(method(systemUptime))]
        fn uptime(&self) -> f64 {
            uptime()
        }

        #[unsafe(method_id(operatingSystemVersionString))]
        fn version_text(&self) -> Retained<NSString> {
            let [major, minor, patch] = version();
            NSString::from_str(&format!("Version {major}.{minor}.{patch}"))
        }

        #[unsafe(method_id(processName))]
        fn name(&self) -> Retained<NSString> {
            let program = std::env::current_exe().ok();
            let name = program.as_deref().and_then(std::path::Path::file_name);
            NSString::from_str(&name.unwrap_or_default().to_string_lossy())
        }

        #[unsafe(method(processIdentifier))]
        fn identifier(&self) -> c_int {
            std::process::id().cast_signed()
        }

        #[unsafe(method(processorCount))]
        fn processors(&self) -> usize {
            std::thread::available_parallelism().map_or(1, usize::from)
        }

        #[unsafe(method(activeProcessorCount))]
        fn active_processors(&self) -> usize {
            std::thread::available_parallelism().map_or(1, usize::from)
        }
    }
);
