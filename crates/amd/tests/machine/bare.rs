//! The driver without rig above it, as the interface has it.
//!
//! A [`Bare`] pays the debts of the unsafe calls: its parts and slots are its own, one thread makes its hot calls, and what
//! work uses is kept until its stop has returned.
#![expect(unsafe_code, reason = "calls a driver as rig does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rig_amd::{Amd, Entry, Image, Plan, Region, System};
use rig_edge::{
    Access, Block, Code, Copy, Driver, EntryAnswer, Grown, Launch, Location, Memory, Memset, Opener, Part, Ref, Room,
    Scratch, Sleep, Slot, Submitted, Timeline, Times, Wait, Word, WordIndex, Words, Work,
};

/// TIMEOUT: how long a test waits for work, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The words of these devices: from the middle of the table, where neither rig's nor the suite's come.
static TAKEN: AtomicUsize = AtomicUsize::new(2048);

/// A device.
pub struct Bare {
    pub driver: Amd,
    pub index: WordIndex,
    last: u64,
    kept: Vec<Region>,
    images: Vec<Image>,
}

/// Some work, to be submitted again and again.
pub struct Task {
    pub parts: Vec<Part<Amd>>,
    pub blocks: Vec<Block>,
    pub params: Vec<u64>,
    pub slots: Vec<Slot>,
    pub scratch: Vec<Scratch>,
    pub waits: Vec<Wait>,
    /// Where the driver notes when it ran.
    pub times: Option<Arc<Times>>,
    plan: Plan,
}

const NONE: Block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 0 };

impl Bare {
    /// Opens the GPU `gpu`, with the word standing at `start`.
    pub fn open(system: &System, gpu: usize, start: u64) -> Bare {
        let index = WordIndex::new(TAKEN.fetch_add(1, Ordering::Relaxed));
        Words::get().word(index).lift(start);
        let driver = system.gpu(gpu).make(Timeline::new(index)).unwrap();
        Bare { driver, index, last: start, kept: Vec::new(), images: Vec::new() }
    }

    pub fn word(&self) -> &'static Word {
        Words::get().word(self.index)
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    /// Memory of a kind, kept until the end.
    pub fn memory(&mut self, memory: Memory, len: usize) -> Location {
        let region = self.driver.alloc(memory, len).unwrap().expect("memory");
        let at = self.driver.locate(&region);
        self.kept.push(region);
        at
    }

    /// Submits the task as the next value, or gives room's answer.
    pub fn try_submit(&mut self, task: &mut Task) -> Result<u64, Room> {
        let Task { parts, blocks, params, slots, scratch, waits, times, plan } = task;
        let params = bytemuck_bytes(params);
        let times = times.as_ref();
        let mut work = Work { blocks, params, slots, apart: false, waits, scratch, times };
        // SAFETY: see the head of this file.
        let mut room = unsafe { self.driver.room(plan, parts, &mut work) };
        if room == Room::Grow {
            assert_eq!(self.driver.grow().unwrap(), Grown::Grown);
            // SAFETY: as above.
            room = unsafe { self.driver.room(plan, parts, &mut work) };
        }
        match room {
            Room::Ok => {}
            other => return Err(other),
        }
        self.last += 1;
        // SAFETY: see the head of this file.
        match unsafe { self.driver.submit(self.last, plan, parts, &mut work) } {
            Submitted::Committed => Ok(self.last),
            other => panic!("{other:?}"),
        }
    }

    /// Submits the task as the next value, waiting for room.
    pub fn submit(&mut self, task: &mut Task) -> u64 {
        let start = Instant::now();
        loop {
            match self.try_submit(task) {
                Ok(value) => return value,
                Err(Room::Later) => assert!(start.elapsed() < PATIENCE, "no room at {}", self.word().load()),
                Err(other) => panic!("{other:?}"),
            }
            std::thread::yield_now();
        }
    }

