//! A driver as rig holds it: one object per device and one per submission, with the driver's types inside.
//!
//! Erasure happens when an object is made, not when it is called: [`bind`](AnyDriver::bind) turns the parts of a
//! submission into an object that holds typed entries and the typed plan, so that each hot call is one virtual call and
//! looks nothing up. Regions and images travel as [`Any`] on the cold calls alone.
//!
//! # Invariants
//!
//! 1. A `BoundOf`'s plan is touched only by the hot calls, which its caller promises to run one at a time, and by its
//!    drop, which needs the only handle.

use std::any::{Any, TypeId};
use std::cell::UnsafeCell;
use std::sync::Arc;

use crate::{
    Code, Copy, Dma, Driver, EntryAnswer, EntryFacts, Facts, Fault, Fill, FillFn, Grown, ImageError, Launch, Location,
    Mapping, Memory, Memset, Part, PlanError, Ref, Room, Sleep, Submitted, Work,
};

/// A region of some driver.
pub type AnyRegion = Box<dyn Any + Send + Sync>;
/// An image of some driver.
pub type AnyImage = Box<dyn Any + Send + Sync>;
/// An entry of some driver, and what is known of its function.
#[derive(Clone)]
pub struct AnyEntry {
    entry: Arc<dyn Any + Send + Sync>,
    facts: EntryFacts,
}

impl AnyEntry {
    /// What is known of the function.
    pub fn facts(&self) -> EntryFacts {
        self.facts
    }

    /// The entry, for the driver `D`; `None` if its type is not that driver's.
    pub fn typed<D: Driver>(&self) -> Option<&D::Entry> {
        self.entry.downcast_ref()
    }
}

/// A fill of some driver.
pub struct AnyFill {
    code: Box<dyn Any + Send + Sync>,
    driver: TypeId,
}

impl AnyFill {
    /// The fill `code` for the driver `D`.
    pub fn new<D: Driver>(code: Box<FillFn<D>>) -> AnyFill {
        AnyFill { code: Box::new(code), driver: TypeId::of::<D>() }
    }
}

/// One part, before it is bound to a driver.
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
#[expect(unsafe_code, reason = "mirrors the unsafe calls of Driver")]
#[expect(clippy::missing_safety_doc, reason = "the contracts stand at Driver's calls of the same names")]
pub trait AnyDriver: Send + Sync {
    /// See [`Driver::facts`].
    fn facts(&self) -> &Facts;
    /// See [`Driver::alloc`]; the region comes with its place.
    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<(AnyRegion, Location)>, Fault>;
    /// See [`Driver::free`].
    unsafe fn free(&self, region: AnyRegion) -> Result<(), Fault>;
    /// See [`Driver::map_host`].
    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<(AnyRegion, Location)>, Fault>;
    /// See [`Driver::peer`]; false between drivers of different types.
    fn peer(&self, other: &dyn AnyDriver) -> bool;
    /// See [`Driver::map_peer`]; never between drivers of different types.
    unsafe fn map_peer(
        &self,
        other: &dyn AnyDriver,
        region: &AnyRegion,
    ) -> Result<Mapping<(AnyRegion, Location)>, Fault>;
    /// See [`Driver::dma`].
    fn dma(&self, region: &AnyRegion, function: &str) -> Result<Result<Dma, String>, Fault>;
    /// See [`Driver::image`].
    fn image(&self, binary: &[u8]) -> Result<Code<AnyImage>, ImageError>;
    /// See [`Driver::prepare`].
    fn prepare(&self, image: &AnyImage, name: &str);
    /// See [`Driver::entry`].
    fn entry(&self, image: &AnyImage, name: &str) -> Result<AnyEntryAnswer, Fault>;
    /// See [`Driver::unload`].
    unsafe fn unload(&self, image: AnyImage) -> Result<(), Fault>;
    /// Makes the object that runs these parts: types the entries and fills, and makes the plan. A fill of another
    /// driver's type is Refused.
    fn bind(&self, parts: Vec<AnyPart>) -> Result<Box<dyn Bound>, PlanError>;
    /// See [`Driver::commit`].
    fn commit(&self, value: u64) -> Result<(), Fault>;
    /// See [`Driver::grow`].
    fn grow(&self) -> Result<Grown, Fault>;
    /// See [`Driver::signaled`].
    fn signaled(&self) -> u64;
    /// See [`Driver::free_word`].
    fn free_word(&self);
    /// See [`Driver::sleep`].
    fn sleep(&self, sleep: Sleep) -> Result<(), Fault>;
    /// See [`Driver::stop`].
    fn stop(&self, fault: Option<&str>) -> Result<(), Fault>;
    /// The driver itself, for its type.
    fn as_any(&self) -> &(dyn Any + Send + Sync);
}

