//! The instructions that reach memory: SMEM, FLAT, GLOBAL and SCRATCH, DS, and the invalidations of MUBUF.
//!
//! A vector access of lanes whose addresses follow one another is one access to the bus.

use super::LANES;
use super::bus::{Access, AtomicOp, Caches, Scope};
use super::fault::FaultKind;
use super::inst::{Extra, Format, Inst, Outside, Row, Shape, memory, row, shape, with};
use super::private::{is_private, part, private_addresses, private_load, private_store};
use super::wave::{SHARED_BASE, VECTOR, Wave};

/// Bit 0 glc, 1 slc, 2 dlc.
pub(super) fn scope(i: &Inst) -> Scope {
    Scope { scalar: false, glc: i.cache & 1 != 0, slc: i.cache & 2 != 0, dlc: i.cache & 4 != 0 }
}

const fn load_shape(registers: u8) -> Shape {
    shape(registers, [1, 0, 0])
}

const fn store_shape(registers: u8) -> Shape {
    shape(0, [1, registers, 0])
}

const fn atomic_shape(registers: u8, data: u8) -> Shape {
    shape(registers, [1, data, 0])
}

/// Scalar loads, and the scalar cache.
pub(super) static SMEM: &[Row] = &[
    memory(0, "s_load_b32", scalar_shape(1), |w, i, out| scalar_load(w, i, out, 1)),
    memory(1, "s_load_b64", scalar_shape(2), |w, i, out| scalar_load(w, i, out, 2)),
    memory(2, "s_load_b128", scalar_shape(4), |w, i, out| scalar_load(w, i, out, 4)),
    memory(3, "s_load_b256", scalar_shape(8), |w, i, out| scalar_load(w, i, out, 8)),
    memory(4, "s_load_b512", scalar_shape(16), |w, i, out| scalar_load(w, i, out, 16)),
    memory(33, "s_dcache_inv", shape(0, [0; 3]), |_, _, out| {
        out.bus.invalidate(Caches { scalar: true, ..Caches::default() });
        Ok(())
    }),
];

const fn scalar_shape(registers: u8) -> Shape {
    with(registers, [2, 1, 0], Extra::ScalarDst)
}

fn scalar_load(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, count: usize) -> Result<(), FaultKind> {
    let base = w.scalar64(i, i.src[0]);
    let address = base.wrapping_add(u64::from(w.scalar(i, i.src[1]))).wrapping_add_signed(i64::from(i.offset));
    aligned(address, 4, Access::Load)?;
    let mut bytes = [0; 64];
    let scope = Scope { scalar: true, ..scope(i) };
    out.bus.load(address, &mut bytes[..4 * count], scope).map_err(|fault| fault.kind)?;
    for (n, word) in bytes[..4 * count].chunks_exact(4).enumerate() {
        w.set_scalar(i.dst + n as u8, word_of(word));
    }
    Ok(())
}

/// Up to four bytes, the lowest first.
fn word_of(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

pub(super) fn aligned(address: u64, align: u32, access: Access) -> Result<(), FaultKind> {
    if address.is_multiple_of(u64::from(align)) {
        Ok(())
    } else {
        Err(FaultKind::Misaligned { address, access, align })
    }
}

/// How a load fills a register: bytes in memory, and what they become.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fill {
    Unsigned(usize),
    Signed(usize),
    /// Into the low half; the high half stays.
    Low(usize, bool),
    /// Into the high half.
    High(usize, bool),
    Words(usize),
}

impl Fill {
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::Unsigned(n) | Self::Signed(n) | Self::Low(n, _) | Self::High(n, _) => n,
            Self::Words(n) => 4 * n,
        }
    }

    /// The register after the load.
    pub(super) fn value(self, old: u32, bytes: &[u8]) -> u32 {
        let word = word_of(bytes);
        let wide = |signed: bool| {
            let up = 32 - 8 * bytes.len() as u32;
            if signed { ((word << up) as i32 >> up) as u32 } else { word }
        };
        match self {
            Self::Unsigned(_) | Self::Words(_) => word,
            Self::Signed(_) => wide(true),
            Self::Low(_, signed) => old & 0xffff_0000 | wide(signed) & 0xffff,
            Self::High(_, signed) => old & 0xffff | wide(signed) << 16,
        }
    }
}

