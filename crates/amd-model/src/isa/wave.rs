//! A wave: its registers, and how instructions read and write them.

use super::LANES;
use super::fault::FaultKind;
use super::float::{self, Mode, Round};
use super::inst::{Extra, Inst};

/// A value of each lane.
pub(super) type Lanes = [u32; LANES];
/// A value of 64 bits of each lane.
pub(super) type Lanes64 = [u64; LANES];

/// Registers with names, by their numbers as operands.
pub(super) const VCC: usize = 106;
pub(super) const NULL: usize = 124;
pub(super) const M0: usize = 125;
pub(super) const EXEC: usize = 126;
/// The operand that says that a constant follows.
pub(super) const LITERAL: u16 = 255;
/// The operand that stands for what lanes got of each other.
pub(super) const EXCHANGED: u16 = 249;
/// The first vector register as an operand.
pub(super) const VECTOR: u16 = 256;

/// Where group memory appears among the addresses of flat instructions, and where scratch does.
pub(super) const SHARED_BASE: u64 = 0x0001_0000_0000_0000;
pub(super) const PRIVATE_BASE: u64 = 0x0002_0000_0000_0000;

/// Whether a wave can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    AtBarrier,
    Ended,
}

pub(super) struct Wave {
    /// The number in the work-group.
    pub number: u32,
    pub state: State,
    pub pc: u64,
    /// Scalar registers by their operand numbers, vcc, null, m0 and exec among them.
    pub s: [u32; 128],
    pub v: Vec<Lanes>,
    pub scc: bool,
    pub mode: Mode,
    /// What the lanes got of each other for the instruction that runs.
    pub exchanged: Lanes,
    /// Where the wave's scratch begins.
    pub scratch: u64,
    /// Bytes of private memory that each lane has there.
    pub private: u32,
    /// Instructions run.
    pub ran: u64,
}

impl Wave {
    /// The lanes that run.
    #[inline]
    pub(super) fn exec(&self) -> u32 {
        self.s[EXEC]
    }

    /// The numbers of the lanes that run.
    pub(super) fn lanes(&self) -> impl Iterator<Item = usize> + use<> {
        let exec = self.exec();
        (0..LANES).filter(move |lane| exec >> lane & 1 != 0)
    }

    /// A scalar operand of 32 bits.
    #[inline]
    pub(super) fn scalar(&self, inst: &Inst, operand: u16) -> u32 {
        match operand {
            0..=127 => self.s[usize::from(operand)],
            LITERAL => inst.literal,
            _ => self.constant(operand),
        }
    }

    /// An operand that is neither a register nor a constant in the code.
    fn constant(&self, operand: u16) -> u32 {
        match operand {
            128..=192 => u32::from(operand) - 128,
            193..=208 => (192 - i32::from(operand)) as u32,
            235 => (SHARED_BASE >> 32) as u32,
            237 => (PRIVATE_BASE >> 32) as u32,
            236 | 238 => u32::MAX,
            240..=248 => FLOATS[usize::from(operand) - 240].to_bits(),
            252 => u32::from(self.exec() == 0),
            253 => u32::from(self.scc),
            _ => 0,
        }
    }

    /// A scalar operand of 64 bits.
    pub(super) fn scalar64(&self, inst: &Inst, operand: u16) -> u64 {
        match operand {
            124 => 0,
            0..=127 => {
                u64::from(self.s[usize::from(operand)])
                    | u64::from(self.s.get(usize::from(operand) + 1).copied().unwrap_or(0)) << 32
            }
            LITERAL => u64::from(inst.literal),
            193..=208 => (192 - i64::from(operand)) as u64,
            235 => SHARED_BASE,
            237 => PRIVATE_BASE,
            236 => SHARED_BASE | 0xffff_ffff,
            238 => PRIVATE_BASE | 0xffff_ffff,
            240..=248 => (DOUBLES[usize::from(operand) - 240]).to_bits(),
            _ => u64::from(self.constant(operand)),
        }
    }

    /// Writes a scalar register.
    #[inline]
    pub(super) fn set_scalar(&mut self, register: u8, value: u32) {
        if usize::from(register) != NULL {
            self.s[usize::from(register) & 127] = value;
        }
    }

    /// Writes a pair of scalar registers.
    pub(super) fn set_scalar64(&mut self, register: u8, value: u64) {
        self.set_scalar(register, value as u32);
        if usize::from(register) != NULL {
            self.set_scalar(register + 1, (value >> 32) as u32);
        }
    }

    /// Source `i` in each lane.
    #[inline]
    pub(super) fn source(&self, inst: &Inst, i: usize) -> Lanes {
        let operand = inst.src[i];
        match operand {
            VECTOR.. => self.v[usize::from(operand - VECTOR)],
            EXCHANGED => self.exchanged,
            _ => [self.scalar(inst, operand); LANES],
        }
    }

