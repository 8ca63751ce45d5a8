//! A communicator: from the meeting to its end.
//!
//! # How it is made
//!
//! 1. The processes meet (`meet`), and process 0 plans the ranks.
//! 2. The watch begins, so that who dies from here on is seen.
//! 3. On a thread of its own, since NCCL's calls have no bound, the ranks of the process are connected: all in one group, then
//!    one small operation of every kind, and a send and a receive with every other rank. What NCCL would do at the first use
//!    of a connection or a kernel is done then, and no fill waits for another rank.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rig::Device;

use crate::fate::{Bounds, Fate};
use crate::host;
use crate::lane::{Gpu, Lane};
use crate::meet::{self, Host, Met};
use crate::member::Member;
use crate::plan;
use crate::rank::Rank;
use crate::sys::abi::{Comm, UniqueId};
use crate::sys::{Api, api, dotted};
use crate::watch::{Event, Shared, TOLD_MOST, Watch, listen};
use crate::wire::{Hello, Welcome};
use crate::{Error, Result, World, warm};

/// How long processes may take to come together. TIMEOUT: machines of one job start within a minute of one another.
const MEET: Duration = Duration::from_secs(120);
/// How long NCCL may take to connect the ranks. TIMEOUT: seconds on one machine, a minute over hundreds.
const CONNECT: Duration = Duration::from_secs(120);
/// How long a process may say nothing. TIMEOUT: a machine that swaps, or pauses for a migration, is silent for seconds.
const SILENCE: Duration = Duration::from_secs(10);
/// How long an operation may take. TIMEOUT: as rig's own bound for work that hangs.
const STALL: Duration = Duration::from_secs(60);
/// The shortest bound that is taken: what a busy machine keeps a thread waiting.
const BOUND_LEAST: Duration = Duration::from_millis(200);
/// The longest: for ever, as far as a run goes, and short enough to add to any time.
const BOUND_MOST: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// How often a process that connects looks whether the communicator has failed. TIMEOUT: the reason comes this much later.
const LOOK: Duration = Duration::from_millis(20);

/// The first version that connects ranks at the first use of each connection, unless it is told not to.
const LAZY_SINCE: i32 = 22_200;
/// How it is told.
const CONNECT_NOW: &str = "NCCL_RUNTIME_CONNECT";
/// What makes ranks of one process wait for one another in every call, where it is `GROUP`.
const LAUNCH_MODE: &str = "NCCL_LAUNCH_MODE";

/// The bounds of a communicator's waits. Those of process 0 count for all, but `meet`, which is each process's own.
///
/// ```
/// use rig_nccl::Options;
/// use std::time::Duration;
/// // A job on machines that start slowly, whose operations are short.
/// let options = Options::default().meet(Duration::from_secs(600)).stall(Duration::from_secs(5));
/// assert_ne!(options, Options::default());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Options {
    meet: Duration,
    connect: Duration,
    bounds: Bounds,
    pairs: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { meet: MEET, connect: CONNECT, bounds: Bounds { silence: SILENCE, stall: STALL }, pairs: true }
    }
}

/// A bound that a busy machine can keep, and whose end can be told.
fn within_reason(bound: Duration) -> Duration {
    bound.clamp(BOUND_LEAST, BOUND_MOST)
}

