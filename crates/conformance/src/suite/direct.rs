//! The driver's own interface, without rig above it: what rig would otherwise hide.
//!
//! A case here is the caller that the interface describes: it pays every debt of the unsafe calls.
#![expect(unsafe_code, reason = "the suite calls a driver as rig does")]

mod mapping;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rig_edge::{
    Access, Block, Code, Completion, Driver, EntryAnswer, Launch, Location, Memory, Opener, Part, PlanError, Ref, Room,
    Scratch, Sleep, Slot, Submitted, Timeline, WORD_BYTES, WORDS_MAX, Wait, WordIndex, WordSource, Words, Work,
};

use super::Fixtures;
use super::kit::not_here;

pub use mapping::{
    a_mapping_of_host_memory_is_whole_pages_and_reaches_their_last_word,
    a_pci_function_is_told_how_it_reaches_memory_or_why_it_cannot,
    memory_is_mapped_twice_for_a_peer_and_each_mapping_lasts_until_it_is_freed,
    whether_devices_are_peers_is_the_same_before_and_after_a_stop,
};

/// TIMEOUT: how long a case waits for work of some milliseconds, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a direct submit asks room again, or grows, before it gives up.
const ROOMS: u32 = 100_000;

/// The words of these cases: from the end of the table, where rig's own devices come last.
static TAKEN: AtomicUsize = AtomicUsize::new(1);

/// A driver without rig.
struct Direct<D: Driver> {
    driver: D,
    index: WordIndex,
    start: u64,
    submitted: AtomicU64,
    stopped: bool,
}

impl<D: Driver> Direct<D> {
    fn open(opener: &impl Opener<Driver = D>) -> Direct<D> {
        let index = WordIndex::new(WORDS_MAX - TAKEN.fetch_add(1, Ordering::Relaxed));
        let driver = opener.make(Timeline::new(index)).unwrap();
        let mut direct = Direct { driver, index, start: 0, submitted: AtomicU64::new(0), stopped: false };
        direct.start = direct.shown();
        direct.submitted.store(direct.start, Ordering::Relaxed);
        direct
    }

    fn shown(&self) -> u64 {
        match self.driver.facts().word {
            WordSource::Given => Words::get().word(self.index).load(),
            WordSource::Own => self.driver.signaled(),
        }
    }

    fn last(&self) -> u64 {
        self.submitted.load(Ordering::Relaxed)
    }

    /// Sleeps until the word shows `value`.
    fn wait(&self, value: u64) {
        let start = Instant::now();
        loop {
            let seen = self.shown();
            if seen >= value {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the word stands at {seen} of {value}");
            self.driver.sleep(Sleep { seen, until: value, still: Duration::from_millis(20), help: true }).unwrap();
        }
    }

    /// Sleeps once, for a moment.
    fn doze(&self, until: u64) {
        let seen = self.shown();
        if seen < until {
            self.driver.sleep(Sleep { seen, until, still: Duration::from_millis(2), help: true }).unwrap();
        }
    }

    /// Memory, which may be short for a moment: rig asks as often (C17).
    fn alloc(&self, memory: Memory, len: usize) -> D::Region {
        let region = (0..4).find_map(|_| self.driver.alloc(memory, len).unwrap());
        region.unwrap_or_else(|| panic!("no memory for {len} bytes of {memory:?}"))
    }

    /// An entry, whose memory may be short for a moment.
    fn entry(&self, image: &D::Image, name: &str) -> EntryAnswer<D::Entry> {
        let asked = || self.driver.entry(image, name).unwrap();
        (0..3).map(|_| asked()).find(|answer| !matches!(answer, EntryAnswer::NoMemory(_))).unwrap_or_else(asked)
    }

    /// Stops the driver and waits for the word's end. Called once.
    fn stop(&mut self) {
        self.driver.stop(None).unwrap();
        self.stopped = true;
        let start = Instant::now();
        while self.shown() < self.last() {
            assert!(start.elapsed() < PATIENCE, "stop left the word at {} of {}", self.shown(), self.last());
            std::thread::yield_now();
        }
    }

    /// Stops, gives back what the case made, and the word of the driver's own.
    fn close(mut self, iota: Option<Iota<D>>) {
        self.stop();
        if let Some(Iota { image, parts, plan, region, code, .. }) = iota {
            drop((parts, plan));
            // SAFETY: the word shows the end, so that no work runs; the entries are dropped.
            unsafe { self.driver.unload(image) }.unwrap();
            for region in [Some(region), code].into_iter().flatten() {
                // SAFETY: as above, and nobody holds a slice over it.
                unsafe { self.driver.free(region) }.unwrap();
            }
        }
        if self.driver.facts().word == WordSource::Own {
            self.driver.free_word();
        }
    }
}

/// A submission of one `iota`, or of a `spin`, and the memory that it writes.
struct Iota<D: Driver> {
    image: D::Image,
    parts: Vec<Part<D>>,
    plan: D::Plan,
    region: D::Region,
    /// Where the code was placed.
    code: Option<D::Region>,
    at: Location,
    params: Vec<u64>,
    block: Block,
    scratch: Vec<Scratch>,
}

const ELEMENTS: u32 = 256;
const BYTES: usize = 4 * ELEMENTS as usize;

impl<D: Driver> Direct<D> {
    /// Loads the fixtures' image; `None` where its code goes to memory that the host does not address, and the device copies
    /// nothing.
    fn image(&self, binary: &[u8]) -> Option<(D::Image, Option<D::Region>)> {
        let place = match self.driver.image(binary) {
            Ok(Code::Loaded(image)) => return Some((image, None)),
            Ok(Code::Place(place)) => place,
            Err(why) => panic!("{why:?}"),
        };
        let region = self.alloc(place.memory, place.len.next_multiple_of(WORD_BYTES));
        let at = self.driver.locate(&region);
        if at.host.is_null() && !self.driver.facts().kinds().copy {
            not_here("its code lies where the host does not reach, and it copies nothing");
            // SAFETY: nothing uses it.
            unsafe { self.driver.free(region) }.unwrap();
            return None;
        }
        let (bytes, image) = (place.finish)(at).unwrap();
        assert!(bytes.len() <= place.len);
        if at.host.is_null() {
            self.upload(&bytes, at);
        } else {
            // SAFETY: the region has room for the bytes, the host addresses it, and no work of the device runs yet.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.host, bytes.len()) };
        }
        Some((image, Some(region)))
    }

