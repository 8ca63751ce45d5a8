//! The driver itself.

use std::time::Duration;

use crate::{Code, Dma, EntryAnswer, Facts, Fault, ImageError, Location, Mapping, Memory, Part, Room, Submitted, Work};

/// What `sleep` is asked for.
///
/// ```
#[doc = include_str!("example.txt")]
/// # impl Driver for Device {
/// #     rest! { without sleep }
/// #     fn sleep(&self, sleep: Sleep) -> Result<(), Fault> { Ok(self.timeline.word().raise(sleep.seen + 1)) }
/// # }
/// use std::time::Duration;
///
/// let (device, word) = (open(7), Words::get().word(WordIndex::new(7)));
/// // How rig waits for value 2: no value is slept through, since the driver compares the word with what rig saw.
/// let mut seen = word.load();
/// while seen < 2 {
///     device.sleep(Sleep { seen, until: 2, still: Duration::from_millis(100), help: true })?;
///     seen = word.load();
/// }
/// assert_eq!(seen, 2);
/// # Ok::<(), Fault>(())
/// ```
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
///
/// ```
/// use rig_edge::Grown;
///
/// /// Makes the memory that a function's launches need, of which `free` bytes are left.
/// fn grow(free: &mut u64, bytes: u64) -> Grown {
///     match free.checked_sub(bytes) {
///         Some(left) => {
///             *free = left;
///             Grown::Grown
///         }
///         // rig reclaims memory, and grows again.
///         None => Grown::Short(bytes),
///     }
/// }
/// let mut free = 4096;
/// assert_eq!([grow(&mut free, 4096), grow(&mut free, 64)], [Grown::Grown, Grown::Short(64)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grown {
    /// The parts have what they need: room never answers Grow for them again.
    Grown,
    /// No memory for this many bytes. What was made stays (E29).
    Short(u64),
}

