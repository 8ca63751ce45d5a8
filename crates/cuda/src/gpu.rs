//! A GPU as the process shares it: its primary context, rig's own kernel and memory on it, and which GPUs reach which.
//!
//! # Invariants
//!
//! 1. A GPU is made once in a process and kept for as long as the process lives, and so are its context, its kernel, its
//!    memory, and the registration of the table of words.
//!
//! Contexts are never released: the registered table and every mapping of a peer's memory would go with them, and an open
//! after the last close would pay for all of it anew.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rig_edge::{WORDS_MAX, WordIndex, Words};

use crate::fault::reason;
use crate::limits::Limits;
use crate::sys::abi::{Code, Context, Function, Stream, device_attribute as attribute};
use crate::sys::stream::Shape;
use crate::sys::{Api, Current, Failure, Result};
use crate::times::Clock;

/// The kernel that ends graphs.
const COUNT: &[u8] = concat!(include_str!("../kernels/count.ptx"), "\0").as_bytes();

/// The bytes of a counter of values.
const COUNTER_BYTES: u64 = 8;
/// Where in a GPU's own memory the nodes of a graph copy from and to before they are patched.
const SPARE_FROM: u64 = WORDS_MAX as u64 * COUNTER_BYTES;
const SPARE_TO: u64 = SPARE_FROM + 256;
/// Where the check of a peer counts.
const CHECK: u64 = SPARE_TO + 256;
/// The bytes of a GPU's own memory: a counter for each word, then the rest.
const OWN_BYTES: usize = CHECK as usize + 256;

/// A GPU, open.
pub(crate) struct Gpu {
    pub api: &'static Api,
    /// Which one, from 0.
    pub ordinal: i32,
    /// CUDA's number for it.
    pub device: i32,
    pub limits: Limits,
    /// Whether streams wait for 64 bits of memory.
    pub waits: bool,
    /// Whether host memory can be registered.
    pub registers: bool,
    /// Whether memory can be given out as a dma-buf.
    pub dma_buf: bool,
    /// The kernel that ends graphs.
    pub count: Function,
    /// The GPU's clock beside the host's.
    pub clock: Clock,
    context: Context,
    /// The GPU's own memory.
    own: u64,
    /// The table of words, as the GPU reaches it.
    words: u64,
    /// Which GPUs' memory CUDA says that the work of this one may reach, by ordinal.
    reaches: Vec<bool>,
    /// What came of the first use of each, by ordinal.
    links: Mutex<HashMap<i32, std::result::Result<(), String>>>,
}

/// The GPUs that are open, by ordinal. Held while one opens, so that it opens once.
static OPEN: Mutex<Vec<&'static Gpu>> = Mutex::new(Vec::new());

/// The GPU of an ordinal.
pub(crate) fn gpu(api: &'static Api, ordinal: i32) -> std::result::Result<&'static Gpu, String> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = open.iter().find(|gpu| gpu.ordinal == ordinal) {
        return Ok(gpu);
    }
    let gpu = Gpu::open(api, ordinal)?;
    open.push(gpu);
    Ok(gpu)
}

