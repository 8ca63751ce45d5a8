//! The meeting: processes find one another, see that they fit, and get their ranks and NCCL's id from process 0.
//!
//! # Invariants
//!
//! 1. Every wait has a bound, and every read a length: [`Frame::read`] for connections, [`FILE_MAX`] for the file.
//! 2. A connection that says nothing, or something else, holds up nobody: each is read on a thread of its own, for
//!    [`HELLO_TIME`] at most, and at most [`STRANGERS_MOST`] beyond the processes at one time.
//!
//! Who reaches the port can take part, as with NCCL's own: meet on a network that you trust.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::plan::{self, Fit};
use crate::sys::abi::ID_BYTES;
use crate::wire::{Bad, Frame, Hello, Welcome};
use crate::{Error, Place, Result};

/// How long a connection may take to say who it is. TIMEOUT: a hello follows the connection at once, over any network.
const HELLO_TIME: Duration = Duration::from_secs(5);
/// How long a write may take. TIMEOUT: frames are smaller than what a connection holds by itself.
pub(crate) const WRITE_TIME: Duration = Duration::from_secs(5);
/// How long one try to connect may take. TIMEOUT: a machine that answers does so in milliseconds; one that is not up yet may
/// swallow the try.
const TRY_TIME: Duration = Duration::from_secs(3);
/// Between two tries, and two looks at the listener. TIMEOUT: a meeting begins this much later than it could.
const AGAIN: Duration = Duration::from_millis(20);
/// For how long late comers are told why a meeting failed. TIMEOUT: processes that a launcher starts together come within this.
const LATE: Duration = Duration::from_secs(1);
/// How many connections beyond the processes' may be read at one time.
const STRANGERS_MOST: usize = 64;
/// The most bytes of the file that are read.
const FILE_MAX: u64 = 1024;
/// What the file begins with.
const FILE_HEAD: &str = "rig-nccl 1";

/// What came of the meeting.
pub(crate) struct Met {
    pub welcome: Welcome,
    /// The connections: process 0 has one to each other process, by rising number, and the others one to process 0.
    pub others: Vec<(Hello, TcpStream, u32)>,
}

/// What only process 0 knows beforehand.
pub(crate) struct Host<'a> {
    /// NCCL's id, asked for once all have come.
    pub id: &'a dyn Fn() -> Result<[u8; ID_BYTES]>,
    pub bounds: [u64; 3],
}

fn met_error(why: impl Into<String>) -> Error {
    Error::Meeting(why.into())
}

/// Meets the other processes, until `deadline` at the latest.
pub(crate) fn meet(place: &Place, hello: &Hello, host: &Host<'_>, deadline: Instant) -> Result<Met> {
    if hello.process == 0 { gather(place, hello, host, deadline) } else { join(place, hello, deadline) }
}

// ---- process 0 ----

/// The file, removed when this drops.
struct Written<'a>(Option<&'a Path>);

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // Whoever still looks finds nothing, and one that is left behind is found stale.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn gather(place: &Place, hello: &Hello, host: &Host<'_>, deadline: Instant) -> Result<Met> {
    let (listener, _written) = listen(place, hello)?;
    let mut there = vec![hello.clone()];
    let mut streams: Vec<(Hello, TcpStream)> = Vec::new();
    let done = collect(&listener, hello, &mut there, &mut streams, deadline);
    let planned = done.and_then(|()| {
        let (ranges, ranks) = plan::ranks(&there);
        Ok((ranges, ranks, (host.id)()?))
    });
    let (ranges, ranks, id) = match planned {
        Ok(planned) => planned,
        Err(why) => {
            let text = match &why {
                Error::Meeting(text) => text.clone(),
                other => other.to_string(),
            };
            for (_, stream) in &mut streams {
                let _ = Frame::Refuse(text.clone()).write(stream);
            }
            turn_away(&listener, &text);
            return Err(why);
        }
    };
    let welcome = |process: u32| Welcome {
        first: ranges[process as usize].start,
        ranks,
        id,
        bounds: host.bounds,
        host: hello.host.clone(),
        pid: hello.pid,
    };
    streams.sort_by_key(|(hello, _)| hello.process);
    let mut others = Vec::new();
    for (other, mut stream) in streams {
        let welcome = welcome(other.process);
        let first = welcome.first;
        let sent = Frame::Welcome(welcome).write(&mut stream);
        sent.map_err(|why| met_error(format!("{} has gone again: {why}", other.name())))?;
        others.push((other, stream, first));
    }
    Ok(Met { welcome: welcome(0), others })
}

