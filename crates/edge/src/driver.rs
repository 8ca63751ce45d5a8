//! The driver itself.

use std::time::Duration;

use crate::{
    Code, Dma, EntryAnswer, Facts, Fault, ImageError, Location, Mapping, Memory, Part, Room, Submitted, Word,
    WordIndex, Words, Work,
};

/// What an opener's `make` is given to show its device's progress with.
#[derive(Clone, Copy, Debug)]
pub struct Timeline {
    index: WordIndex,
}

impl Timeline {
    /// The timeline whose word is at `index`.
    pub fn new(index: WordIndex) -> Timeline {
        Timeline { index }
    }

    /// The word's place in the table.
    pub fn index(&self) -> WordIndex {
        self.index
    }

    /// The word. The device's values start after what it holds when `make` returns.
    pub fn word(&self) -> &'static Word {
        Words::get().word(self.index)
    }

    /// The table of all words, to map for queue waits.
    pub fn words(&self) -> &'static Words {
        Words::get()
    }
}

/// Opens one device.
pub trait Opener {
    /// The driver of the device.
    type Driver: Driver;

    /// The device's name, such as `METAL:1`. Two openers of one piece of hardware give the same name. Never fails.
    fn name(&self) -> String;

    /// Opens a new device, also while another of the same name is open or its work still runs. Called with no lock of
    /// rig's held. The error is the reason, in words that tell a user what to mend. After bus addresses of the hardware's
    /// memory were given away, it is refused: see [`Driver::dma`].
    fn make(&self, timeline: Timeline) -> Result<Self::Driver, String>;
}

/// What `sleep` is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// The word as the waiter last read it: return once it differs.
    pub seen: u64,
    /// The value that is waited for.
    pub until: u64,
    /// Return at the latest after this time.
    pub still: Duration,
    /// Whether the calling thread may run the device's work, up to `until`, while it waits. False inside a closure
    /// over a buffer and on threads that serve futures.
    pub help: bool,
}

/// What came of a growth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grown {
    /// The parts have what they need: room never answers Grow for them again.
    Grown,
    /// No memory for this many bytes. What was made stays (E29).
    Short(u64),
}

/// Why a plan was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The driver cannot run these parts together, and why.
    Refused(String),
    /// The device has no memory for this many bytes; nothing was made.
    NoMemory(u64),
    /// The device faulted.
    Fault(Fault),
}

