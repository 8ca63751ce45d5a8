//! The header and the Rust that it is made of, as C compilers see it.

use std::path::Path;

use rig_conformance::{c, c_struct};

use super::*;
use crate::kernel::Group;

/// Promise M70.
#[test]
fn a_c_compiler_lays_out_every_struct_of_the_header_as_rust_does() {
    let header = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/rig_host.h");
    c::same_layout(
        &header,
        &[
            c_struct!(Group as "rig_group": group, groups, threads, thread, group_bytes, reserved, group_memory, barrier),
            c_struct!(KernelRecord as "rig_kernel": version, kind, params, group_bytes),
            c_struct!(CSlot as "rig_host_slot": host, len),
            c_struct!(
                CLaunch as "rig_host_launch": entry, params, params_len, groups, threads, group_bytes, reserved
            ),
            c_struct!(
                CEncoder as "rig_host_encoder": version, reserved, context, task, launch, copy, set, why, why_bytes
            ),
        ],
    );
}

#[test]
fn a_reason_of_the_encoder_is_cut_between_characters_to_what_there_is_room_for() {
    let mut tasks = Vec::new();
    let mut encoder = Encoder { tasks: &mut tasks };
    let mut why = [7_u8; 8];
    let mut given = CEncoder {
        version: RIG_HOST_VERSION,
        reserved: 0,
        context: std::ptr::from_mut(&mut encoder).cast(),
        task,
        launch,
        copy,
        set,
        why: why.as_mut_ptr().cast(),
        why_bytes: 5,
    };
    assert_eq!(with(&raw mut given, |_| Err("abcéf".into())), 1);
    assert_eq!(why, [b'a', b'b', b'c', 0, 7, 7, 7, 7]);
}
