//! Images and their functions.

use std::fmt;
use std::sync::Arc;

use rig_edge::erased::{AnyEntry, AnyEntryAnswer, AnyImage, AnyRegion};
use rig_edge::{Code, Driver, ImageError, Location};

use crate::allocation::{AllocationRef, Place};
use crate::device::{Core, Handle, Retired};
use crate::error::invalid;
use crate::memory::ROUNDS;
use crate::primitive::Mutex;
use crate::{Buffer, Device, Error, Result};

/// A binary loaded on a device.
///
/// An `Image` is a handle: clones are further handles. The code stays loaded until no handle, function or submission
/// uses it and the device has run all work that does.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # use rig::{read, write};
/// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
/// #     let first = at.group[0] as usize * 64;
/// #     // SAFETY: the launches below have 64 floats of each slot for every group.
/// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
/// #     // SAFETY: as above.
/// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
/// #     let by: f32 = params.get(16);
/// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
/// # });
/// # let image = device.load(&kernels.image())?;
/// # let add = image.function("add")?;
/// assert_eq!(image.function("add")?.name(), "add");
/// // An error lists the names that are there.
/// let Err(rig::Error::Invalid(why)) = image.function("ad") else { panic!("there is no such function") };
/// assert!(why.contains("add"), "{why}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Image {
    inner: Arc<ImageInner>,
}

struct ImageInner {
    handle: Arc<Handle>,
    /// Always there until the drop.
    code: Option<Arc<ImageCode>>,
    functions: Mutex<Vec<(Box<str>, AnyEntry)>>,
}

/// The driver's image and the region of its code. Unloaded by its device's sweep, once nothing else refers to it.
pub(crate) struct ImageCode {
    /// There until it is unloaded.
    pub(crate) image: Option<AnyImage>,
    /// The region and its bytes, where rig placed the code.
    pub(crate) region: Option<(AnyRegion, u64)>,
}

impl ImageInner {
    fn code(&self) -> &Arc<ImageCode> {
        // PANIC: taken only by the drop.
        self.code.as_ref().expect("an image has its code until it is dropped")
    }

    fn image(&self) -> &AnyImage {
        // PANIC: an image is unloaded only once no handle refers to its code.
        self.code().image.as_ref().expect("an image in use is loaded")
    }
}

impl Drop for ImageInner {
    fn drop(&mut self) {
        if let Some(code) = self.code.take() {
            self.functions.lock().clear();
            self.handle.core.retire(Retired::Image(code));
        }
    }
}