impl Options {
    /// How long the processes may take to come together: two minutes without this.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_nccl::{Error, Options, Place, World};
    /// use std::time::Duration;
    /// # let meeting = std::env::temp_dir().join(format!("rig-nccl-meet-{}", std::process::id()));
    /// // The second of two processes does not come.
    /// let world = World::new(0, 2, Place::File(meeting))?;
    /// let options = Options::default().meet(Duration::from_millis(200));
    /// let Err(Error::Meeting(why)) = rig_nccl::connect_on::<Cores>(&world, &devices, options) else { panic!("nobody came") };
    /// println!("{why}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn meet(self, bound: Duration) -> Options {
        Options { meet: within_reason(bound), ..self }
    }

    /// How long NCCL may take to connect the ranks: two minutes without this.
    ///
    /// ```
    /// use rig_nccl::Options;
    /// use std::time::Duration;
    /// // For hundreds of machines.
    /// let patient = Options::default().connect(Duration::from_secs(600));
    /// // No bound is below what a busy machine may keep a thread waiting.
    /// let hasty = Options::default().connect(Duration::ZERO);
    /// assert_eq!(hasty, Options::default().connect(Duration::from_millis(200)));
    /// # assert_ne!(patient, hasty);
    /// ```
    pub fn connect(self, bound: Duration) -> Options {
        Options { connect: within_reason(bound), ..self }
    }

    /// How long a process may say nothing before it is taken for dead: ten seconds without this. A process that ends is seen
    /// at once, by its connection.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_nccl::{Options, World};
    /// use std::time::Duration;
    /// // Machines that nothing pauses: who is silent for two seconds is dead.
    /// let options = Options::default().silence(Duration::from_secs(2));
    /// let communicator = rig_nccl::connect_on::<Cores>(&World::alone(), &devices, options)?;
    /// assert_eq!(communicator.failure(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn silence(self, bound: Duration) -> Options {
        Options { bounds: Bounds { silence: within_reason(bound), ..self.bounds }, ..self }
    }

    /// How long an operation that a rank was given may take, the wait for the slowest rank included: a minute without this.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_nccl::{Options, World};
    /// use std::time::Duration;
    /// // No step waits ten minutes for the slowest rank, unless one has gone wrong.
    /// let options = Options::default().stall(Duration::from_secs(600));
    /// let communicator = rig_nccl::connect_on::<Cores>(&World::alone(), &devices, options)?;
    /// assert_eq!(communicator.failure(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn stall(self, bound: Duration) -> Options {
        Options { bounds: Bounds { stall: within_reason(bound), ..self.bounds }, ..self }
    }

    /// Leaves out the connections for [`Send`](crate::Operation::Send) and [`Receive`](crate::Operation::Receive), one for each
    /// pair of ranks, where neither is used. All processes say the same. The first send between two ranks then makes theirs, and
    /// waits for the other rank.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_nccl::{Options, World};
    /// // Data parallel training reduces and gathers, and sends nothing from one rank to another.
    /// let options = Options::default().without_pairs();
    /// let communicator = rig_nccl::connect_on::<Cores>(&World::alone(), &devices, options)?;
    /// assert_eq!(communicator.ranks(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn without_pairs(self) -> Options {
        Options { pairs: false, ..self }
    }
}

/// The ranks of this process in a communicator over all processes.
///
/// Dropping it is closing it ([`close`](Communicator::close)). While it lives it keeps its devices open.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_nccl::{Communicator, Options, Reduce, Type, World};
/// let communicator: Communicator<Cores> = rig_nccl::connect_on(&World::alone(), &devices, Options::default())?;
/// let mut least = Vec::new();
/// for (index, device) in devices.iter().enumerate() {
///     let rank = communicator.rank(index);
///     let x = device.from_slice(&[10 - rank.rank(); 4])?;
///     let step = rank.all_reduce(device.submission(), 0, 0, Type::U32, Reduce::Min).make()?;
///     // SAFETY: the fill has NCCL reduce slot 0 of all ranks, and touches nothing else.
///     unsafe { step.take().launch(&[&x])? };
///     least.push(x);
/// }
/// for x in least {
///     assert_eq!(x.to_vec()?, [9; 4]);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Communicator<L: Lane = Gpu> {
    members: Vec<Arc<Member<L>>>,
    shared: Arc<Shared>,
    watch: Option<thread::JoinHandle<()>>,
    /// How long the end may take.
    end_time: Duration,
    /// This process, as reasons name it.
    name: String,
}

impl<L: Lane> fmt::Debug for Communicator<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Communicator").field("ranks", &self.members.len()).field("failure", &self.failure()).finish()
    }
}

/// Connects the devices, CUDA's, of this process with those of the world's other processes: each device is a rank, in the order
/// of the processes and then of `devices`. Every process calls it, and it returns once all are connected.
///
/// # Errors
///
/// Library where NCCL is missing or set so that its calls would block; Meeting and Connect where the processes do not come
/// together within the bounds, with who is missing or does not fit; Device.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rig_nccl::{Error, Options, World};
/// // SAFETY: first thing in main, with no other thread.
/// unsafe { rig_nccl::prepare() };
/// // All GPUs of this machine, in one process.
/// let gpus = (0..rig_cuda::count()).map(rig_cuda::gpu);
/// let devices = gpus.map(rig::open).collect::<rig::Result<Vec<_>>>()?;
/// match rig_nccl::connect(&World::alone(), &devices, Options::default()) {
///     Ok(communicator) => assert_eq!(communicator.ranks() as usize, devices.len()),
///     // The reason says what to install.
///     Err(Error::Library(why)) => println!("{why}"),
///     Err(why) => assert!(devices.is_empty(), "{why}"),
/// }
/// # Ok(())
/// # }
/// ```
pub fn connect(world: &World, devices: &[Device], options: Options) -> Result<Communicator> {
    connect_on::<Gpu>(world, devices, options)
}