/// A submission bound to a driver.
#[expect(unsafe_code, reason = "mirrors the unsafe calls of Driver")]
pub trait Bound: Send + Sync {
    /// See [`Driver::room`].
    ///
    /// # Safety
    ///
    /// As [`Driver::room`], whose parts and plan are right by construction.
    unsafe fn room(&self, work: &mut Work<'_>) -> Room;

    /// See [`Driver::submit`].
    ///
    /// # Safety
    ///
    /// As [`Driver::submit`], whose parts and plan are right by construction.
    unsafe fn submit(&self, value: u64, work: &mut Work<'_>) -> Submitted;
}

/// Erases a driver.
pub fn erase<D: Driver>(driver: D) -> Box<dyn AnyDriver> {
    Box::new(Erased { driver: Arc::new(driver) })
}

struct Erased<D> {
    driver: Arc<D>,
}

struct BoundOf<D: Driver> {
    driver: Arc<D>,
    parts: Box<[Part<D>]>,
    plan: UnsafeCell<D::Plan>,
}

// SAFETY: by invariant 1 the plan is reached by one thread at a time, and Plan is Send; the other fields are Sync: the
// driver and entries by their traits' bounds, fills by FillFn's.
#[expect(unsafe_code, reason = "the plan is guarded by the turn, which the hot calls' contract demands")]
unsafe impl<D: Driver> Sync for BoundOf<D> {}

#[expect(unsafe_code, reason = "passes the unsafe hot calls on")]
impl<D: Driver> Bound for BoundOf<D> {
    unsafe fn room(&self, work: &mut Work<'_>) -> Room {
        // SAFETY: the caller promises that no other hot call of the device runs, and only hot calls touch the plan.
        let plan = unsafe { &mut *self.plan.get() };
        // SAFETY: parts and plan were made together for this driver in `bind`; the rest is the caller's promise.
        unsafe { self.driver.room(plan, &self.parts, work) }
    }

    unsafe fn submit(&self, value: u64, work: &mut Work<'_>) -> Submitted {
        // SAFETY: as in `room`.
        let plan = unsafe { &mut *self.plan.get() };
        // SAFETY: as in `room`; the value and the lifetimes are the caller's promise.
        unsafe { self.driver.submit(value, plan, &self.parts, work) }
    }
}

fn typed<T: 'static>(any: &(dyn Any + Send + Sync)) -> &T {
    any.downcast_ref().expect("rig gives a driver only what that driver made")
}

fn owned<T: 'static>(any: Box<dyn Any + Send + Sync>) -> T {
    *any.downcast().expect("rig gives a driver only what that driver made")
}

impl<D: Driver> Erased<D> {
    fn located(&self, region: D::Region) -> (AnyRegion, Location) {
        let location = self.driver.locate(&region);
        (Box::new(region), location)
    }

    fn mapping(&self, mapping: Mapping<D::Region>) -> Mapping<(AnyRegion, Location)> {
        match mapping {
            Mapping::Mapped(region) => Mapping::Mapped(self.located(region)),
            Mapping::NoMemory => Mapping::NoMemory,
            Mapping::Never(why) => Mapping::Never(why),
        }
    }

    fn part(&self, part: AnyPart) -> Result<Part<D>, PlanError> {
        Ok(match part {
            AnyPart::Launch { entry, refs } => {
                Part::Launch(Launch { entry: typed::<D::Entry>(&*entry.entry).clone(), refs })
            }
            AnyPart::Copy(copy) => Part::Copy(copy),
            AnyPart::Memset(memset) => Part::Memset(memset),
            AnyPart::Fill(fill) if fill.driver == TypeId::of::<D>() => Part::Fill(Fill { code: owned(fill.code) }),
            AnyPart::Fill(_) => {
                return Err(PlanError::Refused("the fill was written for another driver than this device's".into()));
            }
        })
    }
}