impl Image {
    /// Loads `image` on `device`.
    ///
    /// # Errors
    ///
    /// Refused with the driver's reason; OutOfMemory; Lost; Invalid inside a fill or a kernel.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("nothing", 0, |_, _| {});
    /// rig::Image::load(&device, &kernels.image())?;
    /// assert!(matches!(rig::Image::load(&device, b"no object"), Err(rig::Error::Refused(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn load(device: &Device, image: &[u8]) -> Result<Image> {
        let core = &device.handle.core;
        refuse_inside(core)?;
        core.sweep_retired();
        let mut last = 0;
        for round in 0..ROUNDS {
            if round > 0 {
                core.reclaim(round);
            }
            match load_once(device, image)? {
                Loaded::Code(code) => {
                    let inner = ImageInner {
                        handle: Arc::clone(&device.handle),
                        code: Some(Arc::new(code)),
                        functions: Mutex::new(Vec::new()),
                    };
                    return Ok(Image { inner: Arc::new(inner) });
                }
                Loaded::NoMemory(bytes) => last = bytes,
            }
        }
        Err(Error::OutOfMemory { bytes: last })
    }

    /// The function `name`.
    ///
    /// # Errors
    ///
    /// Invalid if the image has none of that name, with the names that there are, or if it cannot be made, with the
    /// driver's reason; OutOfMemory; Lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// let add = image.function("add")?;
    /// assert_eq!(add.params(), Some(20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn function(&self, name: &str) -> Result<Function> {
        match self.find(name)? {
            Ok(function) => Ok(function),
            Err(names) if names.is_empty() => invalid!("the image has no function {name}, nor any other"),
            Err(names) => invalid!("the image has no function {name}; it has {}", names.join(", ")),
        }
    }

    /// The function `name`, or `None` if the image has none of that name. Blocks while the driver makes what launches of
    /// it need.
    ///
    /// # Errors
    ///
    /// Invalid if the function cannot be made, with the driver's reason; OutOfMemory; Lost.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// assert!(image.resolve("add")?.is_some());
    /// assert!(image.resolve("subtract")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub fn resolve(&self, name: &str) -> Result<Option<Function>> {
        Ok(self.find(name)?.ok())
    }

    /// Starts making what launches of these functions need and returns, so that the driver can make several at once. The
    /// next [`function`](Image::function) or [`resolve`](Image::resolve) of each waits for it. Reports nothing.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// image.prepare(&["add"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn prepare(&self, names: &[&str]) {
        let core = &self.inner.handle.core;
        if rig_edge::callback::inside() {
            return;
        }
        for name in names {
            // A fault is told by the calls that follow.
            let _ = core.counted(|driver| {
                driver.prepare(self.inner.image(), name);
                Ok(())
            });
        }
    }

    /// The device that the image is loaded on.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// assert_eq!(image.device(), device);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> Device {
        Device { handle: Arc::clone(&self.inner.handle) }
    }

    fn find(&self, name: &str) -> Result<std::result::Result<Function, Vec<String>>> {
        let core = &self.inner.handle.core;
        refuse_inside(core)?;
        core.check_open()?;
        let known = self.inner.functions.lock().iter().find(|(known, _)| **known == *name).cloned();
        if let Some((name, entry)) = known {
            return Ok(Ok(self.made(name, entry)));
        }
        let mut last = 0;
        for round in 0..ROUNDS {
            if round > 0 {
                core.reclaim(round);
            }
            match core.counted(|driver| driver.entry(self.inner.image(), name))? {
                AnyEntryAnswer::Entry(entry) => {
                    self.inner.functions.lock().push((name.into(), entry.clone()));
                    return Ok(Ok(self.made(name.into(), entry)));
                }
                AnyEntryAnswer::Absent(names) => return Ok(Err(names)),
                AnyEntryAnswer::Invalid(why) => return invalid!("the function {name} cannot be made: {why}"),
                AnyEntryAnswer::NoMemory(bytes) => last = bytes,
            }
        }
        Err(Error::OutOfMemory { bytes: last })
    }

    fn made(&self, name: Box<str>, entry: AnyEntry) -> Function {
        Function { image: self.clone(), name: name.into(), entry }
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("device", &self.inner.handle.core.name).finish_non_exhaustive()
    }
}

fn refuse_inside(core: &Core) -> Result<()> {
    if rig_edge::callback::inside() {
        return invalid!(
            "{} loads no image and resolves no function inside a fill or a kernel: do so before",
            core.name
        );
    }
    Ok(())
}

enum Loaded {
    Code(ImageCode),
    NoMemory(u64),
}

fn load_once(device: &Device, bytes: &[u8]) -> Result<Loaded> {
    let core = &*device.handle.core;
    let answer = core.counted(|driver| match driver.image(bytes) {
        Err(ImageError::Fault(fault)) => Err(fault),
        other => Ok(other),
    })?;
    match answer {
        Ok(Code::Loaded(image)) => Ok(Loaded::Code(ImageCode { image: Some(image), region: None })),
        Ok(Code::Place(place)) => place_code(device, place),
        Err(error) => refused(core, error),
    }
}

fn refused(core: &Core, error: ImageError) -> Result<Loaded> {
    match error {
        ImageError::Refused(why) => Err(Error::Refused(format!("{} refuses the image: {why}", core.name))),
        ImageError::NoMemory(bytes) => Ok(Loaded::NoMemory(bytes)),
        ImageError::Fault(fault) => {
            core.lose(fault);
            Err(core.lost_error())
        }
    }
}

/// Puts code where the driver wants it, and stores its bytes there.
fn place_code(device: &Device, place: rig_edge::Place<AnyImage>) -> Result<Loaded> {
    let core = &*device.handle.core;
    let (region, location) = core.place_code(place.memory, place.len)?;
    let len = place.len.next_multiple_of(rig_edge::WORD_BYTES) as u64;
    let (bytes, image) = match (place.finish)(location) {
        Ok(finished) => finished,
        Err(error) => {
            free_code(core, region, len);
            return refused(core, error);
        }
    };
    let code = ImageCode { image: Some(image), region: Some((region, len)) };
    match store_code(device, location, place.len, &bytes) {
        Ok(()) => Ok(Loaded::Code(code)),
        Err(error) => {
            core.retire(Retired::Image(Arc::new(code)));
            Err(error)
        }
    }
}

