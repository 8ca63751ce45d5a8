//! Arithmetic of floats as the wave's mode says: rounding, denormals, NaNs.
//!
//! Sums, products and fused products of f32 are computed in f64 and rounded once: a product of two f32 is exact in f64, a
//! sum comes with its exact error, and a result rounded to odd at 53 bits rounds to 24 bits as the exact one does.

/// The mode register: bits 0-1 round f32, 2-3 round f64 and f16, 4-5 denormals of f32, 6-7 of f64 and f16, 8 DX10 clamp,
/// 9 IEEE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode(pub u32);

/// Ways to round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Round {
    Even,
    Up,
    Down,
    Zero,
}

const ROUNDS: [Round; 4] = [Round::Even, Round::Up, Round::Down, Round::Zero];

impl Mode {
    /// The mode in which a wave starts, from COMPUTE_PGM_RSRC1: bits 12-19 rounding and denormals, 21 clamp, 23 IEEE.
    pub(super) fn of_rsrc1(rsrc1: u32) -> Self {
        Self(rsrc1 >> 12 & 0xff | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9)
    }

    pub(super) fn round32(self) -> Round {
        ROUNDS[self.0 as usize & 3]
    }

    pub(super) fn round64(self) -> Round {
        ROUNDS[self.0 as usize >> 2 & 3]
    }

