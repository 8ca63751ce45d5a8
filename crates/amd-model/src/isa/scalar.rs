//! The scalar instructions: SOP1, SOP2, SOPC, SOPK, SOPP. scc says, unless the manual says otherwise, whether the result is
//! not zero.

use super::fault::FaultKind;
use super::float::Mode;
use super::inst::{Extra, Flow, Inst, Outside, Row, control, memory, row, shape, with};
use super::wave::{EXEC, PRIVATE_BASE, SHARED_BASE, VCC, Wave};

impl Wave {
    fn a(&self, inst: &Inst) -> u32 {
        self.scalar(inst, inst.src[0])
    }

    fn b(&self, inst: &Inst) -> u32 {
        self.scalar(inst, inst.src[1])
    }

    fn a64(&self, inst: &Inst) -> u64 {
        self.scalar64(inst, inst.src[0])
    }

    fn b64(&self, inst: &Inst) -> u64 {
        self.scalar64(inst, inst.src[1])
    }

    /// A result whose scc is given.
    fn put(&mut self, inst: &Inst, (value, scc): (u32, bool)) {
        self.set_scalar(inst.dst, value);
        self.scc = scc;
    }

    /// A result whose scc says that it is not zero.
    fn logic(&mut self, inst: &Inst, value: u32) {
        self.put(inst, (value, value != 0));
    }

    fn logic64(&mut self, inst: &Inst, value: u64) {
        self.set_scalar64(inst.dst, value);
        self.scc = value != 0;
    }

    /// Saves the lanes that run and takes others.
    fn save_exec(&mut self, inst: &Inst, exec: impl Fn(u32, u32) -> u32) {
        let (a, old) = (self.a(inst), self.exec());
        self.set_scalar(inst.dst, old);
        self.s[EXEC] = exec(a, old);
        self.scc = self.exec() != 0;
    }

    /// Takes other lanes and says which.
    fn write_exec(&mut self, inst: &Inst, exec: impl Fn(u32, u32) -> u32) {
        let taken = exec(self.a(inst), self.exec());
        self.s[EXEC] = taken;
        self.logic(inst, taken);
    }

    fn branch_if(&mut self, inst: &Inst, condition: bool) -> Result<Flow, FaultKind> {
        if condition {
            self.pc = self.pc.wrapping_add_signed(i64::from(inst.literal as i32) * 4);
        }
        Ok(Flow::Next)
    }
}

const W1: super::inst::Shape = shape(1, [1, 0, 0]);
const W2: super::inst::Shape = shape(2, [2, 0, 0]);
const W11: super::inst::Shape = shape(1, [1, 1, 0]);
const W22: super::inst::Shape = shape(2, [2, 2, 0]);
const W21: super::inst::Shape = shape(2, [2, 1, 0]);

fn carry((value, carry): (u32, bool)) -> (u32, bool) {
    (value, carry)
}

fn field(value: u64, offset: u32, width: u32) -> u64 {
    let shifted = value >> offset;
    if width >= 64 { shifted } else { shifted & ((1 << width) - 1) }
}

/// The field with its highest bit as its sign; a field that ends past the value ends with it.
fn signed_field(value: u64, bits: u32, offset: u32, width: u32) -> u64 {
    let width = width.min(bits - offset.min(bits));
    if width == 0 {
        return 0;
    }
    let up = 64 - width;
    ((field(value, offset, width) << up) as i64 >> up) as u64
}

fn leading_signs(value: i64, bits: u32) -> u32 {
    let run = (if value < 0 { !value } else { value }).leading_zeros() - (64 - bits);
    if run >= bits { u32::MAX } else { run }
}

fn or_none(count: u32, bits: u32) -> u32 {
    if count >= bits { u32::MAX } else { count }
}

