//! Connecting the ranks of a process: NCCL's communicators, and the first use of everything.

use std::sync::Arc;
use std::thread;

use rig::Device;

use crate::lane::Lane;
use crate::member::Member;
use crate::operation::{Operation, Reduce, Type};
use crate::rank::Rank;
use crate::sys::abi::{Comm, UniqueId};
use crate::sys::{Api, Failure};

/// The bytes of an element of what is moved at the first use.
const WORD: usize = 4;

/// Makes the communicators of the process's ranks, in one group: each waits for all ranks of the world.
pub(crate) fn init<L: Lane>(
    api: &'static Api,
    members: &[Arc<Member<L>>],
    id: UniqueId,
    ranks: u32,
) -> std::result::Result<(), String> {
    let why = |failure: Failure| api.describe(failure, Comm::NULL);
    // Where they are until the group ends.
    let mut comms = vec![Comm::NULL; members.len()];
    api.group_start().map_err(why)?;
    let mut begun = Ok(());
    for (member, comm) in members.iter().zip(&mut comms) {
        let begin = || {
            // SAFETY: the GPU's context is current, and the handle stays where it is until the group has ended.
            #[expect(unsafe_code, reason = "makes a communicator")]
            unsafe {
                api.init(&raw mut *comm, ranks as i32, id, member.rank() as i32)
            }
        };
        begun = L::within(member.seat(), begin).and_then(|made| made.map_err(why));
        if begun.is_err() {
            break;
        }
    }
    // A group that was begun is ended, whatever came of it.
    let ended = api.group_end().map_err(why);
    begun.and(ended)?;
    members.iter().zip(comms).for_each(|(member, comm)| member.connect(comm));
    Ok(())
}

/// Has every rank do one small operation of each kind, with all others, each on a thread of its own.
pub(crate) fn warm<L: Lane>(
    members: &[Arc<Member<L>>],
    devices: &[Device],
    pairs: bool,
) -> std::result::Result<(), String> {
    thread::scope(|scope| {
        let threads: Vec<_> = members
            .iter()
            .zip(devices)
            .map(|(member, device)| {
                let rank = Rank::of(Arc::clone(member));
                scope.spawn(move || warm_rank(&rank, device, pairs).map_err(|why| why.to_string()))
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}

fn warm_rank<L: Lane>(rank: &Rank<L>, device: &Device, pairs: bool) -> rig::Result<()> {
    let (of, by, ranks) = (Type::F32, Reduce::Sum, rank.ranks());
    let (one, all) = (device.buffer(WORD)?, device.buffer(WORD * ranks as usize)?);
    let pieces = device.buffer(WORD * ranks as usize)?;
    for buffer in [&one, &all, &pieces] {
        buffer.memset(0)?;
    }
    // By themselves, not in a group: each kind has kernels of its own.
    let mut submission = device.submission();
    for operation in [
        Operation::AllReduce { from: 0, to: 0, of, by },
        Operation::Broadcast { from: 0, to: 0, of, root: 0 },
        Operation::AllGather { from: 0, to: 1, of },
        Operation::ReduceScatter { from: 1, to: 0, of, by },
    ] {
        submission = rank.add(submission, [operation]);
    }
    let mut buffers = vec![one, all];
    if pairs && ranks > 1 {
        let others = (0..ranks).filter(|&other| other != rank.rank());
        let mut group = Vec::new();
        for other in others {
            let to = buffers.len() as u32;
            group.push(Operation::Send { from: 0, of, rank: other });
            group.push(Operation::Receive { to, of, rank: other });
            buffers.push(pieces.view(other as usize * WORD..(other as usize + 1) * WORD)?);
        }
        submission = rank.add(submission, group);
    }
    let buffers: Vec<&rig::Buffer> = buffers.iter().collect();
    // SAFETY: the fills have NCCL read and write the slots that they name, each whole, and nothing else.
    #[expect(unsafe_code, reason = "runs fills of this crate")]
    let point = unsafe { submission.make()?.take().launch(&buffers) }?;
    point.wait()
}