    /// Source `i` as the f16 that the instruction's half of it is, its sign changed as the instruction says.
    pub(super) fn half_float(&self, inst: &Inst, i: usize) -> [f32; LANES] {
        let operand = inst.src[i];
        let high = inst.op_sel >> i & 1 != 0;
        let value = if (240..=248).contains(&operand) {
            // A constant is an f16 too.
            [float::half(Round::Even, f64::from(FLOATS[usize::from(operand) - 240])); LANES]
        } else {
            self.source(inst, i).map(|bits| if high { (bits >> 16) as u16 } else { bits as u16 })
        };
        value.map(|bits| {
            let bits = if inst.abs >> i & 1 != 0 { bits & 0x7fff } else { bits };
            float::from_half(bits ^ u16::from(inst.neg >> i & 1) << 15)
        })
    }

    /// The half of source `i` that the instruction takes.
    pub(super) fn half(&self, inst: &Inst, i: usize) -> [u16; LANES] {
        let shift = 16 * u32::from(inst.op_sel >> i & 1);
        self.source(inst, i).map(|bits| (bits >> shift) as u16)
    }

    /// Writes results of 16 bits to the half of the destination that the instruction names; the other half stays.
    pub(super) fn write_half(&mut self, inst: &Inst, value: [u16; LANES]) {
        let register = usize::from(inst.dst);
        let (keep, shift) = if inst.op_sel & 8 != 0 { (0xffff, 16) } else { (0xffff_0000, 0) };
        let old = self.v[register];
        self.write(register, &std::array::from_fn(|lane| old[lane] & keep | u32::from(value[lane]) << shift));
    }

    /// Writes results of f16, rounded once, and clamped as the instruction says.
    pub(super) fn write_half_float(&mut self, inst: &Inst, value: [f64; LANES]) {
        let mode = self.mode;
        self.write_half(inst, value.map(|x| mode.half(if inst.clamp { clamped(mode, x) } else { x })));
    }

    /// Source `i`, of 64 bits, in each lane.
    pub(super) fn source64(&self, inst: &Inst, i: usize) -> Lanes64 {
        let operand = inst.src[i];
        if operand >= VECTOR {
            let (low, high) = (&self.v[usize::from(operand - VECTOR)], &self.v[usize::from(operand - VECTOR) + 1]);
            std::array::from_fn(|lane| u64::from(low[lane]) | u64::from(high[lane]) << 32)
        } else {
            [self.scalar64(inst, operand); LANES]
        }
    }

    /// Writes the lanes that run.
    #[inline]
    pub(super) fn write(&mut self, register: usize, value: &Lanes) {
        let exec = self.exec();
        let target = &mut self.v[register];
        if exec == u32::MAX {
            *target = *value;
            return;
        }
        for lane in 0..LANES {
            target[lane] = if exec >> lane & 1 != 0 { value[lane] } else { target[lane] };
        }
    }

    /// Writes pairs of registers in the lanes that run.
    pub(super) fn write64(&mut self, register: usize, value: &Lanes64) {
        self.write(register, &value.map(|value| value as u32));
        self.write(register + 1, &value.map(|value| (value >> 32) as u32));
    }

    /// A result of bits from one source.
    #[inline]
    pub(super) fn bits1(&mut self, inst: &Inst, f: impl Fn(u32) -> u32) {
        let a = self.source(inst, 0);
        let value = a.map(f);
        self.write(usize::from(inst.dst), &value);
    }

    /// A result of bits from two sources.
    #[inline]
    pub(super) fn bits2(&mut self, inst: &Inst, f: impl Fn(u32, u32) -> u32) {
        let (a, b) = (self.source(inst, 0), self.source(inst, 1));
        let value: Lanes = std::array::from_fn(|lane| f(a[lane], b[lane]));
        self.write(usize::from(inst.dst), &value);
    }

    /// A result of bits from three sources.
    #[inline]
    pub(super) fn bits3(&mut self, inst: &Inst, f: impl Fn(u32, u32, u32) -> u32) {
        let (a, b, c) = (self.source(inst, 0), self.source(inst, 1), self.source(inst, 2));
        let value: Lanes = std::array::from_fn(|lane| f(a[lane], b[lane], c[lane]));
        self.write(usize::from(inst.dst), &value);
    }

    /// Source `i` as f32, its sign changed as the instruction says, and flushed as the mode says.
    #[inline]
    pub(super) fn float(&self, inst: &Inst, i: usize) -> [f32; LANES] {
        let mut bits = self.source(inst, i);
        if (inst.neg | inst.abs) >> i & 1 != 0 {
            let keep = if inst.abs >> i & 1 != 0 { !(1 << 31) } else { u32::MAX };
            let flip = u32::from(inst.neg >> i & 1) << 31;
            bits = bits.map(|bits| (bits & keep) ^ flip);
        }
        let mode = self.mode;
        bits.map(|bits| mode.input(f32::from_bits(bits)))
    }