    /// Sleeps until the word shows `value`.
    pub fn wait(&self, value: u64) {
        let start = Instant::now();
        loop {
            let seen = self.word().load();
            if seen >= value {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the word stands at {seen} of {value}");
            self.driver.sleep(Sleep { seen, until: value, still: Duration::from_millis(50), help: false }).unwrap();
        }
    }

    /// Submits and waits.
    pub fn run(&mut self, task: &mut Task) -> u64 {
        let value = self.submit(task);
        self.wait(value);
        value
    }

    /// An image, its code copied to where it goes.
    pub fn image(&mut self, binary: &[u8]) -> usize {
        let Ok(Code::Place(place)) = self.driver.image(binary) else { panic!("a code object") };
        let to = self.memory(place.memory, place.len.next_multiple_of(4));
        self.image_at(binary, to)
    }

    /// An image, its code copied to memory that has room for it.
    pub fn image_at(&mut self, binary: &[u8], to: Location) -> usize {
        let Ok(Code::Place(place)) = self.driver.image(binary) else { panic!("a code object") };
        let stage = self.memory(Memory::Pinned, place.len.next_multiple_of(4));
        let (bytes, image) = (place.finish)(to).unwrap();
        // SAFETY: the region has these bytes, the host addresses them, and no work uses them yet.
        unsafe { stage.host.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let mut upload = Task::new(vec![copy(0, 1)], vec![slot(stage, 0, bytes.len()), slot(to, 0, bytes.len())]);
        self.run(&mut upload);
        self.images.push(image);
        self.images.len() - 1
    }

    pub fn entry(&self, image: usize, name: &str) -> Entry {
        match self.driver.entry(&self.images[image], name).unwrap() {
            EntryAnswer::Entry(entry, _) => entry,
            other => panic!("{other:?}"),
        }
    }

    /// Stops, and gives everything back.
    pub fn close(mut self) {
        self.driver.stop(None).unwrap();
        assert_eq!(self.word().load(), self.last, "stop ends the word");
        for image in self.images.drain(..) {
            // SAFETY: the word shows the end, so that no work runs.
            unsafe { self.driver.unload(image) }.unwrap();
        }
        for region in self.kept.drain(..) {
            // SAFETY: as above.
            unsafe { self.driver.free(region) }.unwrap();
        }
    }
}

fn bytemuck_bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any bytes of a word are bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

impl Task {
    pub fn new(parts: Vec<Part<Amd>>, slots: Vec<Slot>) -> Task {
        let n = parts.len();
        Task {
            parts,
            blocks: vec![NONE; n],
            params: Vec::new(),
            slots,
            scratch: vec![[0; 4]; n],
            waits: vec![],
            times: None,
            plan: Plan,
        }
    }

    /// Sets the grid and the parameters of the launch at `part`: words of 64 bits, of which the launch takes `bytes`.
    pub fn set(&mut self, part: usize, groups: u32, threads: u32, params: &[u64], bytes: u32) {
        let params_at = 8 * self.params.len() as u32;
        self.params.extend_from_slice(params);
        let (groups, threads) = ([groups, 1, 1], [threads, 1, 1]);
        self.blocks[part] = Block { groups, threads, group_bytes: 0, params_at, params_len: bytes };
    }
}

pub fn copy(from: u32, to: u32) -> Part<Amd> {
    Part::Copy(Copy { from, to })
}

pub fn memset(slot: u32, byte: u8) -> Part<Amd> {
    Part::Memset(Memset { slot, byte })
}

/// A launch whose slots stand at 0, 8 and so on.
pub fn launch(entry: &Entry, slots: &[u32]) -> Part<Amd> {
    let refs = slots.iter().zip(0..).map(|(&slot, at)| Ref { slot, at: 8 * at, access: Access::Write }).collect();
    Part::Launch(Launch { entry: entry.clone(), refs })
}

/// `len` bytes from `offset` on.
pub fn slot(at: Location, offset: usize, len: usize) -> Slot {
    let host = if at.host.is_null() { at.host } else { at.host.wrapping_add(offset) };
    Slot { device: at.device + offset as u64, host, len: len as u64, handle: at.handle, handle_offset: 0 }
}

/// The bytes of memory that the host addresses, and no work uses now.
pub fn bytes(at: Location, len: usize) -> Vec<u8> {
    // SAFETY: the callers name memory that is kept, of these bytes, which no work uses while they look.
    unsafe { std::slice::from_raw_parts(at.host, len) }.to_vec()
}

/// Fills memory that the host addresses, and no work uses now.
pub fn fill(at: Location, bytes: &[u8]) {
    // SAFETY: as in `bytes`.
    unsafe { at.host.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}
