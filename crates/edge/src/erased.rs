//! A driver as rig holds it: one object per device and one per submission, with the driver's types inside.
//!
//! Erasure happens when an object is made, not when it is called: [`bind`](AnyDriver::bind) turns the parts of a
//! submission into an object that holds typed entries and the typed plan, so that each hot call is one virtual call and
//! looks nothing up. Regions and images travel as [`Any`] on the cold calls alone.

mod typed;

use std::any::{Any, TypeId};
use std::sync::Arc;

use crate::{
    Code, Copy, Dma, Driver, EntryFacts, Facts, Fault, FillFn, Grown, ImageError, Location, Mapping, Memory, Memset,
    PlanError, Ref, Room, Sleep, Submitted, Work,
};
use typed::Erased;

/// A region of some driver.
pub type AnyRegion = Box<dyn Any + Send + Sync>;
/// An image of some driver.
pub type AnyImage = Box<dyn Any + Send + Sync>;
/// An entry of some driver, and what is known of its function.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let device = erased::erase(open(7));
/// let image = device.image(b"negate").map(|code| match code {
///     Code::Loaded(image) => image,
///     Code::Place(_) => unreachable!("this driver places no code"),
/// });
/// let answer = device.entry(&image.map_err(|why| format!("{why:?}"))?, "negate")?;
/// let erased::AnyEntryAnswer::Entry(entry) = answer else { panic!("the image has the function") };
/// // Any number of submissions launch it.
/// assert_eq!(entry.clone().facts().params, Some(8));
/// # Ok::<(), Fault>(())
/// ```
#[derive(Clone)]
pub struct AnyEntry {
    entry: Arc<dyn Any + Send + Sync>,
    facts: EntryFacts,
}

impl AnyEntry {
    /// What is known of the function.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// # let device = erased::erase(open(7));
    /// # let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
    /// let erased::AnyEntryAnswer::Entry(entry) = device.entry(&image, "negate")? else { panic!("it is there") };
    /// // rig refuses a launch of more parameters than this when the submission is made.
    /// assert_eq!(entry.facts(), EntryFacts { params: Some(8), threads: None });
    /// # Ok::<(), Fault>(())
    /// ```
    pub fn facts(&self) -> EntryFacts {
        self.facts
    }

    /// The entry, for the driver `D`; `None` if its type is not that driver's.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// # let device = erased::erase(open(7));
    /// # let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
    /// let erased::AnyEntryAnswer::Entry(entry) = device.entry(&image, "negate")? else { panic!("it is there") };
    /// // A fill that launches gets the driver's own entry.
    /// let negate: &Entry = entry.typed::<Device>().ok_or("the function is another driver's")?;
    /// let mut bytes = [0x0f];
    /// negate(&mut bytes);
    /// assert_eq!(bytes, [0xf0]);
    /// # Ok::<(), Fault>(())
    /// ```
    pub fn typed<D: Driver>(&self) -> Option<&D::Entry> {
        self.entry.downcast_ref()
    }
}

/// A fill of some driver.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let device = erased::erase(open(7));
/// let fill = erased::AnyFill::new::<Device>(Box::new(|encoder, slots| {
///     encoder.set(&slots[0], 6);
///     Ok(())
/// }));
/// // `bind` gives the code back its driver's types.
/// assert!(device.bind(vec![erased::AnyPart::Fill(fill)]).is_ok());
/// # Ok::<(), Fault>(())
/// ```
pub struct AnyFill {
    code: Box<dyn Any + Send + Sync>,
    driver: TypeId,
}

impl AnyFill {
    /// The fill `code` for the driver `D`.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let code: Box<FillFn<Device>> = Box::new(|encoder, slots| {
    ///     encoder.set(slots.first().ok_or("a fill of no slot")?, 6);
    ///     Ok(())
    /// });
    /// let part = erased::AnyPart::Fill(erased::AnyFill::new::<Device>(code));
    /// assert!(erased::erase(open(7)).bind(vec![part]).is_ok());
    /// ```
    pub fn new<D: Driver>(code: Box<FillFn<D>>) -> AnyFill {
        AnyFill { code: Box::new(code), driver: TypeId::of::<D>() }
    }
}

/// One part, before it is bound to a driver.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// use erased::AnyPart;
///
/// // What rig keeps of a submission until it is made, whatever the device's driver is.
/// let parts = vec![AnyPart::Memset(Memset { slot: 0, byte: 0 }), AnyPart::Copy(Copy { from: 0, to: 1 })];
/// assert!(erased::erase(open(7)).bind(parts).is_ok());
/// ```
pub enum AnyPart {
    /// A launch.
    Launch {
        /// The entry.
        entry: AnyEntry,
        /// The refs.
        refs: Box<[Ref]>,
    },
    /// A copy.
    Copy(Copy),
    /// A memset.
    Memset(Memset),
    /// A fill.
    Fill(AnyFill),
}

