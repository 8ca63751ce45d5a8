//! Images and their functions: Rust functions of this process, and machine code of ELF objects.
//!
//! # Invariants
//!
//! 1. An entry is made once, when its image is loaded; `entry` only looks it up.
//! 2. An entry keeps its code: machine code is unmapped only once the image and all its entries are gone.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rig_edge::{Code, EntryAnswer, EntryFacts, ImageError};

use crate::elf::{self, MachineCode, MachineKernel};
use crate::kernel::{Group, Kind, Params, RustKernel};

/// The most threads of a group of a thread kernel: each has a stack of its own.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let kernels = rig_host::Kernels::new().thread("k", 0, 0, |_, _| {});
/// let k = device.load(&kernels.image())?.function("k")?;
/// assert_eq!(k.threads(), Some(rig_host::THREADS_MAX));
/// # Ok(())
/// # }
/// ```
pub const THREADS_MAX: u32 = 1024;

/// The most threads of a group of a group kernel, which loops over them itself.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let kernels = rig_host::Kernels::new().group("k", 0, |_, _| {});
/// let k = device.load(&kernels.image())?.function("k")?;
/// assert_eq!(k.threads(), Some(rig_host::GROUP_KERNEL_THREADS_MAX));
/// # Ok(())
/// # }
/// ```
pub const GROUP_KERNEL_THREADS_MAX: u32 = 1 << 20;

/// The most bytes of group memory: about a core's second cache, past which sharing memory gains nothing.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::GROUP_BYTES_MAX;
/// let kernels = rig_host::Kernels::new().group("k", 0, |_, _| {});
/// let k = device.load(&kernels.image())?.function("k")?;
/// let mut run = device.submission().launch(&k, []).make()?.take();
/// run.part(0).group_bytes(GROUP_BYTES_MAX);
/// // SAFETY: the kernel does nothing.
/// unsafe { run.launch(&[])? };
/// run.part(0).group_bytes(GROUP_BYTES_MAX + 1);
/// // SAFETY: as above.
/// assert!(matches!(unsafe { run.launch(&[]) }, Err(rig::Error::Invalid(_))));
/// # Ok(())
/// # }
/// ```
pub const GROUP_BYTES_MAX: u32 = 1 << 20;

/// Loaded code.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// let kernels = rig_host::Kernels::new().group("add", 0, |_, _| {}).group("scale", 0, |_, _| {});
/// // rig keeps it in an image of its own, which names what is in it.
/// let image = device.load(&kernels.image())?;
/// let Err(rig::Error::Invalid(why)) = image.function("subtract") else { panic!("there is no such function") };
/// assert!(why.contains("add, scale"), "{why}");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Image {
    /// Sorted by name.
    entries: Box<[Entry]>,
}

/// What a launch of one function needs.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::{Entry, Host};
/// let kernels = rig_host::Kernels::new().group("add", 0, |_, _| {});
/// let add = device.load(&kernels.image())?.function("add")?;
/// // A fill launches the function by it: `FillLaunch` has a place for it.
/// let entry: &Entry = add.entry::<Host>().expect("a function of the host's");
/// assert!(format!("{entry:?}").contains("add"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Entry(Arc<Function>);

/// One function of an image.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) code: FunctionCode,
    pub(crate) kind: Kind,
    /// The bytes of its parameters, where it states them.
    pub(crate) params: Option<usize>,
    /// The bytes of group memory that it asks for beside what a launch does.
    pub(crate) group_bytes: u32,
    pub(crate) cost: Cost,
}

/// A function's code.
pub(crate) enum FunctionCode {
    /// A closure of this process.
    Rust(Arc<RustKernel>),
    /// Machine code of an object.
    Machine {
        kernel: MachineKernel,
        #[expect(dead_code, reason = "kept: its memory holds the kernel")]
        code: Arc<MachineCode>,
    },
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.0.name)
    }
}

impl Entry {
    pub(crate) fn function(&self) -> &Function {
        &self.0
    }
}

impl Function {
    /// The most threads of a group.
    pub(crate) fn threads_max(&self) -> u32 {
        match self.kind {
            Kind::Group => GROUP_KERNEL_THREADS_MAX,
            Kind::Thread => THREADS_MAX,
        }
    }
}

/// The running mean of what one group costs, in sixteenths of a nanosecond; 0 while nothing is known.
///
/// A guess that steers how work is shared among cores, so Relaxed and lost updates do: nothing is published by it.
#[derive(Debug, Default)]
pub(crate) struct Cost(AtomicU64);

/// Sixteenths of a nanosecond, so that groups of a few nanoseconds are told apart.
const COST_SCALE: u64 = 16;

