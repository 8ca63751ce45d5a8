//! Code: libraries, and their functions compiled into pipelines.
//!
//! # Invariants
//!
//! 1. A function has one pipeline, however many threads ask. The image's lock is held while one waits for it, so others that
//!    prepare or resolve functions of the image wait too.
//! 2. What could not be made is not kept: a later call compiles again.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::Arc;

use objc2::rc::{Retained, autoreleasepool};
use objc2::runtime::ProtocolObject;
use objc2_foundation::NSString;
use parking_lot::Mutex;
use rig_edge::{EntryAnswer, EntryFacts, Fault, ImageError};

use crate::abi;
use crate::compile::{Compile, Made, function};
use crate::constants::{Spelling, parse};
use crate::driver::Metal;
use crate::limits::clamped;
use crate::object::Held;
use crate::sys::{MTLComputePipelineState, MTLDevice, MTLFunction, MTLFunctionType, MTLLibrary, guard};

/// How many names of functions an error may list.
const NAMES_MOST: usize = 256;

/// A loaded library.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// // Nothing of it is compiled yet: a function is when it is asked for.
/// let image = device.load(&library)?;
/// assert_eq!(image.function("iota")?.name(), "iota");
/// let Err(rig::Error::Invalid(why)) = image.function("iot") else { panic!("there is no such function") };
/// assert!(why.contains("iota"), "{why}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Image {
    library: Held<dyn MTLLibrary>,
    /// The names of its functions.
    names: Vec<String>,
    /// What is made of its functions, by the names under which they were asked for.
    functions: Mutex<HashMap<String, Slot>>,
}

#[derive(Debug)]
enum Slot {
    /// Metal compiles it.
    Started(Arc<Compile>),
    Made(Entry),
}

/// What launches of a function need: its pipeline and its limits.
///
/// Valid until its image is unloaded. A fill gets it from a function by rig's `Function::entry`, to encode launches of its own.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_metal::{Entry, Metal};
/// let entry: &Entry = iota.entry::<Metal>().ok_or("a function of another driver")?;
/// // A function may take fewer threads than the GPU has for a group.
/// assert_eq!(iota.threads(), Some(entry.threads()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Entry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    pipeline: Held<dyn MTLComputePipelineState>,
    launch: abi::Launch,
    params: Option<usize>,
}

impl Entry {
    /// The pipeline, which indirect command buffers may run too.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// use rig_metal::sys::MTLComputePipelineState;
    /// // A group of whole SIMD groups, for a launch that a fill encodes.
    /// let width = entry.pipeline().threadExecutionWidth() as u32;
    /// let threads = entry.threads() / width * width;
    /// assert!(threads >= width && threads.is_multiple_of(width));
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn pipeline(&self) -> &ProtocolObject<dyn MTLComputePipelineState> {
        &self.0.pipeline
    }

    /// The pipeline's address, for compiled code: an `id<MTLComputePipelineState>`.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// // In Objective-C it is `(__bridge id<MTLComputePipelineState>)code`.
    /// let code = entry.code();
    /// assert_eq!(code, std::ptr::from_ref(entry.pipeline()).cast());
    /// # Ok(())
    /// # }
    /// ```
    pub fn code(&self) -> *const c_void {
        self.0.pipeline.address()
    }

    /// What a launch reads, for compiled code: the pipeline and its limits.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// // A function in C gets this address as a `const struct rig_metal_launch *`.
    /// let launch = entry.launch();
    /// // SAFETY: the entry is there.
    /// let launch = unsafe { &*launch };
    /// assert_eq!((launch.pipeline, launch.threads), (entry.code(), entry.threads()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn launch(&self) -> *const abi::Launch {
        &raw const self.0.launch
    }

    /// The most threads of a group.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// // As few groups as the function's code lets there be.
    /// let groups = 100_000_u32.div_ceil(entry.threads());
    /// assert!(groups * entry.threads() >= 100_000);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn threads(&self) -> u32 {
        self.0.launch.threads
    }

    /// The bytes of threadgroup memory that the function declares itself.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
    /// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
    /// use rig_metal::sys::MTLDevice;
    /// // What a launch may ask for beside it.
    /// let left = capability.device().maxThreadgroupMemoryLength() - entry.group_bytes() as usize;
    /// let mut run = device.submission().launch(&iota, [rig::write(0)]).make()?.take();
    /// run.part(0).threads([64, 1, 1]).set(8, 64_u32).group_bytes(left as u32);
    /// // SAFETY: `iota` writes the 64 numbers of slot 0, and touches nothing else.
    /// unsafe { run.launch(&[&y])? };
    /// assert_eq!(y.read(|y| y[63])?, 63);
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn group_bytes(&self) -> u32 {
        self.0.launch.group_bytes
    }

    fn answer(&self) -> EntryAnswer<Entry> {
        let facts = EntryFacts { params: self.0.params, threads: Some(self.threads()) };
        EntryAnswer::Entry(self.clone(), facts)
    }
}

