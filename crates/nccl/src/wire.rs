//! What processes say to one another: frames, and how they are read from a connection that anybody may have made.
//!
//! # Invariants
//!
//! 1. A frame has at most [`FRAME_MAX`] bytes, and no more is read or kept for it, whatever the other side says.
//! 2. Lists and texts in a frame are no longer than the frame: reading one never allocates more than was received.
//!
//! A frame is its kind, the length of what follows, and that: numbers with the lowest byte first, texts with their length.

use std::io::{self, Read, Write};

use crate::sys::abi::ID_BYTES;

/// What every frame begins with: a peer that begins otherwise speaks something else, or another version.
const MAGIC: [u8; 4] = *b"rnc1";
/// The most bytes of a frame: a hello of a machine with more GPUs than any has.
pub(crate) const FRAME_MAX: usize = 16 << 10;
/// The bytes before a frame's content: magic, kind, length.
const HEAD: usize = 9;
/// The longest reason that travels.
const REASON_MAX: usize = 2 << 10;

/// Who a process is: what process 0 plans the ranks by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub process: u32,
    pub processes: u32,
    /// The run's name.
    pub job: String,
    /// The machine's name, for reasons.
    pub host: String,
    /// What tells machines, and their boots, apart.
    pub machine: String,
    pub pid: u32,
    /// NCCL's version.
    pub nccl: u32,
    /// Each device's hardware, in the order of the process's ranks.
    pub devices: Vec<String>,
}

/// What process 0 answers once all have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The first rank of the process.
    pub first: u32,
    /// All ranks.
    pub ranks: u32,
    pub id: [u8; ID_BYTES],
    /// The bounds of process 0, which are everyone's: silence, stall and connect, in milliseconds.
    pub bounds: [u64; 3],
    /// Process 0, for reasons.
    pub host: String,
    pub pid: u32,
}

/// How far a rank is: operations that were given to NCCL, and those that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub queued: u64,
    pub done: u64,
}

/// One thing that is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Hello(Hello),
    /// The hello does not fit, and why.
    Refuse(String),
    Welcome(Welcome),
    /// The sender lives, and its ranks are so far.
    Beat(Vec<Count>),
    /// The communicator has failed, and why; the sender's devices are lost.
    Fail(String),
    /// The sender's devices are lost too.
    Lost,
    /// Every living process has lost its devices: NCCL's work may be ended.
    Abort,
    /// The sender leaves in good order.
    Bye,
}

/// Why a frame was not read.
#[derive(Debug)]
pub(crate) enum Bad {
    /// The connection ended, or nothing came in time.
    Ended(io::Error),
    /// What came is no frame.
    Garbage(&'static str),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Bad {
        Bad::Ended(error)
    }
}

impl std::fmt::Display for Bad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bad::Ended(error) if error.kind() == io::ErrorKind::UnexpectedEof => f.write_str("the connection ended"),
            Bad::Ended(error) => write!(f, "{error}"),
            Bad::Garbage(what) => write!(f, "what it says is none of rig-nccl's: {what}"),
        }
    }
}

impl Frame {
    /// The frame as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        let kind = match self {
            Frame::Hello(hello) => {
                for number in [hello.process, hello.processes, hello.pid, hello.nccl] {
                    body.extend(number.to_le_bytes());
                }
                for said in [&hello.job, &hello.host, &hello.machine] {
                    text(&mut body, said);
                }
                body.extend((hello.devices.len() as u32).to_le_bytes());
                hello.devices.iter().for_each(|device| text(&mut body, device));
                0
            }
            Frame::Refuse(why) => {
                text(&mut body, cut(why));
                1
            }
            Frame::Welcome(welcome) => {
                for number in [welcome.first, welcome.ranks, welcome.pid] {
                    body.extend(number.to_le_bytes());
                }
                body.extend(welcome.id);
                welcome.bounds.iter().for_each(|bound| body.extend(bound.to_le_bytes()));
                text(&mut body, &welcome.host);
                2
            }
            Frame::Beat(counts) => {
                body.extend((counts.len() as u32).to_le_bytes());
                for count in counts {
                    body.extend(count.queued.to_le_bytes());
                    body.extend(count.done.to_le_bytes());
                }
                3
            }
            Frame::Fail(why) => {
                text(&mut body, cut(why));
                4
            }
            Frame::Lost => 5,
            Frame::Abort => 6,
            Frame::Bye => 7,
        };
        let mut bytes = MAGIC.to_vec();
        bytes.push(kind);
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
        bytes
    }

    /// Writes the frame, in one call where the connection takes it so.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        to.write_all(&self.bytes())
    }

    /// Reads one frame: no byte more, and never more than a frame's most.
    pub fn read(from: &mut impl Read) -> Result<Frame, Bad> {
        let mut head = [0; HEAD];
        from.read_exact(&mut head)?;
        let [m0, m1, m2, m3, kind, l0, l1, l2, l3] = head;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(Bad::Garbage("it begins otherwise"));
        }
        let len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if len > FRAME_MAX {
            return Err(Bad::Garbage("it is too long"));
        }
        let mut body = vec![0; len];
        from.read_exact(&mut body)?;
        Frame::parse(kind, &body)
    }

    fn parse(kind: u8, body: &[u8]) -> Result<Frame, Bad> {
        let mut rest = Rest(body);
        let frame = match kind {
            0 => {
                let [process, processes, pid, nccl] = [rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?];
                let [job, host, machine] = [rest.text()?, rest.text()?, rest.text()?];
                let many = rest.u32()?;
                let devices = (0..many).map(|_| rest.text()).collect::<Result<_, _>>()?;
                Frame::Hello(Hello { process, processes, job, host, machine, pid, nccl, devices })
            }
            1 => Frame::Refuse(rest.text()?),
            2 => {
                let [first, ranks, pid] = [rest.u32()?, rest.u32()?, rest.u32()?];
                let id = rest.take()?;
                let bounds = [rest.u64()?, rest.u64()?, rest.u64()?];
                Frame::Welcome(Welcome { first, ranks, id, bounds, host: rest.text()?, pid })
            }
            3 => {
                let many = rest.u32()?;
                let count = |rest: &mut Rest<'_>| Ok::<_, Bad>(Count { queued: rest.u64()?, done: rest.u64()? });
                Frame::Beat((0..many).map(|_| count(&mut rest)).collect::<Result<_, _>>()?)
            }
            4 => Frame::Fail(rest.text()?),
            5 => Frame::Lost,
            6 => Frame::Abort,
            7 => Frame::Bye,
            _ => return Err(Bad::Garbage("its kind is unknown")),
        };
        if rest.0.is_empty() { Ok(frame) } else { Err(Bad::Garbage("it is longer than what it holds")) }
    }
}