/// A device, as its vendor's interface drives it. See the [crate] for what a driver and rig owe one another.
///
/// Every call may come from any thread. A call that answers a [`Fault`] says that the device faulted, and loses it; a panic
/// in a counted call counts as a fault (E19).
#[expect(unsafe_code, reason = "the caller of the unsafe calls owes what their docs state")]
pub trait Driver: Send + Sync + Sized + 'static {
    /// Memory that the driver made or mapped. Dropping one frees nothing: `free` does.
    type Region: Send + Sync + 'static;
    /// Loaded code. Dropping one releases nothing: `unload` does.
    type Image: Send + Sync + 'static;
    /// What a launch of one function needs. Valid until its image is unloaded.
    type Entry: Clone + Send + Sync + 'static;
    /// What all runs of one submission share in the driver. Touched only in the hot calls, which run one at a time, and
    /// dropped once the submission's last value is reached or its work can no longer run, with no lock held.
    type Plan: Send + 'static;
    /// What a fill encodes with.
    type Encoder<'a>;
    /// The driver's record for compiled code and for programs that go beyond rig: a vendor's handles, its own means.
    /// `()` where there is none.
    type Capability: Send + Sync + 'static;

    /// The device's facts; the same for as long as the device lives. Not counted.
    fn facts(&self) -> &Facts;

    /// The device's record, which a program gets by the driver's type (C29); `None` where there is none. Not counted.
    fn capability(&self) -> Option<&Self::Capability> {
        None
    }

    // ---- memory ----

    /// `len` bytes of memory, or `None` if there is no memory for them. `len` is a positive multiple of
    /// [`WORD_BYTES`](crate::WORD_BYTES) (E04). The first byte is on `facts.alignment`. Bytes that the host addresses are
    /// zero.
    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<Self::Region>, Fault>;

    /// Gives back a region, a mapping included. Also called after `stop`, then uncounted.
    ///
    /// # Safety
    ///
    /// No work of the device that uses the region can run, now or later, and no slice over its bytes is alive.
    unsafe fn free(&self, region: Self::Region) -> Result<(), Fault>;

    /// Where a region lies. Pure; not counted; never blocks.
    fn locate(&self, region: &Self::Region) -> Location;

    /// Maps the whole pages that hold the `len` bytes at `address`. Called only where `facts.maps_host` (E14).
    ///
    /// # Safety
    ///
    /// `address` starts a page, `len` is positive, and the pages stay allocated until the mapping is freed.
    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Self::Region>, Fault> {
        let _ = (address, len);
        Ok(Mapping::Never("this driver maps no host memory".into()))
    }

    /// Whether `map_peer` maps Device memory of `other` for this device. Answered from what both learned when they
    /// opened (E24). Pure; not counted; never blocks.
    fn peer(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// Maps for this device the memory of `region`, a region of `other` (E25).
    ///
    /// # Safety
    ///
    /// `region` stays allocated until the mapping is freed.
    unsafe fn map_peer(&self, other: &Self, region: &Self::Region) -> Result<Mapping<Self::Region>, Fault> {
        let _ = (other, region);
        Ok(Mapping::Never("this driver maps no memory of other devices".into()))
    }

    /// How the PCI function at the bus address `function` (as PCI writes them: `0000:41:00.0`) reaches all of the region's
    /// bytes, or why it cannot: an error that names the cause. Moves no memory. Asked only for regions that `alloc` made
    /// (E34).
    ///
    /// After an answer, the function sees what a value wrote once the word shows the value, and work that is submitted later
    /// sees what the function wrote (E35): where caches stand between, each value from here on writes them back and reads
    /// afresh.
    ///
    /// Bus addresses cannot be taken back (E36). So after [`Dma::Bus`] rig uses the memory for no other buffer and never
    /// frees the region, also after `stop`. The driver keeps the memory where it is until the process exits, and so it keeps
    /// the device's own function from every other open: the process holds the function until it exits, and its openers
    /// refuse each later `make` of this hardware and say so, since a new open could reset what maps the memory or give the
    /// memory out again. A [`Dma::DmaBuf`] keeps its memory by itself: the region is freed as any other, and opens go on.
    fn dma(&self, region: &Self::Region, function: &str) -> Result<Result<Dma, String>, Fault> {
        let _ = region;
        Ok(Err(format!("this driver gives the PCI function {function} no access to its memory")))
    }

    // ---- code ----

    /// Takes a binary.
    fn image(&self, binary: &[u8]) -> Result<Code<Self::Image>, ImageError>;

    /// Starts what `entry` makes for the function `name`, and returns without waiting. Reports nothing: the next `entry`
    /// answers. Doing nothing is right (E07, E31).
    fn prepare(&self, image: &Self::Image, name: &str) {
        let _ = (image, name);
    }

    /// Makes all that launches of the function `name` need, so that `submit` allocates nothing. A second call makes
    /// nothing new. May block.
    fn entry(&self, image: &Self::Image, name: &str) -> Result<EntryAnswer<Self::Entry>, Fault>;

    /// Releases an image and what `prepare` and `entry` made of it. Also called after `stop`, then uncounted.
    ///
    /// # Safety
    ///
    /// No work of the device that runs the image's code can run, now or later, and no entry of it is used again.
    unsafe fn unload(&self, image: Self::Image) -> Result<(), Fault>;

    // ---- work ----

    /// Makes what all runs of a submission with these parts share. May block.
    fn plan(&self, parts: &[Part<Self>]) -> Result<Self::Plan, PlanError>;

    /// Whether the work fits now. Hot. Changes nothing that outlives an answer other than Ok.
    ///
    /// # Safety
    ///
    /// `parts` and `plan` belong together and to this device; the work's slots are memory of this device, inside their
    /// regions; no other hot call of the device runs.
    unsafe fn room(&self, plan: &mut Self::Plan, parts: &[Part<Self>], work: &mut Work<'_>) -> Room;

    /// Takes the work as value `value`, the last one plus one. Follows an Ok of `room` for the same work with no other
    /// hot call between. Hot.
    ///
    /// # Safety
    ///
    /// As [`room`](Driver::room); and all memory, code and plan that the work uses outlives it.
    unsafe fn submit(&self, value: u64, plan: &mut Self::Plan, parts: &[Part<Self>], work: &mut Work<'_>) -> Submitted;

    /// Makes every value up to `value` run without further calls (E10). Called only for values that `submit` got.
    /// Hot: never at the same time as another hot call of this device.
    fn commit(&self, value: u64) -> Result<(), Fault>;

    /// Makes what the parts need whose `room` last answered Grow on this thread. Changes nothing that hot calls read
    /// while they may run for others (E28).
    fn grow(&self) -> Result<Grown, Fault> {
        Ok(Grown::Grown)
    }

    // ---- the timeline ----

    /// The word of the driver's own. Called only where `facts.word` is [`Own`](crate::WordSource::Own), also after
    /// `stop`, until [`free_word`](Driver::free_word). Acquire. Never blocks, never calls rig (E23).
    fn signaled(&self) -> u64 {
        0
    }

    /// Releases the word of the driver's own: called once, after `stop`, when nothing reads it any more (E27).
    fn free_word(&self) {}

    /// Blocks until the word differs from `sleep.seen`, at the latest for `sleep.still`; may return earlier, and is then
    /// called again. Uses next to no processor time, unless it helps. Answers the fault, every time, once the device has
    /// faulted (E12, E33).
    fn sleep(&self, sleep: Sleep) -> Result<(), Fault>;

    // ---- the end ----

    /// Ends the device without waiting for its work (E13, E20, E21). Called once, with no counted call in flight;
    /// `fault` is the reason where a fault or the hang bound lost the device.
    ///
    /// Drops what was never committed; releases what ran the work, but nothing that rig made. The word must come to show
    /// the last value given to `submit`, also if that submit failed, and only once no work of the device runs: before
    /// `stop` returns where none does. After that nothing writes the word.
    fn stop(&self, fault: Option<&str>) -> Result<(), Fault>;
}