impl Cost {
    /// What `groups` cost, in nanoseconds; `None` while nothing is known.
    pub(crate) fn of(&self, groups: u64) -> Option<u64> {
        let mean = self.0.load(Ordering::Relaxed);
        (mean > 0).then(|| mean.saturating_mul(groups) / COST_SCALE)
    }

    /// How many groups take `ns`; at least 1, and 1 while nothing is known.
    pub(crate) fn groups_in(&self, ns: u64) -> u64 {
        let mean = self.0.load(Ordering::Relaxed);
        (ns * COST_SCALE).checked_div(mean).unwrap_or(1).max(1)
    }

    /// Notes that `groups` took `ns`.
    pub(crate) fn note(&self, groups: u64, ns: u64) {
        let seen = (ns.saturating_mul(COST_SCALE) / groups.max(1)).clamp(1, u64::MAX / 8);
        let mean = self.0.load(Ordering::Relaxed);
        // The last seen counts for a quarter: a launch with other parameters is learnt in a few chunks.
        self.0.store(if mean == 0 { seen } else { (3 * mean + seen).div_ceil(4) }, Ordering::Relaxed);
    }
}

impl Image {
    /// Takes the bytes of an image: registered kernels, or an ELF object.
    pub(crate) fn load(binary: &[u8]) -> Result<Code<Image>, ImageError> {
        let functions = match registered(binary) {
            Some(functions) => functions,
            None if elf::is_elf(binary) => elf::load(binary),
            None => Err("the image is neither an ELF object nor kernels of rig_host::Kernels".into()),
        };
        let mut functions = functions.map_err(ImageError::Refused)?;
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Code::Loaded(Image { entries: functions.into_iter().map(|function| Entry(Arc::new(function))).collect() }))
    }

    /// The entry of `name`.
    pub(crate) fn entry(&self, name: &str) -> EntryAnswer<Entry> {
        match self.entries.binary_search_by(|entry| entry.0.name.as_str().cmp(name)) {
            Ok(at) => {
                // PANIC: the search gives an index of the slice.
                let entry = self.entries[at].clone();
                let facts = EntryFacts { params: entry.0.params, threads: Some(entry.0.threads_max()) };
                EntryAnswer::Entry(entry, facts)
            }
            Err(_) => EntryAnswer::Absent { names: self.entries.iter().map(|entry| entry.0.name.clone()).collect() },
        }
    }
}

/// Kernels that are Rust functions, to be loaded as an image.
///
/// ```
/// use rig_host::Kernels;
///
/// let image = Kernels::new()
///     .group("double", 8, |params, at| {
///         let n = at.threads[0] as usize;
///         // SAFETY: the launch gives this group n floats of its own.
///         let x = unsafe { params.slice_mut::<f32>(0, at.group[0] as usize * n, n) };
///         x.iter_mut().for_each(|x| *x *= 2.0);
///     })
///     .image();
/// ```
///
/// An image of them is good in the process that made it, and what it registers lives until the process ends.
#[derive(Default)]
pub struct Kernels {
    kernels: Vec<Registered>,
}

#[derive(Clone)]
struct Registered {
    name: String,
    kind: Kind,
    params: usize,
    group_bytes: u32,
    code: Arc<RustKernel>,
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kernels.iter().map(|kernel| &kernel.name)).finish()
    }
}

impl Kernels {
    /// No kernels yet.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, _| {
    ///     // SAFETY: the launch has a float in slot 0, and one group.
    ///     let x: &mut [f32] = unsafe { params.slice_mut(0, 0, 1) };
    ///     x[0] += 1.0;
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn new() -> Kernels {
        Kernels::default()
    }

    /// Adds the group kernel `name`, whose parameters are `params` bytes: it is called once a group and loops over the
    /// group's threads itself.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// // Called once a group, it goes through the group's threads itself.
    /// let kernels = rig_host::Kernels::new().group("k", 16, |params, at| {
    ///     // SAFETY: slot 0 has a float for each thread of the launch.
    ///     let x: &mut [f32] = unsafe { params.slice_mut(0, 0, at.thread_count()) };
    ///     x.iter_mut().for_each(|x| *x *= 2.0);
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// assert_eq!(x.read(|x| x[63])?, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn group(
        self,
        name: &str,
        params: usize,
        code: impl Fn(&Params<'_>, &Group) + Send + Sync + 'static,
    ) -> Kernels {
        self.with(name, Kind::Group, params, 0, Arc::new(code))
    }

