//! Short programs in machine words, for what no compiled kernel shows.

use super::kernels::SUITE;
use super::kit::{Arguments, Memory, Object, dispatch, run};
use crate::isa::{Access, Fault, FaultKind};

/// Runs machine words as a work-group of one wave, which finds its arguments' address in s[2:3].
fn program(memory: &mut Memory, words: &[u32], arguments: Arguments) -> (u64, Result<u64, Fault>) {
    let object = Object::load(memory, SUITE);
    let mut add = dispatch(memory, &object, "add", [1, 1, 1], [32, 1, 1], arguments).unwrap();
    add.entry = memory.code(words);
    let result = run(memory, &add, 1);
    (add.kernarg, result)
}

#[test]
fn an_atomic_gives_the_old_value_only_where_it_is_asked_for() {
    let mut memory = Memory::new();
    let (counter, out) = (memory.words(&[100]), memory.words(&[0; 64]));
    let words = [
        // s_load_b128 s[4:7], s[2:3], null; s_waitcnt lgkmcnt(0)
        0xf408_0101,
        0xf800_0000,
        0xbf89_fc07,
        // v_mov_b32_e32 v2, 0; v_mov_b32_e32 v3, 7
        0x7e04_0280,
        0x7e06_0287,
        // global_atomic_add_u32 v2, v3, s[4:5], whose field of a destination names v0
        0xdcd6_0000,
        0x0004_0302,
        // v_lshlrev_b32_e32 v4, 2, v0; global_store_b32 v4, v0, s[6:7]
        0x3008_0082,
        0xdc6a_0000,
        0x0006_0004,
        // global_atomic_add_u32 v5, v2, v3, s[4:5] glc; s_waitcnt vmcnt(0)
        0xdcd6_4000,
        0x0504_0302,
        0xbf89_03f7,
        // global_store_b32 v4, v5, s[6:7] offset:128; s_endpgm
        0xdc6a_0080,
        0x0006_0504,
        0xbfb0_0000,
    ];
    let (_, ran) = program(&mut memory, &words, Arguments::default().long(counter).long(out));
    assert_eq!(ran, Ok(11));
    assert_eq!(memory.read_words(counter), [100 + 64 * 7]);
    let out = memory.read_words(out);
    assert_eq!(out[..32], (0..32).collect::<Vec<u32>>(), "v0 is the lane's number still");
    assert_eq!(out[32..], (0..32).map(|lane| 100 + (32 + lane) * 7).collect::<Vec<u32>>());
}

#[test]
fn scalar_loads_are_of_whole_words() {
    let mut memory = Memory::new();
    // s_load_b32 s4, s[2:3], 0x2; s_endpgm
    let (arguments, ran) =
        program(&mut memory, &[0xf400_0101, 0xf800_0002, 0xbfb0_0000], Arguments::default().long(1).long(2));
    let misaligned = FaultKind::Misaligned { address: arguments + 2, access: Access::Load, align: 4 };
    assert_eq!(ran.unwrap_err().kind, misaligned);
}

#[test]
fn dispatches_have_the_registers_that_their_descriptors_ask_for() {
    let mut memory = Memory::new();
    let out = memory.words(&[0; 4]);
    // s_load_b64 s[4:5], s[2:3], null; s_waitcnt lgkmcnt(0); v_mov_b32 v1, s0; v_mov_b32 v2, s15; v_mov_b32 v0, 0;
    // global_store_b32 v0, v1, s[4:5]; global_store_b32 v0, v2, s[4:5] offset:4; s_endpgm
    let words = [
        0xf404_0101,
        0xf800_0000,
        0xbf89_fc07,
        0x7e02_0200,
        0x7e04_020f,
        0x7e00_0280,
        0xdc6a_0000,
        0x0004_0100,
        0xdc6a_0004,
        0x0004_0200,
        0xbfb0_0000,
    ];
    let object = Object::load(&mut memory, SUITE);
    let arguments = Arguments::default().long(out);
    let mut add = dispatch(&mut memory, &object, "add", [3, 1, 1], [1, 1, 1], arguments).unwrap();
    add.entry = memory.code(&words);
    add.grid[0] = 3;
    for seed in 0..3 {
        run(&mut memory, &add, seed).unwrap();
        let out = memory.read_words(out);
        assert_eq!(out[0], add.packet as u32, "the packet's address stands first");
        assert!(out[1] < 3, "the work-group's number stands after the declared user registers: {}", out[1]);
    }
}
