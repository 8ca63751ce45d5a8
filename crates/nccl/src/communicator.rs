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

use rig::{Builder, Device};
use rig_edge::Slot;

use crate::fate::{Bounds, Fate};
use crate::host;
use crate::lane::{Gpu, Lane};
use crate::meet::{self, Host, Met};
use crate::member::Member;
use crate::operation::{self, Operation, Reduce, Type};
use crate::plan;
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
    pub fn meet(self, bound: Duration) -> Options {
        Options { meet: within_reason(bound), ..self }
    }

    /// How long NCCL may take to connect the ranks: two minutes without this.
    pub fn connect(self, bound: Duration) -> Options {
        Options { connect: within_reason(bound), ..self }
    }

    /// How long a process may say nothing before it is taken for dead: ten seconds without this. A process that ends is seen
    /// at once, by its connection.
    pub fn silence(self, bound: Duration) -> Options {
        Options { bounds: Bounds { silence: within_reason(bound), ..self.bounds }, ..self }
    }

    /// How long an operation that a rank was given may take, the wait for the slowest rank included: a minute without this.
    pub fn stall(self, bound: Duration) -> Options {
        Options { bounds: Bounds { stall: within_reason(bound), ..self.bounds }, ..self }
    }

    /// Leaves out the connections for [`Operation::Send`] and [`Operation::Receive`], one for each pair of ranks, where none is
    /// used. All processes say the same. The first send between two ranks then makes theirs, and waits for the other rank.
    pub fn without_pairs(self) -> Options {
        Options { pairs: false, ..self }
    }
}

/// The ranks of this process in a communicator over all processes.
///
/// Dropping it is closing it ([`close`](Communicator::close)). While it lives it keeps its devices open.
pub struct Communicator<L: Lane = Gpu> {
    members: Vec<Arc<Member<L>>>,
    shared: Arc<Shared>,
    watch: Option<thread::JoinHandle<()>>,
    /// How long the end may take.
    end_time: Duration,
    /// This process, as reasons name it.
    name: String,
}

/// One rank: a device in a communicator. A handle: clones are the same rank.
pub struct Rank<L: Lane = Gpu> {
    member: Arc<Member<L>>,
}

impl<L: Lane> Clone for Rank<L> {
    fn clone(&self) -> Rank<L> {
        Rank { member: Arc::clone(&self.member) }
    }
}

impl<L: Lane> fmt::Debug for Rank<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({} of {})", self.rank(), self.ranks())
    }
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
pub fn connect(world: &World, devices: &[Device], options: Options) -> Result<Communicator> {
    connect_on::<Gpu>(world, devices, options)
}

/// [`connect`] on devices of another lane.
///
/// # Errors
///
/// As [`connect`].
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
    pub fn ranks(&self) -> u32 {
        // PANIC: a meeting refuses processes without devices.
        self.members.first().expect("a rank").ranks()
    }

    /// The rank of the device at `index` of those that were given to [`connect`].
    ///
    /// # Panics
    ///
    /// If there is no such device.
    pub fn rank(&self, index: usize) -> Rank<L> {
        Rank { member: Arc::clone(&self.members[index]) }
    }

    /// Why the communicator has failed, if it has. Its devices are lost then, with the same reason.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.failure()
    }

    /// Ends the communicator: waits until what its ranks were given is done, as long as a process may say nothing
    /// ([`Options::silence`]), and leaves. Other processes may go on to end theirs; operations after this are errors of their
    /// fills. Where work stands for that long, or a panic is under way, the communicator fails instead.
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

impl<L: Lane> Rank<L> {
    pub(crate) fn of(member: Arc<Member<L>>) -> Rank<L> {
        Rank { member }
    }

    /// Which rank it is, from 0.
    pub fn rank(&self) -> u32 {
        self.member.rank()
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> u32 {
        self.member.ranks()
    }

    /// Adds a fill with these operations to a submission of the rank's device. More than one are a group of NCCL's: they happen
    /// together, so that sends and receives in it wait for one another in no order.
    ///
    /// Each rank must be given the same collectives in the same order, of the same lengths, and for each send its receive. NCCL
    /// does not check it: what does not fit together hangs, or gives what nobody asked for. One rank's order is the order of its
    /// device's submits.
    ///
    /// Lengths that do not fit this rank's own slots are an error of the fill, which loses the device. So is a failed or closed
    /// communicator.
    pub fn add(&self, to: Builder, operations: impl Into<Vec<Operation>>) -> Builder {
        let (operations, member) = (operations.into(), Arc::clone(&self.member));
        to.fill::<L::Driver>(operation::refs(&operations), move |encoder, slots: &[Slot]| {
            let mut put = || {
                let calls = operation::resolve(&operations, slots, member.ranks())?;
                if calls.is_empty() {
                    return Ok(());
                }
                if let Some(why) = member.shared().failure() {
                    return Err(format!("the communicator has failed: {why}"));
                }
                let (value, called) = (member.next(), Arc::clone(&member));
                L::put(member.seat(), encoder, value, move |stream| called.call(&calls, stream))
            };
            put().map_err(|why: String| {
                let why = format!("rank {}: {why}", member.rank());
                // The others would wait for it.
                member.shared().tell(Event::Failed(why.clone()));
                why
            })
        })
    }

    /// Adds a fill that puts into slot `to` what slot `from` of all ranks reduces to: [`Operation::AllReduce`].
    pub fn all_reduce(&self, add_to: Builder, from: u32, to: u32, of: Type, by: Reduce) -> Builder {
        self.add(add_to, [Operation::AllReduce { from, to, of, by }])
    }

    /// Adds a fill that puts slot `from` of rank `root` into slot `to` of all: [`Operation::Broadcast`].
    pub fn broadcast(&self, add_to: Builder, from: u32, to: u32, of: Type, root: u32) -> Builder {
        self.add(add_to, [Operation::Broadcast { from, to, of, root }])
    }

    /// Adds a fill that puts slot `from` of all ranks, one after the other, into slot `to`: [`Operation::AllGather`].
    pub fn all_gather(&self, add_to: Builder, from: u32, to: u32, of: Type) -> Builder {
        self.add(add_to, [Operation::AllGather { from, to, of }])
    }

    /// Adds a fill that puts this rank's piece of what slot `from` of all ranks reduces to into slot `to`:
    /// [`Operation::ReduceScatter`].
    pub fn reduce_scatter(&self, add_to: Builder, from: u32, to: u32, of: Type, by: Reduce) -> Builder {
        self.add(add_to, [Operation::ReduceScatter { from, to, of, by }])
    }

    /// Adds a fill that sends slot `from` to rank `rank`: [`Operation::Send`]. Between two ranks that send to one another, put
    /// both into one group ([`add`](Rank::add)).
    pub fn send(&self, add_to: Builder, from: u32, of: Type, rank: u32) -> Builder {
        self.add(add_to, [Operation::Send { from, of, rank }])
    }

    /// Adds a fill that receives slot `to` from rank `rank`: [`Operation::Receive`].
    pub fn receive(&self, add_to: Builder, to: u32, of: Type, rank: u32) -> Builder {
        self.add(add_to, [Operation::Receive { to, of, rank }])
    }
}
