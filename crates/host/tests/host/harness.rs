//! Drives a host device through the driver interface alone, as rig would.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rig_edge::{
    Access, Block, Code, Copy, Driver, EntryAnswer, Fill, FillFn, ImageError, Launch, Location, Memory, Memset, Opener,
    Part, Ref, Room, Scratch, Sleep, Slot, Submitted, Timeline, Word, WordIndex, Work,
};
use rig_host::{Entry, Host, Image, Plan, Region};

/// A device and what rig keeps of it.
pub struct Device {
    pub driver: Host,
    pub word: &'static Word,
    pub last: u64,
}

/// A region with its place.
pub struct Memo {
    /// Kept: dropping it frees the memory.
    _region: Region,
    pub location: Location,
    pub len: usize,
}

/// One submission and its run.
pub struct Run {
    pub plan: Plan,
    pub parts: Vec<Part<Host>>,
    pub blocks: Vec<Block>,
    pub params: Vec<u64>,
    pub slots: Vec<Slot>,
    pub scratch: Vec<Scratch>,
}

/// A timeline of its own for each device of the test process.
pub fn timeline() -> Timeline {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    Timeline::new(WordIndex::new(NEXT.fetch_add(1, Ordering::Relaxed)))
}

pub fn open<O: Opener<Driver = Host>>(opener: O) -> Device {
    let timeline = timeline();
    let driver = opener.make(timeline).unwrap();
    Device { driver, word: timeline.word(), last: timeline.word().load() }
}

/// Every host device, for tests of what they have in common.
pub fn both() -> [Device; 2] {
    [open(rig_host::memory()), open(rig_host::cores())]
}

impl Device {
    pub fn memory(&self, len: usize) -> Memo {
        let region = self.driver.alloc(Memory::Device, len).unwrap().unwrap();
        let location = self.driver.locate(&region);
        Memo { _region: region, location, len }
    }

    pub fn image(&self, bytes: &[u8]) -> Result<Image, String> {
        match self.driver.image(bytes) {
            Ok(Code::Loaded(image)) => Ok(image),
            Ok(Code::Place(_)) => panic!("host images are loaded at once"),
            Err(ImageError::Refused(why)) => Err(why),
            Err(other) => panic!("{other:?}"),
        }
    }

    pub fn entry(&self, image: &Image, name: &str) -> Entry {
        match self.driver.entry(image, name).unwrap() {
            EntryAnswer::Entry(entry, _) => entry,
            other => panic!("{other:?}"),
        }
    }

    #[expect(unsafe_code, reason = "the harness stands for rig")]
    pub fn room(&self, run: &mut Run) -> Room {
        let (mut work, plan, parts) = run.work();
        // SAFETY: a test keeps memory and code until the work is done, and makes one hot call at a time.
        unsafe { self.driver.room(plan, parts, &mut work) }
    }

    pub fn try_submit(&mut self, run: &mut Run) -> Submitted {
        self.last += 1;
        self.submit_as(self.last, run)
    }

    /// Submits as the value `value`, which is the next.
    #[expect(unsafe_code, reason = "the harness stands for rig")]
    pub fn submit_as(&self, value: u64, run: &mut Run) -> Submitted {
        let (mut work, plan, parts) = run.work();
        // SAFETY: as in `room`; the value is the next.
        unsafe { self.driver.submit(value, plan, parts, &mut work) }
    }

    /// Submits and gives the value.
    pub fn submit(&mut self, run: &mut Run) -> u64 {
        assert_eq!(self.room(run), Room::Ok);
        assert_eq!(self.try_submit(run), Submitted::Committed);
        self.last
    }

    /// Waits for a value as rig does.
    pub fn wait(&self, until: u64, help: bool) -> Result<(), String> {
        loop {
            let seen = self.word.load();
            if seen >= until {
                return Ok(());
            }
            self.driver.commit(until).map_err(|fault| fault.reason)?;
            let sleep = Sleep { seen, until, still: Duration::from_secs(1), help };
            self.driver.sleep(sleep).map_err(|fault| fault.reason)?;
        }
    }

    /// Submits and waits.
    pub fn run(&mut self, run: &mut Run) -> Result<(), String> {
        assert_eq!(self.room(run), Room::Ok);
        if let Submitted::Failed(fault) = self.try_submit(run) {
            return Err(fault.reason);
        }
        self.wait(self.last, true)
    }
}

impl Memo {
    pub fn slot(&self) -> Slot {
        Slot {
            device: self.location.device,
            host: self.location.host,
            len: self.len as u64,
            handle: std::ptr::null(),
            handle_offset: 0,
        }
    }

    /// The bytes as values. Only while no work uses them.
    #[expect(unsafe_code, reason = "the harness stands for rig")]
    #[expect(clippy::mut_from_ref, reason = "each test uses one slice at a time")]
    pub fn values<T: bytemuck::Pod>(&self) -> &mut [T] {
        // SAFETY: the region holds so many initialised bytes, and no work uses them now.
        unsafe { std::slice::from_raw_parts_mut(self.location.host.cast(), self.len / size_of::<T>()) }
    }
}

impl Run {
    pub fn new(device: &Device, parts: Vec<Part<Host>>, slots: Vec<Slot>) -> Run {
        let plan = device.driver.plan(&parts).unwrap();
        let block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 0 };
        let (blocks, scratch) = (vec![block; parts.len()], vec![[0; 4]; parts.len()]);
        Run { plan, parts, blocks, params: Vec::new(), slots, scratch }
    }

    /// Gives part `at` its grid and parameters; the parameters begin with as many refs as the launch has.
    pub fn set(&mut self, at: usize, groups: [u32; 3], threads: [u32; 3], scalars: &[u64]) {
        let Part::Launch(launch) = &self.parts[at] else { panic!("part {at} is no launch") };
        let params_at = 8 * self.params.len() as u32;
        self.params.extend(launch.refs.iter().map(|_| 0));
        self.params.extend(scalars);
        let params_len = 8 * self.params.len() as u32 - params_at;
        self.blocks[at] = Block { groups, threads, group_bytes: 0, params_at, params_len };
    }

    fn work(&mut self) -> (Work<'_>, &mut Plan, &[Part<Host>]) {
        let work = Work {
            blocks: &self.blocks,
            params: bytemuck::cast_slice(&self.params),
            slots: &self.slots,
            apart: false,
            waits: &[],
            scratch: &mut self.scratch,
            times: None,
        };
        (work, &mut self.plan, &self.parts)
    }
}

/// A launch whose refs are the slots, each written, one after the other from the parameters' start.
pub fn launch(entry: &Entry, slots: &[u32]) -> Part<Host> {
    let refs = slots.iter().enumerate();
    let refs = refs.map(|(i, &slot)| Ref { slot, at: 8 * i as u32, access: Access::Write }).collect();
    Part::Launch(Launch { entry: entry.clone(), refs })
}

pub fn copy(from: u32, to: u32) -> Part<Host> {
    Part::Copy(Copy { from, to })
}

pub fn memset(slot: u32, byte: u8) -> Part<Host> {
    Part::Memset(Memset { slot, byte })
}

pub fn fill(code: Box<FillFn<Host>>) -> Part<Host> {
    Part::Fill(Fill { code })
}
