//! What a fill asks of NCCL: operations over the slots of its submission.
//!
//! Pure: sizes are checked, and slots become addresses, with no call of NCCL.

use std::ffi::c_int;

use rig::{RefSpec, read, write};
use rig_edge::Slot;

use crate::sys::abi::{Comm, Stream};
use crate::sys::{Api, Data, Result};

/// The type of an operation's elements.
///
/// ```
/// use rig_nccl::Type;
/// // What a slot of 4,096 bytes holds of each.
/// let elements = [Type::U8, Type::Bf16, Type::F32, Type::I64].map(|of| 4096 / of.bytes());
/// assert_eq!(elements, [4096, 2048, 1024, 512]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE's half.
    F16,
    /// IEEE's single.
    F32,
    /// IEEE's double.
    F64,
    /// A single's upper half.
    Bf16,
}

impl Type {
    /// The bytes of an element.
    ///
    /// ```
    /// use rig_nccl::Type;
    /// // A slot holds whole elements: twelve bytes are three singles, and no number of doubles.
    /// assert_eq!(12 % Type::F32.bytes(), 0);
    /// assert_ne!(12 % Type::F64.bytes(), 0);
    /// ```
    pub fn bytes(self) -> usize {
        match self {
            Type::I8 | Type::U8 => 1,
            Type::F16 | Type::Bf16 => 2,
            Type::I32 | Type::U32 | Type::F32 => 4,
            Type::I64 | Type::U64 | Type::F64 => 8,
        }
    }

    /// `ncclDataType_t`.
    fn code(self) -> c_int {
        match self {
            Type::I8 => 0,
            Type::U8 => 1,
            Type::I32 => 2,
            Type::U32 => 3,
            Type::I64 => 4,
            Type::U64 => 5,
            Type::F16 => 6,
            Type::F32 => 7,
            Type::F64 => 8,
            Type::Bf16 => 9,
        }
    }
}

/// How the ranks' elements become one.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
/// use rig_nccl::{Reduce, Type};
/// // Rank 0 has 1, and rank 1 has 2.
/// for (by, due) in [(Reduce::Sum, 3.0), (Reduce::Product, 2.0), (Reduce::Max, 2.0), (Reduce::Average, 1.5)] {
///     let mut results = Vec::new();
///     for (index, device) in devices.iter().enumerate() {
///         let rank = communicator.rank(index);
///         let x = device.from_slice(&[rank.rank() as f32 + 1.0])?;
///         let step = rank.all_reduce(device.submission(), 0, 0, Type::F32, by).make()?;
///         // SAFETY: the fill has NCCL reduce slot 0 of all ranks, and touches nothing else.
///         unsafe { step.take().launch(&[&x])? };
///         results.push(x);
///     }
///     assert_eq!((results[0].to_vec()?, results[1].to_vec()?), (vec![due], vec![due]), "{by:?}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduce {
    /// Their sum.
    Sum,
    /// Their product.
    Product,
    /// The greatest.
    Max,
    /// The least.
    Min,
    /// The sum divided by the number of ranks.
    Average,
}

impl Reduce {
    /// `ncclRedOp_t`.
    fn code(self) -> c_int {
        match self {
            Reduce::Sum => 0,
            Reduce::Product => 1,
            Reduce::Max => 2,
            Reduce::Min => 3,
            Reduce::Average => 4,
        }
    }
}

/// One operation. Slots are those of the submission; each operation works on the whole buffers that fill them.
///
/// `from` and `to` may be one slot where both have the same length: the operation then works in place.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
/// use rig_nccl::{Operation, Reduce, Type};
/// // Two reductions that happen together: the sum in slot 0, and the greatest in slot 1.
/// let both = [
///     Operation::AllReduce { from: 0, to: 0, of: Type::F32, by: Reduce::Sum },
///     Operation::AllReduce { from: 1, to: 1, of: Type::U32, by: Reduce::Max },
/// ];
/// let mut results = Vec::new();
/// for (index, device) in devices.iter().enumerate() {
///     let rank = communicator.rank(index);
///     let (loss, steps) = (device.from_slice(&[0.25_f32])?, device.from_slice(&[rank.rank()])?);
///     let step = rank.add(device.submission(), both).make()?;
///     // SAFETY: the fill has NCCL reduce both slots of all ranks, and touches nothing else.
///     unsafe { step.take().launch(&[&loss, &steps])? };
///     results.push((loss, steps));
/// }
/// for (loss, steps) in results {
///     assert_eq!((loss.to_vec()?, steps.to_vec()?), (vec![0.5], vec![1]));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every rank gets what all ranks' elements reduce to. Both slots have the same length.
    AllReduce {
        /// The slot with this rank's elements.
        from: u32,
        /// The slot for the result.
        to: u32,
        /// Their type.
        of: Type,
        /// How they are reduced.
        by: Reduce,
    },
    /// Every rank gets the root's elements. Both slots have the same length; `from` is read by the root alone.
    Broadcast {
        /// The slot with the root's elements.
        from: u32,
        /// The slot for the result.
        to: u32,
        /// Their type.
        of: Type,
        /// The rank that has them.
        root: u32,
    },
    /// Every rank gets all ranks' elements, by rising rank: `to` is as many times as long as there are ranks.
    AllGather {
        /// The slot with this rank's elements.
        from: u32,
        /// The slot for all.
        to: u32,
        /// Their type.
        of: Type,
    },
    /// What all ranks' elements reduce to is cut into as many pieces as there are ranks, and each rank gets its own: `from` is
    /// that many times as long as `to`.
    ReduceScatter {
        /// The slot with this rank's elements.
        from: u32,
        /// The slot for the piece.
        to: u32,
        /// Their type.
        of: Type,
        /// How they are reduced.
        by: Reduce,
    },
    /// Sends elements to a rank, which receives as many.
    Send {
        /// The slot with the elements.
        from: u32,
        /// Their type.
        of: Type,
        /// The rank that receives them.
        rank: u32,
    },
    /// Receives elements from a rank, which sends as many.
    Receive {
        /// The slot for the elements.
        to: u32,
        /// Their type.
        of: Type,
        /// The rank that sends them.
        rank: u32,
    },
}

