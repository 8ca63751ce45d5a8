//! Machines of software Metal.

use std::time::{Duration, Instant};

use rig::Device;
use rig_metal_model::machine::{Builder, Entered, Machine};

/// TIMEOUT: how long a test waits for what takes milliseconds, on a machine that does much else.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A machine whose kernels compile fast, entered by the thread.
pub struct Mac {
    pub machine: Machine,
    _entered: Entered,
}

impl Mac {
    pub fn new() -> Mac {
        Mac::of(Machine::builder())
    }

    pub fn of(builder: Builder) -> Mac {
        let machine = builder.fast_compiles().build();
        Mac { _entered: machine.enter(), machine }
    }

    /// Opens the GPU.
    pub fn open(&self) -> Device {
        rig::open(rig_metal::gpu(0)).unwrap()
    }

    /// Sees that nothing of the machine lives any more, once Metal's own threads have released what they hold.
    #[track_caller]
    pub fn ends(&self) {
        self.machine.settle();
        let start = Instant::now();
        while self.machine.live() != 0 {
            assert!(start.elapsed() < PATIENCE, "this still lives: {:?}", self.machine.counts());
            std::thread::yield_now();
        }
    }

    /// Runs what must not wait for compiles that are held. Where it does, the hold ends, and with it the test.
    #[track_caller]
    pub fn waits_for_no_compile<T: Send>(&self, what: &str, call: impl FnOnce() -> T + Send) -> T {
        let machine = &self.machine;
        std::thread::scope(|scope| {
            let call = scope.spawn(move || {
                let _entered = machine.enter();
                call()
            });
            let start = Instant::now();
            while !call.is_finished() {
                if start.elapsed() > PATIENCE {
                    machine.release_compiles();
                    panic!("{what} waits for a compile");
                }
                std::thread::yield_now();
            }
            call.join().unwrap()
        })
    }

    /// Living objects of a class of the machine.
    pub fn live(&self, class: &str) -> isize {
        self.machine.counts().live.iter().filter(|(name, _)| name.contains(class)).map(|(_, count)| count).sum()
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "{what} was due");
        std::thread::yield_now();
    }
}