    /// Puts bytes where the host does not reach, as rig does: by a copy of the device's, from memory that stays in place.
    fn upload(&self, bytes: &[u8], to: Location) {
        let stage = self.alloc(Memory::Pinned, bytes.len().next_multiple_of(WORD_BYTES));
        let from = self.driver.locate(&stage);
        // SAFETY: the region has room for the bytes, the host addresses it, and no work of the device uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), from.host, bytes.len()) };
        let parts = [Part::Copy(rig_edge::Copy { from: 0, to: 1 })];
        let mut plan = self.driver.plan(&parts).unwrap_or_else(|why: PlanError| panic!("{why:?}"));
        let slots = [from, to].map(|at| {
            let Location { device, host, handle } = at;
            Slot { device, host, len: bytes.len() as u64, handle, handle_offset: 0 }
        });
        let block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 0 };
        let work = Of { blocks: &[block], params: &[], slots: &slots, waits: &[] };
        let (value, committed) = self.hand_in(&mut plan, &parts, &work, &mut [[0; 4]]);
        if !committed {
            self.driver.commit(value).unwrap();
        }
        self.wait(value);
        // SAFETY: the copy is done, and nobody holds a slice over it.
        unsafe { self.driver.free(stage) }.unwrap();
    }

    fn iota<F: Fixtures>(&self, f: &F) -> Option<Iota<D>> {
        self.launch_of(f, "iota")
    }

    fn launch_of<F: Fixtures>(&self, f: &F, name: &str) -> Option<Iota<D>> {
        let (image, code) = self.image(&f.image())?;
        let EntryAnswer::Entry(entry, facts) = self.entry(&image, name) else { panic!("the image has no {name}") };
        let refs = vec![Ref { slot: 0, at: 0, access: Access::Write }].into_boxed_slice();
        let parts = vec![Part::Launch(Launch { entry, refs })];
        let plan = self.driver.plan(&parts).unwrap_or_else(|why: PlanError| panic!("{why:?}"));
        // Memory that the host addresses, where there is some, so that the case can look at it.
        let region = self.alloc(Memory::Mapped, BYTES);
        let at = self.driver.locate(&region);
        let params_len = facts.params.unwrap_or(16);
        let (groups, threads) = f.grid(ELEMENTS);
        let block = Block { groups, threads, group_bytes: 0, params_at: 0, params_len: params_len as u32 };
        let params = vec![0; params_len.div_ceil(8)];
        Some(Iota { image, parts, plan, region, code, at, params, block, scratch: vec![[0; 4]] })
    }

