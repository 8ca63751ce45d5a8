//! Code objects: the crate's own, and what is made of it by changing its bytes.

use super::*;
use crate::kernel::{STACK_BYTES, What};
use crate::msgpack::Value;

const COPY: &[u8] = include_bytes!("../kernels/copy.co");

fn read(file: &[u8]) -> Result<Object, String> {
    Object::read(file, "gfx1100", 0x41)
}

/// Promise A10.
#[test]
fn a_code_object_gives_its_functions_with_what_their_launches_need() {
    let object = read(COPY).unwrap();
    let [copy] = &object.functions[..] else { panic!("{:?}", object.functions) };
    assert_eq!(copy.name, "rig_copy");
    assert_eq!((copy.params, copy.kernarg, copy.group, copy.threads), (32, 32, 0, 1024));
    assert!(copy.hidden.is_empty() && copy.refusal.is_none() && copy.fixed.is_none());
    assert!(copy.descriptor.is_multiple_of(64));
    let len = object.len();
    let (bytes, _) = object.at(0x7f00_0000_0000);
    assert_eq!(bytes.len(), len);
}

#[test]
fn files_that_are_no_code_objects_for_the_gpu_are_refused_with_what_is_wrong() {
    let changed = |at: usize, byte: u8| {
        let mut file = COPY.to_vec();
        file[at] = byte;
        read(&file).map(|_| ()).unwrap_err()
    };
    assert!(read(b"nonsense").unwrap_err().contains("gfx1100"));
    assert!(read(b"").is_err());
    assert!(changed(4, 1).contains("64 bits"), "32 bits");
    assert!(changed(18, 62).contains("machine"), "x86-64: {}", changed(18, 62));
    assert!(changed(7, 0).contains("operating system"));
    assert!(changed(8, 9).contains("versions 4, 5 and 6"));
    assert!(changed(16, 1).contains("not linked"));
    assert!(changed(48, 0x36).contains("architecture 0x36"), "gfx1030");
}

#[test]
fn a_code_object_that_is_cut_short_or_changed_is_refused_or_read_and_nothing_panics() {
    for len in (0..COPY.len()).step_by(7) {
        let _ = read(&COPY[..len]);
    }
    let mut seed = 5_u32;
    for _ in 0..20_000 {
        let mut file = COPY.to_vec();
        for _ in 0..3 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (seed >> 8) as usize % file.len();
            file[at] = (seed >> 3) as u8;
        }
        if let Ok(object) = read(&file) {
            let _ = object.at(4096);
        }
    }
}

/// The kernel of this crate, as its source and the command in its head make it.
#[test]
fn the_committed_code_is_what_its_source_makes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels");
    let made = std::env::temp_dir().join(format!("rig-amd-copy-{}.co", std::process::id()));
    let mut clang = std::process::Command::new("clang-19");
    clang.args("-x c -std=c23 -target amdgcn-amd-amdhsa -mcpu=gfx1100 -nogpulib -O2 -fvisibility=hidden".split(' '));
    match clang.arg("copy.c").arg("-o").arg(&made).current_dir(folder).status() {
        Ok(status) => assert!(status.success(), "clang-19 does not take kernels/copy.c"),
        Err(_) => return println!("nothing to compare with: clang-19 is missing"),
    }
    let bytes = std::fs::read(&made).unwrap();
    let _ = std::fs::remove_file(&made);
    assert!(bytes == COPY, "kernels/copy.co is not what kernels/copy.c makes: run the command in its head");
}

/// A function's metadata as MessagePack maps; the reader has tests of its own.
fn metadata<'a>(arguments: Vec<Value<'a>>, sizes: [u64; 3]) -> Value<'a> {
    let [group, private, kernarg] = sizes.map(Value::Unsigned);
    Value::Map(vec![
        (Value::Text(".name"), Value::Text("f")),
        (Value::Text(".group_segment_fixed_size"), group),
        (Value::Text(".private_segment_fixed_size"), private),
        (Value::Text(".kernarg_segment_size"), kernarg),
        (Value::Text(".max_flat_workgroup_size"), Value::Unsigned(256)),
        (Value::Text(".args"), Value::Array(arguments)),
    ])
}