/// What came of asking for a function's entry, with the entry erased.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// use erased::AnyEntryAnswer;
///
/// # let device = erased::erase(open(7));
/// # let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
/// let said = match device.entry(&image, "negat")? {
///     AnyEntryAnswer::Entry(_) => "it is there".into(),
///     AnyEntryAnswer::Absent(names) => format!("the image has only {}", names.join(", ")),
///     AnyEntryAnswer::NoMemory(bytes) => format!("no memory for {bytes} bytes"),
///     AnyEntryAnswer::Invalid(why) => why,
/// };
/// assert_eq!(said, "the image has only negate");
/// # Ok::<(), Fault>(())
/// ```
pub enum AnyEntryAnswer {
    /// The entry.
    Entry(AnyEntry),
    /// No function of that name; the names that there are.
    Absent(Vec<String>),
    /// No memory for these bytes.
    NoMemory(u64),
    /// It cannot be made.
    Invalid(String),
}

/// The calls of [`Driver`], erased. Contracts are those of the calls of the same names.
///
/// # Panics
///
/// A region or image of another driver's panics: rig never mixes devices.
///
/// # Examples
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// // One type for every device, whoever drives it.
/// let devices: Vec<Box<dyn erased::AnyDriver>> = vec![erased::erase(open(7)), erased::erase(open(8))];
/// for device in &devices {
///     let (region, at) = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
///     assert!(!at.host.is_null() && device.facts().host_addresses);
///     // SAFETY: no work uses it.
///     unsafe { device.free(region)? };
/// }
/// # Ok::<(), Fault>(())
/// ```
#[expect(unsafe_code, reason = "mirrors the unsafe calls of Driver")]
#[expect(clippy::missing_safety_doc, reason = "the contracts stand at Driver's calls of the same names")]
pub trait AnyDriver: Send + Sync {
    /// See [`Driver::facts`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// assert_eq!((device.facts().arch.as_str(), device.facts().word), ("plain", WordSource::Given));
    /// ```
    fn facts(&self) -> &Facts;

    /// See [`Driver::alloc`]; the region comes with its place.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// // The region for the calls to come, and where it lies for the buffers that rig places in it.
    /// let (region, at) = device.alloc(Memory::Pinned, 4096)?.ok_or("no memory")?;
    /// assert!(region.is::<Region>() && at.device.is_multiple_of(64));
    /// # unsafe { device.free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<(AnyRegion, Location)>, Fault>;

    /// See [`Driver::free`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let (region, _) = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// // SAFETY: no work uses the region, and no slice over it is alive.
    /// assert_eq!(unsafe { device.free(region) }, Ok(()));
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn free(&self, region: AnyRegion) -> Result<(), Fault>;

    /// See [`Driver::map_host`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let mut page = [0_u8; 64];
    /// // SAFETY: the memory outlives the mapping, of which there is none.
    /// let mapping = unsafe { device.map_host(page.as_mut_ptr(), page.len())? };
    /// // A driver that does not implement the call maps nothing.
    /// assert!(matches!(mapping, Mapping::Never(why) if why.contains("no host memory")));
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<(AnyRegion, Location)>, Fault>;

    /// See [`Driver::peer`]; false between drivers of different types.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # impl Driver for Device { rest! { without nothing } fn peer(&self, _: &Device) -> bool { true } }
    /// let (one, other) = (erased::erase(open(7)), erased::erase(open(8)));
    /// // Both are of one driver, which answers. Where it is false, rig copies through the host.
    /// assert!(one.peer(&*other));
    /// ```
    fn peer(&self, other: &dyn AnyDriver) -> bool;

