//! Orders of waves and work-groups, and what the caller's caches and memory are told.

use super::faults::FAULTS;
use super::kernels::{SUITE, WORK};
use super::kit::{Arguments, Memory, Object, dispatch, run};
use crate::isa::{Access, Bus as _, Caches, Code, FaultKind, Progress, WorkGroup};

#[test]
fn kernels_that_are_right_give_the_same_in_every_order() {
    let x: Vec<u32> = (0..1024u32).map(|i| i.wrapping_mul(747_796_405)).collect();
    for seed in 0..100 {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, WORK);
        let (from, sums, bins, most) =
            (memory.words(&x), memory.words(&[0; 4]), memory.words(&[0; 64]), memory.longs(&[0]));
        let arguments = Arguments::default().long(from).long(sums);
        let reduce = dispatch(&mut memory, &object, "reduce", [4, 1, 1], [256, 1, 1], arguments).unwrap();
        run(&mut memory, &reduce, seed).unwrap();
        let arguments = Arguments::default().long(from).long(bins).long(most).word(1024);
        let histogram = dispatch(&mut memory, &object, "histogram", [4, 1, 1], [256, 1, 1], arguments).unwrap();
        run(&mut memory, &histogram, seed).unwrap();
        let expected: Vec<u32> = x.chunks(256).map(|x| x.iter().fold(0u32, |sum, x| sum.wrapping_add(*x))).collect();
        assert_eq!(memory.read_words(sums), expected, "seed {seed}");
        let counted = |bin: u32| x.iter().filter(|&&x| x % 64 == bin).count() as u32;
        assert_eq!(memory.read_words(bins), (0..64).map(counted).collect::<Vec<_>>(), "seed {seed}");
    }
}

/// The places that `count` gives to odd words, which depend on the order.
fn places(seed: u64) -> Vec<u32> {
    let x: Vec<u32> = (0..1024).map(|i| i * 2 + 1).collect();
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, WORK);
    let (from, total, places) = (memory.words(&x), memory.words(&[0]), memory.words(&[0; 1024]));
    let arguments = Arguments::default().long(from).long(total).long(places).word(1024);
    let count = dispatch(&mut memory, &object, "count", [4, 1, 1], [256, 1, 1], arguments).unwrap();
    run(&mut memory, &count, seed).unwrap();
    memory.read_words(places)
}

#[test]
fn a_seed_chooses_the_order_and_repeats_it() {
    assert_eq!(places(3), places(3));
    assert_ne!(places(3), places(4));
}

#[test]
fn what_the_hardware_leaves_undefined_differs_by_seed() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, FAULTS);
    let y = memory.words(&[0]);
    // One thread of 32 writes group memory; the last word is nobody's.
    let arguments = Arguments::default().long(y).word(252);
    let group = dispatch(&mut memory, &object, "group_at", [1, 1, 1], [32, 1, 1], arguments).unwrap();
    let mut seen: Vec<u32> = (0..4)
        .map(|seed| {
            run(&mut memory, &group, seed).unwrap();
            memory.read_words(y)[0]
        })
        .collect();
    seen.dedup();
    assert!(seen.len() > 1, "{seen:x?}");
}

#[test]
fn instructions_stay_as_they_were_fetched_until_they_are_invalidated() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let y = memory.words(&[0; 32]);
    let arguments = Arguments::default().long(y).word(32).word(5);
    let iota = dispatch(&mut memory, &object, "iota", [1, 1, 1], [32, 1, 1], arguments).unwrap();
    let mut code = Code::new();
    let once = |memory: &mut Memory, code: &mut Code| {
        let mut group = WorkGroup::new(&iota, [0; 3], 1);
        while group.step(code, memory, 100)? == Progress::Running {}
        Ok::<u64, crate::isa::Fault>(group.ran())
    };
    let ran = once(&mut memory, &mut code).unwrap();
    // The first word becomes the end of the program.
    memory.overwrite(iota.entry, &0xbfb0_0000_u32.to_le_bytes());
    assert_eq!(once(&mut memory, &mut code), Ok(ran));
    code.invalidate();
    assert_eq!(once(&mut memory, &mut code), Ok(1));
}

#[test]
fn instructions_come_from_executable_memory_alone() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let data = memory.words(&[0xbfb0_0000; 4]);
    let mut add = dispatch(&mut memory, &object, "add", [1, 1, 1], [32, 1, 1], Arguments::default()).unwrap();
    for (entry, kind) in [
        (data, FaultKind::Denied { address: data, access: Access::Fetch }),
        (0x1000, FaultKind::Unmapped { address: 0x1000, access: Access::Fetch }),
        (add.entry + 2, FaultKind::Misaligned { address: add.entry + 2, access: Access::Fetch, align: 4 }),
    ] {
        add.entry = entry;
        let fault = run(&mut memory, &add, 1).unwrap_err();
        assert_eq!(fault.kind, kind);
        assert_eq!(fault.place.unwrap().pc, entry);
    }
}

#[test]
fn no_word_past_an_instruction_is_fetched() {
    // s_mov_b32 s0, 0x1234 and s_endpgm, the last words of their memory.
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let mut add = dispatch(&mut memory, &object, "add", [1, 1, 1], [32, 1, 1], Arguments::default()).unwrap();
    add.entry = memory.code(&[0xbe80_00ff, 0x1234, 0xbfb0_0000]);
    run(&mut memory, &add, 1).unwrap();
    add.entry = memory.code(&[0xbe80_00ff]);
    let fault = run(&mut memory, &add, 1).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unmapped { address: add.entry + 4, access: Access::Fetch });
}

#[test]
fn orders_of_device_scope_reach_the_bus() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, WORK);
    let (word, trace) = (memory.words(&[0]), memory.words(&[0; 2]));
    let arguments = Arguments::default().long(word).long(trace).word(2);
    let relay = dispatch(&mut memory, &object, "relay", [1, 1, 1], [64, 1, 1], arguments).unwrap();
    run(&mut memory, &relay, 5).unwrap();
    // An acquire invalidates both caches, a release waits for its stores, and the atomic asks for the old value.
    assert!(memory.invalidations.contains(&Caches { gl0: true, ..Caches::default() }));
    assert!(memory.invalidations.contains(&Caches { gl1: true, ..Caches::default() }));
    assert!(memory.acknowledged >= 2);
    assert!(memory.scopes.iter().any(|scope| scope.glc && !scope.scalar));
    assert!(memory.scopes.iter().any(|scope| scope.scalar));
    let _ = memory.clock();
}

#[test]
fn neighbouring_lanes_are_one_access() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let y = memory.words(&[0; 64]);
    let arguments = Arguments::default().long(y).long(y).word(64);
    let add = dispatch(&mut memory, &object, "add", [1, 1, 1], [64, 1, 1], arguments).unwrap();
    run(&mut memory, &add, 1).unwrap();
    let vector = memory.scopes.iter().filter(|scope| !scope.scalar).count();
    // Two waves, each with two loads and a store.
    assert_eq!(vector, 6);
}
