//! The watch: one thread of a communicator that hears the other processes, looks at the process's own ranks, and does what
//! [`Fate`] says.
//!
//! # Threads
//!
//! A thread for each connection reads it and hands on what came; the watch alone writes. The watch holds the devices, so they
//! stay open while the communicator lives. Fills tell it of their failures by the same channel.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rig::Device;

use crate::fate::{Action, Fate};
use crate::lane::Lane;
use crate::member::Member;
use crate::wire::{Bad, Count, Frame};

/// How often a watch that is to leave looks whether the work is done. TIMEOUT: an end waits this much longer than it must.
const LEAVING: Duration = Duration::from_millis(1);

/// How often the watch looks at the process's own ranks. TIMEOUT: a lost device and an error of NCCL's are seen this late.
const LOOK: Duration = Duration::from_millis(50);

/// How much the watch may be told that it has not heard: then a connection is read no further.
pub(crate) const TOLD_MOST: usize = 256;

/// What the watch is told.
pub(crate) enum Event {
    /// A connection said something.
    Heard(usize, Frame),
    /// A connection ended, and why.
    Closed(usize, String),
    /// This process has seen a failure.
    Failed(String),
    /// The communicator is to end; the answer comes when it has.
    Leave(Sender<()>),
}

/// What all parts of a process's communicator know of its failure.
pub(crate) struct Shared {
    reason: OnceLock<Arc<str>>,
    events: SyncSender<Event>,
}

impl Shared {
    pub fn new(events: SyncSender<Event>) -> Shared {
        Shared { reason: OnceLock::new(), events }
    }

    /// Why the communicator has failed, if it has.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.reason.get().cloned()
    }

    /// Tells the watch, once it has heard what it was told before.
    pub fn tell(&self, event: Event) {
        // A watch that is over needs to hear nothing.
        let _ = self.events.send(event);
    }
}

/// What the watch has.
pub(crate) struct Watch<L: Lane> {
    pub fate: Fate,
    pub streams: Vec<TcpStream>,
    pub members: Vec<Arc<Member<L>>>,
    pub devices: Vec<Device>,
    pub shared: Arc<Shared>,
    pub events: Receiver<Event>,
    /// How long the end of NCCL's work may take.
    pub end_time: Duration,
}

/// Reads a connection until it ends, on a thread of its own.
pub(crate) fn listen(index: usize, stream: &TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    let mut stream = stream.try_clone()?;
    stream.set_read_timeout(None)?;
    let shared = Arc::clone(shared);
    thread::Builder::new().name("rig-nccl-hear".into()).spawn(move || {
        loop {
            match Frame::read(&mut stream) {
                Ok(frame) => shared.tell(Event::Heard(index, frame)),
                Err(why) => {
                    if let Bad::Garbage(_) = why {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                    return shared.tell(Event::Closed(index, why.to_string()));
                }
            }
        }
    })?;
    Ok(())
}

impl<L: Lane> Watch<L> {
    /// Watches until the communicator has ended.
    pub fn run(mut self) {
        let mut leaving: Option<(Sender<()>, Instant)> = None;
        while !self.fate.is_over() {
            if leaving.is_some() && self.fate.is_fine() && self.is_idle() {
                break;
            }
            let patience = if leaving.is_some() { LEAVING } else { self.fate.beat().min(LOOK) };
            let event = self.events.recv_timeout(patience);
            let now = Instant::now();
            let actions = match event {
                Ok(Event::Heard(index, frame)) => self.fate.heard(index, &frame, now),
                Ok(Event::Closed(index, why)) => self.fate.closed(index, &why, now),
                Ok(Event::Failed(why)) => self.fate.fail(&why, now),
                Ok(Event::Leave(answer)) => {
                    leaving = Some((answer, now + self.end_time));
                    Vec::new()
                }
                Err(RecvTimeoutError::Timeout) => Vec::new(),
                // The channel's other end is in `shared`, which this holds.
                Err(RecvTimeoutError::Disconnected) => return,
            };
            self.act(actions);
            if leaving.as_ref().is_some_and(|(_, until)| now > *until) {
                let why = format!("{} closed its communicator before its operations were done", self.fate.name());
                let actions = self.fate.fail(&why, now);
                self.act(actions);
            }
            self.look(now);
        }
        if self.fate.is_fine() {
            self.leave();
        }
        self.hang_up();
        match leaving {
            Some((answer, _)) => drop(answer.send(())),
            None => self.linger(),
        }
    }

    /// Whether all that NCCL was given is done.
    fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.count().done == member.count().queued)
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Lose(why) => self.lose(&why),
                // Whoever does not hear it is seen by its connection's end, or its silence.
                Action::Send(index, frame) => drop(frame.write(&mut self.streams[index])),
                Action::Abort => end(&self.members, self.end_time, Member::abort),
            }
        }
    }

    /// Loses the process's devices: from here on no point of theirs that is not reached will be.
    fn lose(&self, why: &str) {
        let _ = self.shared.reason.set(why.into());
        for device in &self.devices {
            device.lose(why);
        }
    }

    /// Looks at the process's own ranks, and lets time pass.
    fn look(&mut self, now: Instant) {
        if self.fate.is_fine() {
            let wrong = self.members.iter().zip(&self.devices).find_map(|(member, device)| {
                let lost = device.lost().map(|why| format!("the device of rank {} was lost: {why}", member.rank()));
                lost.or_else(|| member.wrong())
            });
            if let Some(why) = wrong {
                let actions = self.fate.fail(&format!("{}: {why}", self.fate.name()), now);
                self.act(actions);
            }
        }
        let counts: Vec<Count> = self.members.iter().map(|member| member.count()).collect();
        let actions = self.fate.tick(&counts, now);
        self.act(actions);
    }

    /// Leaves in good order. The others hear of it first: NCCL's own end may take a while, in which this process says nothing.
    fn leave(&mut self) {
        for stream in &mut self.streams {
            // One that is gone has heard enough.
            let _ = Frame::Bye.write(stream);
        }
        end(&self.members, self.end_time, Member::destroy);
    }

    /// After a failure: answers whoever waits for the end, until the communicator is dropped.
    fn linger(&mut self) {
        while let Ok(event) = self.events.recv() {
            if let Event::Leave(answer) = event {
                let _ = answer.send(());
                return;
            }
        }
    }

    /// Says that nothing more comes. The readers go on until the other ends do the same, so that nothing on its way is cut
    /// off.
    fn hang_up(&self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

/// Ends all ranks at the same time, each on a thread of its own, and waits for them as long as is said: a call of NCCL's that
/// does not return keeps its thread.
fn end<L: Lane>(members: &[Arc<Member<L>>], time: Duration, how: fn(&Member<L>)) {
    let (tell, told) = std::sync::mpsc::channel();
    let mut started = 0;
    for member in members {
        let (member, tell) = (Arc::clone(member), tell.clone());
        let spawned = thread::Builder::new().name("rig-nccl-end".into()).spawn(move || {
            how(&member);
            let _ = tell.send(());
        });
        started += usize::from(spawned.is_ok());
    }
    let deadline = Instant::now() + time;
    for _ in 0..started {
        if told.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            return;
        }
    }
}