    /// Submits the iota from `start` as the next value, with all that room asks for. Gives the value, and whether it is
    /// committed.
    fn submit(&self, iota: &mut Iota<D>, start: u32) -> (u64, bool) {
        self.submit_after(iota, start, &[])
    }

    fn submit_after(&self, iota: &mut Iota<D>, start: u32, waits: &[Wait]) -> (u64, bool) {
        let scalars: [u32; 2] = [ELEMENTS, start];
        iota.params[0] = 0;
        iota.params[1] = bytemuck::cast(scalars);
        let Location { device, host, handle } = iota.at;
        let slots = [Slot { device, host, len: BYTES as u64, handle, handle_offset: 0 }];
        let params = &bytemuck::cast_slice(&iota.params)[..iota.block.params_len as usize];
        let work = Of { blocks: &[iota.block], params, slots: &slots, waits };
        self.hand_in(&mut iota.plan, &iota.parts, &work, &mut iota.scratch)
    }

    /// Submits work as the next value, with all that room asks for. Gives the value, and whether it is committed.
    fn hand_in(&self, plan: &mut D::Plan, parts: &[Part<D>], of: &Of<'_>, scratch: &mut [Scratch]) -> (u64, bool) {
        let Of { blocks, params, slots, waits } = *of;
        for _ in 0..ROOMS {
            let mut work = Work { blocks, params, slots, apart: true, waits, scratch: &mut *scratch, times: None };
            // SAFETY: parts and plan were made together for this driver, each slot is inside its region, and this thread
            // makes the only hot calls.
            match unsafe { self.driver.room(plan, parts, &mut work) } {
                Room::Ok => {}
                Room::Later => {
                    let (shown, last) = (self.shown(), self.last());
                    assert!(shown < last, "Later with nothing in flight");
                    self.driver.commit(last).unwrap();
                    self.wait(shown + 1);
                    continue;
                }
                Room::Grow => {
                    self.driver.grow().unwrap();
                    continue;
                }
                Room::Refused(why) => panic!("{why}"),
            }
            let value = self.last() + 1;
            self.submitted.store(value, Ordering::Relaxed);
            // SAFETY: as for room, which answered Ok for this work; what it uses is given back after the word shows it.
            match unsafe { self.driver.submit(value, plan, parts, &mut work) } {
                Submitted::Committed => return (value, true),
                Submitted::Encoded => return (value, false),
                Submitted::Failed(fault) => panic!("{fault}"),
            }
        }
        panic!("room was asked {ROOMS} times");
    }
}

/// One submit, but for the scratch.
struct Of<'a> {
    blocks: &'a [Block],
    params: &'a [u8],
    slots: &'a [Slot],
    waits: &'a [Wait],
}

/// Promises E02, E40.
pub fn facts_are_sound_and_stay<F: Fixtures>(f: &F) {
    let opener = f.opener();
    assert!(!opener.name().is_empty());
    assert_eq!(opener.name(), opener.name());
    let direct = Direct::open(&opener);
    let facts = direct.driver.facts();
    assert!(!facts.arch.is_empty());
    assert!(facts.budget > 0);
    assert!(facts.alignment.is_power_of_two());
    assert!(facts.cache_bytes.is_none_or(usize::is_power_of_two));
    assert!(!facts.queues.is_empty());
    assert!(facts.kinds().launch, "the suite is for devices that run kernels");
    assert!(facts.queues.iter().all(|queue| !queue.name.is_empty()));
    if let Some(engine) = &facts.copy_engine {
        let queue = facts.queues.iter().find(|queue| queue.name == *engine);
        assert!(queue.is_some_and(|queue| queue.kinds.copy), "the copy engine {engine} is a queue that copies");
    }
    assert!(facts.hang.is_none_or(|hang| hang >= Duration::from_millis(100)), "{:?}", facts.hang);
    assert_eq!(facts.waits.most > 0, facts.waits.stores || facts.waits.hosts);
    assert_eq!(format!("{facts:?}"), format!("{:?}", direct.driver.facts()));
    direct.close(None);
}