/// [`connect`] on devices of another lane.
///
/// # Errors
///
/// As [`connect`].
///
/// # Examples
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_nccl::{Options, World};
/// // `Cores` has a task of a host device play the GPU: its code stands at `Lane`.
/// let communicator = rig_nccl::connect_on::<Cores>(&World::alone(), &devices, Options::default())?;
/// assert_eq!(communicator.ranks(), 2);
/// # Ok(())
/// # }
/// ```
pub fn connect_on<L: Lane>(world: &World, devices: &[Device], options: Options) -> Result<Communicator<L>> {
    let api = api().map_err(Error::Library)?;
    connects_now(api, &|name| std::env::var(name).ok()).map_err(Error::Library)?;
    let seats: std::result::Result<Vec<_>, _> = devices.iter().map(L::seat).collect();
    let seats = seats.map_err(Error::Device)?;
    let hello = Hello {
        process: world.process(),
        processes: world.processes(),
        job: world.job_name().to_owned(),
        host: host::name(),
        machine: host::machine(),
        pid: std::process::id(),
        nccl: api.version().unsigned_abs(),
        devices: devices.iter().map(L::hardware).collect(),
    };
    if let plan::Fit::Wrong(why) =
        plan::fit(&[Hello { machine: String::new(), process: u32::MAX, ..hello.clone() }], &hello)
    {
        return Err(Error::Meeting(why));
    }
    let Met { welcome, others } = come_together(world, api, &hello, &options)?;
    let [silence, stall, connect] = welcome.bounds.map(|bound| within_reason(Duration::from_millis(bound)));
    let bounds = Bounds { silence, stall };

    let (events, heard) = mpsc::sync_channel(TOLD_MOST);
    let shared = Arc::new(Shared::new(events));
    let ranks = welcome.first..;
    let members: Vec<Arc<Member<L>>> = ranks
        .zip(seats)
        .map(|(rank, seat)| Arc::new(Member::new(api, rank, welcome.ranks, seat, Arc::clone(&shared))))
        .collect();
    let names = others.iter().map(|(other, _, first)| (other.name(), *first)).collect();
    let me = (hello.name(), welcome.first);
    let fate = Fate::new(bounds, hello.process == 0, me, members.len(), names, Instant::now());
    let no_thread = |why: std::io::Error| Error::Connect(format!("the system has no thread for it: {why}"));
    let streams: Vec<_> = others.into_iter().map(|(_, stream, _)| stream).collect();
    for (index, stream) in streams.iter().enumerate() {
        listen(index, stream, &shared).map_err(no_thread)?;
    }
    let watch = Watch {
        fate,
        streams,
        members: members.clone(),
        devices: devices.to_vec(),
        shared: Arc::clone(&shared),
        events: heard,
        end_time: silence,
    };
    let watch = thread::Builder::new().name("rig-nccl-watch".into()).spawn(move || watch.run()).map_err(no_thread)?;
    let communicator = Communicator { members, shared, watch: Some(watch), end_time: silence, name: hello.name() };
    communicator.join_ranks(api, devices, &welcome, connect, options.pairs)?;
    Ok(communicator)
}

/// Meets the other processes, if there are any.
fn come_together(world: &World, api: &Api, hello: &Hello, options: &Options) -> Result<Met> {
    let id = || {
        let id = api.unique_id().map_err(|failure| Error::Connect(api.describe(failure, Comm::NULL)))?;
        Ok(id.0)
    };
    let millis = |bound: Duration| u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    let bounds = [options.bounds.silence, options.bounds.stall, options.connect].map(millis);
    match world.place() {
        Some(place) => meet::meet(place, hello, &Host { id: &id, bounds }, Instant::now() + options.meet),
        None => {
            let (ranks, host) = (hello.devices.len() as u32, hello.host.clone());
            let welcome = Welcome { first: 0, ranks, id: id()?, bounds, host, pid: hello.pid };
            Ok(Met { welcome, others: Vec::new() })
        }
    }
}

/// Whether NCCL makes its connections when the communicator is made, and its calls wait for nobody.
fn connects_now(api: &Api, variable: &dyn Fn(&str) -> Option<String>) -> std::result::Result<(), String> {
    if api.version() >= LAZY_SINCE && variable(CONNECT_NOW).as_deref() != Some("0") {
        return Err(format!(
            "NCCL {} would make its connections at their first use, and work would wait for other ranks: start the process with \
             {CONNECT_NOW}=0, or call rig_nccl::prepare first thing in main",
            dotted(api.version())
        ));
    }
    if variable(LAUNCH_MODE).as_deref() == Some("GROUP") {
        return Err(format!("{LAUNCH_MODE}=GROUP makes ranks of one process wait for one another: leave it unset"));
    }
    Ok(())
}