    /// Adds the thread kernel `name`, whose parameters are `params` bytes: it is called once a thread, and its threads
    /// share `group_bytes` of group memory beside what a launch asks for, and meet at [`Group::barrier`].
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// // Called once a thread; the threads of a group may meet.
    /// let kernels = rig_host::Kernels::new().thread("k", 16, 0, |params, at| {
    ///     let first = at.thread[0] as usize;
    ///     // SAFETY: slot 0 has a float for each thread of the launch, and this is this thread's.
    ///     let x: &mut [f32] = unsafe { params.slice_mut(0, first, 1) };
    ///     x[0] += 1.0;
    ///     at.barrier();
    ///     // Now each thread may read what the others wrote.
    /// });
    /// # let function = device.load(&kernels.image())?.function("k")?;
    /// # let x = device.from_slice(&[1.0_f32; 64])?;
    /// # let mut run = device.submission().launch(&function, [rig::write(0)]).params(16).make()?.take();
    /// # run.part(0).threads([64, 1, 1]).set(8, 2.0_f32);
    /// # // SAFETY: the kernel touches the 64 floats of slot 0, and nothing else.
    /// # unsafe { run.launch(&[&x])?.wait()? };
    /// assert_eq!(x.read(|x| x[63])?, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn thread(
        self,
        name: &str,
        params: usize,
        group_bytes: u32,
        code: impl Fn(&Params<'_>, &Group) + Send + Sync + 'static,
    ) -> Kernels {
        self.with(name, Kind::Thread, params, group_bytes, Arc::new(code))
    }

    fn with(mut self, name: &str, kind: Kind, params: usize, group_bytes: u32, code: Arc<RustKernel>) -> Kernels {
        self.kernels.push(Registered { name: name.into(), kind, params, group_bytes, code });
        self
    }

    /// Registers the kernels and gives the image's bytes. Of kernels of one name the last counts.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let image = rig_host::Kernels::new().group("nothing", 0, |_, _| {}).image();
    /// assert_eq!(device.load(&image)?.function("nothing")?.name(), "nothing");
    /// # Ok(())
    /// # }
    /// ```
    pub fn image(self) -> Vec<u8> {
        let mut kernels = self.kernels;
        // The later of equals comes first, and the first of equals stays.
        kernels.reverse();
        kernels.sort_by(|a, b| a.name.cmp(&b.name));
        kernels.dedup_by(|later, first| later.name == first.name);
        let mut registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
        registry.push(kernels.into());
        let mut bytes = MAGIC.to_vec();
        bytes.extend(process_mark().to_le_bytes());
        bytes.extend((registry.len() as u64 - 1).to_le_bytes());
        bytes
    }
}

/// How an image of registered kernels begins. Then: the process's mark and the place in the registry, 8 bytes each.
const MAGIC: &[u8; 16] = b"rig-host kernels";

static REGISTRY: Mutex<Vec<Arc<[Registered]>>> = Mutex::new(Vec::new());

/// A number that another process, which has not registered the same kernels, does not have.
fn process_mark() -> u64 {
    use std::hash::BuildHasher;
    static MARK: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *MARK.get_or_init(|| std::hash::RandomState::new().hash_one(std::process::id()))
}

/// The functions of an image of registered kernels; `None` if it is no such image.
fn registered(binary: &[u8]) -> Option<Result<Vec<Function>, String>> {
    let rest = binary.strip_prefix(MAGIC)?;
    let Ok(rest) = <[u8; 16]>::try_from(rest) else {
        return Some(Err(format!("an image of registered kernels is 32 bytes, and this is {}", binary.len())));
    };
    let (mark, place) = (u128::from_le_bytes(rest) as u64, (u128::from_le_bytes(rest) >> 64) as u64);
    if mark != process_mark() {
        return Some(Err("the image names Rust kernels that another process registered".into()));
    }
    let registry = REGISTRY.lock().unwrap_or_else(PoisonError::into_inner);
    let kernels = usize::try_from(place).ok().and_then(|place| registry.get(place));
    Some(match kernels {
        None => Err(format!("the image names registered kernels {place}, and there are {}", registry.len())),
        Some(kernels) => kernels.iter().map(function).collect(),
    })
}

fn function(kernel: &Registered) -> Result<Function, String> {
    if kernel.group_bytes > GROUP_BYTES_MAX {
        return Err(format!(
            "{} asks for {} bytes of group memory, and a group has at most {GROUP_BYTES_MAX}",
            kernel.name, kernel.group_bytes
        ));
    }
    Ok(Function {
        name: kernel.name.clone(),
        code: FunctionCode::Rust(Arc::clone(&kernel.code)),
        kind: kernel.kind,
        params: Some(kernel.params),
        group_bytes: kernel.group_bytes,
        cost: Cost::default(),
    })
}
