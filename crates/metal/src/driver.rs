//! The device, as rig drives it: each call of the interface, and where it is done.

use std::sync::Arc;

use objc2::rc::autoreleasepool;
use rig_edge::{
    Code, Dma, Driver, EntryAnswer, Facts, Fault, Grown, ImageError, Location, Mapping, Memory, Part, PlanError, Room,
    Sleep, Submitted, Work,
};

use crate::capability::Capability;
use crate::code::{Entry, Image};
use crate::encoder::Encoder;
use crate::limits::Limits;
use crate::memory::Region;
use crate::object::Held;
use crate::state::Shared;
use crate::sys::MTLDevice;

/// A device on the Mac's GPU.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_metal::Metal;
/// // The driver that a fill is for, and whose own record a device may have.
/// assert!(device.capability::<Metal>().is_some());
/// let step = device.submission().fill::<Metal>([], |encoder, _| encoder.compute().map(drop)).make()?;
/// # // SAFETY: the fill touches nothing.
/// # unsafe { step.take().launch(&[])?.wait()? };
/// let cores = rig::open(rig_host::cores())?;
/// assert!(cores.capability::<Metal>().is_none());
/// # Ok(())
/// # }
/// ```
pub struct Metal {
    pub(crate) gpu: Held<dyn MTLDevice>,
    pub(crate) facts: Facts,
    pub(crate) limits: Limits,
    pub(crate) capability: Capability,
    /// What the completion handlers share with the calls.
    pub(crate) shared: Arc<Shared>,
}

#[expect(unsafe_code, reason = "implements the driver interface")]
impl Driver for Metal {
    type Region = Region;
    type Image = Image;
    type Entry = Entry;
    type Plan = ();
    type Encoder<'a> = Encoder<'a>;
    type Capability = Capability;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn capability(&self) -> Option<&Capability> {
        Some(&self.capability)
    }

    // Every kind of memory is the same: the GPU and the host address it alike.
    fn alloc(&self, _: Memory, len: usize) -> Result<Option<Region>, Fault> {
        self.alloc_shared(len)
    }

    unsafe fn free(&self, region: Region) -> Result<(), Fault> {
        self.free_region(region)
    }

    fn locate(&self, region: &Region) -> Location {
        region.location()
    }

    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<Region>, Fault> {
        // SAFETY: the caller's promise.
        unsafe { self.wrap(address, len) }
    }

    fn peer(&self, _: &Metal) -> bool {
        false
    }

    unsafe fn map_peer(&self, _: &Metal, _: &Region) -> Result<Mapping<Region>, Fault> {
        Ok(Mapping::Never("a Metal device maps its own memory and the host's alone".into()))
    }

    fn dma(&self, _: &Region, function: &str) -> Result<Result<Dma, String>, Fault> {
        Ok(Err(format!("Metal gives no other device DMA to its buffers, so {function} reaches none")))
    }

    fn image(&self, binary: &[u8]) -> Result<Code<Image>, ImageError> {
        self.load(binary).map(Code::Loaded)
    }

    fn prepare(&self, image: &Image, name: &str) {
        self.prepare_function(image, name);
    }

    fn entry(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        self.entry_of(image, name)
    }

    unsafe fn unload(&self, image: Image) -> Result<(), Fault> {
        // A compile that Metal still does keeps its answer alone, and drops it.
        autoreleasepool(|_| drop(image));
        Ok(())
    }

    fn plan(&self, _: &[Part<Metal>]) -> Result<(), PlanError> {
        Ok(())
    }

    #[inline]
    unsafe fn room(&self, (): &mut (), parts: &[Part<Metal>], work: &mut Work<'_>) -> Room {
        self.room_for(parts, work)
    }

    #[inline]
    unsafe fn submit(&self, value: u64, (): &mut (), parts: &[Part<Metal>], work: &mut Work<'_>) -> Submitted {
        // SAFETY: the caller's promise.
        unsafe { self.take(value, parts, work) }
    }

    fn commit(&self, _: u64) -> Result<(), Fault> {
        self.commit_all()
    }

    fn grow(&self) -> Result<Grown, Fault> {
        self.grow_arena()
    }

    fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        self.doze(sleep)
    }

    fn stop(&self, _: Option<&str>) -> Result<(), Fault> {
        self.end();
        Ok(())
    }
}