/// The lanes' addresses in global memory: of a pair of registers, or of a scalar pair and an offset of 32 bits; or of flat
/// instructions.
fn addresses(w: &Wave, i: &Inst) -> [u64; LANES] {
    let offset = i64::from(i.offset);
    if i.sdst == 124 {
        w.source64(i, 0).map(|base| base.wrapping_add_signed(offset))
    } else {
        let base = w.scalar64(i, u16::from(i.sdst)).wrapping_add_signed(offset);
        w.source(i, 0).map(|at| base.wrapping_add(u64::from(at)))
    }
}

/// Where an address leads that is not of private memory.
enum Target {
    Global(u64),
    Group(u32),
}

fn target(i: &Inst, address: u64) -> Target {
    if i.format == Format::Flat && address >> 32 == SHARED_BASE >> 32 {
        Target::Group(address as u32)
    } else {
        Target::Global(address)
    }
}

/// What an access of `bytes` must be aligned to: itself, but no more than a word.
pub(super) fn alignment(bytes: usize) -> u32 {
    if bytes == 0 { 1 } else { bytes.min(4) as u32 }
}

/// Runs of lanes whose addresses follow one another: the first lane's index in `lanes`, and how many.
pub(super) fn runs(lanes: &[usize], addresses: &[u64; LANES], bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at;
        let first = *lanes.get(start)?;
        at += 1;
        while at < lanes.len() && addresses[lanes[at]] == addresses[first].wrapping_add((bytes * (at - start)) as u64) {
            at += 1;
        }
        Some((start, at - start))
    })
}

/// The most bytes that an access of a wave has: 32 lanes of 16.
const MOST: usize = LANES * 16;

/// The numbers of the lanes that run, in an array.
fn running(w: &Wave) -> ([usize; LANES], usize) {
    let mut lanes = [0; LANES];
    let mut count = 0;
    for lane in w.lanes() {
        lanes[count] = lane;
        count += 1;
    }
    (lanes, count)
}

fn load(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, fill: Fill) -> Result<(), FaultKind> {
    let (mut lanes, count) = running(w);
    if i.format == Format::Scratch {
        return private_load(w, i, out, fill, &lanes[..count], private_addresses(w, i));
    }
    let (bytes, addresses) = (fill.bytes(), addresses(w, i));
    let (count, private) = part(i, &mut lanes[..count], &addresses);
    if !private.is_empty() {
        private_load(w, i, out, fill, &private, addresses.map(|address| address as u32))?;
    }
    for (start, length) in runs(&lanes[..count], &addresses, bytes) {
        let address = addresses[lanes[start]];
        aligned(address, alignment(bytes), Access::Load)?;
        let mut data = [0; MOST];
        let data = &mut data[..bytes * length];
        match target(i, address) {
            Target::Global(address) => out.bus.load(address, data, scope(i)).map_err(|fault| fault.kind)?,
            Target::Group(offset) => data.copy_from_slice(group(out, offset, data.len(), Access::Load)?),
        }
        for (&lane, data) in lanes[start..start + length].iter().zip(data.chunks_exact(bytes)) {
            for (n, word) in data.chunks(4).enumerate() {
                let register = &mut w.v[usize::from(i.dst) + n][lane];
                *register = fill.value(*register, word);
            }
        }
    }
    Ok(())
}

