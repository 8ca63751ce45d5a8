//! The driver without rig: a caller that pays every debt of the interface.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rig_edge::{
    Access, Block, Code, Driver, EntryAnswer, Fill, FillFn, Grown, Launch, Location, Memory, Opener, Part, Ref, Room,
    Scratch, Sleep, Slot, Submitted, Timeline, WORDS_MAX, Word, WordIndex, Words, Work,
};
use rig_metal::{Entry, Image, Metal, Region};

use super::machine::PATIENCE;

/// The words of these devices: from the end of the table, where rig's own devices come last.
static TAKEN: AtomicUsize = AtomicUsize::new(1);

/// A device, the suite's kernels, and a region for them to write.
pub struct Direct {
    pub driver: Metal,
    pub index: WordIndex,
    pub start: u64,
    pub last: u64,
    pub image: Option<Image>,
    pub region: Option<Region>,
    pub at: Location,
}

/// The elements of the region.
pub const ELEMENTS: u32 = 64;

/// A launch of one function over the region.
pub struct Step {
    pub parts: Vec<Part<Metal>>,
    pub blocks: Vec<Block>,
    pub params: Vec<u64>,
    pub scratch: Vec<Scratch>,
}

impl Direct {
    pub fn new() -> Direct {
        let mut direct = Direct::bare();
        let image = direct.load("suite");
        direct.image = Some(image);
        let region = direct.driver.alloc(Memory::Device, 4 * ELEMENTS as usize).unwrap().unwrap();
        direct.at = direct.driver.locate(&region);
        direct.region = Some(region);
        direct
    }

    /// A device alone.
    pub fn bare() -> Direct {
        let index = WordIndex::new(WORDS_MAX - TAKEN.fetch_add(1, Ordering::Relaxed));
        let driver = rig_metal::gpu(0).make(Timeline::new(index)).unwrap();
        let start = Words::get().word(index).load();
        let at = Location { device: 0, host: std::ptr::null_mut(), handle: std::ptr::null() };
        Direct { driver, index, start, last: start, image: None, region: None, at }
    }