fn free_code(core: &Core, region: AnyRegion, len: u64) {
    match core.free_region(region) {
        Ok(()) => core.pool.lock().live -= len,
        Err(region) => {
            core.retire(Retired::Image(Arc::new(ImageCode { image: None, region: Some((region, len)) })));
        }
    }
}

/// Stores code at the start of its region: in place where the host addresses it, else by the device's queue.
fn store_code(device: &Device, location: Location, len: usize, bytes: &[u8]) -> Result<()> {
    if bytes.len() > len {
        let core = &device.handle.core;
        core.lose(format!("its driver asked for {len} bytes of memory for code and wrote {}", bytes.len()));
        return Err(core.lost_error());
    }
    if location.host.is_null() {
        // A buffer over the region, for the copy alone: it has no region of the pool's, so its drop gives nothing back.
        let place = Place { device: location.device, host: std::ptr::null_mut(), region: std::ptr::null_mut() };
        let code = Buffer::new(AllocationRef::new(Arc::clone(&device.handle), bytes.len(), place));
        return code.copy_from_slice(bytes);
    }
    // SAFETY: the region was just made for `len` bytes at a host address, nobody else knows it, and no work uses it.
    #[expect(unsafe_code, reason = "stores code into fresh memory")]
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), location.host, bytes.len());
    }
    Ok(())
}

/// A function of an image: what a launch runs. A handle that keeps its image loaded.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// # use rig::{read, write};
/// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
/// #     let first = at.group[0] as usize * 64;
/// #     // SAFETY: the launches below have 64 floats of each slot for every group.
/// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
/// #     // SAFETY: as above.
/// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
/// #     let by: f32 = params.get(16);
/// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
/// # });
/// # let image = device.load(&kernels.image())?;
/// # let add = image.function("add")?;
/// println!("{} takes {:?} bytes of parameters", add.name(), add.params());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Function {
    image: Image,
    name: Arc<str>,
    entry: AnyEntry,
}

impl Function {
    /// The function's name.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// assert_eq!(add.name(), "add");
    /// # Ok(())
    /// # }
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The bytes of the function's parameters; `None` where the function does not state it.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// assert_eq!(add.params(), Some(20));
    /// # Ok(())
    /// # }
    /// ```
    pub fn params(&self) -> Option<usize> {
        self.entry.facts().params
    }

    /// The most threads that a group of it may hold; `None` where no bound is known before a launch.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// println!("a group has {:?} threads at most", add.threads());
    /// # Ok(())
    /// # }
    /// ```
    pub fn threads(&self) -> Option<u32> {
        self.entry.facts().threads
    }

    /// What the driver `D` made for launches of the function, such as a pipeline, for fills that launch it by the vendor's
    /// own calls; `None` if the device's driver is another. Valid while this handle or a submission keeps the image: give
    /// [`Builder::keep`](crate::Builder::keep) a handle where a fill uses it.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::memory())?;
    /// # let image = rig_host::Kernels::new().group("nothing", 0, |_, _| {}).image();
    /// let nothing = device.load(&image)?.function("nothing")?;
    /// assert!(nothing.entry::<rig_host::Host>().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn entry<D: Driver>(&self) -> Option<&D::Entry> {
        self.handle().core.driver.as_any().is::<D>().then(|| self.entry.typed::<D>())?
    }

    /// The device that the function runs on.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # use rig::{read, write};
    /// # let kernels = rig_host::Kernels::new().group("add", 20, |params, at| {
    /// #     let first = at.group[0] as usize * 64;
    /// #     // SAFETY: the launches below have 64 floats of each slot for every group.
    /// #     let x: &[f32] = unsafe { params.slice(0, first, 64) };
    /// #     // SAFETY: as above.
    /// #     let y: &mut [f32] = unsafe { params.slice_mut(8, first, 64) };
    /// #     let by: f32 = params.get(16);
    /// #     y.iter_mut().zip(x).for_each(|(y, x)| *y += by * x);
    /// # });
    /// # let image = device.load(&kernels.image())?;
    /// # let add = image.function("add")?;
    /// assert_eq!(image.device(), device);
    /// # Ok(())
    /// # }
    /// ```
    pub fn device(&self) -> Device {
        self.image.device()
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.image.inner.handle
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(crate) fn any_entry(&self) -> AnyEntry {
        self.entry.clone()
    }

    pub(crate) fn code(&self) -> Arc<ImageCode> {
        Arc::clone(self.image.inner.code())
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Function").field("name", &self.name).field("image", &self.image).finish_non_exhaustive()
    }
}