#[expect(unsafe_code, reason = "passes the unsafe calls on")]
impl<D: Driver> AnyDriver for Erased<D> {
    fn facts(&self) -> &Facts {
        self.driver.facts()
    }

    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<(AnyRegion, Location)>, Fault> {
        Ok(self.driver.alloc(memory, len)?.map(|region| self.located(region)))
    }

    unsafe fn free(&self, region: AnyRegion) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.free(owned(region)) }
    }

    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<(AnyRegion, Location)>, Fault> {
        // SAFETY: the caller's promise.
        let mapping = unsafe { self.driver.map_host(address, len) }?;
        Ok(self.mapping(mapping))
    }

    fn peer(&self, other: &dyn AnyDriver) -> bool {
        other.as_any().downcast_ref::<D>().is_some_and(|other| self.driver.peer(other))
    }

    unsafe fn map_peer(
        &self,
        other: &dyn AnyDriver,
        region: &AnyRegion,
    ) -> Result<Mapping<(AnyRegion, Location)>, Fault> {
        let Some(other) = other.as_any().downcast_ref::<D>() else {
            return Ok(Mapping::Never("the devices have different drivers".into()));
        };
        // SAFETY: the caller's promise; the region is the other driver's, or `typed` panics.
        let mapping = unsafe { self.driver.map_peer(other, typed(&**region)) }?;
        Ok(self.mapping(mapping))
    }

    fn dma(&self, region: &AnyRegion, function: &str) -> Result<Result<Dma, String>, Fault> {
        self.driver.dma(typed(&**region), function)
    }

    fn image(&self, binary: &[u8]) -> Result<Code<AnyImage>, ImageError> {
        Ok(match self.driver.image(binary)? {
            Code::Loaded(image) => Code::Loaded(Box::new(image)),
            Code::Place(place) => Code::Place(crate::Place {
                memory: place.memory,
                len: place.len,
                finish: Box::new(move |location| {
                    let (bytes, image) = (place.finish)(location)?;
                    Ok((bytes, Box::new(image) as AnyImage))
                }),
            }),
        })
    }

    fn prepare(&self, image: &AnyImage, name: &str) {
        self.driver.prepare(typed(&**image), name);
    }

    fn entry(&self, image: &AnyImage, name: &str) -> Result<AnyEntryAnswer, Fault> {
        Ok(match self.driver.entry(typed(&**image), name)? {
            EntryAnswer::Entry(entry, facts) => AnyEntryAnswer::Entry(AnyEntry { entry: Arc::new(entry), facts }),
            EntryAnswer::Absent { names } => AnyEntryAnswer::Absent(names),
            EntryAnswer::NoMemory(bytes) => AnyEntryAnswer::NoMemory(bytes),
            EntryAnswer::Invalid(why) => AnyEntryAnswer::Invalid(why),
        })
    }

    unsafe fn unload(&self, image: AnyImage) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        unsafe { self.driver.unload(owned(image)) }
    }

    fn bind(&self, parts: Vec<AnyPart>) -> Result<Box<dyn Bound>, PlanError> {
        let parts = parts.into_iter().map(|part| self.part(part)).collect::<Result<Box<[_]>, _>>()?;
        let plan = UnsafeCell::new(self.driver.plan(&parts)?);
        Ok(Box::new(BoundOf { driver: Arc::clone(&self.driver), parts, plan }))
    }

    fn commit(&self, value: u64) -> Result<(), Fault> {
        self.driver.commit(value)
    }

    fn grow(&self) -> Result<Grown, Fault> {
        self.driver.grow()
    }

    fn signaled(&self) -> u64 {
        self.driver.signaled()
    }

    fn free_word(&self) {
        self.driver.free_word();
    }

    fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        self.driver.sleep(sleep)
    }

    fn stop(&self, fault: Option<&str>) -> Result<(), Fault> {
        self.driver.stop(fault)
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        &*self.driver
    }
}
