//! What stops a wave.

use super::bus::Access;
use std::fmt;

/// Why a wave stopped, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub kind: FaultKind,
    /// Where; none until the core knows.
    pub place: Option<Box<Place>>,
}

/// Where a wave stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The instruction's address.
    pub pc: u64,
    /// The instruction's words, as far as they were fetched.
    pub words: Vec<u32>,
    /// The instruction as a disassembler writes it, or nothing.
    pub text: String,
    /// The work-group in the grid.
    pub group: [u32; 3],
    /// The wave in the work-group.
    pub wave: u32,
}

/// Why a wave stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultKind {
    /// No memory is there.
    #[error("{access} at {address:#x}: no memory is mapped there")]
    Unmapped {
        /// The first byte that is not there.
        address: u64,
        /// What the wave wanted.
        access: Access,
    },
    /// Memory is there, but not for this.
    #[error("{access} at {address:#x}: the mapping does not permit it")]
    Denied {
        /// The first byte.
        address: u64,
        /// What the wave wanted.
        access: Access,
    },
    /// The bus refuses the access for a reason of its own.
    #[error("{access} at {address:#x}: {why}")]
    Refused {
        /// The first byte.
        address: u64,
        /// What the wave wanted.
        access: Access,
        /// The bus's reason.
        why: String,
    },
    /// The address is not a multiple of what the access needs.
    #[error("{access} at {address:#x}: not aligned to {align} bytes")]
    Misaligned {
        /// The address.
        address: u64,
        /// What the wave wanted.
        access: Access,
        /// What it must be a multiple of.
        align: u32,
    },
    /// Group memory outside what the dispatch has.
    #[error("{access} of {width} bytes at {offset:#x} of group memory, which has {size} bytes")]
    GroupMemory {
        /// The offset in group memory.
        offset: u32,
        /// Bytes of the access.
        width: u32,
        /// Bytes of the work-group's memory.
        size: u32,
        /// What the wave wanted.
        access: Access,
    },
    /// Private memory outside what the dispatch has for each work-item.
    #[error("{access} of {width} bytes at {offset:#x} of private memory, of which the work-item has {size} bytes")]
    Private {
        /// The offset in the work-item's private memory.
        offset: u32,
        /// Bytes of the access.
        width: u32,
        /// Bytes that the packet gives each work-item.
        size: u32,
        /// What the wave wanted.
        access: Access,
    },
    /// A register that the descriptor does not give the wave.
    #[error("v{register} is used, but the descriptor gives the wave {count} vector registers")]
    Register {
        /// The vector register's number.
        register: u32,
        /// How many the wave has.
        count: u32,
    },
    /// Words that are no instruction which the core knows.
    #[error("no instruction that this core knows")]
    Unknown,
    /// Something that the core knows and does not do.
    #[error("unsupported: {what}")]
    Unsupported {
        /// What.
        what: String,
    },
    /// The wave ran more instructions than it may.
    #[error("the wave has run its {instructions} instructions and has not ended")]
    Budget {
        /// How many it may run.
        instructions: u64,
    },
    /// The wave asked for the trap handler, which there is none of.
    #[error("trap {id}")]
    Trap {
        /// The number that s_trap names.
        id: u32,
    },
    /// The descriptor or the packet is not one that the core runs.
    #[error("the kernel cannot run: {why}")]
    Descriptor {
        /// Why.
        why: String,
    },
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Self { kind, place: None }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        let Some(place) = &self.place else { return Ok(()) };
        let Place { pc, words, text, group: [x, y, z], wave } = &**place;
        write!(f, "; wave {wave} of group ({x}, {y}, {z}) at {pc:#x}:")?;
        words.iter().try_for_each(|word| write!(f, " {word:08x}"))?;
        if text.is_empty() { Ok(()) } else { write!(f, " ({text})") }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fetch => "a fetch",
            Self::Load => "a load",
            Self::Store => "a store",
            Self::Atomic => "an atomic",
        })
    }
}
