//! The host's functions that an object may import: memory and mathematics, documented in `include/rig_host.h`.
//!
//! All are of the C library, pure or confined to the memory that they are handed, so that an object can do nothing with
//! them that it could not do by itself. Kernels that need more belong in Rust.

/// The address of the function `name`.
pub(crate) fn address(name: &str) -> Option<u64> {
    let at = TABLE.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    // PANIC: the search gave the index.
    Some(TABLE[at].1.0.addr() as u64)
}

/// The address of a function.
struct Address(*const ());

// SAFETY: an address of code, which lives as long as the process.
#[expect(unsafe_code, reason = "an address is plain data")]
unsafe impl Sync for Address {}

/// Declares C functions and the table of their addresses. The names rise, so that a search finds them.
macro_rules! functions {
    ($($name:ident($($arg:ty),*) -> $answer:ty;)*) => {
        #[expect(unsafe_code, reason = "declares the C library's functions")]
        #[cfg(unix)]
        mod library {
            use std::ffi::{c_int, c_void};
            unsafe extern "C" {
                $(pub(super) fn $name($(_: $arg),*) -> $answer;)*
            }
        }

        #[cfg(unix)]
        static TABLE: &[(&str, Address)] = &[$((stringify!($name), Address(library::$name as *const ()))),*];
        #[cfg(not(unix))]
        static TABLE: &[(&str, Address)] = &[];

        /// The names.
        #[cfg(test)]
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

functions! {
    acos(f64) -> f64;
    acosf(f32) -> f32;
    asin(f64) -> f64;
    asinf(f32) -> f32;
    atan(f64) -> f64;
    atan2(f64, f64) -> f64;
    atan2f(f32, f32) -> f32;
    atanf(f32) -> f32;
    cbrt(f64) -> f64;
    cbrtf(f32) -> f32;
    ceil(f64) -> f64;
    ceilf(f32) -> f32;
    copysign(f64, f64) -> f64;
    copysignf(f32, f32) -> f32;
    cos(f64) -> f64;
    cosf(f32) -> f32;
    cosh(f64) -> f64;
    coshf(f32) -> f32;
    erf(f64) -> f64;
    erfc(f64) -> f64;
    erfcf(f32) -> f32;
    erff(f32) -> f32;
    exp(f64) -> f64;
    exp2(f64) -> f64;
    exp2f(f32) -> f32;
    expf(f32) -> f32;
    expm1(f64) -> f64;
    expm1f(f32) -> f32;
    fabs(f64) -> f64;
    fabsf(f32) -> f32;
    floor(f64) -> f64;
    floorf(f32) -> f32;
    fma(f64, f64, f64) -> f64;
    fmaf(f32, f32, f32) -> f32;
    fmax(f64, f64) -> f64;
    fmaxf(f32, f32) -> f32;
    fmin(f64, f64) -> f64;
    fminf(f32, f32) -> f32;
    fmod(f64, f64) -> f64;
    fmodf(f32, f32) -> f32;
    hypot(f64, f64) -> f64;
    hypotf(f32, f32) -> f32;
    log(f64) -> f64;
    log10(f64) -> f64;
    log10f(f32) -> f32;
    log1p(f64) -> f64;
    log1pf(f32) -> f32;
    log2(f64) -> f64;
    log2f(f32) -> f32;
    logf(f32) -> f32;
    memcmp(*const c_void, *const c_void, usize) -> c_int;
    memcpy(*mut c_void, *const c_void, usize) -> *mut c_void;
    memmove(*mut c_void, *const c_void, usize) -> *mut c_void;
    memset(*mut c_void, c_int, usize) -> *mut c_void;
    nearbyint(f64) -> f64;
    nearbyintf(f32) -> f32;
    pow(f64, f64) -> f64;
    powf(f32, f32) -> f32;
    rint(f64) -> f64;
    rintf(f32) -> f32;
    round(f64) -> f64;
    roundf(f32) -> f32;
    sin(f64) -> f64;
    sinf(f32) -> f32;
    sinh(f64) -> f64;
    sinhf(f32) -> f32;
    sqrt(f64) -> f64;
    sqrtf(f32) -> f32;
    tan(f64) -> f64;
    tanf(f32) -> f32;
    tanh(f64) -> f64;
    tanhf(f32) -> f32;
    trunc(f64) -> f64;
    truncf(f32) -> f32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_found_and_no_other() {
        assert!(NAMES.is_sorted());
        for name in NAMES {
            assert!(address(name).is_some_and(|address| address != 0), "{name}");
        }
        assert_eq!(address("system"), None);
        assert_eq!(address(""), None);
    }
}