/// Promises E04, C33, E27.
pub fn regions_are_aligned_and_fresh_ones_are_zero<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let driver = &direct.driver;
    let alignment = driver.facts().alignment as u64;
    let mut regions = Vec::new();
    for memory in [Memory::Device, Memory::Pinned, Memory::Mapped] {
        for len in [4, 8, 4096, 4100, 1 << 20] {
            let region = direct.alloc(memory, len);
            let at = driver.locate(&region);
            assert!(at.device != 0 && at.device.is_multiple_of(alignment), "{len} bytes of {memory:?} at {at:?}");
            let host_sees = memory != Memory::Device || driver.facts().host_addresses;
            assert!(!host_sees || !at.host.is_null(), "the host addresses {memory:?} memory");
            if !at.host.is_null() {
                // SAFETY: the region has this many bytes, the host addresses them, and no work of the device runs.
                let bytes = unsafe { std::slice::from_raw_parts(at.host, len) };
                assert!(bytes.iter().all(|&byte| byte == 0), "fresh {memory:?} memory is zero");
            }
            regions.push((at.device, len as u64, region));
        }
    }
    for (i, (at, len, _)) in regions.iter().enumerate() {
        let apart = |(b, n, _): &(u64, u64, D<F>)| at + len <= *b || b + n <= *at;
        assert!(regions.iter().enumerate().all(|(j, other)| i == j || apart(other)), "regions overlap");
    }
    for (.., region) in regions {
        // SAFETY: no work ran.
        unsafe { driver.free(region) }.unwrap();
    }
    assert!(driver.alloc(Memory::Device, 1 << 60).unwrap().is_none(), "no memory is None, and no fault");
    direct.close(None);
}

/// A region of the fixtures' driver.
type D<F> = <<<F as Fixtures>::Opener as Opener>::Driver as Driver>::Region;

/// Promises E05, E06, E31, E32.
pub fn an_entry_is_made_once_and_an_absent_one_lists_names<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let Some((image, code)) = direct.image(&f.image()) else { return direct.close(None) };
    let driver = &direct.driver;
    driver.prepare(&image, "iota");
    driver.prepare(&image, "iota");
    driver.prepare(&image, "no_such_function");
    let facts = |name: &str| match direct.entry(&image, name) {
        EntryAnswer::Entry(_, facts) => facts,
        _ => panic!("{name} has an entry"),
    };
    assert_eq!(facts("iota"), facts("iota"));
    driver.prepare(&image, "iota");
    assert!(facts("add").params.is_none_or(|bytes| bytes >= 20));
    match direct.entry(&image, "no_such_function") {
        EntryAnswer::Absent { names } => assert!(names.iter().any(|name| name == "iota"), "{names:?}"),
        _ => panic!("the image has no such function"),
    }
    // SAFETY: no work ran, and the entries are dropped.
    unsafe { driver.unload(image) }.unwrap();
    if let Some(code) = code {
        // SAFETY: as above.
        unsafe { driver.free(code) }.unwrap();
    }
    direct.close(None);
}

/// Promises E10, E18, E42.
pub fn a_committed_value_completes_and_its_work_is_seen<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let Some(mut iota) = direct.iota(f) else { return direct.close(None) };
    for start in [5, 9, 1000] {
        let (value, committed) = direct.submit(&mut iota, start);
        if !committed {
            direct.driver.commit(value).unwrap();
        }
        // No later value comes before this one is seen.
        direct.wait(value);
        if !iota.at.host.is_null() {
            // SAFETY: the region has this many words, and the word shows that the work which wrote them is done.
            let words = unsafe { std::slice::from_raw_parts(iota.at.host.cast::<u32>(), ELEMENTS as usize) };
            assert!(words.iter().zip(start..).all(|(&y, i)| y == i), "the host sees what the value wrote");
        }
    }
    let (first, _) = direct.submit(&mut iota, 1);
    let (last, _) = direct.submit(&mut iota, 2);
    direct.driver.commit(last).unwrap();
    direct.driver.commit(first).unwrap();
    direct.wait(last);
    direct.close(Some(iota));
}

/// Promise E11.
pub fn the_word_only_rises<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let Some(mut iota) = direct.iota(f) else { return direct.close(None) };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut before = direct.start;
            while !done.load(Ordering::Relaxed) {
                let (shown, last) = (direct.shown(), direct.last());
                assert!(before <= shown, "the word fell from {before} to {shown}");
                // `last` was read after the word, and values are noted before they are submitted.
                assert!(shown <= last, "the word shows {shown}, and {last} is the last value");
                before = shown;
                std::thread::yield_now();
            }
        });
        for i in 0..300 {
            direct.submit(&mut iota, i);
        }
        direct.driver.commit(direct.last()).unwrap();
        direct.wait(direct.last());
        done.store(true, Ordering::Relaxed);
    });
    direct.close(Some(iota));
}