/// A reason of a length that travels.
fn cut(why: &str) -> &str {
    &why[..why.floor_char_boundary(REASON_MAX)]
}

fn text(into: &mut Vec<u8>, text: &str) {
    into.extend((text.len() as u32).to_le_bytes());
    into.extend(text.as_bytes());
}

/// What is left of a frame.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Bad::Garbage("it ends early"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, Bad> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, Bad> {
        self.take().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Bad> {
        let len = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or(Bad::Garbage("it ends early"))?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).map_err(|_| Bad::Garbage("a text is no UTF-8"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn hello(process: u32, processes: u32, devices: &[&str]) -> Hello {
        Hello {
            process,
            processes,
            job: "job".into(),
            host: format!("host{process}"),
            machine: format!("boot{process}"),
            pid: 100 + process,
            nccl: 22_703,
            devices: devices.iter().map(|&device| device.to_owned()).collect(),
        }
    }

    fn frames() -> Vec<Frame> {
        let id = std::array::from_fn(|i| i as u8);
        let host = "host0".to_owned();
        vec![
            Frame::Hello(hello(1, 2, &["0000:41:00.0", "0000:42:00.0"])),
            Frame::Refuse("no".into()),
            Frame::Welcome(Welcome { first: 3, ranks: 8, id, bounds: [1, 2, 3], host, pid: 9 }),
            Frame::Beat(vec![Count { queued: 7, done: 5 }, Count::default()]),
            Frame::Fail("rank 3 stands".into()),
            Frame::Lost,
            Frame::Abort,
            Frame::Bye,
        ]
    }

    #[test]
    fn frames_come_back_as_they_were_sent_one_after_the_other() {
        let bytes: Vec<u8> = frames().iter().flat_map(Frame::bytes).collect();
        let mut from = &bytes[..];
        for frame in frames() {
            assert_eq!(Frame::read(&mut from).unwrap(), frame);
        }
        assert!(from.is_empty());
    }

    #[test]
    fn a_frame_cut_anywhere_or_with_any_byte_changed_is_an_error_or_another_frame_and_never_more_memory() {
        for frame in frames() {
            let bytes = frame.bytes();
            for end in 0..bytes.len() {
                assert!(matches!(Frame::read(&mut &bytes[..end]), Err(Bad::Ended(_))), "{frame:?} cut at {end}");
            }
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut wrong = bytes.clone();
                    wrong[at] = value;
                    if let Ok(read) = Frame::read(&mut &wrong[..]) {
                        assert_eq!(read.bytes(), wrong, "only what was said");
                    }
                }
            }
        }
    }

    #[test]
    fn what_begins_otherwise_or_is_too_long_is_refused_before_it_is_read() {
        let web = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert!(matches!(Frame::read(&mut &web[..]), Err(Bad::Garbage("it begins otherwise"))));
        let mut long = Frame::Lost.bytes();
        long[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(Frame::read(&mut &long[..]), Err(Bad::Garbage("it is too long"))));
        let counts = [&Frame::Beat(Vec::new()).bytes()[..HEAD], &u32::MAX.to_le_bytes()].concat();
        assert!(matches!(Frame::read(&mut &counts[..]), Err(Bad::Garbage("it ends early"))));
    }

    #[test]
    fn a_reason_is_cut_to_what_travels_at_a_whole_letter() {
        let long = "ä".repeat(REASON_MAX);
        let Frame::Fail(why) = Frame::read(&mut &Frame::Fail(long).bytes()[..]).unwrap() else { panic!("a reason") };
        assert!(why.len() <= REASON_MAX && why.chars().all(|letter| letter == 'ä'));
    }
}
