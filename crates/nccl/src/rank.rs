//! A rank: a device in a communicator, and the operations that it adds to submissions.

use std::fmt;
use std::sync::Arc;

use rig::Builder;
use rig_edge::Slot;

use crate::lane::{Gpu, Lane};
use crate::member::Member;
use crate::operation::{self, Operation, Reduce, Type};
use crate::watch::Event;

/// One rank: a device in a communicator. A handle: clones are the same rank.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
/// let (rank, device) = (communicator.rank(1), &devices[1]);
/// let other = communicator.rank(0);
/// // A handle: a thread of its own may have one.
/// let thread = std::thread::spawn(move || format!("{other:?}"));
/// assert_eq!(thread.join().expect("it ends well"), "Rank(0 of 2)");
/// // Its operations are of its device's submissions.
/// let step = rank.broadcast(device.submission(), 0, 0, rig_nccl::Type::F32, 0).make()?;
/// assert_eq!(step.device(), *device);
/// # Ok(())
/// # }
/// ```
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

impl<L: Lane> Rank<L> {
    pub(crate) fn of(member: Arc<Member<L>>) -> Rank<L> {
        Rank { member }
    }

    /// Which rank it is, from 0.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// // The devices' order is the ranks' order.
    /// assert_eq!(communicator.rank(1).rank(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn rank(&self) -> u32 {
        self.member.rank()
    }

    /// How many ranks there are.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let rank = communicator.rank(0);
    /// // A slot for a word of every rank.
    /// let all = devices[0].buffer(4 * rank.ranks() as usize)?;
    /// assert_eq!(all.len(), 8);
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// use rig_nccl::{Operation, Type};
    /// // Each rank sends slot 0 to the other and receives into slot 1: in one group, so neither waits for the other's turn.
    /// let mut came = Vec::new();
    /// for (index, device) in devices.iter().enumerate() {
    ///     let (rank, of) = (communicator.rank(index), Type::U32);
    ///     let other = 1 - rank.rank();
    ///     let exchange = [Operation::Send { from: 0, of, rank: other }, Operation::Receive { to: 1, of, rank: other }];
    ///     let step = rank.add(device.submission(), exchange).make()?;
    ///     let (mine, its) = (device.from_slice(&[rank.rank(); 3])?, device.from_slice(&[9_u32; 3])?);
    ///     // SAFETY: the fill has NCCL read slot 0 and write slot 1, and touches nothing else.
    ///     unsafe { step.take().launch(&[&mine, &its])? };
    ///     came.push(its);
    /// }
    /// assert_eq!((came[0].to_vec()?, came[1].to_vec()?), (vec![1; 3], vec![0; 3]));
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// use rig_nccl::{Reduce, Type};
    /// let mut sums = Vec::new();
    /// for (index, device) in devices.iter().enumerate() {
    ///     let rank = communicator.rank(index);
    ///     let x = device.from_slice(&[rank.rank() as f32 + 1.0; 4])?;
    ///     let step = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make()?;
    ///     // SAFETY: the fill has NCCL add slot 0 of all ranks up, and touches nothing else.
    ///     unsafe { step.take().launch(&[&x])? };
    ///     sums.push(x);
    /// }
    /// for sum in sums {
    ///     assert_eq!(sum.to_vec()?, [1.0 + 2.0; 4]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_reduce(&self, add_to: Builder, from: u32, to: u32, of: Type, by: Reduce) -> Builder {
        self.add(add_to, [Operation::AllReduce { from, to, of, by }])
    }

    /// Adds a fill that puts slot `from` of rank `root` into slot `to` of all: [`Operation::Broadcast`].
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let mut weights = Vec::new();
    /// for (index, device) in devices.iter().enumerate() {
    ///     let rank = communicator.rank(index);
    ///     // Rank 0 has them, and the others get them in the same slot.
    ///     let own = if rank.rank() == 0 { [0.5_f32, 0.25] } else { [0.0; 2] };
    ///     let x = device.from_slice(&own)?;
    ///     let step = rank.broadcast(device.submission(), 0, 0, rig_nccl::Type::F32, 0).make()?;
    ///     // SAFETY: the fill has NCCL read and write slot 0, and touches nothing else.
    ///     unsafe { step.take().launch(&[&x])? };
    ///     weights.push(x);
    /// }
    /// assert_eq!(weights[1].to_vec()?, [0.5, 0.25]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn broadcast(&self, add_to: Builder, from: u32, to: u32, of: Type, root: u32) -> Builder {
        self.add(add_to, [Operation::Broadcast { from, to, of, root }])
    }

    /// Adds a fill that puts slot `from` of all ranks, one after the other, into slot `to`: [`Operation::AllGather`].
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let mut gathered = Vec::new();
    /// for (index, device) in devices.iter().enumerate() {
    ///     let rank = communicator.rank(index);
    ///     let (mine, all) = (device.from_slice(&[rank.rank() + 10])?, device.from_slice(&[0_u32; 2])?);
    ///     let step = rank.all_gather(device.submission(), 0, 1, rig_nccl::Type::U32).make()?;
    ///     // SAFETY: the fill has NCCL read slot 0 and write slot 1, and touches nothing else.
    ///     unsafe { step.take().launch(&[&mine, &all])? };
    ///     gathered.push(all);
    /// }
    /// for all in gathered {
    ///     assert_eq!(all.to_vec()?, [10, 11]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn all_gather(&self, add_to: Builder, from: u32, to: u32, of: Type) -> Builder {
        self.add(add_to, [Operation::AllGather { from, to, of }])
    }

    /// Adds a fill that puts this rank's piece of what slot `from` of all ranks reduces to into slot `to`:
    /// [`Operation::ReduceScatter`].
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// use rig_nccl::{Reduce, Type};
    /// let mut pieces = Vec::new();
    /// for (index, device) in devices.iter().enumerate() {
    ///     let rank = communicator.rank(index);
    ///     let (all, piece) = (device.from_slice(&[1.0_f32, 2.0])?, device.from_slice(&[0.0_f32])?);
    ///     let step = rank.reduce_scatter(device.submission(), 0, 1, Type::F32, Reduce::Sum).make()?;
    ///     // SAFETY: the fill has NCCL read slot 0 and write slot 1, and touches nothing else.
    ///     unsafe { step.take().launch(&[&all, &piece])? };
    ///     pieces.push(piece);
    /// }
    /// // Both ranks had 1 and 2: rank 0 gets the sum of the first elements, rank 1 that of the second.
    /// assert_eq!((pieces[0].to_vec()?, pieces[1].to_vec()?), (vec![2.0], vec![4.0]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn reduce_scatter(&self, add_to: Builder, from: u32, to: u32, of: Type, by: Reduce) -> Builder {
        self.add(add_to, [Operation::ReduceScatter { from, to, of, by }])
    }

    /// Adds a fill that sends slot `from` to rank `rank`: [`Operation::Send`]. Between two ranks that send to one another, put
    /// both into one group ([`add`](Rank::add)).
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let (from, to, of) = (communicator.rank(0), communicator.rank(1), rig_nccl::Type::U32);
    /// let (words, came) = (devices[0].from_slice(&[1_u32, 2, 3])?, devices[1].from_slice(&[0_u32; 3])?);
    /// let send = from.send(devices[0].submission(), 0, of, to.rank()).make()?;
    /// let receive = to.receive(devices[1].submission(), 0, of, from.rank()).make()?;
    /// // SAFETY: the fill has NCCL read slot 0, and touches nothing else.
    /// unsafe { send.take().launch(&[&words])? };
    /// // SAFETY: the fill has NCCL write slot 0, and touches nothing else.
    /// unsafe { receive.take().launch(&[&came])? };
    /// assert_eq!(came.to_vec()?, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn send(&self, add_to: Builder, from: u32, of: Type, rank: u32) -> Builder {
        self.add(add_to, [Operation::Send { from, of, rank }])
    }

    /// Adds a fill that receives slot `to` from rank `rank`: [`Operation::Receive`].
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// # let communicator = rig_nccl::connect_on::<Cores>(&rig_nccl::World::alone(), &devices, rig_nccl::Options::default())?;
    /// let (from, to, of) = (communicator.rank(0), communicator.rank(1), rig_nccl::Type::U32);
    /// let (words, came, kept) =
    ///     (devices[0].from_slice(&[7_u32])?, devices[1].from_slice(&[0_u32])?, devices[1].from_slice(&[0_u32])?);
    /// let send = from.send(devices[0].submission(), 0, of, to.rank()).make()?;
    /// // What comes is copied on, in the same submission.
    /// let receive = to.receive(devices[1].submission(), 0, of, from.rank()).copy(0, 1).make()?;
    /// // SAFETY: the fill has NCCL read slot 0, and touches nothing else.
    /// unsafe { send.take().launch(&[&words])? };
    /// // SAFETY: the fill has NCCL write slot 0, and touches nothing else.
    /// unsafe { receive.take().launch(&[&came, &kept])? };
    /// assert_eq!(kept.to_vec()?, [7]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn receive(&self, add_to: Builder, to: u32, of: Type, rank: u32) -> Builder {
        self.add(add_to, [Operation::Receive { to, of, rank }])
    }
}
