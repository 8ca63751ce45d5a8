//! What the shader core needs of the memory in front of it.

use super::fault::Fault;

/// What an access asks of the caches between the wave and the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The access goes through the scalar data cache (s_load), else through the vector caches.
    pub scalar: bool,
    /// The bit glc: of a load, it misses in the work-group's GL0; of an atomic, the old value comes back.
    pub glc: bool,
    /// The bit slc: the line is not to stay.
    pub slc: bool,
    /// The bit dlc.
    pub dlc: bool,
}

/// The caches that an instruction invalidates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caches {
    /// The vector cache of the compute unit (buffer_gl0_inv).
    pub gl0: bool,
    /// The vector cache of the shader array (buffer_gl1_inv).
    pub gl1: bool,
    /// The scalar data cache (s_dcache_inv).
    pub scalar: bool,
}

/// What a wave does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Fetches an instruction.
    Fetch,
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes as one.
    Atomic,
}

/// What an atomic does with the value in memory and the wave's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    /// Takes the wave's value.
    Swap,
    /// Takes the wave's value where memory holds `compare`.
    CompareSwap,
    /// Adds.
    Add,
    /// Subtracts.
    Sub,
    /// The smaller, signed.
    MinSigned,
    /// The smaller, unsigned.
    MinUnsigned,
    /// The larger, signed.
    MaxSigned,
    /// The larger, unsigned.
    MaxUnsigned,
    /// And.
    And,
    /// Or.
    Or,
    /// Exclusive or.
    Xor,
    /// Adds one, and wraps to 0 past the wave's value.
    Increment,
    /// Takes one off, and wraps to the wave's value below 0 or from above it.
    Decrement,
    /// Adds as f32.
    AddF32,
    /// The smaller as f32.
    MinF32,
    /// The larger as f32.
    MaxF32,
}

/// Global memory as one work-group sees it, with the caches in front of it.
///
/// Addresses are virtual. An access stands within one call: a load or store of up to 32 neighbouring lanes is one call with
/// their bytes in the order of addresses. What cannot be reached is an `Err` of a [`FaultKind`](super::FaultKind) with the
/// exact address, made into a [`Fault`]; the core adds the place.
pub trait Bus {
    /// The instruction word at an address.
    fn fetch(&mut self, address: u64) -> Result<u32, Fault>;

    /// Reads.
    fn load(&mut self, address: u64, bytes: &mut [u8], scope: Scope) -> Result<(), Fault>;

    /// Writes.
    fn store(&mut self, address: u64, bytes: &[u8], scope: Scope) -> Result<(), Fault>;

    /// Changes `width` bytes (4 or 8) at once and gives what was there; [`AtomicOp::apply`] says what is there then.
    fn atomic(
        &mut self,
        address: u64,
        op: AtomicOp,
        width: u32,
        value: u64,
        compare: u64,
        scope: Scope,
    ) -> Result<u64, Fault>;

    /// Drops the lines of these caches.
    fn invalidate(&mut self, caches: Caches);

    /// The wave waits until its stores have been acknowledged.
    fn acknowledge(&mut self) {}

    /// The GPU's clock of 100 MHz.
    fn clock(&mut self) -> u64 {
        0
    }
}

impl AtomicOp {
    /// What memory holds after the atomic, where `old` was there; the operands are `width` bytes (4 or 8) wide.
    pub fn apply(self, width: u32, old: u64, value: u64, compare: u64) -> u64 {
        if width == 4 {
            return u64::from(self.apply32(old as u32, value as u32, compare as u32));
        }
        match self {
            Self::Swap => value,
            Self::CompareSwap => [old, value][usize::from(old == compare)],
            Self::Add => old.wrapping_add(value),
            Self::Sub => old.wrapping_sub(value),
            Self::MinSigned => (old as i64).min(value as i64) as u64,
            Self::MinUnsigned => old.min(value),
            Self::MaxSigned => (old as i64).max(value as i64) as u64,
            Self::MaxUnsigned => old.max(value),
            Self::And => old & value,
            Self::Or => old | value,
            Self::Xor => old ^ value,
            Self::Increment => {
                if old >= value {
                    0
                } else {
                    old + 1
                }
            }
            Self::Decrement => {
                if old == 0 || old > value {
                    value
                } else {
                    old - 1
                }
            }
            Self::AddF32 | Self::MinF32 | Self::MaxF32 => old,
        }
    }

    fn apply32(self, old: u32, value: u32, compare: u32) -> u32 {
        let float = |f: fn(f32, f32) -> f32| f(f32::from_bits(old), f32::from_bits(value)).to_bits();
        match self {
            Self::MinSigned => (old as i32).min(value as i32) as u32,
            Self::MaxSigned => (old as i32).max(value as i32) as u32,
            Self::AddF32 => float(|a, b| a + b),
            Self::MinF32 => float(f32::min),
            Self::MaxF32 => float(f32::max),
            _ => self.apply(8, u64::from(old), u64::from(value), u64::from(compare)) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AtomicOp::{self, *};

    #[test]
    fn atomics_leave_what_their_names_say() {
        let minus = |n: u64| n.wrapping_neg();
        // Operation, old value, the wave's, what is there then: the same for 4 and for 8 bytes.
        let table: &[(AtomicOp, u64, u64, u64)] = &[
            (Swap, 1, 2, 2),
            (Add, minus(1), 3, 2),
            (Sub, 1, 3, minus(2)),
            (MinSigned, 1, minus(1), minus(1)),
            (MinUnsigned, 1, minus(1), 1),
            (MaxSigned, 1, minus(1), 1),
            (MaxUnsigned, 1, minus(1), minus(1)),
            (And, 0b1100, 0b1010, 0b1000),
            (Or, 0b1100, 0b1010, 0b1110),
            (Xor, 0b1100, 0b1010, 0b0110),
            (Increment, 3, 5, 4),
            (Increment, 5, 5, 0),
            (Increment, 7, 5, 0),
            (Decrement, 0, 5, 5),
            (Decrement, 3, 5, 2),
            (Decrement, 5, 5, 4),
            (Decrement, 7, 5, 5),
        ];
        for &(op, old, value, then) in table {
            assert_eq!(op.apply(8, old, value, 0), then, "{op:?} of {old:#x} and {value:#x}");
            let word = |long: u64| long & 0xffff_ffff;
            assert_eq!(op.apply(4, word(old), word(value), 0), word(then), "{op:?} of words {old:#x} and {value:#x}");
        }
        assert_eq!((CompareSwap.apply(4, 1, 2, 1), CompareSwap.apply(4, 3, 2, 1)), (2, 3));
        let float = |x: f32| u64::from(x.to_bits());
        assert_eq!(AddF32.apply(4, float(1.5), float(-4.0), 0), float(-2.5));
        assert_eq!(MinF32.apply(4, float(1.5), float(-4.0), 0), float(-4.0));
        assert_eq!(MaxF32.apply(4, float(1.5), float(-4.0), 0), float(1.5));
    }
}