    /// See [`Driver::map_peer`]; never between drivers of different types.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let (one, other) = (erased::erase(open(7)), erased::erase(open(8)));
    /// let (region, _) = other.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// // SAFETY: the other device keeps the region until the end of the example.
    /// let mapping = unsafe { one.map_peer(&*other, &region)? };
    /// assert!(matches!(mapping, Mapping::Never(_)), "these devices are no peers");
    /// # unsafe { other.free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn map_peer(
        &self,
        other: &dyn AnyDriver,
        region: &AnyRegion,
    ) -> Result<Mapping<(AnyRegion, Location)>, Fault>;

    /// See [`Driver::dma`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let (region, _) = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// // The outer error loses the device; the inner one is the user's to read.
    /// let why = device.dma(&region, "0000:41:00.0")?.err();
    /// assert!(why.is_some_and(|why| why.contains("0000:41:00.0")));
    /// # unsafe { device.free(region)? };
    /// # Ok::<(), Fault>(())
    /// ```
    fn dma(&self, region: &AnyRegion, function: &str) -> Result<Result<Dma, String>, Fault>;

    /// See [`Driver::image`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// match device.image(b"negate") {
    ///     Ok(Code::Loaded(image)) => assert!(image.is::<Image>()),
    ///     Ok(Code::Place(place)) => println!("rig allocates {} bytes for the code", place.len),
    ///     Err(why) => panic!("{why:?}"),
    /// }
    /// ```
    fn image(&self, binary: &[u8]) -> Result<Code<AnyImage>, ImageError>;

    /// See [`Driver::prepare`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// # let device = erased::erase(open(7));
    /// # let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
    /// // A hint, of any name: what is wrong with it, the next `entry` says.
    /// device.prepare(&image, "nagate");
    /// assert!(matches!(device.entry(&image, "nagate")?, erased::AnyEntryAnswer::Absent(_)));
    /// # Ok::<(), Fault>(())
    /// ```
    fn prepare(&self, image: &AnyImage, name: &str);

    /// See [`Driver::entry`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// # let device = erased::erase(open(7));
    /// # let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
    /// let answer = device.entry(&image, "negate")?;
    /// assert!(matches!(answer, erased::AnyEntryAnswer::Entry(entry) if entry.facts().params == Some(8)));
    /// # Ok::<(), Fault>(())
    /// ```
    fn entry(&self, image: &AnyImage, name: &str) -> Result<AnyEntryAnswer, Fault>;

    /// See [`Driver::unload`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let image: erased::AnyImage = Box::new(Image(vec!["negate".into()]));
    /// // SAFETY: nothing ever ran the image's code, and it has no entries.
    /// assert_eq!(unsafe { device.unload(image) }, Ok(()));
    /// # Ok::<(), Fault>(())
    /// ```
    unsafe fn unload(&self, image: AnyImage) -> Result<(), Fault>;

    /// Makes the object that runs these parts: types the entries and fills, and makes the plan. A fill of another
    /// driver's type is Refused.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let parts = vec![erased::AnyPart::Memset(Memset { slot: 0, byte: 5 })];
    /// let Ok(bound) = device.bind(parts) else { panic!("every device sets bytes") };
    /// # let mut scratch = [[0; 4]];
    /// # let mut work = work(&[], &mut scratch);
    /// // SAFETY: no other hot call of the device runs, and room looks at no slots.
    /// assert_eq!(unsafe { bound.room(&mut work) }, Room::Ok);
    /// ```
    fn bind(&self, parts: Vec<AnyPart>) -> Result<Box<dyn Bound>, PlanError>;

    /// See [`Driver::commit`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # static COMMITTED: AtomicU64 = AtomicU64::new(0);
    /// # impl Driver for Device {
    /// #     rest! { without commit }
    /// #     fn commit(&self, value: u64) -> Result<(), Fault> { Ok(COMMITTED.store(value, Ordering::Relaxed)) }
    /// # }
    /// let device = erased::erase(open(7));
    /// // Values 1 to 3 were answered by Encoded, and now somebody waits for one of them.
    /// device.commit(3)?;
    /// assert_eq!(COMMITTED.load(Ordering::Relaxed), 3);
    /// # Ok::<(), Fault>(())
    /// ```
    fn commit(&self, value: u64) -> Result<(), Fault>;

    /// See [`Driver::grow`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # impl Driver for Device {
    /// #     rest! { without nothing }
    /// #     fn grow(&self) -> Result<Grown, Fault> { Ok(Grown::Short(4096)) }
    /// # }
    /// let device = erased::erase(open(7));
    /// // After a room that answered Grow.
    /// let reclaim = match device.grow()? {
    ///     Grown::Grown => 0,
    ///     Grown::Short(bytes) => bytes, // and then it is asked again
    /// };
    /// assert_eq!(reclaim, 4096);
    /// # Ok::<(), Fault>(())
    /// ```
    fn grow(&self) -> Result<Grown, Fault>;

    /// See [`Driver::signaled`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # use std::sync::atomic::{AtomicU64, Ordering};
    /// # static COUNTED: AtomicU64 = AtomicU64::new(0);
    /// # impl Driver for Device {
    /// #     rest! { without nothing }
    /// #     fn signaled(&self) -> u64 { COUNTED.load(Ordering::Acquire) }
    /// # }
    /// let (device, word) = (erased::erase(open(7)), Words::get().word(WordIndex::new(7)));
    /// COUNTED.store(3, Ordering::Release); // the device completes value 3
    /// // Where the word is the driver's own, rig shows it to all who read the table.
    /// word.lift(device.signaled());
    /// assert_eq!(word.load(), 3);
    /// ```
    fn signaled(&self) -> u64;

    /// See [`Driver::free_word`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # static HELD: AtomicBool = AtomicBool::new(true);
    /// # impl Driver for Device { rest! { without nothing } fn free_word(&self) { HELD.store(false, Ordering::Relaxed) } }
    /// let device = erased::erase(open(7));
    /// device.stop(None)?;
    /// // Once, when nothing reads the driver's own word any more.
    /// device.free_word();
    /// assert!(!HELD.load(Ordering::Relaxed));
    /// # Ok::<(), Fault>(())
    /// ```
    fn free_word(&self);

    /// See [`Driver::sleep`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let still = std::time::Duration::from_millis(50);
    /// // It may return before the word moves: whoever calls it reads the word again.
    /// device.sleep(Sleep { seen: 0, until: 1, still, help: false })?;
    /// assert!(Words::get().word(WordIndex::new(7)).load() < 1);
    /// # Ok::<(), Fault>(())
    /// ```
    fn sleep(&self, sleep: Sleep) -> Result<(), Fault>;

    /// See [`Driver::stop`].
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let (region, _) = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
    /// device.stop(Some("no value completed for a minute"))?;
    /// // SAFETY: the device runs nothing any more. What rig made of it is given back after the stop too.
    /// assert_eq!(unsafe { device.free(region) }, Ok(()));
    /// # Ok::<(), Fault>(())
    /// ```
    fn stop(&self, fault: Option<&str>) -> Result<(), Fault>;

    /// The driver itself, for its type.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// // How rig's `Device::capability` finds whether the device is this driver's.
    /// let device: Option<&Device> = device.as_any().downcast_ref();
    /// assert!(device.is_some_and(|device| device.capability().is_none()));
    /// ```
    fn as_any(&self) -> &(dyn Any + Send + Sync);
}