/// Stores `bytes` of each lane, from bit `shift` of the first register on.
fn store(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, bytes: usize, shift: u32) -> Result<(), FaultKind> {
    let (mut lanes, count) = running(w);
    if i.format == Format::Scratch {
        return private_store(w, i, out, (bytes, shift), &lanes[..count], private_addresses(w, i));
    }
    let addresses = addresses(w, i);
    let (count, private) = part(i, &mut lanes[..count], &addresses);
    if !private.is_empty() {
        private_store(w, i, out, (bytes, shift), &private, addresses.map(|address| address as u32))?;
    }
    let data = usize::from(i.src[1].saturating_sub(VECTOR));
    for (start, length) in runs(&lanes[..count], &addresses, bytes) {
        let address = addresses[lanes[start]];
        aligned(address, alignment(bytes), Access::Store)?;
        let mut buffer = [0; MOST];
        let buffer = &mut buffer[..bytes * length];
        for (&lane, target) in lanes[start..start + length].iter().zip(buffer.chunks_exact_mut(bytes)) {
            for (n, target) in target.chunks_mut(4).enumerate() {
                let word = (w.v[data + n][lane] >> shift).to_le_bytes();
                target.copy_from_slice(&word[..target.len()]);
            }
        }
        match target(i, address) {
            Target::Global(address) => out.bus.store(address, buffer, scope(i)).map_err(|fault| fault.kind)?,
            Target::Group(offset) => group(out, offset, buffer.len(), Access::Store)?.copy_from_slice(buffer),
        }
    }
    Ok(())
}

/// The lanes' values of registers from source `n` on.
fn data(w: &Wave, i: &Inst, n: usize, words: usize) -> [u64; LANES] {
    if words == 2 { w.source64(i, n) } else { w.source(i, n).map(u64::from) }
}

fn atomic(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, op: AtomicOp, words: usize) -> Result<(), FaultKind> {
    let addresses = addresses(w, i);
    let value = data(w, i, 1, words);
    let compare = if op == AtomicOp::CompareSwap {
        let mut next = i.clone();
        next.src[1] += words as u16;
        data(w, &next, 1, words)
    } else {
        [0; LANES]
    };
    let width = 4 * words as u32;
    for lane in w.lanes() {
        let address = addresses[lane];
        aligned(address, width, Access::Atomic)?;
        if is_private(i, address) {
            return Err(FaultKind::Unsupported { what: format!("an atomic of private memory, at {address:#x}") });
        }
        let old = match target(i, address) {
            Target::Global(address) => {
                out.bus.atomic(address, op, width, value[lane], compare[lane], scope(i)).map_err(|fault| fault.kind)?
            }
            Target::Group(offset) => group_atomic(out, offset, op, width, value[lane], compare[lane])?,
        };
        if i.cache & 1 != 0 {
            put(w, i, lane, words, old);
        }
    }
    Ok(())
}

/// The destination's registers in one lane.
fn put(w: &mut Wave, i: &Inst, lane: usize, words: usize, value: u64) {
    w.v[usize::from(i.dst)][lane] = value as u32;
    if words == 2 {
        w.v[usize::from(i.dst) + 1][lane] = (value >> 32) as u32;
    }
}

/// Bytes of group memory.
fn group<'a>(out: &'a mut Outside<'_>, offset: u32, bytes: usize, access: Access) -> Result<&'a mut [u8], FaultKind> {
    let size = out.group.len() as u32;
    let start = offset as usize;
    out.group.get_mut(start..start + bytes).ok_or(FaultKind::GroupMemory { offset, width: bytes as u32, size, access })
}

fn group_atomic(
    out: &mut Outside<'_>,
    offset: u32,
    op: AtomicOp,
    width: u32,
    value: u64,
    compare: u64,
) -> Result<u64, FaultKind> {
    let bytes = group(out, offset, width as usize, Access::Atomic)?;
    let old = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    bytes.copy_from_slice(&op.apply(width, old, value, compare).to_le_bytes()[..width as usize]);
    Ok(old)
}

macro_rules! vector_memory {
    ($($load:literal $load_name:literal $fill:expr, $registers:literal;)* /
     $($store:literal $store_name:literal $bytes:literal, $shift:literal, $data:literal;)* /
     $($atomic:literal $atomic_name:literal $op:ident, $words:literal, $from:literal;)*) => {
        &[
            $(memory($load, $load_name, load_shape($registers), |w, i, out| load(w, i, out, $fill)),)*
            $(memory($store, $store_name, store_shape($data), |w, i, out| store(w, i, out, $bytes, $shift)),)*
            $(memory($atomic, $atomic_name, atomic_shape($words, $from), |w, i, out| {
                atomic(w, i, out, AtomicOp::$op, $words)
            }),)*
        ]
    };
}