/// An operation whose slots are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    AllReduce(Data, c_int),
    Broadcast(Data, c_int),
    AllGather(Data),
    ReduceScatter(Data, c_int),
    Send(Data, c_int),
    Receive(Data, c_int),
}

impl Operation {
    /// Its name, for a reason.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Operation::AllReduce { .. } => "all-reduce",
            Operation::Broadcast { .. } => "broadcast",
            Operation::AllGather { .. } => "all-gather",
            Operation::ReduceScatter { .. } => "reduce-scatter",
            Operation::Send { .. } => "send",
            Operation::Receive { .. } => "receive",
        }
    }

    /// The slots that it reads and writes.
    fn slots(&self) -> (Option<u32>, Option<u32>) {
        match *self {
            Operation::AllReduce { from, to, .. }
            | Operation::Broadcast { from, to, .. }
            | Operation::AllGather { from, to, .. }
            | Operation::ReduceScatter { from, to, .. } => (Some(from), Some(to)),
            Operation::Send { from, .. } => (Some(from), None),
            Operation::Receive { to, .. } => (None, Some(to)),
        }
    }

    fn of(&self) -> Type {
        match *self {
            Operation::AllReduce { of, .. }
            | Operation::Broadcast { of, .. }
            | Operation::AllGather { of, .. }
            | Operation::ReduceScatter { of, .. }
            | Operation::Send { of, .. }
            | Operation::Receive { of, .. } => of,
        }
    }

    /// The operation over these slots, where their lengths fit.
    fn resolve(&self, slots: &[Slot], ranks: u32) -> std::result::Result<Call, String> {
        let wrong = |what: String| format!("{}: {what}", self.name());
        let of = self.of();
        let end = |slot: Option<u32>| -> std::result::Result<(u64, u64), String> {
            let Some(slot) = slot else { return Ok((0, 0)) };
            let slot = slots.get(slot as usize).ok_or_else(|| wrong(format!("there is no slot {slot}")))?;
            if slot.len % of.bytes() as u64 != 0 {
                return Err(wrong(format!("a slot of {} bytes holds no whole elements of {of:?}", slot.len)));
            }
            Ok((slot.device, slot.len))
        };
        let (reads, writes) = self.slots();
        let ((from, from_len), (to, to_len)) = (end(reads)?, end(writes)?);
        let data = |len: u64| Data { from, to, count: len as usize / of.bytes(), kind: of.code() };
        let same = |one: u64, other: u64, what: &str| {
            if one == other { Ok(()) } else { Err(wrong(format!("{what}: {from_len} bytes to {to_len}"))) }
        };
        let rank = |rank: u32| {
            let known = rank < ranks;
            known.then_some(rank as c_int).ok_or_else(|| wrong(format!("there is no rank {rank} of {ranks}")))
        };
        match *self {
            Operation::AllReduce { by, .. } => {
                same(from_len, to_len, "both slots have the same length")?;
                Ok(Call::AllReduce(data(to_len), by.code()))
            }
            Operation::Broadcast { root, .. } => {
                same(from_len, to_len, "both slots have the same length")?;
                Ok(Call::Broadcast(data(to_len), rank(root)?))
            }
            Operation::AllGather { .. } => {
                same(from_len * u64::from(ranks), to_len, "the second slot holds every rank's elements")?;
                Ok(Call::AllGather(data(from_len)))
            }
            Operation::ReduceScatter { by, .. } => {
                same(from_len, to_len * u64::from(ranks), "the first slot holds a piece for every rank")?;
                Ok(Call::ReduceScatter(data(to_len), by.code()))
            }
            Operation::Send { rank: peer, .. } => Ok(Call::Send(data(from_len), rank(peer)?)),
            Operation::Receive { rank: peer, .. } => Ok(Call::Receive(data(to_len), rank(peer)?)),
        }
    }
}

