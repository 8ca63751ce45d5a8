//! Values that lanes give one another on the way into an instruction: DPP16 and DPP8, and the instructions that do nothing
//! else.

use super::LANES;
use super::inst::{Inst, Row, row, shape};
use super::vector3::V111;
use super::wave::{EXEC, Lanes, Wave};

/// How an instruction's first source is exchanged; the control word stands in the instruction's constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    /// It is not.
    None,
    /// DPP16: one pattern for rows of 16 lanes.
    Rows,
    /// DPP8: any lane of each eight.
    Eights,
    /// DPP8 that takes values of lanes which do not run.
    EightsInactive,
}

/// Control bits of DPP16.
const INACTIVE: u32 = 1 << 18;
const BOUND: u32 = 1 << 19;

/// The lane that a lane takes its value from, if it is one of its row.
pub(super) fn row_source(control: u32, lane: usize) -> Option<usize> {
    let (row, at, n) = (lane & !15, lane & 15, (control & 15) as usize);
    match control & 0x1ff {
        quad @ 0..=0xff => Some(lane & !3 | (quad >> (2 * (lane & 3)) & 3) as usize),
        0x101..=0x10f => (at + n < 16).then(|| lane + n),
        0x111..=0x11f => (at >= n).then(|| lane - n),
        0x121..=0x12f => Some(row | ((at + 16 - n) % 16)),
        0x140 => Some(row | (15 - at)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        0x150..=0x15f => Some(row | n),
        0x160..=0x16f => Some(lane ^ n),
        _ => None,
    }
}

impl Wave {
    /// Runs an instruction whose first source is exchanged: with the values that the lanes get, in the lanes that take part.
    pub(super) fn exchange(&mut self, inst: &Inst, run: fn(&mut Wave, &Inst)) {
        let (control, exec) = (inst.literal, self.exec());
        let from = self.v[(control & 0xff) as usize];
        let runs = |lane: usize| exec >> lane & 1 != 0;
        let mut taking = exec;
        let mut values = [0; LANES];
        for (lane, value) in values.iter_mut().enumerate() {
            if inst.exchange == Exchange::Rows {
                let ctrl = control >> 8;
                let source = row_source(ctrl, lane).filter(|&source| runs(source) || control & INACTIVE != 0);
                *value = source.map_or(0, |source| from[source]);
                let masked = control >> (28 + lane / 16) & 1 == 0 || control >> (24 + lane % 16 / 4) & 1 == 0;
                if masked || source.is_none() && control & BOUND == 0 {
                    taking &= !(1 << lane);
                }
            } else {
                let source = lane & !7 | (control >> (8 + 3 * (lane & 7)) & 7) as usize;
                let reads = runs(source) || inst.exchange == Exchange::EightsInactive;
                *value = if reads { from[source] } else { 0 };
            }
        }
        self.exchanged = values;
        self.s[EXEC] = taking;
        run(self, inst);
        self.s[EXEC] = exec;
    }

    /// v_permlane16 and v_permlanex16: each lane takes the value of a lane of its row, or of the other row.
    fn permute_rows(&mut self, inst: &Inst, other: usize) {
        let select = u64::from(self.scalar(inst, inst.src[1])) | u64::from(self.scalar(inst, inst.src[2])) << 32;
        let (from, exec, old) = (self.source(inst, 0), self.exec(), self.v[usize::from(inst.dst)]);
        let (inactive, bound) = (inst.op_sel & 1 != 0, inst.op_sel & 2 != 0);
        let values: Lanes = std::array::from_fn(|lane| {
            let source = (lane & 16 ^ other) | (select >> (4 * (lane & 15)) & 15) as usize;
            match exec >> source & 1 != 0 || inactive {
                true => from[source],
                false if bound => 0,
                false => old[lane],
            }
        });
        self.write(usize::from(inst.dst), &values);
    }
}

/// Of VOP3.
pub(super) static ROWS: &[Row] = &[
    row(603, "v_permlane16_b32", V111, |w, i| w.permute_rows(i, 0)),
    row(604, "v_permlanex16_b32", V111, |w, i| w.permute_rows(i, 16)),
];

/// Of DS: a pattern for the lanes, which reaches no memory.
pub(super) static SWIZZLE: &[Row] = &[row(53, "ds_swizzle_b32", shape(1, [1, 0, 0]), |w, i| {
    let (from, exec, pattern) = (w.source(i, 0), w.exec(), i.offset as u32);
    let values = std::array::from_fn(|lane| {
        let source = swizzled(pattern, lane);
        if exec >> source & 1 != 0 { from[source] } else { 0 }
    });
    w.write(usize::from(i.dst), &values);
})];

/// The lane that a lane takes its value from: of its four where bit 15 is set, else by masks of and, or, xor.
fn swizzled(pattern: u32, lane: usize) -> usize {
    if pattern & 1 << 15 != 0 {
        return lane & !3 | (pattern >> (2 * (lane & 3)) & 3) as usize;
    }
    ((lane as u32 & pattern | pattern >> 5) ^ pattern >> 10) as usize & 31
}