/// FLAT, GLOBAL and SCRATCH, which share opcodes, but that SCRATCH has no atomics; the names are without their prefix.
pub(super) static VMEM: &[Row] = vector_memory! {
    16 "load_u8" Fill::Unsigned(1), 1;
    17 "load_i8" Fill::Signed(1), 1;
    18 "load_u16" Fill::Unsigned(2), 1;
    19 "load_i16" Fill::Signed(2), 1;
    20 "load_b32" Fill::Words(1), 1;
    21 "load_b64" Fill::Words(2), 2;
    22 "load_b96" Fill::Words(3), 3;
    23 "load_b128" Fill::Words(4), 4;
    30 "load_d16_u8" Fill::Low(1, false), 1;
    31 "load_d16_i8" Fill::Low(1, true), 1;
    32 "load_d16_b16" Fill::Low(2, false), 1;
    33 "load_d16_hi_u8" Fill::High(1, false), 1;
    34 "load_d16_hi_i8" Fill::High(1, true), 1;
    35 "load_d16_hi_b16" Fill::High(2, false), 1;
    /
    24 "store_b8" 1, 0, 1;
    25 "store_b16" 2, 0, 1;
    26 "store_b32" 4, 0, 1;
    27 "store_b64" 8, 0, 2;
    28 "store_b96" 12, 0, 3;
    29 "store_b128" 16, 0, 4;
    36 "store_d16_hi_b8" 1, 16, 1;
    37 "store_d16_hi_b16" 2, 16, 1;
    /
    51 "atomic_swap_b32" Swap, 1, 1;
    52 "atomic_cmpswap_b32" CompareSwap, 1, 2;
    53 "atomic_add_u32" Add, 1, 1;
    54 "atomic_sub_u32" Sub, 1, 1;
    56 "atomic_min_i32" MinSigned, 1, 1;
    57 "atomic_min_u32" MinUnsigned, 1, 1;
    58 "atomic_max_i32" MaxSigned, 1, 1;
    59 "atomic_max_u32" MaxUnsigned, 1, 1;
    60 "atomic_and_b32" And, 1, 1;
    61 "atomic_or_b32" Or, 1, 1;
    62 "atomic_xor_b32" Xor, 1, 1;
    63 "atomic_inc_u32" Increment, 1, 1;
    64 "atomic_dec_u32" Decrement, 1, 1;
    65 "atomic_swap_b64" Swap, 2, 2;
    66 "atomic_cmpswap_b64" CompareSwap, 2, 4;
    67 "atomic_add_u64" Add, 2, 2;
    68 "atomic_sub_u64" Sub, 2, 2;
    69 "atomic_min_i64" MinSigned, 2, 2;
    70 "atomic_min_u64" MinUnsigned, 2, 2;
    71 "atomic_max_i64" MaxSigned, 2, 2;
    72 "atomic_max_u64" MaxUnsigned, 2, 2;
    73 "atomic_and_b64" And, 2, 2;
    74 "atomic_or_b64" Or, 2, 2;
    75 "atomic_xor_b64" Xor, 2, 2;
    76 "atomic_inc_u64" Increment, 2, 2;
    77 "atomic_dec_u64" Decrement, 2, 2;
    81 "atomic_min_f32" MinF32, 1, 1;
    82 "atomic_max_f32" MaxF32, 1, 1;
    86 "atomic_add_f32" AddF32, 1, 1;
};

/// The invalidations of the vector caches.
pub(super) static MUBUF: &[Row] = &[
    memory(43, "buffer_gl0_inv", shape(0, [0; 3]), |_, _, out| {
        out.bus.invalidate(Caches { gl0: true, ..Caches::default() });
        Ok(())
    }),
    memory(44, "buffer_gl1_inv", shape(0, [0; 3]), |_, _, out| {
        out.bus.invalidate(Caches { gl1: true, ..Caches::default() });
        Ok(())
    }),
];