/// What a fill with these operations says of its slots: each once, as written where some operation writes it.
pub(crate) fn refs(operations: &[Operation]) -> Vec<RefSpec> {
    let mut slots: Vec<(u32, bool)> = Vec::new();
    let mut note = |slot: u32, writes: bool| match slots.iter_mut().find(|(known, _)| *known == slot) {
        Some((_, written)) => *written |= writes,
        None => slots.push((slot, writes)),
    };
    for operation in operations {
        let (reads, writes) = operation.slots();
        reads.into_iter().for_each(|slot| note(slot, false));
        writes.into_iter().for_each(|slot| note(slot, true));
    }
    slots.into_iter().map(|(slot, written)| if written { write(slot) } else { read(slot) }).collect()
}

/// The operations over these slots; or what is wrong with one of them.
pub(crate) fn resolve(operations: &[Operation], slots: &[Slot], ranks: u32) -> std::result::Result<Vec<Call>, String> {
    operations.iter().map(|operation| operation.resolve(slots, ranks)).collect()
}

impl Call {
    /// Puts the operation on the stream, or into the thread's group.
    ///
    /// # Safety
    ///
    /// As [`Api::all_reduce`].
    #[expect(unsafe_code, reason = "the caller owes the communicator, the stream and the memory")]
    pub unsafe fn put(&self, api: &Api, comm: Comm, stream: Stream) -> Result<()> {
        match *self {
            // SAFETY: the caller's promise.
            Call::AllReduce(data, op) => unsafe { api.all_reduce(data, op, comm, stream) },
            // SAFETY: as above.
            Call::Broadcast(data, root) => unsafe { api.broadcast(data, root, comm, stream) },
            // SAFETY: as above.
            Call::AllGather(data) => unsafe { api.all_gather(data, comm, stream) },
            // SAFETY: as above.
            Call::ReduceScatter(data, op) => unsafe { api.reduce_scatter(data, op, comm, stream) },
            // SAFETY: as above.
            Call::Send(data, peer) => unsafe { api.send(data, peer, comm, stream) },
            // SAFETY: as above.
            Call::Receive(data, peer) => unsafe { api.receive(data, peer, comm, stream) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(device: u64, len: u64) -> Slot {
        Slot { device, host: std::ptr::null_mut(), len, handle: std::ptr::null(), handle_offset: 0 }
    }

    fn one(operation: Operation, lens: [u64; 2], ranks: u32) -> std::result::Result<Call, String> {
        resolve(&[operation], &[slot(100, lens[0]), slot(200, lens[1])], ranks).map(|calls| calls[0])
    }

    #[test]
    fn each_operation_counts_the_elements_that_nccl_counts() {
        let (from, to, of) = (0, 1, Type::F32);
        let data = |from, to, count| Data { from, to, count, kind: 7 };
        let sum = Operation::AllReduce { from, to, of, by: Reduce::Sum };
        assert_eq!(one(sum, [64, 64], 3), Ok(Call::AllReduce(data(100, 200, 16), 0)));
        let gather = Operation::AllGather { from, to, of };
        assert_eq!(one(gather, [16, 48], 3), Ok(Call::AllGather(data(100, 200, 4))));
        let scatter = Operation::ReduceScatter { from, to, of, by: Reduce::Max };
        assert_eq!(one(scatter, [48, 16], 3), Ok(Call::ReduceScatter(data(100, 200, 4), 2)));
        let cast = Operation::Broadcast { from, to, of, root: 2 };
        assert_eq!(one(cast, [16, 16], 3), Ok(Call::Broadcast(data(100, 200, 4), 2)));
        assert_eq!(one(Operation::Send { from, of, rank: 1 }, [16, 0], 3), Ok(Call::Send(data(100, 0, 4), 1)));
        assert_eq!(one(Operation::Receive { to, of, rank: 0 }, [0, 16], 3), Ok(Call::Receive(data(0, 200, 4), 0)));
    }

    #[test]
    fn lengths_and_ranks_that_do_not_fit_are_refused_with_their_numbers() {
        let (from, to, of) = (0, 1, Type::F64);
        let cases = [
            (Operation::AllReduce { from, to, of, by: Reduce::Sum }, [64, 32], "64 bytes to 32"),
            (Operation::AllReduce { from, to, of, by: Reduce::Sum }, [12, 12], "no whole elements of F64"),
            (Operation::AllGather { from, to, of }, [16, 48], "16 bytes to 48"),
            (Operation::ReduceScatter { from, to, of, by: Reduce::Min }, [16, 16], "a piece for every rank"),
            (Operation::Broadcast { from, to, of, root: 2 }, [16, 16], "no rank 2 of 2"),
            (Operation::Send { from: 7, of, rank: 0 }, [16, 16], "no slot 7"),
        ];
        for (operation, lens, says) in cases {
            let why = one(operation, lens, 2).unwrap_err();
            assert!(why.starts_with(operation.name()) && why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_slot_that_one_operation_reads_and_another_writes_is_written() {
        let of = Type::U8;
        let operations = [Operation::Send { from: 3, of, rank: 0 }, Operation::Receive { to: 3, of, rank: 0 }];
        assert_eq!(format!("{:?}", refs(&operations)), format!("{:?}", [write(3)]));
        assert_eq!(format!("{:?}", refs(&operations[..1])), format!("{:?}", [read(3)]));
    }
}
