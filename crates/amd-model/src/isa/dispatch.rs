//! Kernel descriptors and dispatch packets, read into what the core needs to start waves.
//!
//! Offsets and bits are those of LLVM's "User Guide for AMDGPU Backend" (kernel descriptor) and of the HSA "Platform System
//! Architecture Specification" (kernel dispatch packet).

use super::fault::{Fault, FaultKind};

/// Instructions that a wave may run if the dispatch says nothing else: a few seconds of this core.
pub const BUDGET: u64 = 200_000_000;

/// The 64 bytes at `NAME.kd` of a code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Bytes of group memory that the kernel names itself.
    pub group_bytes: u32,
    /// Bytes of scratch of each work-item.
    pub private_bytes: u32,
    /// Bytes of arguments.
    pub kernarg_bytes: u32,
    /// From the descriptor to the first instruction.
    pub entry_offset: i64,
    /// COMPUTE_PGM_RSRC3.
    pub rsrc3: u32,
    /// COMPUTE_PGM_RSRC1.
    pub rsrc1: u32,
    /// COMPUTE_PGM_RSRC2.
    pub rsrc2: u32,
    /// What the wave finds in its scalar registers, and its width.
    pub properties: u16,
    /// Arguments that are loaded before the wave starts.
    pub preload: u16,
}

/// What all work-groups of a dispatch have in common.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The kernel's descriptor.
    pub descriptor: Descriptor,
    /// The first instruction's address.
    pub entry: u64,
    /// Work-items of a work-group.
    pub workgroup: [u32; 3],
    /// Work-items of the grid.
    pub grid: [u32; 3],
    /// Bytes of group memory.
    pub group_bytes: u32,
    /// Bytes of private memory of each work-item.
    pub private_bytes: u32,
    /// The arguments' address.
    pub kernarg: u64,
    /// The packet's address.
    pub packet: u64,
    /// The queue's address.
    pub queue: u64,
    /// The packet's number in its queue.
    pub id: u64,
    /// Instructions that a wave may run.
    pub budget: u64,
}

fn u16_at(bytes: &[u8; 64], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8; 64], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8; 64], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

impl Descriptor {
    /// Reads a descriptor.
    pub fn read(bytes: &[u8; 64]) -> Self {
        Self {
            group_bytes: u32_at(bytes, 0),
            private_bytes: u32_at(bytes, 4),
            kernarg_bytes: u32_at(bytes, 8),
            entry_offset: u64_at(bytes, 16) as i64,
            rsrc3: u32_at(bytes, 44),
            rsrc1: u32_at(bytes, 48),
            rsrc2: u32_at(bytes, 52),
            properties: u16_at(bytes, 56),
            preload: u16_at(bytes, 58),
        }
    }

    /// Vector registers of a wave: granules of 8 in waves of 32.
    pub fn vector_registers(&self) -> u32 {
        ((self.rsrc1 & 0x3f) + 1) * 8
    }

    /// Scalar registers that the dispatcher fills before the numbers of the work-group.
    pub fn user_registers(&self) -> u32 {
        self.rsrc2 >> 1 & 0x1f
    }

    /// Whether its waves need scratch.
    pub fn needs_private(&self) -> bool {
        self.private_bytes != 0 || self.properties & 1 << 11 != 0
    }

    /// Why this core does not run the kernel, if it does not.
    pub fn refusal(&self) -> Option<&'static str> {
        if self.properties & 1 << 10 == 0 {
            return Some("it is made for waves of 64 lanes (wave64); this core has waves of 32");
        }
        if self.properties & (1 | 1 << 5) != 0 {
            return Some(
                "it asks for a scratch buffer or its address in user registers, which gfx1100 sets up by itself",
            );
        }
        if self.needs_private() && self.rsrc2 & 1 == 0 {
            return Some("it has private memory, and its rsrc2 does not ask for scratch");
        }
        if self.preload != 0 {
            return Some("it asks for preloaded arguments, which gfx1100 has not");
        }
        if self.user_registers() > 16 {
            return Some("it declares more than 16 user registers");
        }
        None
    }
}

impl Dispatch {
    /// Reads a kernel dispatch packet, at the address `packet`, with the descriptor that its kernel_object names.
    ///
    /// # Errors
    ///
    /// [`FaultKind::Descriptor`], with the reason, if this core does not run such a kernel, or if the packet's sizes are
    /// none.
    pub fn new(packet: u64, bytes: &[u8; 64], descriptor: Descriptor) -> Result<Self, Fault> {
        let why = |why: &str| Fault::from(FaultKind::Descriptor { why: why.to_owned() });
        if let Some(refusal) = descriptor.refusal() {
            return Err(why(refusal));
        }
        let workgroup = [4, 6, 8].map(|at| u32::from(u16_at(bytes, at)));
        let grid = [12, 16, 20].map(|at| u32_at(bytes, at));
        let threads = workgroup.iter().map(|&n| u64::from(n)).product::<u64>();
        if threads == 0 || threads > 1024 {
            return Err(why(&format!("a work-group of {threads} work-items; 1 to 1024 are possible")));
        }
        let private_bytes = u32_at(bytes, 24);
        if private_bytes != 0 && descriptor.rsrc2 & 1 == 0 {
            return Err(why("the packet has private memory, and the kernel's rsrc2 does not ask for scratch"));
        }
        Ok(Self {
            descriptor,
            entry: u64_at(bytes, 32).wrapping_add_signed(descriptor.entry_offset),
            workgroup,
            grid,
            group_bytes: u32_at(bytes, 28),
            private_bytes,
            kernarg: u64_at(bytes, 40),
            packet,
            queue: 0,
            id: 0,
            budget: BUDGET,
        })
    }

    /// Waves of a work-group.
    pub fn waves(&self) -> u32 {
        self.workgroup.iter().product::<u32>().div_ceil(super::LANES as u32)
    }

    /// Bytes of scratch that a wave needs.
    pub fn wave_scratch(&self) -> u64 {
        u64::from(self.private_bytes) * super::LANES as u64
    }

    /// Work-groups of the grid; the last of a row may be partial.
    pub fn groups(&self) -> [u32; 3] {
        std::array::from_fn(|axis| self.grid[axis].div_ceil(self.workgroup[axis]))
    }
}
