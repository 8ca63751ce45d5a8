//! What a driver did wrong, as far as the model can tell: one type, seven groups.
//!
//! A violation is kept, not only logged: [`Machine::assert_clean`](crate::Machine::assert_clean) panics with all that were
//! found, and [`Machine::violations`](crate::Machine::violations) gives them as values. Where hardware or the kernel would
//! answer with an error or a fault, the model does that too.

use std::fmt;

/// The seven groups of violations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Calls of the kernel: unknown flags, wrong sizes, what is not mapped, what is freed in use.
    Calls,
    /// Packets: unknown types, reserved bits, sizes that contradict the kernel's descriptor.
    Packets,
    /// Publication: headers, doorbells and write indices, and memory that a packet still needs.
    Publication,
    /// Accesses of a GPU outside what is mapped for it.
    Memory,
    /// Caches: stores that are not released, stale lines that are read.
    Visibility,
    /// Order: deadlocks, words that fall.
    Ordering,
    /// Instructions: more than a wave may run, and words that are none.
    Bounds,
}

/// What an engine wanted of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Want {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To run.
    Execute,
}

/// The memories that a queue names when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueMemory {
    /// The ring.
    Ring,
    /// The page with the word that the device raises.
    ReadPointer,
    /// The page with the word that the driver raises.
    WritePointer,
    /// The buffer of ends of pipe.
    EndOfPipe,
    /// The area that saves waves.
    SaveArea,
}

/// What is wrong with a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PacketFault {
    /// A type, format or operation that the processor does not know.
    Unknown {
        /// The first words.
        words: [u32; 2],
    },
    /// A bit or field that must be zero is not.
    Reserved {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// A field has a value that the processor refuses.
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        wants: &'static str,
    },
    /// A size in a dispatch is less than the kernel's descriptor asks for.
    TooSmall {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What the descriptor asks for.
        wants: u64,
    },
    /// The kernel's address names no descriptor in memory that may run.
    NoKernel {
        /// The address.
        va: u64,
        /// Why not.
        why: String,
    },
    /// An address is not aligned.
    Misaligned {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// A packet straddles the end of the ring.
    Straddles {
        /// Its bytes.
        bytes: u64,
        /// Bytes to the end.
        left: u64,
    },
    /// A packet is longer than what the write pointer covers.
    Truncated {
        /// Its bytes.
        bytes: u64,
        /// Bytes that are there.
        left: u64,
    },
    /// An interrupt for an event whose slot in the event page was not written before it.
    EmptyInterrupt {
        /// The event.
        event: u32,
    },
}

/// What is wrong with how work was published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublicationFault {
    /// The header was valid while the packet's body still held what the processor left there.
    HeaderFirst,
    /// The doorbell covers a packet that is not valid.
    Invalid,
    /// The doorbell covers bytes of the ring that nobody wrote since the processor was there.
    Stale,
    /// The doorbell is beyond the write index.
    BeyondWriteIndex {
        /// What the doorbell covers.
        doorbell: u64,
        /// The write index.
        write: u64,
    },
    /// The doorbell went back.
    Back {
        /// From.
        from: u64,
        /// To.
        to: u64,
    },
    /// The write index went back.
    WriteIndexBack {
        /// From.
        from: u64,
        /// To.
        to: u64,
    },
    /// The write index is more than the ring's size past the read index.
    Overrun {
        /// The write index.
        write: u64,
        /// The read index.
        read: u64,
        /// The ring's size, in the same unit.
        size: u64,
    },
    /// The doorbell is not a multiple of a word.
    Unaligned {
        /// The doorbell.
        doorbell: u64,
    },
    /// A packet was changed after it had been published.
    Changed,
    /// Memory that a packet names was changed before the packet retired.
    StorageChanged {
        /// The memory.
        va: u64,
        /// What the packet uses it as.
        what: &'static str,
    },
    /// Memory that a packet names was freed or unmapped before the packet retired.
    StorageFreed {
        /// The memory.
        va: u64,
        /// What the packet uses it as.
        what: &'static str,
    },
    /// The queue's own struct does not say what the processor needs.
    QueueStruct {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        wants: u64,
    },
}

