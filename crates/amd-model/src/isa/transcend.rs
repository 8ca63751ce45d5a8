//! The functions that the hardware computes to about a unit of the last place, without denormals.
//!
//! Here each is computed in f64 and rounded: the error is at most 0.51 units, below what the hardware states (1 unit for
//! most), so a kernel that relies on more than the hardware gives is not found here. Denormal operands and results of
//! exp, log, rcp and rsq count as zeros, which is what compilers scale their operands for.

use super::float::flush;
use std::f64::consts::TAU;

/// 2 to the power of `a`.
pub(super) fn exp2(a: f32) -> f32 {
    flush(f64::from(a).exp2() as f32)
}

/// The logarithm to the base 2.
pub(super) fn log2(a: f32) -> f32 {
    f64::from(flush(a)).log2() as f32
}

/// 1 / `a`.
pub(super) fn reciprocal(a: f32) -> f32 {
    flush((1.0 / f64::from(flush(a))) as f32)
}

/// 1 / √`a`.
pub(super) fn reciprocal_root(a: f32) -> f32 {
    (1.0 / f64::from(flush(a)).sqrt()) as f32
}

/// √`a`.
pub(super) fn root(a: f32) -> f32 {
    f64::from(flush(a)).sqrt() as f32
}

/// The sine of `a` turns; of turns that are too many for the hardware, 256, it is 0.
pub(super) fn sine(a: f32) -> f32 {
    if a.abs() > 256.0 && a.is_finite() { 0.0 } else { (f64::from(a) * TAU).sin() as f32 }
}

/// The cosine of `a` turns; of too many it is 1.
pub(super) fn cosine(a: f32) -> f32 {
    if a.abs() > 256.0 && a.is_finite() { 1.0 } else { (f64::from(a) * TAU).cos() as f32 }
}
