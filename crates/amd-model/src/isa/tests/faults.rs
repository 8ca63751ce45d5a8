//! What stops a wave: the kind, the address, the place.

use super::kernels::{SUITE, WORK};
use super::kit::{Arguments, Memory, Object, dispatch, launch, run};
use crate::isa::{Access, Fault, FaultKind};

pub(super) const FAULTS: &[u8] = include_bytes!("../../../fixtures/faults.co");
const WAVE64: &[u8] = include_bytes!("../../../fixtures/wave64.co");

/// Runs one group of one thread of a kernel that faults.
fn fault(kernel: &str, y: &[u32], arguments: impl FnOnce(u64) -> Arguments) -> (Fault, u64, Vec<u32>) {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, FAULTS);
    let to = memory.words(y);
    let mut dispatch = dispatch(&mut memory, &object, kernel, [1, 1, 1], [1, 1, 1], arguments(to)).unwrap();
    dispatch.budget = 10_000;
    let fault = run(&mut memory, &dispatch, 1).unwrap_err();
    (fault, to, memory.read_words(to))
}

#[test]
fn a_load_past_a_mapping_names_the_first_byte_that_is_not_there() {
    let (fault, y, _) = fault("load_at", &[0; 4], |y| Arguments::default().long(y).long(y).long(16));
    assert_eq!(fault.kind, FaultKind::Unmapped { address: y + 16, access: Access::Load });
    let text = fault.to_string();
    assert!(text.contains(&format!("a load at {:#x}", y + 16)) && text.contains("s_load_b32"), "{text}");
    assert!(text.contains("wave 0 of group (0, 0, 0)"), "{text}");
}

#[test]
fn loads_of_a_wave_fault_at_the_lane_that_leaves_the_mapping() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let (x, y) = (memory.words(&[0; 40]), memory.words(&[0; 64]));
    let arguments = Arguments::default().long(x).long(y).word(64);
    let fault = launch(&mut memory, &object, "add", [2, 1, 1], [32, 1, 1], arguments).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unmapped { address: x + 160, access: Access::Load });
    assert_eq!(fault.place.unwrap().group, [1, 0, 0]);
}

#[test]
fn a_store_to_memory_that_is_only_read_is_denied() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, FAULTS);
    let to = memory.map(vec![0; 8], false);
    for (kernel, access) in [("store_at", Access::Store), ("add_at", Access::Atomic)] {
        let arguments = Arguments::default().long(to).long(4).word(1);
        let fault = launch(&mut memory, &object, kernel, [1, 1, 1], [1, 1, 1], arguments).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Denied { address: to + 4, access });
    }
}

#[test]
fn words_that_are_not_aligned_are_refused_with_their_address() {
    for kernel in ["store_at", "add_at"] {
        let (fault, y, left) = fault(kernel, &[7; 4], |y| Arguments::default().long(y).long(6).word(1));
        let access = if kernel == "add_at" { Access::Atomic } else { Access::Store };
        assert_eq!(fault.kind, FaultKind::Misaligned { address: y + 6, access, align: 4 });
        assert_eq!(left, [7; 4]);
    }
}

#[test]
fn an_endless_loop_ends_with_its_budget() {
    let (fault, ..) = fault("endless", &[0], |y| Arguments::default().long(y));
    assert_eq!(fault.kind, FaultKind::Budget { instructions: 10_000 });
    assert!(fault.place.is_some());
}

#[test]
fn a_word_that_is_no_instruction_is_shown_with_its_place() {
    let (fault, _, left) = fault("bad_instruction", &[0; 2], |y| Arguments::default().long(y));
    assert_eq!(fault.kind, FaultKind::Unknown);
    let place = fault.place.clone().unwrap();
    assert_eq!(place.words, [0xbfff_0000]);
    assert!(fault.to_string().contains(&format!("at {:#x}: bfff0000", place.pc)), "{fault}");
    assert_eq!(left, [1, 0], "what stands before it has run, and nothing after it");
}

#[test]
fn a_trap_says_which() {
    let (fault, ..) = fault("trap", &[0; 2], |y| Arguments::default().long(y));
    assert_eq!(fault.kind, FaultKind::Trap { id: 2 });
}

#[test]
fn running_past_the_code_is_found() {
    let (fault, ..) = fault("past_the_end", &[0; 2], |y| Arguments::default().long(y));
    assert!(matches!(&fault.kind, FaultKind::Unsupported { what } if what.contains("end of its code")), "{fault}");
}

#[test]
fn group_memory_ends_where_the_dispatch_says() {
    let (fault, ..) = fault("group_at", &[0; 2], |y| Arguments::default().long(y).word(256));
    assert_eq!(fault.kind, FaultKind::GroupMemory { offset: 256, width: 4, size: 256, access: Access::Load });
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, WORK);
    let (x, y) = (memory.words(&[0; 256]), memory.words(&[0]));
    let arguments = Arguments::default().long(x).long(y);
    let mut dispatch = dispatch(&mut memory, &object, "reduce", [1, 1, 1], [256, 1, 1], arguments).unwrap();
    dispatch.group_bytes = 1000;
    let fault = run(&mut memory, &dispatch, 1).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::GroupMemory { size: 1000, access: Access::Store, .. }), "{fault}");
}

#[test]
fn kernels_of_wave64_are_refused_by_name() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, WAVE64);
    let refused = dispatch(&mut memory, &object, "wave64", [1; 3], [32, 1, 1], Arguments::default()).unwrap_err();
    assert!(matches!(&refused.kind, FaultKind::Descriptor { why } if why.contains("wave64")), "{refused}");
}

#[test]
fn work_groups_of_no_size_or_too_large_are_refused() {
    for threads in [[0, 1, 1], [1025, 1, 1], [32, 32, 2]] {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, SUITE);
        let refused = dispatch(&mut memory, &object, "add", [1; 3], threads, Arguments::default()).unwrap_err();
        assert!(matches!(refused.kind, FaultKind::Descriptor { .. }), "{refused}");
    }
}

#[test]
fn registers_past_the_descriptors_number_are_a_fault() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, WORK);
    let out = memory.words(&[0; 4096]);
    let arguments = Arguments::default().long(out).long(out).long(out).word(32);
    let mut dispatch = dispatch(&mut memory, &object, "functions", [1; 3], [32, 1, 1], arguments).unwrap();
    dispatch.descriptor.rsrc1 &= !0x3f;
    let fault = run(&mut memory, &dispatch, 1).unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Register { count: 8, register } if register >= 8), "{fault}");
}

#[test]
fn what_is_not_in_the_grid_does_not_run() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let y = memory.words(&[0; 128]);
    let arguments = Arguments::default().long(y).word(128).word(1);
    let mut dispatch = dispatch(&mut memory, &object, "iota", [2, 1, 1], [64, 1, 1], arguments).unwrap();
    dispatch.grid[0] = 70;
    run(&mut memory, &dispatch, 1).unwrap();
    let expected: Vec<u32> = (0..128).map(|i| if i < 70 { 1 + i } else { 0 }).collect();
    assert_eq!(memory.read_words(y), expected);
}