/// Sets the variable of NCCL's without which it makes connections only at their first use, unless it is set.
///
/// # Safety
///
/// No other thread reads or writes the process's environment meanwhile: call it first thing in `main`.
///
/// # Examples
///
/// ```
/// # if std::env::var_os("NCCL_RUNTIME_CONNECT").is_some() { return }
/// // The first line of main.
/// // SAFETY: there is no other thread yet.
/// unsafe { rig_nccl::prepare() };
/// assert_eq!(std::env::var("NCCL_RUNTIME_CONNECT").as_deref(), Ok("0"));
/// ```
#[expect(unsafe_code, reason = "the environment is the process's")]
pub unsafe fn prepare() {
    if std::env::var_os(CONNECT_NOW).is_none() {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var(CONNECT_NOW, "0") };
    }
}

impl<L: Lane> Communicator<L> {
    /// Connects the ranks on a thread of its own, and waits for it as long as is said or until the communicator fails.
    fn join_ranks(
        &self,
        api: &'static Api,
        devices: &[Device],
        welcome: &Welcome,
        bound: Duration,
        pairs: bool,
    ) -> Result<()> {
        let (tell, told) = mpsc::channel();
        let (members, devices) = (self.members.clone(), devices.to_vec());
        let (id, ranks) = (UniqueId(welcome.id), welcome.ranks);
        let work = move || {
            let made = warm::init::<L>(api, &members, id, ranks);
            let _ = tell.send(made.and_then(|()| warm::warm(&members, &devices, pairs)));
        };
        let spawned = thread::Builder::new().name("rig-nccl-connect".into()).spawn(work);
        let deadline = Instant::now() + bound;
        let failed = |why: String| {
            self.shared.tell(Event::Failed(why.clone()));
            Err(Error::Connect(self.reason(why)))
        };
        if let Err(why) = spawned {
            return failed(format!("the system has no thread for it: {why}"));
        }
        loop {
            match told.recv_timeout(LOOK) {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(why)) => return failed(why),
                Err(RecvTimeoutError::Disconnected) => return failed("the thread that connects ended".to_owned()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(why) = self.shared.failure() {
                return Err(Error::Connect(why.to_string()));
            }
            if Instant::now() >= deadline {
                return failed(format!("NCCL did not connect the ranks within {} s", bound.as_secs()));
            }
        }
    }

    /// The first reason there is: where another process's failure was the cause of what was seen here, that one.
    fn reason(&self, seen: String) -> String {
        self.shared.failure().map_or(seen, |why| why.to_string())
    }

    /// How many ranks there are over all processes.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// // Two devices of the one process there is.
    /// assert_eq!(communicator.ranks(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ranks(&self) -> u32 {
        // PANIC: a meeting refuses processes without devices.
        self.members.first().expect("a rank").ranks()
    }

    /// The rank of the device at `index` of those that were given to [`connect`].
    ///
    /// # Panics
    ///
    /// If there is no such device.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let ranks: Vec<u32> = (0..devices.len()).map(|index| communicator.rank(index).rank()).collect();
    /// assert_eq!(ranks, [0, 1]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rank(&self, index: usize) -> Rank<L> {
        Rank::of(Arc::clone(&self.members[index]))
    }

    /// Why the communicator has failed, if it has. Its devices are lost then, with the same reason.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// assert_eq!(communicator.failure(), None);
    /// devices[0].lose("its results are not to be trusted");
    /// // One device's loss is every rank's, with the reason.
    /// let why = loop {
    ///     match communicator.failure() {
    ///         Some(why) => break why,
    ///         None => std::thread::yield_now(),
    ///     }
    /// };
    /// assert!(why.contains("its results are not to be trusted"), "{why}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.failure()
    }

    /// Ends the communicator: waits until what its ranks were given is done, as long as a process may say nothing
    /// ([`Options::silence`]), and leaves. Other processes may go on to end theirs; operations after this are errors of their
    /// fills. Where work stands for that long, or a panic is under way, the communicator fails instead.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let (rank, device) = (communicator.rank(0), &devices[0]);
    /// communicator.close();
    /// // The device stays open, and the rank's operations have come to an end.
    /// let x = device.from_slice(&[1.0_f32])?;
    /// let step = rank.broadcast(device.submission(), 0, 0, rig_nccl::Type::F32, 0).make()?;
    /// // SAFETY: the fill touches nothing.
    /// let point = unsafe { step.take().launch(&[&x])? };
    /// assert!(matches!(point.wait(), Err(rig::Error::Lost { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(self) {}
}

impl<L: Lane> Drop for Communicator<L> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.tell(Event::Failed(format!("{} panicked", self.name)));
        }
        let (tell, told) = mpsc::channel();
        self.shared.tell(Event::Leave(tell));
        // TIMEOUT: the watch's own bounds, the work's and the failure's two steps, and something for a busy machine.
        let _ = told.recv_timeout(self.end_time * 6);
        self.watch.take().filter(thread::JoinHandle::is_finished).map(thread::JoinHandle::join);
    }
}