/// Tells who comes just now why there is no meeting, since they would wait for their bound otherwise.
fn turn_away(listener: &TcpListener, why: &str) {
    let (tell, told) = mpsc::channel();
    let reading = Arc::new(AtomicUsize::new(0));
    let until = Instant::now() + LATE;
    while Instant::now() < until {
        if let Ok((stream, from)) = listener.accept()
            && reading.load(Ordering::Relaxed) < STRANGERS_MOST
        {
            read_hello(stream, from, &reading, tell.clone());
        }
        if let Some((_, Ok((_, mut stream)))) = next(&told) {
            let _ = Frame::Refuse(why.to_owned()).write(&mut stream);
        }
    }
}

/// Listens at the place, and writes the file where it is one.
fn listen<'a>(place: &'a Place, hello: &Hello) -> Result<(TcpListener, Written<'a>)> {
    let why = |why: io::Error| met_error(format!("process 0 cannot listen at {place}: {why}"));
    match place {
        Place::Address { host, port } => {
            let addresses: Vec<SocketAddr> = (host.as_str(), *port).to_socket_addrs().map_err(why)?.collect();
            let listener = TcpListener::bind(&addresses[..]).or_else(|error| match error.kind() {
                // The address is another name of this machine, behind a translation or in a container.
                io::ErrorKind::AddrNotAvailable => TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)),
                _ => Err(error),
            });
            Ok((listener.map_err(why)?, Written(None)))
        }
        Place::File(path) => {
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(why)?;
            let port = listener.local_addr().map_err(why)?.port();
            let text = format!("{FILE_HEAD}\n{}\n{}\n{port}\n{}\n", hello.host, hello.machine, hello.pid);
            // Whole or not at all, for whoever reads it meanwhile.
            let beside = path.with_extension(format!("{}.new", hello.pid));
            std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path)).map_err(why)?;
            Ok((listener, Written(Some(path))))
        }
    }
}

/// Takes connections until every process has come.
fn collect(
    listener: &TcpListener,
    me: &Hello,
    there: &mut Vec<Hello>,
    streams: &mut Vec<(Hello, TcpStream)>,
    deadline: Instant,
) -> Result<()> {
    let failed = |why: io::Error| met_error(format!("process 0 cannot listen: {why}"));
    listener.set_nonblocking(true).map_err(failed)?;
    let (tell, told) = mpsc::channel();
    let reading = Arc::new(AtomicUsize::new(0));
    let mut strangers = Strangers::default();
    while there.len() < me.processes as usize {
        match listener.accept() {
            Ok((stream, from)) if reading.load(Ordering::Relaxed) < me.processes as usize + STRANGERS_MOST => {
                read_hello(stream, from, &reading, tell.clone());
            }
            Ok((_, from)) => strangers.note(&format!("{from} was sent away: too many connections at one time")),
            // A connection that ended before it was taken is nobody's.
            Err(_) => {}
        }
        while let Some((from, read)) = next(&told) {
            match read {
                Err(why) => strangers.note(&format!("{from} is none of the processes: {why}")),
                Ok((new, mut stream)) => match plan::fit(there, &new) {
                    Fit::Yes => {
                        there.push(new.clone());
                        streams.push((new, stream));
                    }
                    Fit::Stranger(why) => {
                        let _ = Frame::Refuse(why.clone()).write(&mut stream);
                        strangers.note(&why);
                    }
                    Fit::Wrong(why) => {
                        let _ = Frame::Refuse(why.clone()).write(&mut stream);
                        return Err(met_error(why));
                    }
                },
            }
        }
        if Instant::now() >= deadline {
            return Err(met_error(format!("{} did not come{}", plan::missing(there, me.processes), strangers.text())));
        }
    }
    Ok(())
}

type Came = (SocketAddr, std::result::Result<(Hello, TcpStream), Bad>);

/// The next that was read, or none within a moment.
fn next(told: &Receiver<Came>) -> Option<Came> {
    told.recv_timeout(AGAIN).ok()
}

