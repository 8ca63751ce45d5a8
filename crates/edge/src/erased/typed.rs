//! The erased calls, over a driver of one type.
//!
//! # Invariants
//!
//! 1. A `BoundOf`'s plan is touched only by the hot calls, which its caller promises to run one at a time, and by its
//!    drop, which needs the only handle.

use std::any::{Any, TypeId};
use std::cell::UnsafeCell;
use std::sync::Arc;

use super::{AnyDriver, AnyEntry, AnyEntryAnswer, AnyImage, AnyPart, AnyRegion, Bound};
use crate::{
    Code, Dma, Driver, EntryAnswer, Facts, Fault, Fill, Grown, ImageError, Launch, Location, Mapping, Memory, Part,
    PlanError, Room, Sleep, Submitted, Work,
};

pub(super) struct Erased<D> {
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
    pub(super) fn new(driver: D) -> Erased<D> {
        Erased { driver: Arc::new(driver) }
    }

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
