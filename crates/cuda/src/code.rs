//! Code: modules and their functions.

use std::ffi::CString;

use rig_edge::{EntryAnswer, EntryFacts, Fault, ImageError};

use crate::container::contain;
use crate::fault::{fault, sticky};
use crate::gpu::Gpu;
use crate::sys::abi::{Code, Function, Module, function_attribute as attribute};
use crate::sys::{Failure, Result};

/// A module.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// // As nvcc, clang or Triton makes it, but shorter.
/// let ptx = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry skip() { ret; }\n";
/// let image = device.load(ptx)?;
/// assert_eq!(image.function("skip")?.params(), Some(0));
/// // What it has not, it names: here the one function there is.
/// let Err(rig::Error::Invalid(why)) = image.function("skp") else { panic!("there is no such function") };
/// assert!(why.contains("it has skip"), "{why}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Image {
    module: Module,
}

/// A function, with what a launch of it may ask for.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// use rig_cuda::{Cuda, Entry};
/// let ptx = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry skip() { ret; }\n";
/// let skip = device.load(ptx)?.function("skip")?;
/// // A function of another driver's device has none.
/// let entry: Option<&Entry> = skip.entry::<Cuda>();
/// assert!(entry.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub(crate) function: Function,
    /// The bytes of its parameters.
    pub(crate) params: usize,
    /// The most threads of a group.
    pub(crate) threads: u32,
    /// The most group memory beside what it declares.
    pub(crate) group_bytes: u32,
}

#[cfg(test)]
impl Entry {
    /// An entry of no function.
    pub(crate) fn of_params(params: usize) -> Entry {
        Entry { function: Function::NULL, params, threads: 1024, group_bytes: 0 }
    }
}

impl Image {
    /// Loads PTX, a cubin or a fatbin.
    pub(crate) fn load(gpu: &Gpu, binary: &[u8]) -> std::result::Result<Image, ImageError> {
        let bytes = contain(binary).map_err(ImageError::Refused)?;
        let _current = gpu.enter().map_err(|failure| fault(gpu.api, failure))?;
        // SAFETY: the image was seen to hold every range that it names, or is a text that ends with a zero byte.
        #[expect(unsafe_code, reason = "CUDA reads bytes without a length")]
        let loaded = unsafe { gpu.api.module_load(&bytes) };
        match loaded {
            Ok(module) => Ok(Image { module }),
            Err((failure, _)) if failure.code.is_sticky() => Err(fault(gpu.api, failure).into()),
            Err((Failure { code: Code::OUT_OF_MEMORY, .. }, _)) => Err(ImageError::NoMemory(binary.len() as u64)),
            Err((failure, log)) => {
                let why = gpu.api.describe(failure);
                Err(ImageError::Refused(if log.is_empty() { why } else { format!("{why}\n{log}") }))
            }
        }
    }

    /// The entry of the function `name`.
    pub(crate) fn entry(&self, gpu: &Gpu, name: &str) -> std::result::Result<EntryAnswer<Entry>, Fault> {
        match self.find(gpu, name) {
            Ok(answer) => Ok(answer),
            Err(failure) if failure.code.is_sticky() => Err(fault(gpu.api, failure)),
            Err(Failure { code: Code::OUT_OF_MEMORY, .. }) => Ok(EntryAnswer::NoMemory(CODE_BYTES)),
            Err(failure) => Ok(EntryAnswer::Invalid(gpu.api.describe(failure))),
        }
    }

    fn find(&self, gpu: &Gpu, name: &str) -> Result<EntryAnswer<Entry>> {
        let _current = gpu.enter()?;
        let Some(function) = self.function(gpu, name)? else {
            // SAFETY: the module is loaded, since the image is not unloaded.
            #[expect(unsafe_code, reason = "a call on a module")]
            let names = unsafe { gpu.api.module_names(self.module) }?;
            return Ok(EntryAnswer::Absent { names });
        };
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "a call on a function of a module")]
        unsafe { gpu.api.function_load(function) }?;
        let ask = |attribute| {
            // SAFETY: as above.
            #[expect(unsafe_code, reason = "a call on a function of a module")]
            unsafe { gpu.api.function_attribute(function, attribute) }.map(i32::unsigned_abs)
        };
        if ask(attribute::CLUSTER_SIZE_MUST_BE_SET).unwrap_or(0) != 0 {
            return Ok(EntryAnswer::Invalid(format!(
                "{name} runs in clusters whose size its launch must give: launch it from a fill"
            )));
        }
        let (threads, declared) = (ask(attribute::MAX_THREADS_PER_BLOCK)?, ask(attribute::SHARED_SIZE_BYTES)?);
        let group_bytes = gpu.limits.group_bytes.saturating_sub(declared);
        let most = attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "a call on a function of a module")]
        unsafe { gpu.api.function_set(function, most, group_bytes as i32) }?;
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "a call on a function of a module")]
        let params = unsafe { gpu.api.function_params(function) };
        let facts = EntryFacts { params: Some(params), threads: Some(threads) };
        Ok(EntryAnswer::Entry(Entry { function, params, threads, group_bytes }, facts))
    }

    /// The function `name`, if the module has it.
    fn function(&self, gpu: &Gpu, name: &str) -> Result<Option<Function>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        if name.is_empty() {
            return Ok(None);
        }
        // SAFETY: the module is loaded, since the image is not unloaded.
        #[expect(unsafe_code, reason = "a call on a module")]
        match unsafe { gpu.api.module_function(self.module, &name) } {
            Ok(function) => Ok(Some(function)),
            Err(Failure { code: Code::NOT_FOUND, .. }) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Unloads the module.
    ///
    /// # Safety
    ///
    /// As [`unload`](rig_edge::Driver::unload).
    #[expect(unsafe_code, reason = "the caller owes that nothing runs its code")]
    pub(crate) unsafe fn unload(self, gpu: &Gpu) -> std::result::Result<(), Fault> {
        // SAFETY: `load` loaded it, and the caller promises that nothing runs its code.
        let unloaded = gpu.enter().and_then(|_current| unsafe { gpu.api.module_unload(self.module) });
        // What CUDA does not unload now stays until the process ends.
        unloaded.or_else(|failure| sticky(gpu.api, failure))
    }
}

/// What a function's code is taken to need where CUDA has no memory for it and does not say how much.
const CODE_BYTES: u64 = 2 << 20;