/// A submission bound to a driver.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let device = erased::erase(open(7));
/// let (region, at) = device.alloc(Memory::Device, 64)?.ok_or("no memory")?;
/// let set = erased::AnyPart::Memset(Memset { slot: 0, byte: 5 });
/// let Ok(bound) = device.bind(vec![set]) else { panic!("every device sets bytes") };
/// let slots = [slot(at, 64)];
/// for value in 1..=3 {
///     // SAFETY: the slot is the region, which outlives the work, and no other call runs.
///     assert_eq!(unsafe { bound.submit(value, &mut work(&slots, &mut [[0; 4]])) }, Submitted::Committed);
/// }
/// assert_eq!(bytes(&slots[0]), [5; 64]);
/// # unsafe { device.free(region)? };
/// # Ok::<(), Fault>(())
/// ```
#[expect(unsafe_code, reason = "mirrors the unsafe calls of Driver")]
pub trait Bound: Send + Sync {
    /// See [`Driver::room`].
    ///
    /// # Safety
    ///
    /// As [`Driver::room`], whose parts and plan are right by construction.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # impl Driver for Device {
    /// #     rest! { without room }
    /// #     unsafe fn room(&self, _: &mut (), _: &[Part<Device>], _: &mut Work<'_>) -> Room {
    /// #         if self.timeline.word().load() < 1 { Room::Later } else { Room::Ok }
    /// #     }
    /// # }
    /// let device = erased::erase(open(7));
    /// let Ok(bound) = device.bind(vec![]) else { panic!("nothing to plan") };
    /// // SAFETY: no other hot call of the device runs.
    /// let room = || unsafe { bound.room(&mut work(&[], &mut [])) };
    /// // Value 1 fills the device's ring until it has completed.
    /// assert_eq!(room(), Room::Later);
    /// Words::get().word(WordIndex::new(7)).raise(1);
    /// assert_eq!(room(), Room::Ok);
    /// ```
    unsafe fn room(&self, work: &mut Work<'_>) -> Room;

    /// See [`Driver::submit`].
    ///
    /// # Safety
    ///
    /// As [`Driver::submit`], whose parts and plan are right by construction.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # whole!();
    /// let device = erased::erase(open(7));
    /// let Ok(bound) = device.bind(vec![]) else { panic!("nothing to plan") };
    /// // SAFETY: work of no part uses nothing, and no other hot call runs.
    /// let submitted = unsafe { bound.submit(1, &mut work(&[], &mut [])) };
    /// assert_eq!(submitted, Submitted::Committed);
    /// assert_eq!(Words::get().word(WordIndex::new(7)).load(), 1);
    /// ```
    unsafe fn submit(&self, value: u64, work: &mut Work<'_>) -> Submitted;
}

/// Erases a driver.
///
/// ```
#[doc = include_str!("example.txt")]
/// # whole!();
/// let device: Box<dyn erased::AnyDriver> = erased::erase(open(7));
/// assert_eq!(device.facts().queues[0].name, "PLAIN:0");
/// ```
pub fn erase<D: Driver>(driver: D) -> Box<dyn AnyDriver> {
    Box::new(Erased::new(driver))
}
