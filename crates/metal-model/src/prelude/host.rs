//! The functions on this machine that bodies call, and those that LLVM calls by itself where the machine lacks an
//! instruction.
//!
//! Two-byte floats travel in the low bits of a vector register, as the convention of this machine's C has it, and so
//! does a float: a function that takes or gives one is written with the float whose low bits are the two bytes.
//!
//! Threads: pure functions.

#![expect(unsafe_code, reason = "the addresses of the C library's functions")]

use std::ffi::c_void;

macro_rules! library {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        unsafe extern "C" {
            $(safe fn $name($(_: $argument),*) -> $result;)*
        }
        /// The C library's functions, by name.
        fn library() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), $name as extern "C" fn($($argument),*) -> $result as usize)),*]
        }
    };
}

library! {
    acosf(f32) -> f32;
    acoshf(f32) -> f32;
    asinf(f32) -> f32;
    asinhf(f32) -> f32;
    atanf(f32) -> f32;
    atanhf(f32) -> f32;
    atan2f(f32, f32) -> f32;
    ceilf(f32) -> f32;
    copysignf(f32, f32) -> f32;
    cosf(f32) -> f32;
    coshf(f32) -> f32;
    expf(f32) -> f32;
    exp2f(f32) -> f32;
    exp10f(f32) -> f32;
    expm1f(f32) -> f32;
    floorf(f32) -> f32;
    fmaf(f32, f32, f32) -> f32;
    fmaxf(f32, f32) -> f32;
    fminf(f32, f32) -> f32;
    fmodf(f32, f32) -> f32;
    hypotf(f32, f32) -> f32;
    ilogbf(f32) -> i32;
    ldexpf(f32, i32) -> f32;
    log1pf(f32) -> f32;
    logf(f32) -> f32;
    log2f(f32) -> f32;
    log10f(f32) -> f32;
    nearbyintf(f32) -> f32;
    nextafterf(f32, f32) -> f32;
    powf(f32, f32) -> f32;
    rintf(f32) -> f32;
    roundf(f32) -> f32;
    sinf(f32) -> f32;
    sinhf(f32) -> f32;
    sqrtf(f32) -> f32;
    tanf(f32) -> f32;
    tanhf(f32) -> f32;
    truncf(f32) -> f32;
}

unsafe extern "C" {
    fn frexpf(x: f32, exponent: *mut i32) -> f32;
    fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void;
    fn memset(to: *mut c_void, byte: i32, bytes: usize) -> *mut c_void;
}

/// Functions that bodies call and those that LLVM may call: name and address. To be given to the linker of compiled
/// code as absolute symbols.
pub fn symbols() -> Vec<(&'static str, usize)> {
    let mut symbols = library();
    let one = |function: extern "C" fn(f32) -> f32| function as usize;
    symbols.extend([
        ("frexpf", frexpf as *const () as usize),
        ("memcpy", memcpy as *const () as usize),
        ("memmove", memmove as *const () as usize),
        ("memset", memset as *const () as usize),
        ("rig_sinpif", one(sinpi)),
        ("rig_cospif", one(cospi)),
        ("rig_to_srgb", one(to_srgb)),
        ("rig_from_srgb", one(from_srgb)),
        ("__truncsfbf2", one(float_to_bfloat)),
        ("__truncsfhf2", one(float_to_half)),
        ("__gnu_f2h_ieee", one(float_to_half)),
        ("__extendhfsf2", one(half_to_float)),
        ("__gnu_h2f_ieee", one(half_to_float)),
    ]);
    symbols
}

/// The angle in half turns, brought into one turn without a rounding.
fn turn(x: f32) -> f64 {
    f64::from(x) % 2.0 * std::f64::consts::PI
}

/// sin(π x), exact where x is a multiple of a half.
extern "C" fn sinpi(x: f32) -> f32 {
    match (f64::from(x) % 2.0).abs() {
        0.0 | 1.0 => 0f32.copysign(x),
        _ => turn(x).sin() as f32,
    }
}

/// cos(π x), exact where x is a multiple of a half.
extern "C" fn cospi(x: f32) -> f32 {
    match (f64::from(x) % 2.0).abs() {
        0.5 | 1.5 => 0.0,
        _ => turn(x).cos() as f32,
    }
}

/// The transfer function of sRGB (IEC 61966-2-1).
extern "C" fn to_srgb(x: f32) -> f32 {
    if x <= 0.003_130_8 { 12.92 * x } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 }
}

/// The inverse of [`to_srgb`].
extern "C" fn from_srgb(x: f32) -> f32 {
    if x <= 0.040_45 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
}

/// Rounds to the nearest, ties to even; a NaN stays one.
pub(super) fn bfloat_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The bits of the half nearest to `x`, ties to even.
pub(super) fn half_bits(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    if size > 0x7f80_0000 {
        return sign | 0x7e00 | (size >> 13 & 0x1ff) as u16;
    }
    // From 65520 on the nearest is infinity.
    if size >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    // Below 2^-14 a half has steps of 2^-24: adding 0.5 to float leaves just those steps.
    if size < 0x3880_0000 {
        return sign | ((f32::from_bits(size) + 0.5).to_bits() - 0x3f00_0000) as u16;
    }
    sign | ((size - 0x3800_0000 + 0xfff + (size >> 13 & 1)) >> 13) as u16
}

/// The float that a half is.
pub(super) fn half_value(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let value = match size {
        // The steps of 2^-24.
        0..0x400 => (size as f32 * 2f32.powi(-24)).to_bits(),
        0x400..0x7c00 => (size << 13) + 0x3800_0000,
        _ => 0x7f80_0000 | (size & 0x3ff) << 13,
    };
    f32::from_bits(sign | value)
}

extern "C" fn float_to_bfloat(x: f32) -> f32 {
    f32::from_bits(u32::from(bfloat_bits(x)))
}

extern "C" fn float_to_half(x: f32) -> f32 {
    f32::from_bits(u32::from(half_bits(x)))
}

extern "C" fn half_to_float(low_bits: f32) -> f32 {
    half_value(low_bits.to_bits() as u16)
}