impl Metal {
    /// Loads a library, and compiles nothing of it.
    pub(crate) fn load(&self, binary: &[u8]) -> Result<Image, ImageError> {
        let loaded = autoreleasepool(|_| guard(|| self.library(binary)).and_then(|loaded| loaded));
        loaded.map_err(ImageError::Refused)
    }

    fn library(&self, binary: &[u8]) -> Result<Image, String> {
        let data = dispatch2::DispatchData::from_bytes(binary);
        let library = self
            .gpu
            .newLibraryWithData_error(&data)
            .map_err(|error| format!("Metal cannot load the library: {}", error.localizedDescription()))?;
        let listed = library.functionNames();
        let mut names = Vec::with_capacity(listed.len());
        for name in listed.iter() {
            // A function that has constants is there without their values too, though no pipeline can be made of it.
            let kind = library.newFunctionWithName(&name).map(|function| function.functionType());
            if let Some(kind) = kind
                && kind != MTLFunctionType::Kernel
            {
                return Err(format!("the library's function {name} is {}: rig runs compute kernels", kind_name(kind)));
            }
            names.push(name.to_string());
        }
        Ok(Image { library: library.into(), names, functions: Mutex::new(HashMap::new()) })
    }

    /// Starts the compile of a function.
    pub(crate) fn prepare_function(&self, image: &Image, name: &str) {
        let mut functions = image.functions.lock();
        if functions.contains_key(name) {
            return;
        }
        // Nothing is reported: the next entry finds the same, and says so.
        if let Ok(Some(compile)) = autoreleasepool(|_| self.start(image, name)) {
            functions.insert(name.into(), Slot::Started(compile));
        }
    }

    /// The entry of a function.
    pub(crate) fn entry_of(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        let mut functions = image.functions.lock();
        let compile = match functions.get(name) {
            Some(Slot::Made(entry)) => return Ok(entry.answer()),
            Some(Slot::Started(compile)) => Arc::clone(compile),
            None => match autoreleasepool(|_| self.start(image, name)) {
                Ok(Some(compile)) => compile,
                Ok(None) => return Ok(EntryAnswer::Absent { names: image.listed() }),
                Err(why) => return Ok(EntryAnswer::Invalid(why)),
            },
        };
        match compile.wait() {
            Ok(made) => {
                let entry = self.entry_from(made);
                functions.insert(name.into(), Slot::Made(entry.clone()));
                Ok(entry.answer())
            }
            Err(why) => {
                functions.remove(name);
                Ok(EntryAnswer::Invalid(format!("Metal cannot make a pipeline of {name}: {why}")))
            }
        }
    }

    fn entry_from(&self, Made { pipeline, threads, group_bytes, params }: Made) -> Entry {
        let launch = abi::Launch {
            pipeline: pipeline.address(),
            threads: clamped(threads).min(self.limits.threads),
            group_bytes: clamped(group_bytes),
        };
        Entry(Arc::new(Inner { pipeline, launch, params }))
    }

    /// Starts the compile of a function, with the constants that its name gives; none if there is no such function.
    fn start(&self, image: &Image, name: &str) -> Result<Option<Arc<Compile>>, String> {
        let Spelling { function: base, constants } = match parse(name) {
            Ok(spelling) => spelling,
            // A library may have a function of any name, as from a template.
            Err(_) if image.has(name) => Spelling { function: name, constants: Vec::new() },
            Err(why) => return Err(why),
        };
        if !image.has(base) {
            return Ok(None);
        }
        guard(|| {
            let Some(function) = function(&image.library, base, &constants)? else { return Ok(None) };
            Compile::start(&self.gpu, &function, name).map(Some)
        })
        .and_then(|started| started)
    }
}

impl Image {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|has| has == name)
    }

    /// Names for an error.
    fn listed(&self) -> Vec<String> {
        self.names.iter().take(NAMES_MOST).cloned().collect()
    }
}

/// What a function is that is no compute kernel.
fn kind_name(kind: MTLFunctionType) -> &'static str {
    match kind {
        MTLFunctionType::Vertex => "a vertex function",
        MTLFunctionType::Fragment => "a fragment function",
        MTLFunctionType::Visible => "a visible function",
        MTLFunctionType::Intersection => "an intersection function",
        MTLFunctionType::Mesh => "a mesh function",
        MTLFunctionType::Object => "an object function",
        _ => "no compute kernel",
    }
}

/// The text as Foundation's.
pub(crate) fn text(text: &str) -> Retained<NSString> {
    NSString::from_str(text)
}