/// A thing that a driver did wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// A request that the kernel's driver does not know.
    UnknownCall {
        /// The request.
        request: u32,
    },
    /// A request whose struct has another size or direction than the kernel's.
    CallShape {
        /// The call.
        call: &'static str,
        /// The request.
        request: u32,
        /// The request that the kernel's header makes.
        wants: u32,
    },
    /// Flags that the kernel does not know, or that contradict each other.
    Flags {
        /// The call.
        call: &'static str,
        /// The flags.
        flags: u32,
        /// Why not.
        why: &'static str,
    },
    /// An argument that the kernel refuses.
    Argument {
        /// The call.
        call: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What it must be.
        wants: &'static str,
    },
    /// A queue's memory is not mapped for its GPU at that address.
    QueueUnmapped {
        /// Which memory.
        memory: QueueMemory,
        /// The address.
        va: u64,
    },
    /// A queue's memory is a part of a mapping, or a mapping of another size.
    QueueSize {
        /// Which memory.
        memory: QueueMemory,
        /// The address.
        va: u64,
        /// Where the mapping begins.
        start: u64,
        /// The mapping's bytes.
        mapped: u64,
        /// The bytes that the kernel wants.
        wants: u64,
    },
    /// Memory is freed while it is mapped for a GPU.
    FreedMapped {
        /// The handle.
        handle: u64,
        /// The memory.
        va: u64,
    },
    /// Memory is taken from a GPU while a queue of it stands on it.
    UnmappedUsed {
        /// The handle.
        handle: u64,
        /// The memory.
        va: u64,
    },
    /// A file is closed, mapped or asked that is not open.
    NoFile {
        /// The number.
        fd: i32,
    },
    /// Host addresses are unmapped that were not mapped here.
    UnmappedHost {
        /// The address.
        address: usize,
        /// The bytes.
        len: usize,
    },
    /// A packet is wrong.
    Packet {
        /// The queue.
        queue: u32,
        /// The packet's index (AQL), or its byte (SDMA).
        index: u64,
        /// What is wrong.
        fault: PacketFault,
    },
    /// Work was published wrongly.
    Publication {
        /// The queue.
        queue: u32,
        /// The packet's index (AQL), or its byte (SDMA).
        index: u64,
        /// What is wrong.
        fault: PublicationFault,
    },
    /// An engine reached for memory that is not mapped for it so.
    Access {
        /// The GPU.
        gpu_id: u32,
        /// The queue.
        queue: u32,
        /// The address.
        va: u64,
        /// What it wanted.
        want: Want,
        /// Whether anything is mapped there for that GPU.
        mapped: bool,
    },
    /// A word was stored while stores of the same queue's earlier work were still in a cache, where others do not see them.
    Unreleased {
        /// The queue.
        queue: u32,
        /// The word.
        word: u64,
        /// An address whose store is not visible.
        va: u64,
        /// Where it is.
        cache: &'static str,
    },
    /// A read found bytes in a cache that others have since changed: an acquire is missing.
    StaleRead {
        /// The queue.
        queue: u32,
        /// The address.
        va: u64,
        /// The cache.
        cache: &'static str,
    },
    /// The host's writes through the window to the GPU's memory were not flushed before the doorbell.
    Unflushed {
        /// The queue.
        queue: u32,
        /// The first address that differs.
        va: u64,
    },
    /// Nothing can advance.
    Deadlock {
        /// The queue that waits.
        queue: u32,
        /// The packet's index (AQL), or its byte (SDMA).
        index: u64,
        /// The word.
        va: u64,
        /// What it holds.
        holds: u64,
        /// What the queue waits for.
        wants: u64,
    },
    /// A word that queues raise fell.
    Fell {
        /// The queue that stored it.
        queue: u32,
        /// The word.
        va: u64,
        /// From.
        from: u64,
        /// To.
        to: u64,
    },
    /// A wave ran all the instructions that it may.
    Budget {
        /// The queue.
        queue: u32,
        /// The packet's index.
        index: u64,
        /// The report.
        why: String,
    },
    /// A wave met what it cannot run.
    Instruction {
        /// The queue.
        queue: u32,
        /// The packet's index.
        index: u64,
        /// The report, with the instruction's address and words.
        why: String,
    },
}

impl Violation {
    /// The group that it belongs to.
    pub fn group(&self) -> Group {
        match self {
            Self::UnknownCall { .. }
            | Self::CallShape { .. }
            | Self::Flags { .. }
            | Self::Argument { .. }
            | Self::QueueUnmapped { .. }
            | Self::QueueSize { .. }
            | Self::FreedMapped { .. }
            | Self::UnmappedUsed { .. }
            | Self::NoFile { .. }
            | Self::UnmappedHost { .. } => Group::Calls,
            Self::Packet { .. } => Group::Packets,
            Self::Publication { .. } => Group::Publication,
            Self::Access { .. } => Group::Memory,
            Self::Unreleased { .. } | Self::StaleRead { .. } | Self::Unflushed { .. } => Group::Visibility,
            Self::Deadlock { .. } | Self::Fell { .. } => Group::Ordering,
            Self::Budget { .. } | Self::Instruction { .. } => Group::Bounds,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self:x?}", self.group())
    }
}
