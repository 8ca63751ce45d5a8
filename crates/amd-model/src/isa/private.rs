//! Private memory: scratch instructions, and flat ones whose addresses lead there.
//!
//! A work-item's addresses count from 0, on 32 bits. A wave's scratch holds its lanes' words side by side: the word `n` of the
//! lane `l` stands 128 `n` + 4 `l` bytes from the wave's base, so that one word of all lanes is one line.

use super::LANES;
use super::bus::Access;
use super::fault::FaultKind;
use super::inst::{Format, Inst, Outside};
use super::memory::{Fill, aligned, alignment, runs, scope};
use super::wave::{PRIVATE_BASE, VECTOR, Wave};

/// Whether a flat address is of private memory.
pub(super) fn is_private(i: &Inst, address: u64) -> bool {
    i.format == Format::Flat && address >> 32 == PRIVATE_BASE >> 32
}

/// The lanes' addresses in private memory, of scratch instructions: the sum of what the instruction names.
pub(super) fn private_addresses(w: &Wave, i: &Inst) -> [u32; LANES] {
    let base = w.scalar(i, u16::from(i.sdst)).wrapping_add(i.offset as u32);
    w.source(i, 0).map(|at| at.wrapping_add(base))
}

/// What accesses of lanes to private memory reach: each lane's bytes, and the lanes' words side by side, so that one word of all
/// lanes is one line.
struct Private {
    at: [u32; LANES],
    bytes: usize,
}

impl Private {
    /// Of lanes whose addresses are inside and aligned.
    fn new(w: &Wave, at: [u32; LANES], bytes: usize, lanes: &[usize], access: Access) -> Result<Self, FaultKind> {
        for &offset in lanes.iter().map(|&lane| &at[lane]) {
            aligned(u64::from(offset), alignment(bytes), access)?;
            if u64::from(offset) + bytes as u64 > u64::from(w.private) {
                let (width, size) = (bytes as u32, w.private);
                return Err(FaultKind::Private { offset, width, size, access });
            }
        }
        Ok(Self { at, bytes })
    }

    /// The words, each with its bytes in the access and the lanes' addresses in memory.
    fn words(&self, w: &Wave) -> impl Iterator<Item = (usize, usize, [u64; LANES])> + use<> {
        let (at, bytes, base) = (self.at, self.bytes, w.scratch);
        (0..bytes.div_ceil(4)).map(move |n| {
            let addresses = std::array::from_fn(|lane| {
                let offset = u64::from(at[lane]) + 4 * n as u64;
                base + offset / 4 * (4 * LANES as u64) + 4 * lane as u64 + offset % 4
            });
            (n, (bytes - 4 * n).min(4), addresses)
        })
    }
}

pub(super) fn private_load(
    w: &mut Wave,
    i: &Inst,
    out: &mut Outside<'_>,
    fill: Fill,
    lanes: &[usize],
    at: [u32; LANES],
) -> Result<(), FaultKind> {
    let private = Private::new(w, at, fill.bytes(), lanes, Access::Load)?;
    let mut loaded = [[0; 4]; LANES];
    for (n, bytes, addresses) in private.words(w) {
        for (start, length) in runs(lanes, &addresses, bytes) {
            let mut data = [0; 4 * LANES];
            let data = &mut data[..bytes * length];
            out.bus.load(addresses[lanes[start]], data, scope(i)).map_err(|fault| fault.kind)?;
            for (&lane, data) in lanes[start..start + length].iter().zip(data.chunks_exact(bytes)) {
                loaded[lane][..bytes].copy_from_slice(data);
            }
        }
        for &lane in lanes {
            let register = &mut w.v[usize::from(i.dst) + n][lane];
            *register = fill.value(*register, &loaded[lane][..bytes]);
        }
    }
    Ok(())
}

pub(super) fn private_store(
    w: &Wave,
    i: &Inst,
    out: &mut Outside<'_>,
    (bytes, shift): (usize, u32),
    lanes: &[usize],
    at: [u32; LANES],
) -> Result<(), FaultKind> {
    let private = Private::new(w, at, bytes, lanes, Access::Store)?;
    let register = usize::from(i.src[1].saturating_sub(VECTOR));
    for (n, bytes, addresses) in private.words(w) {
        for (start, length) in runs(lanes, &addresses, bytes) {
            let mut data = [0; 4 * LANES];
            let data = &mut data[..bytes * length];
            for (&lane, data) in lanes[start..start + length].iter().zip(data.chunks_exact_mut(bytes)) {
                data.copy_from_slice(&(w.v[register + n][lane] >> shift).to_le_bytes()[..bytes]);
            }
            out.bus.store(addresses[lanes[start]], data, scope(i)).map_err(|fault| fault.kind)?;
        }
    }
    Ok(())
}

/// Takes the lanes out whose flat addresses are of private memory: how many are left, and those.
pub(super) fn part(i: &Inst, lanes: &mut [usize], addresses: &[u64; LANES]) -> (usize, Vec<usize>) {
    if i.format != Format::Flat || lanes.iter().all(|&lane| !is_private(i, addresses[lane])) {
        return (lanes.len(), Vec::new());
    }
    let (private, others): (Vec<usize>, Vec<usize>) = lanes.iter().partition(|&&lane| is_private(i, addresses[lane]));
    lanes[..others.len()].copy_from_slice(&others);
    (others.len(), private)
}
