//! The header and the Rust that it is made of, as C compilers see it.

use std::path::Path;

use rig_conformance::{c, c_struct};

use super::*;

/// Promise M70.
#[test]
fn a_c_compiler_lays_out_every_struct_of_the_header_as_rust_does() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/rig_metal.h");
    c::same_layout(
        &header,
        &[
            c_struct!(Launch as "rig_metal_launch": pipeline, threads, group_bytes),
            c_struct!(CSlot as "rig_metal_slot": gpu, host, len, buffer, offset),
            c_struct!(
                CEncoder as "rig_metal_encoder": version, reserved, context, device, compute, command_buffer, fence, end, next,
                execute, why, why_bytes
            ),
            c_struct!(
                CIndirect as "rig_metal_indirect": entry, params, params_len, groups, threads, group_bytes, reserved
            ),
            c_struct!(Record as "rig_metal": version, align, context, device, icb, icb_release),
        ],
    );
}
