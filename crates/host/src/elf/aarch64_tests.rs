//! The relocations against encodings worked out by hand from the Arm ARM and the ELF ABI.

use super::*;

/// Relocates the instruction `word` at `place` for the address `symbol` (whose slot is at `slot`).
fn patched(kind: u32, word: u32, place: u64, symbol: u64, slot: u64) -> Result<u32, String> {
    let mut bytes = word.to_le_bytes();
    relocate(kind, &Site { place, symbol, slot, addend: 0 }, &mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

const BL: u32 = 0x9400_0000;
const B: u32 = 0x1400_0000;
const ADRP_X0: u32 = 0x9000_0000;

#[test]
fn calls_and_jumps_hold_a_distance_in_words() {
    // bl .+8 is 94000002; bl .-4 is 97ffffff.
    assert_eq!(patched(CALL26, BL, 0x1000, 0x1008, 0), Ok(0x9400_0002));
    assert_eq!(patched(CALL26, BL, 0x1000, 0xffc, 0), Ok(0x97ff_ffff));
    assert_eq!(patched(JUMP26, B, 0x1000, 0x1008, 0), Ok(0x1400_0002));
    let far = 1 << 27;
    assert_eq!(patched(CALL26, BL, 0, far - 4, 0), Ok(0x95ff_ffff));
    assert!(patched(CALL26, BL, 0, far, 0).is_err());
    assert_eq!(patched(CALL26, BL, far, 0, 0), Ok(0x9600_0000));
    assert!(patched(CALL26, BL, far + 4, 0, 0).is_err());
    assert!(patched(CALL26, BL, 0, 2, 0).is_err());
}

#[test]
fn conditional_branches_hold_19_and_14_bits() {
    // b.eq .+16 is 54000080; tbz w0, #0, .+16 is 36000080.
    assert_eq!(patched(CONDBR19, 0x5400_0000, 0x1000, 0x1010, 0), Ok(0x5400_0080));
    assert_eq!(patched(TSTBR14, 0x3600_0000, 0x1000, 0x1010, 0), Ok(0x3600_0080));
    assert_eq!(patched(TSTBR14, 0x3600_0000, 0x1000, 0xff0, 0), Ok(0x3607_ff80));
    assert!(patched(CONDBR19, 0x5400_0000, 0, 1 << 20, 0).is_err());
    assert!(patched(TSTBR14, 0x3600_0000, 0, 1 << 15, 0).is_err());
    // ldr x0, .+8 is 58000040.
    assert_eq!(patched(LD_PREL_LO19, 0x5800_0000, 0x1000, 0x1008, 0), Ok(0x5800_0040));
}

#[test]
fn page_addresses_split_their_bits() {
    // adrp x0 one page on is b0000000, two pages on d0000000, four pages on 90000020, one page back f0ffffe0.
    for (symbol, word) in
        [(0x11_0123, 0xb000_0000), (0x11_1fff, 0xd000_0000), (0x11_3000, 0x9000_0020), (0x10_ffff, 0xf0ff_ffe0)]
    {
        let place = if symbol == 0x10_ffff { 0x11_0ffc } else { 0x10_fffc };
        assert_eq!(patched(ADR_PREL_PG_HI21, ADRP_X0, place, symbol, 0), Ok(word), "{symbol:#x}");
    }
    assert!(patched(ADR_PREL_PG_HI21, ADRP_X0, 0, 1 << 32, 0).is_err());
    assert_eq!(patched(ADR_PREL_PG_HI21, ADRP_X0, 0, (1 << 32) - 1, 0), Ok(0xf07f_ffe0));
    assert!(patched(ADR_PREL_PG_HI21_NC, ADRP_X0, 0, 1 << 32, 0).is_ok());
    // adr x0, .+5 is 30000020.
    assert_eq!(patched(ADR_PREL_LO21, 0x1000_0000, 0x1000, 0x1005, 0), Ok(0x3000_0020));
    // The page of the slot, not of the symbol.
    assert_eq!(patched(ADR_GOT_PAGE, ADRP_X0, 0, 0, 0x1008), Ok(0xb000_0000));
}

#[test]
fn low_bits_are_scaled_to_the_access() {
    let symbol = 0x12_3450;
    // add x0, x0, #0x450 is 91114000; ldrb w0, [x0, #0x450] 39514000; ldr q0, [x0, #0x450] 3dc11400.
    assert_eq!(patched(ADD_ABS_LO12_NC, 0x9100_0000, 0, symbol, 0), Ok(0x9111_4000));
    assert_eq!(patched(LDST8_ABS_LO12_NC, 0x3940_0000, 0, symbol, 0), Ok(0x3951_4000));
    assert_eq!(patched(LDST16_ABS_LO12_NC, 0x7940_0000, 0, symbol, 0), Ok(0x7948_a000));
    assert_eq!(patched(LDST32_ABS_LO12_NC, 0xb940_0000, 0, symbol, 0), Ok(0xb944_5000));
    assert_eq!(patched(LDST64_ABS_LO12_NC, 0xf940_0000, 0, symbol, 0), Ok(0xf942_2800));
    assert_eq!(patched(LDST128_ABS_LO12_NC, 0x3dc0_0000, 0, symbol, 0), Ok(0x3dc1_1400));
    assert_eq!(patched(LD64_GOT_LO12_NC, 0xf940_0000, 0, 0, symbol), Ok(0xf942_2800));
    for (kind, off) in [(LDST16_ABS_LO12_NC, 1), (LDST32_ABS_LO12_NC, 2), (LDST64_ABS_LO12_NC, 4)] {
        assert!(patched(kind, 0, 0, symbol + off, 0).is_err());
    }
    assert!(patched(LDST128_ABS_LO12_NC, 0, 0, symbol + 8, 0).is_err());
}

#[test]
fn moves_take_their_16_bits_and_check_what_is_left() {
    let symbol = 0x1234_5678_9abc;
    // movz x0, #imm, lsl ... : the immediate stands at bit 5.
    assert_eq!(patched(264, 0xd280_0000, 0, symbol, 0), Ok(0xd280_0000 | 0x9abc << 5));
    assert_eq!(patched(266, 0xd2a0_0000, 0, symbol, 0), Ok(0xd2a0_0000 | 0x5678 << 5));
    assert_eq!(patched(267, 0xd2c0_0000, 0, symbol, 0), Ok(0xd2c0_0000 | 0x1234 << 5));
    assert_eq!(patched(269, 0xd2e0_0000, 0, symbol, 0), Ok(0xd2e0_0000));
    assert!(patched(263, 0, 0, symbol, 0).is_err() && patched(265, 0, 0, symbol, 0).is_err());
    assert!(patched(263, 0, 0, 0xffff, 0).is_ok());
}

#[test]
fn data_holds_addresses_and_distances() {
    let data = |kind, place, symbol, addend| {
        let mut bytes = [0; 8];
        relocate(kind, &Site { place, symbol, slot: 0x9000, addend }, &mut bytes).map(|()| u64::from_le_bytes(bytes))
    };
    assert_eq!(data(ABS64, 0, 0x1234_5678_9abc, 4), Ok(0x1234_5678_9ac0));
    assert_eq!(data(PREL64, 0x1000, 0x800, 0), Ok(0u64.wrapping_sub(0x800)));
    assert_eq!(data(PREL32, 0x1000, 0x800, 0), Ok(0xffff_f800));
    assert_eq!(data(PREL16, 0x1000, 0x800, 0), Ok(0xf800));
    assert_eq!(data(PLT32, 0x1000, 0x1800, 0), Ok(0x800));
    assert_eq!(data(GOTPCREL32, 0x1000, 0, 4), Ok(0x8004));
    assert_eq!(data(ABS32, 0, 0xffff_ffff, 0), Ok(0xffff_ffff));
    assert!(data(ABS32, 0, 1 << 32, 0).is_err());
    assert_eq!(data(ABS16, 0, 0xffff, 0), Ok(0xffff));
    assert!(data(ABS16, 0, 0x1_0000, 0).is_err());
    assert!(data(PREL32, 0, 1 << 32, 0).is_err());
}

#[test]
fn a_veneer_jumps_through_its_slot() {
    let words = veneer(0x10_0ff0, 0x10_1008).unwrap();
    let words: Vec<u32> = words.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
    // adrp x16, one page on; ldr x16, [x16, #8]; br x16; brk #0.
    assert_eq!(words, [0xb000_0010, 0xf940_0610, 0xd61f_0200, 0xd420_0000]);
}

#[test]
fn an_instruction_cut_by_its_sections_end_is_refused() {
    for kind in (257..=299).chain(311..=315).filter(|&kind| needs(kind).is_some()) {
        let site = Site { place: 0, symbol: 0, slot: 0, addend: 0 };
        assert!(relocate(kind, &site, &mut [0; 1]).is_err(), "{kind}");
    }
}