/// Pairs of scalar operands to one result.
pub(super) static SOP2: &[Row] = &[
    row(0, "s_add_u32", W11, |w, i| w.put(i, carry(w.a(i).overflowing_add(w.b(i))))),
    row(1, "s_sub_u32", W11, |w, i| w.put(i, carry(w.a(i).overflowing_sub(w.b(i))))),
    row(2, "s_add_i32", W11, |w, i| {
        let (value, over) = (w.a(i) as i32).overflowing_add(w.b(i) as i32);
        w.put(i, (value as u32, over));
    }),
    row(3, "s_sub_i32", W11, |w, i| {
        let (value, over) = (w.a(i) as i32).overflowing_sub(w.b(i) as i32);
        w.put(i, (value as u32, over));
    }),
    row(4, "s_addc_u32", W11, |w, i| {
        let sum = u64::from(w.a(i)) + u64::from(w.b(i)) + u64::from(w.scc);
        w.put(i, (sum as u32, sum >> 32 != 0));
    }),
    row(5, "s_subb_u32", W11, |w, i| {
        let rest = i64::from(w.a(i)) - i64::from(w.b(i)) - i64::from(w.scc);
        w.put(i, (rest as u32, rest < 0));
    }),
    row(6, "s_absdiff_i32", W11, |w, i| w.logic(i, (w.a(i) as i32).wrapping_sub(w.b(i) as i32).unsigned_abs())),
    row(8, "s_lshl_b32", W11, |w, i| w.logic(i, w.a(i).wrapping_shl(w.b(i)))),
    row(9, "s_lshl_b64", W21, |w, i| w.logic64(i, w.a64(i).wrapping_shl(w.b(i)))),
    row(10, "s_lshr_b32", W11, |w, i| w.logic(i, w.a(i).wrapping_shr(w.b(i)))),
    row(11, "s_lshr_b64", W21, |w, i| w.logic64(i, w.a64(i).wrapping_shr(w.b(i)))),
    row(12, "s_ashr_i32", W11, |w, i| w.logic(i, (w.a(i) as i32).wrapping_shr(w.b(i)) as u32)),
    row(13, "s_ashr_i64", W21, |w, i| w.logic64(i, (w.a64(i) as i64).wrapping_shr(w.b(i)) as u64)),
    row(14, "s_lshl1_add_u32", W11, |w, i| w.put(i, shift_add(w.a(i), 1, w.b(i)))),
    row(15, "s_lshl2_add_u32", W11, |w, i| w.put(i, shift_add(w.a(i), 2, w.b(i)))),
    row(16, "s_lshl3_add_u32", W11, |w, i| w.put(i, shift_add(w.a(i), 3, w.b(i)))),
    row(17, "s_lshl4_add_u32", W11, |w, i| w.put(i, shift_add(w.a(i), 4, w.b(i)))),
    row(18, "s_min_i32", W11, |w, i| {
        let (a, b) = (w.a(i) as i32, w.b(i) as i32);
        w.put(i, (a.min(b) as u32, a < b));
    }),
    row(19, "s_min_u32", W11, |w, i| w.put(i, (w.a(i).min(w.b(i)), w.a(i) < w.b(i)))),
    row(20, "s_max_i32", W11, |w, i| {
        let (a, b) = (w.a(i) as i32, w.b(i) as i32);
        w.put(i, (a.max(b) as u32, a >= b));
    }),
    row(21, "s_max_u32", W11, |w, i| w.put(i, (w.a(i).max(w.b(i)), w.a(i) >= w.b(i)))),
    row(22, "s_and_b32", W11, |w, i| w.logic(i, w.a(i) & w.b(i))),
    row(23, "s_and_b64", W22, |w, i| w.logic64(i, w.a64(i) & w.b64(i))),
    row(24, "s_or_b32", W11, |w, i| w.logic(i, w.a(i) | w.b(i))),
    row(25, "s_or_b64", W22, |w, i| w.logic64(i, w.a64(i) | w.b64(i))),
    row(26, "s_xor_b32", W11, |w, i| w.logic(i, w.a(i) ^ w.b(i))),
    row(27, "s_xor_b64", W22, |w, i| w.logic64(i, w.a64(i) ^ w.b64(i))),
    row(28, "s_nand_b32", W11, |w, i| w.logic(i, !(w.a(i) & w.b(i)))),
    row(29, "s_nand_b64", W22, |w, i| w.logic64(i, !(w.a64(i) & w.b64(i)))),
    row(30, "s_nor_b32", W11, |w, i| w.logic(i, !(w.a(i) | w.b(i)))),
    row(31, "s_nor_b64", W22, |w, i| w.logic64(i, !(w.a64(i) | w.b64(i)))),
    row(32, "s_xnor_b32", W11, |w, i| w.logic(i, !(w.a(i) ^ w.b(i)))),
    row(33, "s_xnor_b64", W22, |w, i| w.logic64(i, !(w.a64(i) ^ w.b64(i)))),
    row(34, "s_and_not1_b32", W11, |w, i| w.logic(i, w.a(i) & !w.b(i))),
    row(35, "s_and_not1_b64", W22, |w, i| w.logic64(i, w.a64(i) & !w.b64(i))),
    row(36, "s_or_not1_b32", W11, |w, i| w.logic(i, w.a(i) | !w.b(i))),
    row(37, "s_or_not1_b64", W22, |w, i| w.logic64(i, w.a64(i) | !w.b64(i))),
    row(38, "s_bfe_u32", W11, |w, i| {
        let b = w.b(i);
        w.logic(i, field(u64::from(w.a(i)), b & 31, b >> 16 & 0x7f) as u32);
    }),
    row(39, "s_bfe_i32", W11, |w, i| {
        let b = w.b(i);
        w.logic(i, signed_field(u64::from(w.a(i)), 32, b & 31, b >> 16 & 0x7f) as u32);
    }),
    row(40, "s_bfe_u64", W21, |w, i| {
        let b = w.b(i);
        w.logic64(i, field(w.a64(i), b & 63, b >> 16 & 0x7f));
    }),
    row(41, "s_bfe_i64", W21, |w, i| {
        let b = w.b(i);
        w.logic64(i, signed_field(w.a64(i), 64, b & 63, b >> 16 & 0x7f));
    }),
    row(42, "s_bfm_b32", W11, |w, i| w.set_scalar(i.dst, ((1u32 << (w.a(i) & 31)) - 1) << (w.b(i) & 31))),
    row(43, "s_bfm_b64", shape(2, [1, 1, 0]), |w, i| {
        w.set_scalar64(i.dst, ((1u64 << (w.a(i) & 63)) - 1) << (w.b(i) & 63));
    }),
    row(44, "s_mul_i32", W11, |w, i| w.set_scalar(i.dst, w.a(i).wrapping_mul(w.b(i)))),
    row(45, "s_mul_hi_u32", W11, |w, i| {
        w.set_scalar(i.dst, ((u64::from(w.a(i)) * u64::from(w.b(i))) >> 32) as u32);
    }),
    row(46, "s_mul_hi_i32", W11, |w, i| {
        w.set_scalar(i.dst, ((i64::from(w.a(i) as i32) * i64::from(w.b(i) as i32)) >> 32) as u32);
    }),
    row(48, "s_cselect_b32", W11, |w, i| w.set_scalar(i.dst, if w.scc { w.a(i) } else { w.b(i) })),
    row(49, "s_cselect_b64", W22, |w, i| w.set_scalar64(i.dst, if w.scc { w.a64(i) } else { w.b64(i) })),
    row(50, "s_pack_ll_b32_b16", W11, |w, i| w.set_scalar(i.dst, w.a(i) & 0xffff | w.b(i) << 16)),
    row(51, "s_pack_lh_b32_b16", W11, |w, i| w.set_scalar(i.dst, w.a(i) & 0xffff | w.b(i) & 0xffff_0000)),
    row(52, "s_pack_hh_b32_b16", W11, |w, i| w.set_scalar(i.dst, w.a(i) >> 16 | w.b(i) & 0xffff_0000)),
    row(53, "s_pack_hl_b32_b16", W11, |w, i| w.set_scalar(i.dst, w.a(i) >> 16 | w.b(i) << 16)),
];

