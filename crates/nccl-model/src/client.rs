//! A rank's communicator: its connection to the server, and how it waits.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::server::{GARBAGE, outlast};
use crate::wire::{Op, Say, take, take_bytes};

/// Answers, as `ncclResult_t` has them.
pub(crate) const SUCCESS: i32 = 0;
pub(crate) const SYSTEM_ERROR: i32 = 2;
pub(crate) const INTERNAL_ERROR: i32 = 3;
pub(crate) const REMOTE_ERROR: i32 = 6;

/// How often a wait looks whether it was aborted. TIMEOUT: an abort ends it this much later.
const LOOK: Duration = Duration::from_millis(2);

/// A communicator of one rank.
pub(crate) struct Client {
    ranks: i32,
    /// The number of the id.
    nonce: u64,
    /// For batches, one at a time.
    stream: Mutex<TcpStream>,
    /// For what is said meanwhile.
    beside: TcpStream,
    pub aborted: AtomicBool,
    /// What the communicator reports beside calls.
    pub error: AtomicI32,
    batches: AtomicU64,
}

/// The fault that the variable asks for: its kind, and at which batch.
fn fault() -> Option<(String, u64)> {
    let text = std::env::var("RIG_NCCL_MODEL_FAULT").ok()?;
    let (kind, number) = text.split_once(':').unwrap_or((&text, "0"));
    Some((kind.to_owned(), number.parse().unwrap_or(0)))
}

impl Client {
    /// Joins the server of an id, and waits until all ranks have.
    pub fn join(port: u16, nonce: u64, rank: i32, ranks: i32) -> std::io::Result<Client> {
        if fault().is_some_and(|(kind, _)| kind == "init") {
            loop {
                thread::park();
            }
        }
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        Say::Join { nonce, rank: rank as u64, ranks: ranks as u64 }.write(&mut stream)?;
        take(&mut stream)?;
        stream.set_read_timeout(Some(LOOK))?;
        let beside = stream.try_clone()?;
        Ok(Client {
            ranks,
            nonce,
            stream: Mutex::new(stream),
            beside,
            aborted: AtomicBool::new(false),
            error: AtomicI32::new(SUCCESS),
            batches: AtomicU64::new(0),
        })
    }

    pub fn ranks(&self) -> i32 {
        self.ranks
    }

    /// Does a group of operations: the answer, and each one's result.
    pub fn run(&self, ops: Vec<Op>) -> (i32, Vec<Vec<u8>>) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let garbage: Vec<Vec<u8>> = ops.iter().map(|op| vec![GARBAGE; op.result as usize]).collect();
        let number = self.batches.fetch_add(1, Ordering::Relaxed) + 1;
        match fault() {
            Some((kind, at)) if kind == "error" && at == number => return (INTERNAL_ERROR, garbage),
            Some((kind, at)) if kind == "async" && at == number => {
                self.error.store(SYSTEM_ERROR, Ordering::Release);
                self.stand();
                return (SUCCESS, garbage);
            }
            _ => {}
        }
        let mut patient = Patient { stream: &mut stream, aborted: &self.aborted };
        let said = Say::Batch(ops).write(patient.stream);
        let read = said.and_then(|()| {
            let many = take(&mut patient)?;
            (0..many).map(|_| take_bytes(&mut patient)).collect::<std::io::Result<Vec<_>>>()
        });
        match read {
            Ok(results) => (SUCCESS, results),
            Err(_) => {
                if !self.aborted.load(Ordering::Acquire) {
                    self.error.store(REMOTE_ERROR, Ordering::Release);
                    self.stand();
                }
                (SUCCESS, garbage)
            }
        }
    }

    /// Waits for an abort, as a kernel does whose peer is gone.
    fn stand(&self) {
        while !self.aborted.load(Ordering::Acquire) {
            thread::sleep(LOOK);
        }
    }

    /// Ends the communicator in good order.
    pub fn leave(&self) {
        // A connection that has ended by itself needs no more.
        let _ = self.beside.shutdown(Shutdown::Both);
        outlast(self.nonce);
    }

    /// Ends what the rank waits for, and what its peers do.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        let _ = Say::Abort.write(&mut &self.beside);
    }
}

/// Reads that go on until something comes or the communicator is aborted.
struct Patient<'a> {
    stream: &'a mut TcpStream,
    aborted: &'a AtomicBool,
}

impl Read for Patient<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.stream.read(into) {
                Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.aborted.load(Ordering::Acquire) {
                        return Err(ErrorKind::ConnectionAborted.into());
                    }
                }
                read => return read,
            }
        }
    }
}
