//! The server: one for each id, in the process that made it. It holds what ranks wait for, and answers once it is there.
//!
//! It ends with its process, which must therefore outlive all that ranks still want of it: [`outlast`].

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::math;
use crate::wire::{Kind, Op, Say, put, put_bytes};

/// What stands in place of a result that was cut off.
pub(crate) const GARBAGE: u8 = 0xab;

/// A rank's connection, and what it waits for.
struct Rank {
    stream: TcpStream,
    /// The batch that it sent: each operation's result, and how long it is to be.
    waits: Vec<(Option<Vec<u8>>, u64)>,
    /// How many collectives it was given.
    collectives: u64,
    /// Its communicator has ended, or its process.
    gone: bool,
}

#[derive(Default)]
struct State {
    ranks: HashMap<u64, Rank>,
    /// Collectives that not all ranks have come to: each rank's place in its batch, and the operation.
    open: HashMap<u64, HashMap<u64, (usize, Op)>>,
    /// What was sent and not received, by sender and receiver.
    sent: HashMap<(u64, u64), VecDeque<Vec<u8>>>,
    /// Who waits to receive, by sender and receiver: the place in the receiver's batch.
    wanted: HashMap<(u64, u64), VecDeque<usize>>,
    size: u64,
}

#[derive(Default)]
struct Server {
    state: Mutex<State>,
    /// A rank is gone.
    left: Condvar,
}

impl Server {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// This process's servers, by the numbers of their ids.
static SERVERS: Mutex<Vec<(u64, Arc<Server>)>> = Mutex::new(Vec::new());

/// Begins a server, and gives its port.
pub(crate) fn begin(nonce: u64) -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let server = Arc::new(Server::default());
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner).push((nonce, Arc::clone(&server)));
    thread::Builder::new().name("nccl-model".into()).spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            thread::spawn(move || serve(stream, nonce, &server));
        }
    })?;
    Ok(port)
}

/// Waits until every rank of an id is gone, where this process has the id's server; returns at once elsewhere.
pub(crate) fn outlast(nonce: u64) {
    let servers = SERVERS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = servers.iter().find(|(number, _)| *number == nonce).map(|(_, server)| Arc::clone(server));
    drop(servers);
    let Some(server) = own else { return };
    let mut state = server.lock();
    while state.ranks.values().any(|rank| !rank.gone) {
        state = server.left.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Serves one rank until its connection ends.
fn serve(mut stream: TcpStream, nonce: u64, server: &Server) {
    let Ok(Say::Join { nonce: said, rank, ranks }) = Say::read(&mut stream) else { return };
    let Ok(answer) = stream.try_clone() else { return };
    if said != nonce {
        return;
    }
    server.lock().join(rank, ranks, answer);
    loop {
        match Say::read(&mut stream) {
            Ok(Say::Batch(ops)) => server.lock().batch(rank, ops),
            Ok(Say::Abort) => {
                server.lock().abort(rank);
                server.left.notify_all();
            }
            // A rank that is gone leaves its peers waiting.
            Ok(Say::Join { .. }) | Err(_) => {
                server.lock().gone(rank);
                return server.left.notify_all();
            }
        }
    }
}

impl State {
    fn join(&mut self, rank: u64, ranks: u64, stream: TcpStream) {
        self.size = ranks;
        self.ranks.insert(rank, Rank { stream, waits: Vec::new(), collectives: 0, gone: false });
        if self.ranks.len() as u64 == ranks {
            for rank in self.ranks.values_mut() {
                // Who is gone reads nothing.
                let _ = rank.stream.write_all(&0_u64.to_le_bytes());
            }
        }
    }

    fn batch(&mut self, rank: u64, ops: Vec<Op>) {
        let Some(own) = self.ranks.get_mut(&rank) else { return };
        own.waits = ops.iter().map(|op| (None, op.result)).collect();
        for (place, op) in ops.into_iter().enumerate() {
            let peer = u64::from(op.with.cast_unsigned());
            match op.kind {
                Kind::Send => {
                    self.sent.entry((rank, peer)).or_default().push_back(op.data);
                    self.give(rank, place, Vec::new());
                    self.pair(rank, peer);
                }
                Kind::Receive => {
                    self.wanted.entry((peer, rank)).or_default().push_back(place);
                    self.pair(peer, rank);
                }
                _ => self.collective(rank, place, op),
            }
        }
        self.answer(rank);
    }

    /// Brings what one rank sent to who waits for it.
    fn pair(&mut self, from: u64, to: u64) {
        let (Some(sent), Some(wanted)) = (self.sent.get_mut(&(from, to)), self.wanted.get_mut(&(from, to))) else {
            return;
        };
        let mut pairs = Vec::new();
        while !sent.is_empty() && !wanted.is_empty() {
            // PANIC: neither is empty.
            pairs.push((wanted.pop_front().expect("a place"), sent.pop_front().expect("data")));
        }
        pairs.into_iter().for_each(|(place, data)| self.give(to, place, data));
        self.answer(to);
    }

    fn collective(&mut self, rank: u64, place: usize, op: Op) {
        let Some(own) = self.ranks.get_mut(&rank) else { return };
        let number = own.collectives;
        own.collectives += 1;
        let came = self.open.entry(number).or_default();
        came.insert(rank, (place, op));
        if came.len() as u64 != self.size {
            return;
        }
        let by_rank: Vec<(usize, Op)> = (0..self.size).filter_map(|rank| came.get(&rank).cloned()).collect();
        let ops: Vec<Op> = by_rank.iter().map(|(_, op)| op.clone()).collect();
        // What does not fit together hangs.
        let Some(results) = math::collective(&ops) else { return };
        self.open.remove(&number);
        for ((rank, (place, _)), result) in (0..).zip(by_rank).zip(results) {
            self.give(rank, place, result);
        }
        (0..self.size).for_each(|rank| self.answer(rank));
    }

    fn give(&mut self, rank: u64, place: usize, data: Vec<u8>) {
        if let Some((result, _)) = self.ranks.get_mut(&rank).and_then(|rank| rank.waits.get_mut(place)) {
            *result = Some(data);
        }
    }

    /// Answers a rank once all of its batch is there.
    fn answer(&mut self, rank: u64) {
        let Some(own) = self.ranks.get_mut(&rank) else { return };
        if own.waits.is_empty() || own.waits.iter().any(|(result, _)| result.is_none()) {
            return;
        }
        let mut bytes = Vec::new();
        put(&mut bytes, own.waits.len() as u64);
        own.waits.drain(..).for_each(|(result, _)| put_bytes(&mut bytes, &result.unwrap_or_default()));
        let _ = own.stream.write_all(&bytes);
    }

    fn gone(&mut self, rank: u64) {
        if let Some(own) = self.ranks.get_mut(&rank) {
            own.gone = true;
        }
    }

    /// The rank ends early: what its peers wait for now is done, and is garbage.
    fn abort(&mut self, rank: u64) {
        self.gone(rank);
        let others: Vec<u64> = self.ranks.keys().copied().filter(|&other| other != rank).collect();
        for other in others {
            let Some(own) = self.ranks.get_mut(&other) else { continue };
            for (result, len) in &mut own.waits {
                result.get_or_insert_with(|| vec![GARBAGE; *len as usize]);
            }
            self.answer(other);
        }
    }
}