fn group_load(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, fill: Fill) -> Result<(), FaultKind> {
    let bytes = fill.bytes();
    let at = w.source(i, 0);
    for lane in w.lanes() {
        let offset = at[lane].wrapping_add(i.offset as u32);
        aligned(u64::from(offset), alignment(bytes), Access::Load)?;
        let data = group(out, offset, bytes, Access::Load)?;
        for (n, word) in data.chunks(4).enumerate() {
            let register = &mut w.v[usize::from(i.dst) + n][lane];
            *register = fill.value(*register, word);
        }
    }
    Ok(())
}

fn group_store(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, bytes: usize, shift: u32) -> Result<(), FaultKind> {
    let at = w.source(i, 0);
    let register = usize::from(i.src[1] - VECTOR);
    for lane in w.lanes() {
        let offset = at[lane].wrapping_add(i.offset as u32);
        aligned(u64::from(offset), alignment(bytes), Access::Store)?;
        let target = group(out, offset, bytes, Access::Store)?;
        for (n, target) in target.chunks_mut(4).enumerate() {
            target.copy_from_slice(&(w.v[register + n][lane] >> shift).to_le_bytes()[..target.len()]);
        }
    }
    Ok(())
}

/// Two words or pairs at two offsets, which count in units of their size times `stride`.
fn two(i: &Inst, words: usize, stride: u32) -> [u32; 2] {
    let unit = 4 * words as u32 * stride;
    [(i.offset as u32 & 0xff) * unit, (i.offset as u32 >> 8 & 0xff) * unit]
}

fn group_load2(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, words: usize, stride: u32) -> Result<(), FaultKind> {
    let at = w.source(i, 0);
    for lane in w.lanes() {
        for (side, offset) in two(i, words, stride).into_iter().enumerate() {
            let offset = at[lane].wrapping_add(offset);
            aligned(u64::from(offset), 4, Access::Load)?;
            for (n, word) in group(out, offset, 4 * words, Access::Load)?.chunks(4).enumerate() {
                w.v[usize::from(i.dst) + side * words + n][lane] = word_of(word);
            }
        }
    }
    Ok(())
}

fn group_store2(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, words: usize, stride: u32) -> Result<(), FaultKind> {
    let at = w.source(i, 0);
    for lane in w.lanes() {
        for (side, offset) in two(i, words, stride).into_iter().enumerate() {
            let offset = at[lane].wrapping_add(offset);
            aligned(u64::from(offset), 4, Access::Store)?;
            let register = usize::from(i.src[1 + side] - VECTOR);
            for (n, target) in group(out, offset, 4 * words, Access::Store)?.chunks_mut(4).enumerate() {
                target.copy_from_slice(&w.v[register + n][lane].to_le_bytes());
            }
        }
    }
    Ok(())
}

/// An atomic in group memory. Of compare-and-store the comparand is the second register operand of gfx11: data, compare.
fn group_change(
    w: &mut Wave,
    i: &Inst,
    out: &mut Outside<'_>,
    op: AtomicOp,
    words: usize,
    returns: bool,
) -> Result<(), FaultKind> {
    let (at, value) = (w.source(i, 0), data(w, i, 1, words));
    let compare = if op == AtomicOp::CompareSwap { data(w, i, 2, words) } else { [0; LANES] };
    for lane in w.lanes() {
        let offset = at[lane].wrapping_add(i.offset as u32);
        aligned(u64::from(offset), 4 * words as u32, Access::Atomic)?;
        let old = group_atomic(out, offset, op, 4 * words as u32, value[lane], compare[lane])?;
        if returns {
            put(w, i, lane, words, old);
        }
    }
    Ok(())
}