/// Reads a connection's hello on a thread of its own.
fn read_hello(stream: TcpStream, from: SocketAddr, reading: &Arc<AtomicUsize>, tell: Sender<Came>) {
    let read = move |mut stream: TcpStream| -> std::result::Result<(Hello, TcpStream), Bad> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(HELLO_TIME))?;
        stream.set_write_timeout(Some(WRITE_TIME))?;
        stream.set_nodelay(true)?;
        match Frame::read(&mut stream)? {
            Frame::Hello(hello) => Ok((hello, stream)),
            _ => Err(Bad::Garbage("it does not say who it is")),
        }
    };
    reading.fetch_add(1, Ordering::Relaxed);
    let counted = Arc::clone(reading);
    let spawned = thread::Builder::new().name("rig-nccl-hello".into()).spawn(move || {
        let _ = tell.send((from, read(stream)));
        counted.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        // No thread: the connection is dropped, and tries again.
        reading.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Who came and was none of the processes: the first few, for the reason of a meeting that fails.
#[derive(Default)]
struct Strangers(Vec<String>);

impl Strangers {
    const MOST: usize = 4;

    fn note(&mut self, why: &str) {
        if self.0.len() < Strangers::MOST {
            self.0.push(why.to_owned());
        }
    }

    fn text(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("; {}", self.0.join("; ")) }
    }
}

// ---- the others ----

/// Why a try to join did not succeed.
enum NotYet {
    /// It may succeed later.
    Again(String),
    /// It will not.
    Never(Error),
}

fn join(place: &Place, hello: &Hello, deadline: Instant) -> Result<Met> {
    loop {
        let why = match try_join(place, hello, deadline) {
            Ok(met) => return Ok(met),
            Err(NotYet::Never(error)) => return Err(error),
            Err(NotYet::Again(why)) => why,
        };
        // After a try at least, so that there is a reason to give.
        if Instant::now() >= deadline {
            return Err(met_error(format!("{} did not reach process 0 at {place} in time: {why}", hello.name())));
        }
        thread::sleep(AGAIN);
    }
}

fn try_join(place: &Place, hello: &Hello, deadline: Instant) -> std::result::Result<Met, NotYet> {
    let again = |why: String| NotYet::Again(why);
    let addresses = addresses(place, hello).map_err(again)?;
    let mut why = format!("{place} has no address");
    for address in addresses {
        let time = TRY_TIME.min(deadline.saturating_duration_since(Instant::now())).max(AGAIN);
        match TcpStream::connect_timeout(&address, time) {
            // A port of this machine that nobody listens on may be given to the very try: then both ends are this one.
            Ok(stream) if stream.local_addr().ok() == Some(address) => why = format!("nobody listens at {address}"),
            Ok(stream) => return greet(stream, address, place, hello, deadline),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    // A file whose process does not answer may be of an earlier run.
    if let Place::File(path) = place {
        why = format!("{why}; {} may be left from an earlier run: remove it", path.display());
    }
    Err(again(why))
}

/// Says hello, and waits for the answer, which comes once all are there.
fn greet(
    mut stream: TcpStream,
    address: SocketAddr,
    place: &Place,
    hello: &Hello,
    deadline: Instant,
) -> std::result::Result<Met, NotYet> {
    let ended = |why: io::Error| NotYet::Again(format!("{address}: {why}"));
    stream.set_nodelay(true).map_err(ended)?;
    stream.set_write_timeout(Some(WRITE_TIME)).map_err(ended)?;
    let left = deadline.saturating_duration_since(Instant::now()).max(AGAIN);
    stream.set_read_timeout(Some(left)).map_err(ended)?;
    Frame::Hello(hello.clone()).write(&mut stream).map_err(ended)?;
    match Frame::read(&mut stream) {
        Ok(Frame::Welcome(welcome)) => {
            let zero = Hello {
                process: 0,
                host: welcome.host.clone(),
                pid: welcome.pid,
                devices: Vec::new(),
                ..hello.clone()
            };
            Ok(Met { welcome, others: vec![(zero, stream, 0)] })
        }
        Ok(Frame::Refuse(why)) => Err(NotYet::Never(met_error(why))),
        // At an address that the file named, an earlier run's, there may be anything by now.
        Err(Bad::Garbage(_)) | Ok(_) if matches!(place, Place::Address { .. }) => {
            Err(NotYet::Never(met_error(format!(
                "at {address} something answers that is not process 0 of rig-nccl's, or not of this version: meet at a port that \
             is free"
            ))))
        }
        Err(Bad::Garbage(what)) => Err(NotYet::Again(format!("{address} answers and is not process 0: {what}"))),
        Ok(_) => Err(NotYet::Again(format!("{address} answers and is not process 0"))),
        Err(Bad::Ended(why)) => Err(ended(why)),
    }
}

/// Where process 0 may listen.
fn addresses(place: &Place, hello: &Hello) -> std::result::Result<Vec<SocketAddr>, String> {
    match place {
        Place::Address { host, port } => {
            (host.as_str(), *port).to_socket_addrs().map(Iterator::collect).map_err(|why| format!("{host}: {why}"))
        }
        Place::File(path) => {
            let text = read_file(path).map_err(|why| format!("{}: {why}", path.display()))?;
            let wrong = || format!("{} is no file of rig-nccl's", path.display());
            let mut lines = text.lines();
            if lines.next() != Some(FILE_HEAD) {
                return Err(wrong());
            }
            let (Some(host), Some(machine), Some(port)) = (lines.next(), lines.next(), lines.next()) else {
                return Err(wrong());
            };
            let port: u16 = port.parse().map_err(|_| wrong())?;
            if machine == hello.machine {
                return Ok(vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)]);
            }
            (host, port).to_socket_addrs().map(Iterator::collect).map_err(|why| format!("{host}: {why}"))
        }
    }
}

/// Reads the file, and no more of it than it can have.
fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    io::Read::read_to_string(&mut io::Read::take(std::fs::File::open(path)?, FILE_MAX), &mut text)?;
    Ok(text)
}

#[cfg(test)]
#[path = "meet_tests.rs"]
mod tests;