/// Why a plan was not made.
///
/// ```
/// use rig_edge::PlanError;
///
/// const NODES_MAX: usize = 1024;
///
/// fn nodes(parts: usize) -> Result<usize, PlanError> {
///     if parts > NODES_MAX {
///         let why = format!("{parts} parts are more than the {NODES_MAX} of a graph: make two submissions of them");
///         return Err(PlanError::Refused(why));
///     }
///     Ok(parts)
/// }
/// assert_eq!(nodes(3), Ok(3));
/// assert!(matches!(nodes(2000), Err(PlanError::Refused(_))));
/// ```
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
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// // What rig asks of a driver for a buffer that a submission of one memset fills.
/// let device = open(7);
/// let region = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
/// let slots = [slot(device.locate(&region), 64)];
/// let parts = [Part::Memset(Memset { slot: 0, byte: 9 })];
/// let mut scratch = [[0; 4]];
/// let mut work = work(&slots, &mut scratch);
/// device.plan(&parts).map_err(|why| format!("{why:?}"))?;
/// // SAFETY: the plan is of these parts, the slot is the region, and no other call runs.
/// assert_eq!(unsafe { device.room(&mut (), &parts, &mut work) }, Room::Ok);
/// // SAFETY: as above, and the region outlives the work.
/// assert_eq!(unsafe { device.submit(1, &mut (), &parts, &mut work) }, Submitted::Committed);
/// // This device works in its submit; rig would sleep until the word shows 1.
/// assert_eq!(bytes(&slots[0]), [9; 64]);
/// device.stop(None)?;
/// // SAFETY: nothing runs any more.
/// unsafe { device.free(region)? };
/// # Ok::<(), Fault>(())
/// ```
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
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without facts }
    ///     // Made once, when the device opened.
    ///     fn facts(&self) -> &Facts {
    ///         &self.facts
    ///     }
    ///     // ...
    /// }
    /// assert_eq!(open(7).facts().kinds(), Kinds::ALL);
    /// ```
    fn facts(&self) -> &Facts;

    /// The device's record, which a program gets by the driver's type (C29); `None` where there is none. Not counted.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// /// What a compiler must know to make code for this device.
    /// struct Record {
    ///     vector_bits: u32,
    /// }
    /// static RECORD: Record = Record { vector_bits: 512 };
    ///
    /// impl Driver for Device {
    /// #     rest! { without capability }
    ///     type Capability = Record;
    ///
    ///     fn capability(&self) -> Option<&Record> {
    ///         Some(&RECORD)
    ///     }
    ///     // ...
    /// }
    /// assert_eq!(open(7).capability().map(|record| record.vector_bits), Some(512));
    /// ```
    fn capability(&self) -> Option<&Self::Capability> {
        None
    }

    // ---- memory ----

    /// `len` bytes of memory, or `None` if there is no memory for them. `len` is a positive multiple of
    /// [`WORD_BYTES`](crate::WORD_BYTES) (E04). The first byte is on `facts.alignment`. Bytes that the host addresses are
    /// zero.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without alloc }
    ///     fn alloc(&self, _: Memory, len: usize) -> Result<Option<Region>, Fault> {
    ///         // No length is a fault: what cannot be had is None, and rig reclaims.
    ///         let Ok(layout) = Layout::from_size_align(len, self.facts.alignment) else { return Ok(None) };
    ///         // SAFETY: rig asks for positive lengths.
    ///         let at = unsafe { alloc_zeroed(layout) };
    ///         Ok((!at.is_null()).then_some(Region { at, len, made: true }))
    ///     }
    ///     // ...
    /// }
    /// let region = open(7).alloc(Memory::Pinned, 4096)?.ok_or("no memory")?;
    /// assert!(region.at.addr().is_multiple_of(64));
    /// assert!(open(7).alloc(Memory::Pinned, usize::MAX - 3)?.is_none());
    /// # unsafe { open(7).free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<Self::Region>, Fault>;

    /// Gives back a region, a mapping included. Also called after `stop`, then uncounted.
    ///
    /// # Safety
    ///
    /// No work of the device that uses the region can run, now or later, and no slice over its bytes is alive.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without free }
    ///     unsafe fn free(&self, region: Region) -> Result<(), Fault> {
    ///         // A mapping of the host's pages is a region too, and those are not this driver's to give back.
    ///         if region.made {
    ///             let layout = Layout::from_size_align(region.len, 64).map_err(|error| error.to_string())?;
    ///             // SAFETY: `alloc` made it with this layout, and the caller promises that nothing uses it.
    ///             unsafe { dealloc(region.at, layout) };
    ///         }
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let region = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// device.stop(None)?;
    /// // SAFETY: no work ran. After `stop`, as rig frees what a device leaves behind.
    /// assert_eq!(unsafe { device.free(region) }, Ok(()));
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn free(&self, region: Self::Region) -> Result<(), Fault>;

    /// Where a region lies. Pure; not counted; never blocks.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without locate }
    ///     // The host's memory, which this device reaches by the host's addresses.
    ///     fn locate(&self, region: &Region) -> Location {
    ///         Location { device: region.at.expose_provenance() as u64, host: region.at, handle: std::ptr::null() }
    ///     }
    ///     // ...
    /// }
    /// let region = open(7).alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// let at = open(7).locate(&region);
    /// assert_eq!(at.device, at.host.addr() as u64);
    /// # unsafe { open(7).free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    fn locate(&self, region: &Self::Region) -> Location;

    /// Maps the whole pages that hold the `len` bytes at `address`. Called only where `facts.maps_host` (E14).
    ///
    /// # Safety
    ///
    /// `address` starts a page, `len` is positive, and the pages stay allocated until the mapping is freed.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     // All of the host's memory is this device's. `free` is to leave the pages as they are.
    ///     unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
    ///         Ok(Mapping::Mapped(Region { at: address, len, made: false }))
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let pages = device.alloc(Memory::Pinned, page_bytes())?.ok_or("no memory")?;
    /// // SAFETY: the memory is there until the end of the example.
    /// let Mapping::Mapped(region) = (unsafe { device.map_host(pages.at, page_bytes())? }) else {
    ///     panic!("it maps everything");
    /// };
    /// assert_eq!(device.locate(&region).host, pages.at);
    /// # unsafe { device.free(pages)? };
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Self::Region>, Fault> {
        let _ = (address, len);
        Ok(Mapping::Never("this driver maps no host memory".into()))
    }

    /// Whether `map_peer` maps Device memory of `other` for this device. Answered from what both learned when they
    /// opened (E24). Pure; not counted; never blocks.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     // Cards reach one another's memory where one switch joins them, as both read when they opened.
    ///     fn peer(&self, other: &Device) -> bool {
    ///         self.facts.bus.is_some() && self.facts.bus == other.facts.bus
    ///     }
    ///     // ...
    /// }
    /// let (mut one, mut other) = (open(7), open(8));
    /// assert!(!one.peer(&other));
    /// [&mut one, &mut other].map(|device| device.facts.bus = Some("0000:41:00.0".into()));
    /// assert!(one.peer(&other));
    /// ```
    fn peer(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// Maps for this device the memory of `region`, a region of `other` (E25).
    ///
    /// # Safety
    ///
    /// `region` stays allocated until the mapping is freed.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     unsafe fn map_peer(&self, _: &Device, region: &Region) -> Result<Mapping<Region>, Fault> {
    ///         // The same bytes, which stay the other device's.
    ///         Ok(Mapping::Mapped(Region { at: region.at, len: region.len, made: false }))
    ///     }
    ///     // ...
    /// }
    /// let (one, other) = (open(7), open(8));
    /// let region = other.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// // SAFETY: the other device keeps the region until the end of the example.
    /// assert!(matches!(unsafe { one.map_peer(&other, &region)? }, Mapping::Mapped(mine) if mine.at == region.at));
    /// # unsafe { other.free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     fn dma(&self, region: &Region, function: &str) -> Result<Result<Dma, String>, Fault> {
    ///         if !function.starts_with("0000:41:") {
    ///             return Ok(Err(format!("{function} is on another bus than the device, 0000:41:00.0")));
    ///         }
    ///         // From here on the driver refuses each later open of the card, until the process exits.
    ///         Ok(Ok(Dma::Bus(vec![(0x20_0000_0000, region.len as u64)])))
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let region = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// assert!(matches!(device.dma(&region, "0000:41:00.1")?, Ok(Dma::Bus(ranges)) if ranges[0].1 == 64));
    /// assert!(device.dma(&region, "0000:09:00.0")?.is_err());
    /// # Ok::<(), Fault>(())
    /// ```
    fn dma(&self, region: &Self::Region, function: &str) -> Result<Result<Dma, String>, Fault> {
        let _ = region;
        Ok(Err(format!("this driver gives the PCI function {function} no access to its memory")))
    }

    // ---- code ----

    /// Takes a binary.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without image }
    ///     // This device's images are the names of functions that it has, one a line.
    ///     fn image(&self, binary: &[u8]) -> Result<Code<Image>, ImageError> {
    ///         let names = str::from_utf8(binary).map_err(|error| ImageError::Refused(format!("not a list: {error}")))?;
    ///         Ok(Code::Loaded(Image(names.lines().map(String::from).collect())))
    ///     }
    ///     // ...
    /// }
    /// assert!(matches!(open(7).image(b"negate"), Ok(Code::Loaded(_))));
    /// assert!(matches!(open(7).image(&[0xff]), Err(ImageError::Refused(_))));
    /// ```
    fn image(&self, binary: &[u8]) -> Result<Code<Self::Image>, ImageError>;

    /// Starts what `entry` makes for the function `name`, and returns without waiting. Reports nothing: the next `entry`
    /// answers. Doing nothing is right (E07, E31).
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::Mutex;
    ///
    /// /// The names that a thread of the driver's compiles next.
    /// static NEXT: Mutex<Vec<String>> = Mutex::new(Vec::new());
    ///
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     fn prepare(&self, _: &Image, name: &str) {
    ///         NEXT.lock().unwrap().push(name.into());
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let image = Image(vec!["negate".into()]);
    /// device.prepare(&image, "negate");
    /// device.prepare(&image, "no such function"); // which `entry` will say
    /// assert_eq!(NEXT.lock().unwrap().len(), 2);
    /// ```
    fn prepare(&self, image: &Self::Image, name: &str) {
        let _ = (image, name);
    }

    /// Makes all that launches of the function `name` need, so that `submit` allocates nothing. A second call makes
    /// nothing new. May block.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without entry }
    ///     fn entry(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
    ///         let names = image.0.clone();
    ///         let function = FUNCTIONS.iter().find(|function| function.0 == name && names.iter().any(|has| has == name));
    ///         Ok(match function {
    ///             Some((_, code)) => EntryAnswer::Entry(*code, EntryFacts { params: Some(8), threads: None }),
    ///             None => EntryAnswer::Absent { names },
    ///         })
    ///     }
    ///     // ...
    /// }
    /// let image = Image(vec!["negate".into()]);
    /// assert!(matches!(open(7).entry(&image, "negate")?, EntryAnswer::Entry(_, facts) if facts.params == Some(8)));
    /// assert!(matches!(open(7).entry(&image, "reverse")?, EntryAnswer::Absent { names } if names == ["negate"]));
    /// # Ok::<(), Fault>(())
    /// ```
    fn entry(&self, image: &Self::Image, name: &str) -> Result<EntryAnswer<Self::Entry>, Fault>;

    /// Releases an image and what `prepare` and `entry` made of it. Also called after `stop`, then uncounted.
    ///
    /// # Safety
    ///
    /// No work of the device that runs the image's code can run, now or later, and no entry of it is used again.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// /// The images that the vendor's library holds.
    /// static HELD: AtomicUsize = AtomicUsize::new(1);
    ///
    /// impl Driver for Device {
    /// #     rest! { without unload }
    ///     // Dropping an image releases nothing: this does, once no work runs its code.
    ///     unsafe fn unload(&self, image: Image) -> Result<(), Fault> {
    ///         HELD.fetch_sub(1, Ordering::Relaxed);
    ///         drop(image);
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// // SAFETY: the image has no functions, so that nothing runs its code.
    /// unsafe { open(7).unload(Image(vec![]))? };
    /// assert_eq!(HELD.load(Ordering::Relaxed), 0);
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn unload(&self, image: Self::Image) -> Result<(), Fault>;

    // ---- work ----

    /// Makes what all runs of a submission with these parts share. May block.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without plan }
    ///     fn plan(&self, parts: &[Part<Device>]) -> Result<(), PlanError> {
    ///         if parts.len() > 1 && parts.iter().any(|part| matches!(part, Part::Fill(_))) {
    ///             return Err(PlanError::Refused("the device's graphs hold no fills: submit those by themselves".into()));
    ///         }
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// let (fill, set) = (Part::Fill(Fill { code: Box::new(|_, _| Ok(())) }), Part::Memset(Memset { slot: 0, byte: 1 }));
    /// let parts = [fill, set];
    /// assert_eq!(open(7).plan(&parts[..1]), Ok(()));
    /// assert!(matches!(open(7).plan(&parts), Err(PlanError::Refused(_))));
    /// ```
    fn plan(&self, parts: &[Part<Self>]) -> Result<Self::Plan, PlanError>;

    /// Whether the work fits now. Hot. Changes nothing that outlives an answer other than Ok.
    ///
    /// A driver whose `submit` may block ([`Facts::may_block`](crate::Facts::may_block)) still answers Later where that could only end
    /// once another device's word moves: nobody asks the other device for a fault while a submit blocks, and rig does while it waits
    /// for room.
    ///
    /// # Safety
    ///
    /// `parts` and `plan` belong together and to this device; the work's slots are memory of this device, inside their
    /// regions; no other hot call of the device runs.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// const RING: usize = 4;
    /// /// The packets of the ring that no work takes.
    /// static FREE: AtomicUsize = AtomicUsize::new(1);
    ///
    /// impl Driver for Device {
    /// #     rest! { without room }
    ///     unsafe fn room(&self, _: &mut (), parts: &[Part<Device>], work: &mut Work<'_>) -> Room {
    ///         match parts.len() + work.waits.len() {
    ///             packets if packets > RING => Room::Refused(format!("{packets} packets in a ring of {RING}")),
    ///             packets if packets > FREE.load(Ordering::Acquire) => Room::Later,
    ///             _ => Room::Ok,
    ///         }
    ///     }
    ///     // ...
    /// }
    /// let room = |sets: u32| {
    ///     let parts: Vec<_> = (0..sets).map(|slot| Part::Memset(Memset { slot, byte: 0 })).collect();
    ///     // SAFETY: room looks at no memory.
    ///     unsafe { open(7).room(&mut (), &parts, &mut work(&[], &mut [])) }
    /// };
    /// assert_eq!((room(1), room(2)), (Room::Ok, Room::Later));
    /// assert!(matches!(room(9), Room::Refused(_)));
    /// ```
    unsafe fn room(&self, plan: &mut Self::Plan, parts: &[Part<Self>], work: &mut Work<'_>) -> Room;

    /// Takes the work as value `value`, the last one plus one. Follows an Ok of `room` for the same work with no other
    /// hot call between. Hot.
    ///
    /// # Safety
    ///
    /// As [`room`](Driver::room); and all memory, code and plan that the work uses outlives it.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// impl Driver for Device {
    /// #     rest! { without submit }
    ///     unsafe fn submit(&self, value: u64, _: &mut (), parts: &[Part<Device>], work: &mut Work<'_>) -> Submitted {
    ///         // The parts in their order. `run` does one, and only a fill fails.
    ///         if let Err(why) = parts.iter().try_for_each(|part| self.run(part, work.slots)) {
    ///             return Submitted::Failed(Fault::here(why));
    ///         }
    ///         // Release: who sees the value sees what the parts wrote.
    ///         self.timeline.word().raise(value);
    ///         Submitted::Committed
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let region = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// let slots = [slot(device.locate(&region), 64)];
    /// let parts = [Part::Memset(Memset { slot: 0, byte: 3 })];
    /// // SAFETY: the slot is the region, which outlives the work, and no other call runs.
    /// let submitted = unsafe { device.submit(1, &mut (), &parts, &mut work(&slots, &mut [[0; 4]])) };
    /// assert_eq!((submitted, bytes(&slots[0])[63]), (Submitted::Committed, 3));
    /// # unsafe { device.free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn submit(&self, value: u64, plan: &mut Self::Plan, parts: &[Part<Self>], work: &mut Work<'_>) -> Submitted;

    /// Makes every value up to `value` run without further calls (E10). Called only for values that `submit` got.
    /// Hot: never at the same time as another hot call of this device.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// /// The device's doorbell: it runs what was written into its ring up to this value.
    /// static DOORBELL: AtomicU64 = AtomicU64::new(0);
    ///
    /// impl Driver for Device {
    /// #     rest! { without commit }
    ///     // Each `submit` wrote packets and answered Encoded. One ring of the doorbell is for all of them.
    ///     fn commit(&self, value: u64) -> Result<(), Fault> {
    ///         DOORBELL.store(value, Ordering::Release);
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// open(7).commit(3)?;
    /// assert_eq!(DOORBELL.load(Ordering::Acquire), 3);
    /// # Ok::<(), Fault>(())
    /// ```
    fn commit(&self, value: u64) -> Result<(), Fault>;

    /// Makes what the parts need whose `room` last answered Grow on this thread. Changes nothing that hot calls read
    /// while they may run for others (E28).
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::Mutex;
    ///
    /// /// What the device's launches spill into, once one needs it.
    /// static SPILL: Mutex<Option<Region>> = Mutex::new(None);
    /// const SPILL_BYTES: usize = 1 << 16;
    ///
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     fn grow(&self) -> Result<Grown, Fault> {
    ///         let Some(region) = self.alloc(Memory::Device, SPILL_BYTES)? else {
    ///             return Ok(Grown::Short(SPILL_BYTES as u64));
    ///         };
    ///         *SPILL.lock().unwrap() = Some(region);
    ///         Ok(Grown::Grown)
    ///     }
    ///     // ...
    /// }
    /// assert_eq!(open(7).grow()?, Grown::Grown);
    /// assert!(SPILL.lock().unwrap().is_some());
    /// # let spill = SPILL.lock().unwrap().take().ok_or("none")?;
    /// # unsafe { open(7).free(spill)? };
    /// # Ok::<(), Fault>(())
    /// ```
    fn grow(&self) -> Result<Grown, Fault> {
        Ok(Grown::Grown)
    }

    // ---- the timeline ----

    /// The word of the driver's own. Called only where `facts.word` is [`Own`](crate::WordSource::Own), also after
    /// `stop`, until [`free_word`](Driver::free_word). Acquire. Never blocks, never calls rig (E23).
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// /// What the vendor's event counts up to: memory of its own, which no word of rig's can be.
    /// static COUNTED: AtomicU64 = AtomicU64::new(0);
    ///
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     // Asked where the facts' word is Own. rig mirrors it in the word that the opener was given.
    ///     fn signaled(&self) -> u64 {
    ///         COUNTED.load(Ordering::Acquire)
    ///     }
    ///     // ...
    /// }
    /// COUNTED.store(5, Ordering::Release);
    /// assert_eq!(open(7).signaled(), 5);
    /// ```
    fn signaled(&self) -> u64 {
        0
    }

    /// Releases the word of the driver's own: called once, after `stop`, when nothing reads it any more (E27).
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::Mutex;
    ///
    /// /// The vendor's event, which `signaled` reads also after `stop`.
    /// static EVENT: Mutex<Option<Box<u64>>> = Mutex::new(None);
    ///
    /// impl Driver for Device {
    /// #     rest! { without nothing }
    ///     // So `stop` must leave the event, and this is where it goes.
    ///     fn free_word(&self) {
    ///         EVENT.lock().unwrap().take();
    ///     }
    ///     // ...
    /// }
    /// *EVENT.lock().unwrap() = Some(Box::new(12));
    /// open(7).free_word();
    /// assert!(EVENT.lock().unwrap().is_none());
    /// ```
    fn free_word(&self) {}

    /// Blocks until the word differs from `sleep.seen`, at the latest for `sleep.still`; may return earlier, and is then
    /// called again. Uses next to no processor time, unless it helps. Answers the fault, every time, once the device has
    /// faulted (E12, E33).
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::{Condvar, Mutex};
    ///
    /// /// What the thread that raises the word notifies, with the lock held.
    /// static MOVED: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    ///
    /// impl Driver for Device {
    /// #     rest! { without sleep }
    ///     fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
    ///         let (word, held) = (self.timeline.word(), MOVED.0.lock().unwrap());
    ///         // A word that has moved since rig read it ends the sleep before it begins.
    ///         drop(MOVED.1.wait_timeout_while(held, sleep.still, |()| word.load() == sleep.seen));
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// let seen = device.timeline.word().load();
    /// std::thread::spawn(move || {
    ///     let _held = MOVED.0.lock().unwrap();
    ///     Timeline::new(WordIndex::new(7)).word().raise(seen + 1);
    ///     MOVED.1.notify_all();
    /// });
    /// // TIMEOUT: never reached, since the thread moves the word.
    /// device.sleep(Sleep { seen, until: seen + 1, still: std::time::Duration::from_secs(60), help: false })?;
    /// assert_eq!(device.timeline.word().load(), seen + 1);
    /// # Ok::<(), Fault>(())
    /// ```
    fn sleep(&self, sleep: Sleep) -> Result<(), Fault>;

    // ---- the end ----

    /// Ends the device without waiting for its work (E13, E20, E21). Called once, with no counted call in flight;
    /// `fault` is the reason where a fault or the hang bound lost the device.
    ///
    /// Drops what was never committed; releases what ran the work, but nothing that rig made. The word must come to show
    /// the last value given to `submit`, also if that submit failed, and only once no work of the device runs: before
    /// `stop` returns where none does. After that nothing writes the word.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// /// The last value that `submit` got: Encoded, and never committed.
    /// static LAST: AtomicU64 = AtomicU64::new(2);
    ///
    /// impl Driver for Device {
    /// #     rest! { without stop }
    ///     fn stop(&self, _: Option<&str>) -> Result<(), Fault> {
    ///         // The device runs nothing that was not committed, so nothing runs now: the word shows the end.
    ///         self.timeline.word().raise(LAST.load(Ordering::Relaxed));
    ///         Ok(())
    ///     }
    ///     // ...
    /// }
    /// let device = open(7);
    /// device.stop(None)?;
    /// assert_eq!(device.timeline.word().load(), 2);
    /// # Ok::<(), Fault>(())
    /// ```
    fn stop(&self, fault: Option<&str>) -> Result<(), Fault>;
}