fn shift_add(a: u32, shift: u32, b: u32) -> (u32, bool) {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

/// One scalar operand to one result.
pub(super) static SOP1: &[Row] = &[
    row(0, "s_mov_b32", W1, |w, i| w.set_scalar(i.dst, w.a(i))),
    row(1, "s_mov_b64", W2, |w, i| w.set_scalar64(i.dst, w.a64(i))),
    row(2, "s_cmov_b32", W1, |w, i| {
        if w.scc {
            w.set_scalar(i.dst, w.a(i));
        }
    }),
    row(3, "s_cmov_b64", W2, |w, i| {
        if w.scc {
            w.set_scalar64(i.dst, w.a64(i));
        }
    }),
    row(4, "s_brev_b32", W1, |w, i| w.set_scalar(i.dst, w.a(i).reverse_bits())),
    row(5, "s_brev_b64", W2, |w, i| w.set_scalar64(i.dst, w.a64(i).reverse_bits())),
    row(8, "s_ctz_i32_b32", W1, |w, i| w.set_scalar(i.dst, or_none(w.a(i).trailing_zeros(), 32))),
    row(9, "s_ctz_i32_b64", shape(1, [2, 0, 0]), |w, i| w.set_scalar(i.dst, or_none(w.a64(i).trailing_zeros(), 64))),
    row(10, "s_clz_i32_u32", W1, |w, i| w.set_scalar(i.dst, or_none(w.a(i).leading_zeros(), 32))),
    row(11, "s_clz_i32_u64", shape(1, [2, 0, 0]), |w, i| w.set_scalar(i.dst, or_none(w.a64(i).leading_zeros(), 64))),
    row(12, "s_cls_i32", W1, |w, i| w.set_scalar(i.dst, leading_signs(i64::from(w.a(i) as i32), 32))),
    row(13, "s_cls_i32_i64", shape(1, [2, 0, 0]), |w, i| w.set_scalar(i.dst, leading_signs(w.a64(i) as i64, 64))),
    row(14, "s_sext_i32_i8", W1, |w, i| w.set_scalar(i.dst, w.a(i) as i8 as u32)),
    row(15, "s_sext_i32_i16", W1, |w, i| w.set_scalar(i.dst, w.a(i) as i16 as u32)),
    row(16, "s_bitset0_b32", W1, |w, i| w.set_scalar(i.dst, w.s[usize::from(i.dst)] & !(1 << (w.a(i) & 31)))),
    row(18, "s_bitset1_b32", W1, |w, i| w.set_scalar(i.dst, w.s[usize::from(i.dst)] | 1 << (w.a(i) & 31))),
    row(21, "s_abs_i32", W1, |w, i| w.logic(i, (w.a(i) as i32).wrapping_abs() as u32)),
    row(22, "s_bcnt0_i32_b32", W1, |w, i| w.logic(i, w.a(i).count_zeros())),
    row(23, "s_bcnt0_i32_b64", shape(1, [2, 0, 0]), |w, i| w.logic(i, w.a64(i).count_zeros())),
    row(24, "s_bcnt1_i32_b32", W1, |w, i| w.logic(i, w.a(i).count_ones())),
    row(25, "s_bcnt1_i32_b64", shape(1, [2, 0, 0]), |w, i| w.logic(i, w.a64(i).count_ones())),
    row(30, "s_not_b32", W1, |w, i| w.logic(i, !w.a(i))),
    row(31, "s_not_b64", W2, |w, i| w.logic64(i, !w.a64(i))),
    row(32, "s_and_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| a & exec)),
    row(34, "s_or_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| a | exec)),
    row(36, "s_xor_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| a ^ exec)),
    row(38, "s_nand_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| !(a & exec))),
    row(40, "s_nor_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| !(a | exec))),
    row(42, "s_xnor_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| !(a ^ exec))),
    row(44, "s_and_not0_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| !a & exec)),
    row(46, "s_or_not0_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| !a | exec)),
    row(48, "s_and_not1_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| a & !exec)),
    row(50, "s_or_not1_saveexec_b32", W1, |w, i| w.save_exec(i, |a, exec| a | !exec)),
    row(52, "s_and_not0_wrexec_b32", W1, |w, i| w.write_exec(i, |a, exec| !a & exec)),
    row(54, "s_and_not1_wrexec_b32", W1, |w, i| w.write_exec(i, |a, exec| a & !exec)),
    row(71, "s_getpc_b64", shape(2, [0, 0, 0]), |w, i| w.set_scalar64(i.dst, w.pc)),
    row(72, "s_setpc_b64", shape(0, [2, 0, 0]), |w, i| w.pc = w.a64(i)),
    row(73, "s_swappc_b64", W2, |w, i| {
        let target = w.a64(i);
        w.set_scalar64(i.dst, w.pc);
        w.pc = target;
    }),
    memory(76, "s_sendmsg_rtn_b32", shape(1, [0, 0, 0]), |w, i, out| answer(w, i, out, 1)),
    memory(77, "s_sendmsg_rtn_b64", shape(2, [0, 0, 0]), |w, i, out| answer(w, i, out, 2)),
];

/// The message of s_sendmsg_rtn that asks for the GPU's clock.
pub(super) const GET_REALTIME: u16 = 131;

/// What comes back for a message.
fn answer(w: &mut Wave, i: &Inst, out: &mut Outside<'_>, words: usize) -> Result<(), FaultKind> {
    if i.src[0] != GET_REALTIME || words != 2 {
        return Err(FaultKind::Unsupported { what: format!("the message {} with an answer", i.src[0]) });
    }
    let clock = out.bus.clock();
    w.set_scalar64(i.dst, clock);
    Ok(())
}

/// Comparisons of scalars, to scc.
pub(super) static SOPC: &[Row] = &[
    row(0, "s_cmp_eq_i32", COMPARE, |w, i| w.scc = w.a(i) == w.b(i)),
    row(1, "s_cmp_lg_i32", COMPARE, |w, i| w.scc = w.a(i) != w.b(i)),
    row(2, "s_cmp_gt_i32", COMPARE, |w, i| w.scc = w.a(i) as i32 > w.b(i) as i32),
    row(3, "s_cmp_ge_i32", COMPARE, |w, i| w.scc = w.a(i) as i32 >= w.b(i) as i32),
    row(4, "s_cmp_lt_i32", COMPARE, |w, i| w.scc = (w.a(i) as i32) < w.b(i) as i32),
    row(5, "s_cmp_le_i32", COMPARE, |w, i| w.scc = w.a(i) as i32 <= w.b(i) as i32),
    row(6, "s_cmp_eq_u32", COMPARE, |w, i| w.scc = w.a(i) == w.b(i)),
    row(7, "s_cmp_lg_u32", COMPARE, |w, i| w.scc = w.a(i) != w.b(i)),
    row(8, "s_cmp_gt_u32", COMPARE, |w, i| w.scc = w.a(i) > w.b(i)),
    row(9, "s_cmp_ge_u32", COMPARE, |w, i| w.scc = w.a(i) >= w.b(i)),
    row(10, "s_cmp_lt_u32", COMPARE, |w, i| w.scc = w.a(i) < w.b(i)),
    row(11, "s_cmp_le_u32", COMPARE, |w, i| w.scc = w.a(i) <= w.b(i)),
    row(12, "s_bitcmp0_b32", COMPARE, |w, i| w.scc = w.a(i) >> (w.b(i) & 31) & 1 == 0),
    row(13, "s_bitcmp1_b32", COMPARE, |w, i| w.scc = w.a(i) >> (w.b(i) & 31) & 1 == 1),
    row(14, "s_bitcmp0_b64", shape(0, [2, 1, 0]), |w, i| w.scc = w.a64(i) >> (w.b(i) & 63) & 1 == 0),
    row(15, "s_bitcmp1_b64", shape(0, [2, 1, 0]), |w, i| w.scc = w.a64(i) >> (w.b(i) & 63) & 1 == 1),
    row(16, "s_cmp_eq_u64", shape(0, [2, 2, 0]), |w, i| w.scc = w.a64(i) == w.b64(i)),
    row(17, "s_cmp_lg_u64", shape(0, [2, 2, 0]), |w, i| w.scc = w.a64(i) != w.b64(i)),
];

const COMPARE: super::inst::Shape = shape(0, [1, 1, 0]);
const CONSTANT: super::inst::Shape = shape(1, [0, 0, 0]);
const NONE: super::inst::Shape = shape(0, [0, 0, 0]);

/// The register that SOPK names and its constant, unsigned.
fn against(w: &Wave, i: &Inst) -> (u32, u32) {
    (w.s[usize::from(i.dst)], i.literal & 0xffff)
}

/// The same, signed.
fn against_signed(w: &Wave, i: &Inst) -> (i32, i32) {
    (w.s[usize::from(i.dst)] as i32, i.literal as i32)
}

/// A scalar register and a constant of 16 bits.
pub(super) static SOPK: &[Row] = &[
    row(0, "s_movk_i32", CONSTANT, |w, i| w.set_scalar(i.dst, i.literal)),
    row(1, "s_version", NONE, |_, _| ()),
    row(2, "s_cmovk_i32", CONSTANT, |w, i| {
        if w.scc {
            w.set_scalar(i.dst, i.literal);
        }
    }),
    row(3, "s_cmpk_eq_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 == against_signed(w, i).1),
    row(4, "s_cmpk_lg_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 != against_signed(w, i).1),
    row(5, "s_cmpk_gt_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 > against_signed(w, i).1),
    row(6, "s_cmpk_ge_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 >= against_signed(w, i).1),
    row(7, "s_cmpk_lt_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 < against_signed(w, i).1),
    row(8, "s_cmpk_le_i32", CONSTANT, |w, i| w.scc = against_signed(w, i).0 <= against_signed(w, i).1),
    row(9, "s_cmpk_eq_u32", CONSTANT, |w, i| w.scc = against(w, i).0 == against(w, i).1),
    row(10, "s_cmpk_lg_u32", CONSTANT, |w, i| w.scc = against(w, i).0 != against(w, i).1),
    row(11, "s_cmpk_gt_u32", CONSTANT, |w, i| w.scc = against(w, i).0 > against(w, i).1),
    row(12, "s_cmpk_ge_u32", CONSTANT, |w, i| w.scc = against(w, i).0 >= against(w, i).1),
    row(13, "s_cmpk_lt_u32", CONSTANT, |w, i| w.scc = against(w, i).0 < against(w, i).1),
    row(14, "s_cmpk_le_u32", CONSTANT, |w, i| w.scc = against(w, i).0 <= against(w, i).1),
    row(15, "s_addk_i32", CONSTANT, |w, i| {
        let (value, over) = (w.s[usize::from(i.dst)] as i32).overflowing_add(i.literal as i32);
        w.put(i, (value as u32, over));
    }),
    row(16, "s_mulk_i32", CONSTANT, |w, i| w.set_scalar(i.dst, w.s[usize::from(i.dst)].wrapping_mul(i.literal))),
    control(17, "s_getreg_b32", CONSTANT, get_register),
    control(18, "s_setreg_b32", CONSTANT, |w, i| set_register(w, i, w.s[usize::from(i.dst)])),
    control(19, "s_setreg_imm32_b32", with(0, [0; 3], Extra::ConstantLast), |w, i| set_register(w, i, i.offset as u32)),
    memory(24, "s_waitcnt_vscnt", CONSTANT, wait_for_stores),
    row(25, "s_waitcnt_vmcnt", CONSTANT, |_, _| ()),
    row(26, "s_waitcnt_expcnt", CONSTANT, |_, _| ()),
    row(27, "s_waitcnt_lgkmcnt", CONSTANT, |_, _| ()),
];

/// Stores are counted in the order in which they are acknowledged: none are left only where the wave waits for none.
fn wait_for_stores(w: &mut Wave, i: &Inst, out: &mut Outside<'_>) -> Result<(), FaultKind> {
    if i.literal & 0x3f == 0 && w.s[usize::from(i.dst)] & 0x3f == 0 {
        out.bus.acknowledge();
    }
    Ok(())
}

/// A hardware register's number, and offset and width of the part that SOPK's constant names.
fn hardware_register(i: &Inst) -> (u32, u32, u32) {
    (i.literal & 0x3f, i.literal >> 6 & 31, (i.literal >> 11 & 31) + 1)
}

fn get_register(w: &mut Wave, i: &Inst) -> Result<Flow, FaultKind> {
    let (register, offset, width) = hardware_register(i);
    let value = match register {
        1 => w.mode.0,
        15 => (PRIVATE_BASE >> 48) as u32 | ((SHARED_BASE >> 48) as u32) << 16,
        // A clock of 20 bits.
        29 => w.ran as u32 & 0xf_ffff,
        _ => return Err(FaultKind::Unsupported { what: format!("hardware register {register}") }),
    };
    w.set_scalar(i.dst, field(u64::from(value), offset, width) as u32);
    Ok(Flow::Next)
}

fn set_register(w: &mut Wave, i: &Inst, value: u32) -> Result<Flow, FaultKind> {
    let (register, offset, width) = hardware_register(i);
    if register != 1 || offset + width > 10 {
        return Err(FaultKind::Unsupported { what: format!("a write of hardware register {register}") });
    }
    let mask = ((1 << width) - 1) << offset;
    w.mode = Mode(w.mode.0 & !mask | value << offset & mask);
    Ok(Flow::Next)
}

/// What steers the wave.
pub(super) static SOPP: &[Row] = &[
    row(0, "s_nop", NONE, |_, _| ()),
    control(2, "s_sethalt", NONE, |_, _| {
        Err(FaultKind::Unsupported { what: "a halt, which a debugger ends".to_owned() })
    }),
    control(3, "s_sleep", NONE, |_, _| Ok(Flow::Yield)),
    row(4, "s_set_inst_prefetch_distance", NONE, |_, _| ()),
    row(5, "s_clause", NONE, |_, _| ()),
    row(7, "s_delay_alu", NONE, |_, _| ()),
    row(8, "s_waitcnt_depctr", NONE, |_, _| ()),
    row(9, "s_waitcnt", NONE, |_, _| ()),
    row(10, "s_wait_idle", NONE, |_, _| ()),
    control(16, "s_trap", NONE, |_, i| Err(FaultKind::Trap { id: i.literal & 0xff })),
    row(17, "s_round_mode", NONE, |w, i| w.mode = Mode(w.mode.0 & !0xf | i.literal & 0xf)),
    row(18, "s_denorm_mode", NONE, |w, i| w.mode = Mode(w.mode.0 & !0xf0 | (i.literal & 0xf) << 4)),
    control(31, "s_code_end", NONE, |_, _| {
        Err(FaultKind::Unsupported { what: "the wave ran past the end of its code".to_owned() })
    }),
    control(32, "s_branch", NONE, |w, i| w.branch_if(i, true)),
    control(33, "s_cbranch_scc0", NONE, |w, i| w.branch_if(i, !w.scc)),
    control(34, "s_cbranch_scc1", NONE, |w, i| w.branch_if(i, w.scc)),
    control(35, "s_cbranch_vccz", NONE, |w, i| w.branch_if(i, w.s[VCC] == 0)),
    control(36, "s_cbranch_vccnz", NONE, |w, i| w.branch_if(i, w.s[VCC] != 0)),
    control(37, "s_cbranch_execz", NONE, |w, i| w.branch_if(i, w.exec() == 0)),
    control(38, "s_cbranch_execnz", NONE, |w, i| w.branch_if(i, w.exec() != 0)),
    control(48, "s_endpgm", NONE, |_, _| Ok(Flow::End)),
    row(53, "s_setprio", NONE, |_, _| ()),
    control(54, "s_sendmsg", NONE, |_, _| Ok(Flow::Next)),
    control(61, "s_barrier", NONE, |_, _| Ok(Flow::Barrier)),
];