    /// Source `i` as f64, its sign changed as the instruction says.
    pub(super) fn double(&self, inst: &Inst, i: usize) -> [f64; LANES] {
        let mut bits = self.source64(inst, i);
        if inst.src[i] == LITERAL {
            bits = [u64::from(inst.literal) << 32; LANES];
        }
        let keep = if inst.abs >> i & 1 != 0 { !(1 << 63) } else { u64::MAX };
        let flip = u64::from(inst.neg >> i & 1) << 63;
        bits.map(|bits| f64::from_bits((bits & keep) ^ flip))
    }

    /// Writes results of f32, multiplied and clamped as the instruction says.
    #[inline]
    pub(super) fn write_float(&mut self, inst: &Inst, value: [f32; LANES]) {
        let (mode, plain) = (self.mode, inst.omod == 0 && !inst.clamp);
        let bits = if plain {
            value.map(|x| mode.output(x).to_bits())
        } else {
            value.map(|x| finish(mode, inst.omod, inst.clamp, x).to_bits())
        };
        self.write(usize::from(inst.dst), &bits);
    }

    /// A float from one.
    #[inline]
    pub(super) fn float1(&mut self, inst: &Inst, f: impl Fn(Mode, f32) -> f32) {
        let (mode, a) = (self.mode, self.float(inst, 0));
        self.write_float(inst, a.map(|a| f(mode, a)));
    }

    /// A float from two.
    #[inline]
    pub(super) fn float2(&mut self, inst: &Inst, f: impl Fn(Mode, f32, f32) -> f32) {
        let (mode, a, b) = (self.mode, self.float(inst, 0), self.float(inst, 1));
        self.write_float(inst, std::array::from_fn(|lane| f(mode, a[lane], b[lane])));
    }

    /// A float from three.
    #[inline]
    pub(super) fn float3(&mut self, inst: &Inst, f: impl Fn(Mode, f32, f32, f32) -> f32) {
        let (mode, a, b, c) = (self.mode, self.float(inst, 0), self.float(inst, 1), self.float(inst, 2));
        self.write_float(inst, std::array::from_fn(|lane| f(mode, a[lane], b[lane], c[lane])));
    }

    /// Bits from one float.
    pub(super) fn float_to_bits(&mut self, inst: &Inst, f: impl Fn(f32) -> u32) {
        let bits = self.float(inst, 0).map(f);
        self.write(usize::from(inst.dst), &bits);
    }

    /// Where a mask of lanes that an instruction makes goes: vcc, or in VOP3 a scalar register.
    #[inline]
    pub(super) fn set_mask(&mut self, register: u8, mask: u32) {
        self.set_scalar(register, mask & self.exec());
    }

    /// The instruction's registers are the wave's.
    #[inline]
    pub(super) fn check(&self, inst: &Inst) -> Result<(), FaultKind> {
        if usize::from(inst.vectors) <= self.v.len() {
            return Ok(());
        }
        Err(FaultKind::Register { register: u32::from(inst.vectors) - 1, count: self.v.len() as u32 })
    }
}

/// A result of f16 between 0 and 1.
fn clamped(mode: Mode, x: f64) -> f64 {
    if x.is_nan() { if mode.dx10_clamp() { 0.0 } else { x } } else { x.clamp(0.0, 1.0) + 0.0 }
}

pub(super) const FLOATS: [f32; 9] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, std::f32::consts::FRAC_1_PI / 2.0];
/// The last is what the hardware has, one unit off the nearest f64.
const DOUBLES: [f64; 9] = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, f64::from_bits(0x3fc4_5f30_6dc9_c882)];

/// The output modifiers. The multiplier counts only where results are flushed and not of IEEE mode.
fn finish(mode: Mode, omod: u8, clamp: bool, x: f32) -> f32 {
    let factor = if mode.keeps_out32() || mode.ieee() { 1.0 } else { [1.0, 2.0, 4.0, 0.5][usize::from(omod)] };
    let x = mode.output(mode.output(x) * factor);
    match clamp {
        false => x,
        true if x.is_nan() && mode.dx10_clamp() => 0.0,
        // A zero of either sign and what is below become a positive zero.
        true if x <= 0.0 => 0.0,
        true if x > 1.0 => 1.0,
        true => x,
    }
}

/// Registers of an operand, for the highest that an instruction names.
pub(super) fn top(operand: u16, registers: u8) -> u16 {
    if operand >= VECTOR && registers > 0 { operand - VECTOR + u16::from(registers) } else { 0 }
}

impl Extra {
    /// Whether the destination is a vector register.
    pub(super) fn vector_dst(self) -> bool {
        self != Self::ScalarDst
    }
}