    pub fn word(&self) -> &'static Word {
        Words::get().word(self.index)
    }

    /// What the word shows, counted from the device's first value.
    pub fn shown(&self) -> u64 {
        self.word().load() - self.start
    }

    pub fn load(&self, name: &str) -> Image {
        match self.driver.image(&super::library(name)) {
            Ok(Code::Loaded(image)) => image,
            Ok(Code::Place(_)) => panic!("a library is loaded as it stands"),
            Err(why) => panic!("{why:?}"),
        }
    }

    pub fn entry(&self, image: &Image, name: &str) -> Entry {
        match self.driver.entry(image, name).unwrap() {
            EntryAnswer::Entry(entry, _) => entry,
            other => panic!("{other:?}"),
        }
    }

    /// A function of the suite.
    pub fn function(&self, name: &str) -> Entry {
        self.entry(self.image.as_ref().unwrap(), name)
    }

    /// A step of launches of a function of the suite, one a `[n, scalar]`.
    pub fn step(&self, name: &str, scalars: &[[u32; 2]]) -> Step {
        let mut step = Step::empty();
        for scalars in scalars {
            step.launch(self.function(name), 16);
            let at = step.params.len() - 1;
            step.params[at] = bytemuck::cast(*scalars);
        }
        step
    }

    /// One `iota` from `start`.
    pub fn iota(&self, start: u32) -> Step {
        self.step("iota", &[[ELEMENTS, start]])
    }

    /// A fill alone.
    pub fn fill(
        &self,
        code: impl for<'e> Fn(&mut rig_metal::Encoder<'e>, &[Slot]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Step {
        let mut step = Step::empty();
        step.fill(Box::new(code));
        step
    }

    fn slots(&self) -> [Slot; 1] {
        let Location { device, host, handle } = self.at;
        [Slot { device, host, len: u64::from(4 * ELEMENTS), handle, handle_offset: 0 }]
    }

    /// What room says.
    pub fn room(&self, step: &mut Step) -> Room {
        let slots = self.slots();
        let (parts, mut work) = step.work(&slots);
        // SAFETY: the slot is the region, and this thread makes the only hot calls.
        #[expect(unsafe_code, reason = "calls the driver as rig does")]
        unsafe {
            self.driver.room(&mut (), parts, &mut work)
        }
    }

    /// Submits the step as the next value, growing as room asks. Panics at Later and at a refusal.
    pub fn submit(&mut self, step: &mut Step) -> Submitted {
        loop {
            match self.room(step) {
                Room::Ok => break,
                Room::Grow => assert_eq!(self.driver.grow().unwrap(), Grown::Grown),
                other => panic!("{other:?}"),
            }
        }
        self.hand_over(step)
    }

    /// Submits a step that room has answered Ok for.
    pub fn hand_over(&mut self, step: &mut Step) -> Submitted {
        self.last += 1;
        let slots = self.slots();
        let (parts, mut work) = step.work(&slots);
        // SAFETY: as for room, which answered Ok for this work; what it uses is given back after the word shows it.
        #[expect(unsafe_code, reason = "calls the driver as rig does")]
        unsafe {
            self.driver.submit(self.last, &mut (), parts, &mut work)
        }
    }

    /// Sleeps until the word shows the value `count`, counted from the device's first.
    #[track_caller]
    pub fn wait(&self, count: u64) {
        let start = Instant::now();
        loop {
            let seen = self.word().load();
            if seen >= self.start + count {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the word stands at {} of {count}", seen - self.start);
            let sleep = Sleep { seen, until: self.start + count, still: Duration::from_millis(100), help: false };
            self.driver.sleep(sleep).unwrap();
        }
    }

    /// The region's words.
    pub fn words(&self) -> Vec<u32> {
        // SAFETY: the region has these bytes, and the test has waited for the work.
        #[expect(unsafe_code, reason = "looks at the region")]
        unsafe { std::slice::from_raw_parts(self.at.host.cast(), ELEMENTS as usize) }.to_vec()
    }

    /// Stops the device, waits for the word's end, and gives all back.
    pub fn close(mut self) {
        self.driver.stop(None).unwrap();
        super::machine::until("the word's end", || self.word().load() >= self.last);
        self.give_back();
    }

    /// Gives back what was made, after the word's end.
    pub fn give_back(&mut self) {
        if let Some(image) = self.image.take() {
            self.unload(image);
        }
        if let Some(region) = self.region.take() {
            // SAFETY: the word shows the end, so that no work runs.
            #[expect(unsafe_code, reason = "calls the driver as rig does")]
            unsafe { self.driver.free(region) }.unwrap();
        }
    }

    /// Unloads an image that no work runs any more.
    pub fn unload(&self, image: Image) {
        // SAFETY: the test has waited for its work.
        #[expect(unsafe_code, reason = "calls the driver as rig does")]
        unsafe { self.driver.unload(image) }.unwrap();
    }
}

impl Step {
    pub fn empty() -> Step {
        Step { parts: Vec::new(), blocks: Vec::new(), params: Vec::new(), scratch: Vec::new() }
    }

    /// Adds a launch with one ref to the region, at 0, and `params` bytes of parameters.
    pub fn launch(&mut self, entry: Entry, params: u32) -> &mut Block {
        let refs = if params < 8 { vec![] } else { vec![Ref { slot: 0, at: 0, access: Access::Write }] };
        self.parts.push(Part::Launch(Launch { entry, refs: refs.into() }));
        let params_at = 8 * self.params.len() as u32;
        self.params.resize(self.params.len() + params.div_ceil(8) as usize, 0);
        self.scratch.push([0; 4]);
        self.blocks.push(Block {
            groups: [1; 3],
            threads: [ELEMENTS, 1, 1],
            group_bytes: 0,
            params_at,
            params_len: params,
        });
        self.blocks.last_mut().unwrap()
    }

    pub fn fill(&mut self, code: Box<FillFn<Metal>>) {
        self.parts.push(Part::Fill(Fill { code }));
        self.scratch.push([0; 4]);
        self.blocks.push(Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 0 });
    }

    fn work<'a>(&'a mut self, slots: &'a [Slot]) -> (&'a [Part<Metal>], Work<'a>) {
        let work = Work {
            blocks: &self.blocks,
            params: bytemuck::cast_slice(&self.params),
            slots,
            apart: true,
            waits: &[],
            scratch: &mut self.scratch,
            times: None,
        };
        (&self.parts, work)
    }
}
