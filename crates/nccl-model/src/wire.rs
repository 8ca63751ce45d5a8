//! What a rank and the server say to one another: numbers with the lowest byte first, bytes with their length.

use std::io::{self, Read, Write};

/// The most bytes of one operation's data: far more than tests send.
pub(crate) const DATA_MAX: u64 = 256 << 20;
/// The most operations of one group.
pub(crate) const OPS_MAX: u64 = 1 << 16;

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    AllReduce = 0,
    Broadcast = 1,
    AllGather = 2,
    ReduceScatter = 3,
    Send = 4,
    Receive = 5,
}

impl Kind {
    fn of(number: u64) -> Option<Kind> {
        let all = [Kind::AllReduce, Kind::Broadcast, Kind::AllGather, Kind::ReduceScatter, Kind::Send, Kind::Receive];
        all.into_iter().find(|kind| *kind as u64 == number)
    }
}

/// An operation as it travels: what a rank gives, and how much it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Op {
    pub kind: Kind,
    /// `ncclDataType_t`.
    pub of: i32,
    /// `ncclRedOp_t`, the root, or the peer.
    pub with: i32,
    /// The bytes of the result.
    pub result: u64,
    pub data: Vec<u8>,
}

/// What a rank says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    Join { nonce: u64, rank: u64, ranks: u64 },
    Batch(Vec<Op>),
    Abort,
}

pub(crate) fn put(into: &mut Vec<u8>, number: u64) {
    into.extend(number.to_le_bytes());
}

pub(crate) fn put_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    put(into, bytes.len() as u64);
    into.extend(bytes);
}

pub(crate) fn take(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn bounded(number: u64, most: u64) -> io::Result<u64> {
    if number <= most { Ok(number) } else { Err(io::ErrorKind::InvalidData.into()) }
}

pub(crate) fn take_bytes(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let len = bounded(take(from)?, DATA_MAX)?;
    let mut bytes = Vec::new();
    from.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == len { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

impl Say {
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = Vec::new();
        match self {
            Say::Join { nonce, rank, ranks } => [0, *nonce, *rank, *ranks].into_iter().for_each(|n| put(&mut bytes, n)),
            Say::Batch(ops) => {
                put(&mut bytes, 1);
                put(&mut bytes, ops.len() as u64);
                for op in ops {
                    let with = u64::from(op.with.cast_unsigned());
                    let numbers = [op.kind as u64, u64::from(op.of.cast_unsigned()), with, op.result];
                    numbers.into_iter().for_each(|n| put(&mut bytes, n));
                    put_bytes(&mut bytes, &op.data);
                }
            }
            Say::Abort => put(&mut bytes, 2),
        }
        to.write_all(&bytes)
    }

    pub fn read(from: &mut impl Read) -> io::Result<Say> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidData);
        match take(from)? {
            0 => Ok(Say::Join { nonce: take(from)?, rank: take(from)?, ranks: take(from)? }),
            1 => {
                let many = bounded(take(from)?, OPS_MAX)?;
                let mut op = || {
                    let kind = Kind::of(take(from)?).ok_or_else(wrong)?;
                    let (of, with) = (take(from)? as i32, take(from)? as i32);
                    Ok(Op { kind, of, with, result: bounded(take(from)?, DATA_MAX)?, data: take_bytes(from)? })
                };
                (0..many).map(|_| op()).collect::<io::Result<Vec<Op>>>().map(Say::Batch)
            }
            2 => Ok(Say::Abort),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_comes_back_and_nothing_longer_than_is_allowed_is_read() {
        let op = Op { kind: Kind::ReduceScatter, of: 7, with: -1, result: 4, data: vec![1, 2, 3] };
        for say in [Say::Join { nonce: 1, rank: 2, ranks: 3 }, Say::Batch(vec![op.clone(), op]), Say::Abort] {
            let mut bytes = Vec::new();
            say.write(&mut bytes).unwrap();
            assert_eq!(Say::read(&mut &bytes[..]).unwrap(), say);
            assert!(Say::read(&mut &bytes[..bytes.len() - 1]).is_err());
        }
        let mut long = Vec::new();
        [1, u64::MAX].into_iter().for_each(|n| put(&mut long, n));
        assert!(Say::read(&mut &long[..]).is_err());
        let mut data = Vec::new();
        put(&mut data, u64::MAX);
        assert!(take_bytes(&mut &data[..]).is_err());
    }
}
