//! GPU addresses of software Metal.
//!
//! A GPU address is the host address of the same byte plus [`GPU_BIAS`]. Host addresses of Linux programs lie below
//! 2⁴⁷, so a GPU address has bit 47 set and is no address that the processor takes: a host that follows a GPU address
//! faults, and a kernel that is handed a host address is found by the checks, for no resident range holds it.
//! The machine code that a kernel becomes takes the bias off each address before it uses it.

/// What a GPU address is above the host address of the same byte.
pub const GPU_BIAS: u64 = 0x8000_0000_0000;

/// The GPU address of the byte at a host address.
#[must_use]
pub const fn gpu_address(host: u64) -> u64 {
    host.wrapping_add(GPU_BIAS)
}

/// The host address of the byte at a GPU address.
#[must_use]
pub const fn host_address(gpu: u64) -> u64 {
    gpu.wrapping_sub(GPU_BIAS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_gpu_address_is_a_host_address() {
        let local = 7_u8;
        let host = &raw const local as u64;
        assert!(host < GPU_BIAS, "host addresses of this system lie below the bias");
        assert_eq!(gpu_address(host) >> 47, 1, "bit 47 alone is set above the host's 47 bits");
        assert_eq!(host_address(gpu_address(host)), host);
    }
}