impl Gpu {
    fn open(api: &'static Api, ordinal: i32) -> std::result::Result<&'static Gpu, String> {
        let why = |failure| reason(api, failure);
        let count = api.device_count().map_err(why)?;
        if ordinal >= count {
            return Err(format!(
                "there is no GPU {ordinal}: CUDA sees {count}, counted from 0; the variable CUDA_VISIBLE_DEVICES can hide some"
            ));
        }
        let device = api.device(ordinal).map_err(why)?;
        let has = |attribute| api.device_attribute(device, attribute).is_ok_and(|value| value != 0);
        if !has(attribute::UNIFIED_ADDRESSING) {
            return Err(format!("GPU {ordinal} has not one address space with the host, which rig needs"));
        }
        let reaches = (0..count).map(|other| {
            let other = api.device(other)?;
            if other == device { Ok(true) } else { api.device_peer(device, other) }
        });
        let reaches = reaches.collect::<Result<Vec<bool>>>().map_err(why)?;
        let limits = Limits::of(api, device).map_err(why)?;
        let context = api.context_retain(device).map_err(why)?;
        let _current = api.enter(context).map_err(why)?;
        let own = api.memory_alloc(OWN_BYTES).map_err(why)?;
        Ok(Box::leak(Box::new(Gpu {
            api,
            ordinal,
            device,
            limits,
            waits: has(attribute::CAN_USE_64_BIT_STREAM_MEM_OPS),
            registers: has(attribute::HOST_REGISTER_SUPPORTED),
            dma_buf: has(attribute::DMA_BUF_SUPPORTED),
            count: load_count(api)?,
            clock: Clock::default(),
            context,
            own,
            words: map_words(api).map_err(why)?,
            reaches,
            links: Mutex::new(HashMap::new()),
        })))
    }

    /// Makes the GPU's context current on this thread, until the answer is dropped.
    #[inline]
    pub fn enter(&self) -> Result<Current> {
        self.api.enter(self.context)
    }

    /// The primary context.
    pub fn context(&self) -> Context {
        self.context
    }

    /// Where the GPU's queues find a word.
    #[inline]
    pub fn word(&self, index: WordIndex) -> u64 {
        self.words + (index.get() * size_of::<rig_edge::Word>()) as u64
    }

    /// Where the values of the device with this word are counted.
    pub fn counter(&self, index: WordIndex) -> u64 {
        self.own + index.get() as u64 * COUNTER_BYTES
    }

    /// Memory that a copy which is not yet patched reads, and memory that it writes.
    pub fn spare(&self) -> (u64, u64) {
        (self.own + SPARE_FROM, self.own + SPARE_TO)
    }

    /// Whether CUDA says that the work of this GPU may reach the other's memory.
    pub fn reaches(&self, other: &Gpu) -> bool {
        self.reaches.get(other.ordinal as usize).copied().unwrap_or(false)
    }

    /// Lets the work of this GPU reach the other's memory, and sees at the first use that it does.
    pub fn link(&self, other: &Gpu) -> Result<std::result::Result<(), String>> {
        if self.ordinal == other.ordinal {
            return Ok(Ok(()));
        }
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = links.get(&other.ordinal) {
            return Ok(known.clone());
        }
        let answer = self.link_first(other)?;
        links.insert(other.ordinal, answer.clone());
        Ok(answer)
    }

    fn link_first(&self, other: &Gpu) -> Result<std::result::Result<(), String>> {
        let _current = self.enter()?;
        match self.api.context_peer(other.context) {
            Ok(()) | Err(Failure { code: Code::PEER_ACCESS_ALREADY_ENABLED, .. }) => {}
            Err(failure) if failure.code.is_sticky() => return Err(failure),
            Err(failure) => return Ok(Err(self.api.describe(failure))),
        }
        let stream = self.api.stream_create()?;
        let moved = self.bytes_move(other, stream);
        // SAFETY: the stream was made above, and nothing else knows it.
        #[expect(unsafe_code, reason = "gives a stream back")]
        unsafe { self.api.stream_destroy(stream) }?;
        Ok(if moved? {
            Ok(())
        } else {
            Err(format!(
                "CUDA says that GPU {} reaches the memory of GPU {}, and bytes did not get there: an IOMMU or PCI's access \
                 control stands between",
                self.ordinal, other.ordinal
            ))
        })
    }

    /// Counts with this GPU's kernel from the other's memory into its own and back, and sees that the numbers arrived.
    #[expect(unsafe_code, reason = "runs rig's own kernel on memory of its own")]
    fn bytes_move(&self, other: &Gpu, stream: Stream) -> Result<bool> {
        const SEED: u64 = 0x5eed_0000_cafe_0000;
        let (mine, theirs) = (self.own + CHECK, other.own + CHECK);
        let word = |at: u64| at + 8;
        // SAFETY: the stream is alive, and the addresses here and below are of GPUs' own memory, which lasts as long as the
        // process and which only this check uses there.
        unsafe { self.api.stream_write(stream, mine, SEED) }?;
        for (word, counter) in [(theirs, mine), (word(mine), theirs)] {
            let mut params = [word.to_ne_bytes(), counter.to_ne_bytes()].concat();
            // SAFETY: as above; the kernel takes these two addresses, and stays loaded.
            unsafe { self.api.launch(stream, self.count, &Shape::ONE, &mut params) }?;
        }
        // SAFETY: as above.
        unsafe { self.api.stream_synchronize(stream) }?;
        // The kernel counted SEED up into their memory, and then that up into ours.
        // SAFETY: as above.
        Ok(unsafe { self.api.read_word(word(mine)) }? == SEED + 2)
    }
}

/// Loads the kernel that ends graphs into the current context.
fn load_count(api: &Api) -> std::result::Result<Function, String> {
    let why = |failure| reason(api, failure);
    // SAFETY: the image is a text that ends with a zero byte.
    #[expect(unsafe_code, reason = "loads rig's own kernel")]
    let module = unsafe { api.module_load(COUNT) };
    let module = module.map_err(|(failure, log)| format!("rig's own kernel: {} {log}", why(failure)))?;
    // SAFETY: the module was just loaded, and is never unloaded.
    #[expect(unsafe_code, reason = "a function of a module that stays")]
    let function = unsafe { api.module_function(module, c"rig_count") }.map_err(why)?;
    // SAFETY: as above.
    #[expect(unsafe_code, reason = "a function of a module that stays")]
    unsafe { api.function_load(function) }.map_err(why)?;
    Ok(function)
}

/// Registers the table of words, unless that is done, and gives the address by which the current context reaches it.
fn map_words(api: &Api) -> Result<u64> {
    let base = Words::get().base();
    // SAFETY: the table is whole pages of static memory, and is never unregistered.
    #[expect(unsafe_code, reason = "registers static memory")]
    let registered = unsafe { api.host_register(base, Words::len_bytes()) };
    match registered {
        // Every context of the process reaches it once one has registered it.
        Ok(()) | Err(Failure { code: Code::HOST_MEMORY_ALREADY_REGISTERED, .. }) => api.host_device(base),
        Err(failure) => Err(failure),
    }
}