macro_rules! group_memory {
    ($($load:literal $load_name:literal $fill:expr, $registers:literal;)* /
     $($store:literal $store_name:literal $bytes:literal, $shift:literal, $data:literal;)* /
     $($atomic:literal $atomic_name:literal $return:literal $return_name:literal $op:ident, $words:literal;)*) => {
        &[
            $(memory($load, $load_name, load_shape($registers), |w, i, out| group_load(w, i, out, $fill)),)*
            $(memory($store, $store_name, store_shape($data), |w, i, out| group_store(w, i, out, $bytes, $shift)),)*
            $(memory($atomic, $atomic_name, shape(0, [1, $words, 0]), |w, i, out| {
                group_change(w, i, out, AtomicOp::$op, $words, false)
            }),
            memory($return, $return_name, shape($words, [1, $words, 0]), |w, i, out| {
                group_change(w, i, out, AtomicOp::$op, $words, true)
            }),)*
        ]
    };
}

/// Group memory.
pub(super) static DS: &[Row] = group_memory! {
    57 "ds_load_i8" Fill::Signed(1), 1;
    58 "ds_load_u8" Fill::Unsigned(1), 1;
    59 "ds_load_i16" Fill::Signed(2), 1;
    60 "ds_load_u16" Fill::Unsigned(2), 1;
    54 "ds_load_b32" Fill::Words(1), 1;
    118 "ds_load_b64" Fill::Words(2), 2;
    254 "ds_load_b96" Fill::Words(3), 3;
    255 "ds_load_b128" Fill::Words(4), 4;
    162 "ds_load_u8_d16" Fill::Low(1, false), 1;
    163 "ds_load_u8_d16_hi" Fill::High(1, false), 1;
    164 "ds_load_i8_d16" Fill::Low(1, true), 1;
    165 "ds_load_i8_d16_hi" Fill::High(1, true), 1;
    166 "ds_load_u16_d16" Fill::Low(2, false), 1;
    167 "ds_load_u16_d16_hi" Fill::High(2, false), 1;
    /
    30 "ds_store_b8" 1, 0, 1;
    31 "ds_store_b16" 2, 0, 1;
    13 "ds_store_b32" 4, 0, 1;
    77 "ds_store_b64" 8, 0, 2;
    222 "ds_store_b96" 12, 0, 3;
    223 "ds_store_b128" 16, 0, 4;
    160 "ds_store_b8_d16_hi" 1, 16, 1;
    161 "ds_store_b16_d16_hi" 2, 16, 1;
    /
    0 "ds_add_u32" 32 "ds_add_rtn_u32" Add, 1;
    1 "ds_sub_u32" 33 "ds_sub_rtn_u32" Sub, 1;
    3 "ds_inc_u32" 35 "ds_inc_rtn_u32" Increment, 1;
    4 "ds_dec_u32" 36 "ds_dec_rtn_u32" Decrement, 1;
    5 "ds_min_i32" 37 "ds_min_rtn_i32" MinSigned, 1;
    6 "ds_max_i32" 38 "ds_max_rtn_i32" MaxSigned, 1;
    7 "ds_min_u32" 39 "ds_min_rtn_u32" MinUnsigned, 1;
    8 "ds_max_u32" 40 "ds_max_rtn_u32" MaxUnsigned, 1;
    9 "ds_and_b32" 41 "ds_and_rtn_b32" And, 1;
    10 "ds_or_b32" 42 "ds_or_rtn_b32" Or, 1;
    11 "ds_xor_b32" 43 "ds_xor_rtn_b32" Xor, 1;
    18 "ds_min_f32" 50 "ds_min_rtn_f32" MinF32, 1;
    19 "ds_max_f32" 51 "ds_max_rtn_f32" MaxF32, 1;
    21 "ds_add_f32" 121 "ds_add_rtn_f32" AddF32, 1;
    64 "ds_add_u64" 96 "ds_add_rtn_u64" Add, 2;
    65 "ds_sub_u64" 97 "ds_sub_rtn_u64" Sub, 2;
    69 "ds_min_i64" 101 "ds_min_rtn_i64" MinSigned, 2;
    70 "ds_max_i64" 102 "ds_max_rtn_i64" MaxSigned, 2;
    71 "ds_min_u64" 103 "ds_min_rtn_u64" MinUnsigned, 2;
    72 "ds_max_u64" 104 "ds_max_rtn_u64" MaxUnsigned, 2;
    73 "ds_and_b64" 105 "ds_and_rtn_b64" And, 2;
    74 "ds_or_b64" 106 "ds_or_rtn_b64" Or, 2;
    75 "ds_xor_b64" 107 "ds_xor_rtn_b64" Xor, 2;
};