fn argument(kind: &str, offset: u64, size: u64) -> Value<'_> {
    Value::Map(vec![
        (Value::Text(".value_kind"), Value::Text(kind)),
        (Value::Text(".offset"), Value::Unsigned(offset)),
        (Value::Text(".size"), Value::Unsigned(size)),
    ])
}

fn function(arguments: Vec<Value<'_>>, sizes: [u32; 3]) -> Result<Function, String> {
    let mut descriptor = [0; DESCRIPTOR_BYTES];
    for (place, size) in descriptor.chunks_exact_mut(4).zip(sizes) {
        place.copy_from_slice(&size.to_le_bytes());
    }
    descriptor[16..24].copy_from_slice(&0x100_u64.to_le_bytes());
    Function::read(&metadata(arguments, sizes.map(u64::from)), 0x400, &descriptor, 0x1000)
}

/// Promise A10.
#[test]
fn arguments_that_describe_the_launch_are_no_parameters_and_are_filled_in_their_places() {
    let arguments = vec![
        argument("global_buffer", 0, 8),
        argument("by_value", 8, 4),
        argument("hidden_block_count_x", 16, 4),
        argument("hidden_group_size_y", 30, 2),
        argument("hidden_remainder_x", 34, 2),
        argument("hidden_grid_dims", 80, 2),
    ];
    let function = function(arguments, [0, 0, 272]).unwrap();
    assert_eq!((function.params, function.kernarg), (12, 272));
    let due = [(16, What::Groups(0)), (30, What::Threads(1)), (80, What::Dimensions)];
    let is: Vec<_> = function.hidden.iter().map(|hidden| (hidden.at, hidden.what)).collect();
    assert_eq!(is, due);
    assert_eq!((function.threads, function.refusal), (256, None));
}

/// Promise A10.
#[test]
fn functions_that_need_a_runtime_are_refused_by_name() {
    let printf = function(vec![argument("hidden_hostcall_buffer", 8, 8)], [0, 0, 16]).unwrap();
    assert!(printf.refusal.unwrap().contains("hidden_hostcall_buffer"));
}

/// Promise A10.
#[test]
fn private_memory_is_what_the_descriptor_says_and_for_open_stacks_a_stated_part_more() {
    let descriptor = |private: u32, properties: u16| {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        descriptor[4..8].copy_from_slice(&private.to_le_bytes());
        descriptor[16..24].copy_from_slice(&0x100_u64.to_le_bytes());
        descriptor[56..58].copy_from_slice(&properties.to_le_bytes());
        let function = Function::read(&metadata(vec![], [0, private.into(), 0]), 0x400, &descriptor, 0x1000).unwrap();
        (function.private, function.lanes)
    };
    assert_eq!(descriptor(0, 1 << 10), (0, 32));
    assert_eq!(descriptor(68, 1 << 10), (68, 32));
    assert_eq!(descriptor(68, 0), (68, 64), "a wave of 64");
    assert_eq!(descriptor(0, 1 << 10 | 1 << 11), (STACK_BYTES, 32));
    assert_eq!(descriptor(68, 1 << 10 | 1 << 11), (68 + STACK_BYTES, 32));
    assert_eq!(descriptor(u32::MAX, 1 << 11).0, u32::MAX, "more than any wave has, and no less for wrapping");
}

#[test]
fn metadata_that_contradicts_the_descriptor_or_itself_is_refused() {
    assert!(function(vec![argument("by_value", 8, 16)], [0, 0, 16]).unwrap_err().contains("leaves the arguments"));
    assert!(function(vec![argument("by_value", u64::MAX, 16)], [0, 0, 16]).is_err());
    let overlap = vec![argument("by_value", 0, 16), argument("hidden_block_count_x", 8, 4)];
    assert!(function(overlap, [0, 0, 16]).unwrap_err().contains("overlap"));
    let descriptor = [0; DESCRIPTOR_BYTES];
    let why = Function::read(&metadata(vec![], [0, 0, 8]), 0x400, &descriptor, 0x1000).unwrap_err();
    assert!(why.contains("its descriptor has 0 bytes of arguments, and its metadata 8"), "{why}");
    let mut outside = descriptor;
    outside[16..24].copy_from_slice(&0x1000_u64.to_le_bytes());
    assert!(
        Function::read(&metadata(vec![], [0, 0, 0]), 0x400, &outside, 0x1000).unwrap_err().contains("out of place")
    );
}