    /// Whether denormal operands of f32 count as they are.
    pub(super) fn keeps_in32(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// Whether denormal results of f32 stay.
    pub(super) fn keeps_out32(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    /// Rounds a result to f16.
    pub(super) fn half(self, x: f64) -> u16 {
        let bits = half(self.round64(), x);
        let denormal = bits & 0x7c00 == 0;
        if denormal && self.0 & 1 << 7 == 0 { bits & 0x8000 } else { bits }
    }

    /// Whether clamp makes 0 of a NaN.
    pub(super) fn dx10_clamp(self) -> bool {
        self.0 & 1 << 8 != 0
    }

    pub(super) fn ieee(self) -> bool {
        self.0 & 1 << 9 != 0
    }

    /// An operand as the wave takes it.
    #[inline]
    pub(super) fn input(self, x: f32) -> f32 {
        if self.keeps_in32() { x } else { flush(x) }
    }

    /// A result as the wave gives it.
    #[inline]
    pub(super) fn output(self, x: f32) -> f32 {
        if self.keeps_out32() { x } else { flush(x) }
    }
}

/// A denormal becomes a zero of its sign.
#[inline]
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// Makes a NaN quiet.
pub(super) fn quiet(x: f32) -> f32 {
    f32::from_bits(x.to_bits() | 1 << 22)
}

/// Whether it is a NaN that signals.
pub(super) fn signals(x: f32) -> bool {
    x.is_nan() && x.to_bits() & 1 << 22 == 0
}

/// `a + b`.
#[inline]
pub(super) fn add(mode: Mode, a: f32, b: f32) -> f32 {
    if mode.round32() == Round::Even { a + b } else { sum(mode.round32(), f64::from(a), f64::from(b)) }
}

/// `a * b`.
#[inline]
pub(super) fn mul(mode: Mode, a: f32, b: f32) -> f32 {
    if mode.round32() == Round::Even { a * b } else { narrow(mode.round32(), f64::from(a) * f64::from(b), 0.0) }
}

/// `a * b + c`, rounded once.
#[inline]
pub(super) fn fma(mode: Mode, a: f32, b: f32, c: f32) -> f32 {
    sum(mode.round32(), f64::from(a) * f64::from(b), f64::from(c))
}

/// `(a * b + c)` times a power of 2, rounded once.
pub(super) fn fma_scaled(mode: Mode, a: f32, b: f32, c: f32, power: i32) -> f32 {
    let scale = 2f64.powi(power);
    sum(mode.round32(), f64::from(a) * scale * f64::from(b), f64::from(c) * scale)
}

/// The sum of two numbers that are exact in f64, rounded once to f32.
#[inline]
fn sum(round: Round, a: f64, b: f64) -> f32 {
    let s = a + b;
    if s == 0.0 && round == Round::Down && a.is_sign_negative() != b.is_sign_negative() {
        return -0.0;
    }
    let t = s - a;
    narrow(round, s, (a - (s - t)) + (b - t))
}

/// Rounds `value + error` to odd at 53 bits, which rounds on to fewer bits as the exact value does.
#[inline]
fn odd(value: f64, error: f64) -> f64 {
    let bits = value.to_bits();
    let away = (error > 0.0) == (value > 0.0);
    let inexact = error != 0.0 && !error.is_nan() && bits & 1 == 0;
    f64::from_bits(if !inexact {
        bits
    } else if away {
        bits + 1
    } else {
        bits - 1
    })
}

/// Rounds `value + error`, where the error is below half a unit of the value's last place in f64, to f32.
#[inline]
pub(super) fn narrow(round: Round, value: f64, error: f64) -> f32 {
    if !value.is_finite() || value == 0.0 {
        return value as f32;
    }
    // Rounded to odd at 53 bits, which rounds to 24 bits as the exact value does.
    let bits = value.to_bits();
    let away = (error > 0.0) == (value > 0.0);
    let inexact = error != 0.0 && bits & 1 == 0;
    let odd = f64::from_bits(if !inexact {
        bits
    } else if away {
        bits + 1
    } else {
        bits - 1
    });
    let nearest = odd as f32;
    match round {
        Round::Zero if f64::from(nearest).abs() > odd.abs() && nearest > 0.0 => nearest.next_down(),
        Round::Zero if f64::from(nearest).abs() > odd.abs() => nearest.next_up(),
        Round::Up if f64::from(nearest) < odd => nearest.next_up(),
        Round::Down if f64::from(nearest) > odd => nearest.next_down(),
        _ => nearest,
    }
}

/// `a * b + c` of f16, so that rounding it to f16 rounds once: the product is exact, and the sum is rounded to odd.
pub(super) fn fma_of_halves(a: f32, b: f32, c: f32) -> f64 {
    let (a, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let s = a + c;
    let t = s - a;
    odd(s, (a - (s - t)) + (c - t))
}

/// Rounds to f16, which keeps its denormals.
pub(super) fn half(round: Round, x: f64) -> u16 {
    let sign = (x.to_bits() >> 48) as u16 & 0x8000;
    if x.is_nan() {
        return sign | 0x7e00 | (x.to_bits() >> 42) as u16 & 0x1ff;
    }
    let size = x.abs();
    if size == 0.0 || size.is_infinite() {
        return sign | if size == 0.0 { 0 } else { 0x7c00 };
    }
    // A unit of the last place at this size; sizes are counted in it, which is exact.
    let exponent = ((size.to_bits() >> 52) as i32 - 1023).max(-14);
    let units = size * 2f64.powi(10 - exponent);
    let rounded = match round {
        Round::Even => units.round_ties_even(),
        Round::Up if sign == 0 => units.ceil(),
        Round::Down if sign != 0 => units.ceil(),
        _ => units.floor(),
    };
    // The units of a normal number hold the bit above the mantissa, so they add one to the exponent's field.
    let bits = rounded as i64 + i64::from(exponent + 14) * 1024;
    let most = if matches!((round, sign), (Round::Zero, _) | (Round::Up, 0x8000) | (Round::Down, 0)) {
        0x7bff
    } else {
        0x7c00
    };
    sign | bits.min(most) as u16
}

/// What an f16 is.
pub(super) fn from_half(bits: u16) -> f32 {
    let (exponent, mantissa) = (bits >> 10 & 31, f32::from(bits & 0x3ff));
    let size = match exponent {
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => return f32::from_bits(u32::from(bits & 0x8000) << 16 | 0x7f80_0000 | u32::from(bits & 0x3ff) << 13),
        0 => mantissa * 2f32.powi(-24),
        _ => (1024.0 + mantissa) * 2f32.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 != 0 { -size } else { size }
}