/// What else is of DS: two addresses, exchanges, and values that lanes give one another.
pub(super) static DS_MORE: &[Row] = &[
    memory(14, "ds_store_2addr_b32", shape(0, [1, 1, 1]), |w, i, out| group_store2(w, i, out, 1, 1)),
    memory(15, "ds_store_2addr_stride64_b32", shape(0, [1, 1, 1]), |w, i, out| group_store2(w, i, out, 1, 64)),
    memory(78, "ds_store_2addr_b64", shape(0, [1, 2, 2]), |w, i, out| group_store2(w, i, out, 2, 1)),
    memory(79, "ds_store_2addr_stride64_b64", shape(0, [1, 2, 2]), |w, i, out| group_store2(w, i, out, 2, 64)),
    memory(55, "ds_load_2addr_b32", shape(2, [1, 0, 0]), |w, i, out| group_load2(w, i, out, 1, 1)),
    memory(56, "ds_load_2addr_stride64_b32", shape(2, [1, 0, 0]), |w, i, out| group_load2(w, i, out, 1, 64)),
    memory(119, "ds_load_2addr_b64", shape(4, [1, 0, 0]), |w, i, out| group_load2(w, i, out, 2, 1)),
    memory(120, "ds_load_2addr_stride64_b64", shape(4, [1, 0, 0]), |w, i, out| group_load2(w, i, out, 2, 64)),
    memory(16, "ds_cmpstore_b32", shape(0, [1, 1, 1]), |w, i, out| {
        group_change(w, i, out, AtomicOp::CompareSwap, 1, false)
    }),
    memory(48, "ds_cmpstore_rtn_b32", shape(1, [1, 1, 1]), |w, i, out| {
        group_change(w, i, out, AtomicOp::CompareSwap, 1, true)
    }),
    memory(80, "ds_cmpstore_b64", shape(0, [1, 2, 2]), |w, i, out| {
        group_change(w, i, out, AtomicOp::CompareSwap, 2, false)
    }),
    memory(112, "ds_cmpstore_rtn_b64", shape(2, [1, 2, 2]), |w, i, out| {
        group_change(w, i, out, AtomicOp::CompareSwap, 2, true)
    }),
    memory(45, "ds_storexchg_rtn_b32", shape(1, [1, 1, 0]), |w, i, out| {
        group_change(w, i, out, AtomicOp::Swap, 1, true)
    }),
    memory(109, "ds_storexchg_rtn_b64", shape(2, [1, 2, 0]), |w, i, out| {
        group_change(w, i, out, AtomicOp::Swap, 2, true)
    }),
    // Each lane sends its value to the lane that its address names; who gets none has 0.
    row(178, "ds_permute_b32", shape(1, [1, 1, 0]), |w, i| {
        let (at, value) = (w.source(i, 0), w.source(i, 1));
        let mut sent = [0; LANES];
        for lane in w.lanes() {
            sent[lane_of(at[lane], i)] = value[lane];
        }
        w.write(usize::from(i.dst), &sent);
    }),
    // Each lane takes the value of the lane that its address names; of one that does not run it takes 0.
    row(179, "ds_bpermute_b32", shape(1, [1, 1, 0]), |w, i| {
        let (at, value, exec) = (w.source(i, 0), w.source(i, 1), w.exec());
        w.write(
            usize::from(i.dst),
            &at.map(|at| {
                let from = lane_of(at, i);
                if exec >> from & 1 != 0 { value[from] } else { 0 }
            }),
        );
    }),
];

fn lane_of(at: u32, i: &Inst) -> usize {
    at.wrapping_add(i.offset as u32) as usize / 4 % LANES
}