/// Promise E12.
pub fn sleep_returns_when_the_word_moved_and_when_its_time_is_over<F: Fixtures>(f: &F) {
    let direct = Direct::open(&f.opener());
    let Some(mut iota) = direct.iota(f) else { return direct.close(None) };
    let (value, _) = direct.submit(&mut iota, 1);
    direct.driver.commit(value).unwrap();
    direct.wait(value);
    let long = Sleep { seen: value - 1, until: value + 1, still: PATIENCE, help: true };
    let start = Instant::now();
    direct.driver.sleep(long).unwrap();
    assert!(start.elapsed() < PATIENCE / 2, "the word had moved");
    let short = Sleep { seen: value, still: Duration::from_millis(5), ..long };
    let start = Instant::now();
    direct.driver.sleep(short).unwrap();
    assert!(start.elapsed() < PATIENCE / 2, "the time was over");
    direct.close(Some(iota));
}

/// Promises E13, E21, E22, E27.
pub fn stop_ends_the_word_and_memory_comes_back_after_it<F: Fixtures>(f: &F) {
    let mut direct = Direct::open(&f.opener());
    let Some(mut iota) = direct.iota(f) else { return direct.close(None) };
    for i in 0..20 {
        direct.submit(&mut iota, i);
    }
    // Not all of it is committed, where the driver encodes: that work never runs.
    direct.stop();
    assert_eq!(direct.shown(), direct.last());
    // A new device of the same hardware is open while the old one's memory comes back.
    let other = Direct::open(&f.opener());
    assert!(direct.stopped);
    let Iota { image, parts, plan, region, code, .. } = iota;
    drop((parts, plan));
    // SAFETY: the word shows the end, so that no work runs; the entries are dropped.
    unsafe { direct.driver.unload(image) }.unwrap();
    for region in [Some(region), code].into_iter().flatten() {
        // SAFETY: as above, and nobody holds a slice over it.
        unsafe { direct.driver.free(region) }.unwrap();
    }
    assert_eq!(direct.shown(), direct.last(), "nothing writes the word after the end");
    if direct.driver.facts().word == WordSource::Own {
        direct.driver.free_word();
    }
    drop(direct);
    if let Some(mut iota) = other.iota(f) {
        let (value, _) = other.submit(&mut iota, 3);
        other.driver.commit(value).unwrap();
        other.wait(value);
        other.close(Some(iota));
    } else {
        other.close(None);
    }
}

/// Promises E18, S03.
pub fn a_queue_wait_holds_work_until_the_word_shows_it<F: Fixtures>(f: &F) {
    let (one, two) = (Direct::open(&f.opener()), Direct::open(&f.second()));
    let (mine, theirs) = (two.driver.facts(), one.driver.facts());
    let waits = match theirs.completion {
        Completion::Store => mine.waits.stores,
        Completion::Host => mine.waits.hosts,
    };
    if !waits || mine.waits.most == 0 || theirs.word == WordSource::Own {
        one.close(None);
        two.close(None);
        return not_here("its queues wait for no word of such a device");
    }
    let (Some(mut spin), Some(mut iota)) = (one.launch_of(f, "spin"), two.iota(f)) else {
        return not_here("its code lies where the host does not reach");
    };
    for i in 0..5 {
        let (value, _) = one.submit(&mut spin, f.spin_rounds());
        one.driver.commit(value).unwrap();
        let (after, _) = two.submit_after(&mut iota, i, &[Wait { word: one.index, value }]);
        two.driver.commit(after).unwrap();
        let start = Instant::now();
        // The waiting device first, so that one whose queue does not wait is seen to run ahead.
        while two.shown() < after {
            two.doze(after);
            assert!(two.shown() < after || one.shown() >= value, "the queue did not wait");
            one.doze(value);
            assert!(start.elapsed() < PATIENCE, "the work waits for {value}, and the word shows {}", one.shown());
        }
        assert!(one.shown() >= value);
    }
    one.close(Some(spin));
    two.close(Some(iota));
}

/// Promises C01, E11, E17.
pub fn two_devices_of_one_opener_are_their_own<F: Fixtures>(f: &F) {
    let opener = f.opener();
    let (one, two) = (Direct::open(&opener), Direct::open(&opener));
    let (Some(mut a), Some(mut b)) = (one.iota(f), two.iota(f)) else {
        return not_here("its code lies where the host does not reach");
    };
    let before = two.shown();
    let (value, _) = one.submit(&mut a, 1);
    one.driver.commit(value).unwrap();
    one.wait(value);
    assert_eq!(two.shown(), before, "a device shows its own values alone");
    one.close(Some(a));
    let (value, _) = two.submit(&mut b, 2);
    two.driver.commit(value).unwrap();
    two.wait(value);
    two.close(Some(b));
}
