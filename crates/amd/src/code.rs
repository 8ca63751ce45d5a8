//! Code: images, whose bytes rig puts into the GPU's memory, and their entries.
//!
//! An image's bytes reach the GPU's memory by a copy of rig's, on the copy queue. The GPU's instruction caches know nothing
//! of that: the first entry of an image notes that they are stale, and the next launch makes them read afresh, after the copy
//! since it is a later value.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rig_edge::{Code, EntryAnswer, EntryFacts, Fault, ImageError, Memory, Place};

use crate::Amd;
use crate::hal::Chip;
use crate::kernel::{Function, Hidden};
use crate::object::Object;
use crate::scratch::Grown;

/// A code object in the GPU's memory.
///
/// ```
#[doc = include_str!("example.txt")]
/// let device = rig::open(gpu(0))?;
/// // What `clang -target amdgcn-amd-amdhsa -mcpu=gfx1100` makes.
/// let image = device.load(&std::fs::read("kernels/copy.co")?)?;
/// assert_eq!(image.function("rig_copy")?.params(), Some(32));
/// assert!(matches!(device.load(b"\x7fELF"), Err(rig::Error::Refused(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Image {
    functions: HashMap<String, Function>,
    /// Where it lies.
    base: u64,
    /// Whether the instruction caches were told of it.
    told: AtomicBool,
}

/// A function, with what a launch of it needs.
///
/// ```
#[doc = include_str!("example.txt")]
/// use rig_amd::{Amd, Entry};
///
/// let device = rig::open(gpu(0))?;
/// let function = device.load(&std::fs::read("kernels/copy.co")?)?.function("rig_copy")?;
/// // What a fill launches with.
/// let entry: Entry = function.entry::<Amd>().ok_or("the function is another driver's")?.clone();
/// # assert!(format!("{entry:?}").contains("params: 32"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Entry {
    /// The descriptor's address.
    pub(crate) kernel_object: u64,
    /// The bytes of its arguments, and of those that the launch gives.
    pub(crate) kernarg: u32,
    pub(crate) params: u32,
    /// The bytes of group memory that it declares.
    pub(crate) group: u32,
    /// The bytes of private memory of each thread.
    pub(crate) private: u32,
    /// The size of a wave's scratch, in the chip's units; 0 where it needs none.
    pub(crate) scratch: u32,
    /// The most threads of a group.
    pub(crate) threads: u32,
    /// The only size of group, where there is only one.
    pub(crate) fixed: Option<[u32; 3]>,
    /// The arguments that describe the launch.
    pub(crate) hidden: Arc<[Hidden]>,
}

impl Entry {
    pub(crate) fn new(function: &Function, scratch: u32, base: u64) -> Entry {
        Entry {
            kernel_object: base + function.descriptor,
            kernarg: function.kernarg,
            params: function.params,
            group: function.group,
            private: function.private,
            scratch,
            threads: function.threads,
            fixed: function.fixed,
            hidden: function.hidden.as_slice().into(),
        }
    }
}

#[cfg(test)]
impl Entry {
    /// An entry of no function.
    pub(crate) fn of_params(params: u32, threads: u32, group: u32) -> Entry {
        let (kernarg, private, scratch) = (params, 0, 0);
        Entry { kernel_object: 0, kernarg, params, group, private, scratch, threads, fixed: None, hidden: [].into() }
    }
}

/// Takes a code object; rig puts it in the GPU's memory.
pub(crate) fn image(chip: &'static dyn Chip, binary: &[u8]) -> Result<Code<Image>, ImageError> {
    let object = Object::read(binary, chip.arch(), chip.mach()).map_err(ImageError::Refused)?;
    let len = object.len();
    let finish = move |place: rig_edge::Location| {
        let (bytes, functions) = object.at(place.device);
        let functions = functions.into_iter().map(|function| (function.name.clone(), function)).collect();
        Ok((bytes, Image { functions, base: place.device, told: AtomicBool::new(false) }))
    };
    Ok(Code::Place(Place { memory: Memory::Device, len, finish: Box::new(finish) }))
}

impl Amd {
    /// The entry of the function `name` of an image, with what its launches need.
    pub(crate) fn entry_of(&self, image: &Image, name: &str) -> Result<EntryAnswer<Entry>, Fault> {
        let Some(function) = image.functions.get(name) else {
            let mut names: Vec<String> = image.functions.keys().cloned().collect();
            names.sort_unstable();
            return Ok(EntryAnswer::Absent { names });
        };
        if let Some(why) = &function.refusal {
            return Ok(EntryAnswer::Invalid(why.clone()));
        }
        let Some(scratch) = self.gpu.chip().scratch_units(function.private, function.lanes) else {
            return Ok(EntryAnswer::Invalid(format!(
                "{name} keeps {} bytes of private memory for each thread, in waves of {}: the GPU has less",
                function.private, function.lanes
            )));
        };
        if scratch > 0
            && let Grown::NoMemory(bytes) = self.grow_scratch(scratch)?
        {
            return Ok(EntryAnswer::NoMemory(bytes));
        }
        image.tell(&self.stale);
        let facts = EntryFacts { params: Some(function.params as usize), threads: Some(function.threads) };
        Ok(EntryAnswer::Entry(Entry::new(function, scratch, image.base), facts))
    }
}

impl Image {
    /// Notes in `stale` that the instruction caches must read this image afresh.
    fn tell(&self, stale: &AtomicBool) {
        // ORDERING: the note stands before anybody can see that it was made: Release pairs with this Acquire, so that no
        // launch of another thread's entry goes ahead of the note.
        if !self.told.load(Ordering::Acquire) {
            stale.store(true, Ordering::Release);
            self.told.store(true, Ordering::Release);
        }
    }
}
