//! The relocations of aarch64 (ELF for the Arm 64-bit Architecture, section 5.7, "Relocation").

use super::link::{Site, Use, store};

/// The bytes of a veneer.
pub(crate) const VENEER_BYTES: u64 = 16;

const ABS64: u32 = 257;
const ABS32: u32 = 258;
const ABS16: u32 = 259;
const PREL64: u32 = 260;
const PREL32: u32 = 261;
const PREL16: u32 = 262;
const MOVW_UABS_G0: u32 = 263;
const MOVW_UABS_G3: u32 = 269;
const LD_PREL_LO19: u32 = 273;
const ADR_PREL_LO21: u32 = 274;
const ADR_PREL_PG_HI21: u32 = 275;
const ADR_PREL_PG_HI21_NC: u32 = 276;
const ADD_ABS_LO12_NC: u32 = 277;
const LDST8_ABS_LO12_NC: u32 = 278;
const TSTBR14: u32 = 279;
const CONDBR19: u32 = 280;
const JUMP26: u32 = 282;
const CALL26: u32 = 283;
const LDST16_ABS_LO12_NC: u32 = 284;
const LDST32_ABS_LO12_NC: u32 = 285;
const LDST64_ABS_LO12_NC: u32 = 286;
const LDST128_ABS_LO12_NC: u32 = 299;
const ADR_GOT_PAGE: u32 = 311;
const LD64_GOT_LO12_NC: u32 = 312;
const PLT32: u32 = 314;
const GOTPCREL32: u32 = 315;

/// What a relocation needs; `None` if the loader does not know it.
pub(crate) fn needs(kind: u32) -> Option<Use> {
    Some(match kind {
        0 | 256 => Use::Nothing,
        ABS64 | ABS32 | ABS16 | MOVW_UABS_G0..=MOVW_UABS_G3 => Use::Absolute,
        PREL64 | PREL32 | PREL16 | LD_PREL_LO19 | ADR_PREL_LO21 | ADR_PREL_PG_HI21 | ADR_PREL_PG_HI21_NC
        | ADD_ABS_LO12_NC | LDST8_ABS_LO12_NC | LDST16_ABS_LO12_NC | LDST32_ABS_LO12_NC | LDST64_ABS_LO12_NC
        | LDST128_ABS_LO12_NC | TSTBR14 | CONDBR19 | JUMP26 | CALL26 | PLT32 => Use::Near,
        ADR_GOT_PAGE | LD64_GOT_LO12_NC | GOTPCREL32 => Use::Slot,
        _ => return None,
    })
}

/// Whether the relocation is one of thread-local variables (TLSGD ... TLSDESC, TLSLD).
pub(crate) fn is_thread_local(kind: u32) -> bool {
    matches!(kind, 512..=573)
}

/// Relocates.
pub(crate) fn relocate(kind: u32, site: &Site, bytes: &mut [u8]) -> Result<(), String> {
    let value = site.symbol.wrapping_add_signed(site.addend);
    let slot = site.slot.wrapping_add_signed(site.addend);
    let relative = value.wrapping_sub(site.place).cast_signed();
    match kind {
        ABS64 => store(bytes, value.to_le_bytes()),
        PREL64 => store(bytes, relative.to_le_bytes()),
        // 32 and 16 bits that may be taken as signed or unsigned (section 5.7.5).
        ABS32 => store(bytes, (either(value.cast_signed(), 32)? as u32).to_le_bytes()),
        ABS16 => store(bytes, (either(value.cast_signed(), 16)? as u16).to_le_bytes()),
        PREL32 => store(bytes, (either(relative, 32)? as u32).to_le_bytes()),
        PREL16 => store(bytes, (either(relative, 16)? as u16).to_le_bytes()),
        PLT32 => store(bytes, (signed(relative, 32)? as u32).to_le_bytes()),
        GOTPCREL32 => {
            let relative = slot.wrapping_sub(site.place).cast_signed();
            store(bytes, (signed(relative, 32)? as u32).to_le_bytes())
        }
        0 | 256 => Ok(()),
        _ => instruction(kind, value, slot, site.place, bytes),
    }
}

/// Relocates an instruction: keeps its bits outside of the field.
fn instruction(kind: u32, value: u64, slot: u64, place: u64, bytes: &mut [u8]) -> Result<(), String> {
    let relative = value.wrapping_sub(place).cast_signed();
    let (field, at, width) = match kind {
        MOVW_UABS_G0..=MOVW_UABS_G3 => (movw(kind, value)?, 5, 16),
        LD_PREL_LO19 | CONDBR19 => (words(relative, 21)?, 5, 19),
        TSTBR14 => (words(relative, 16)?, 5, 14),
        JUMP26 | CALL26 => (words(relative, 28)?, 0, 26),
        ADR_PREL_LO21 => return store_adr(bytes, signed(relative, 21)?),
        ADR_PREL_PG_HI21 => return store_adr(bytes, signed(pages(value, place), 21)?),
        ADR_PREL_PG_HI21_NC => return store_adr(bytes, pages(value, place)),
        ADR_GOT_PAGE => return store_adr(bytes, signed(pages(slot, place), 21)?),
        ADD_ABS_LO12_NC | LDST8_ABS_LO12_NC => (low12(value, 0)?, 10, 12),
        LDST16_ABS_LO12_NC => (low12(value, 1)?, 10, 12),
        LDST32_ABS_LO12_NC => (low12(value, 2)?, 10, 12),
        LDST64_ABS_LO12_NC => (low12(value, 3)?, 10, 12),
        LDST128_ABS_LO12_NC => (low12(value, 4)?, 10, 12),
        LD64_GOT_LO12_NC => (low12(slot, 3)?, 10, 12),
        _ => return Ok(()),
    };
    let mask = ((1_u32 << width) - 1) << at;
    let word = read(bytes)? & !mask | field << at & mask;
    store(bytes, word.to_le_bytes())
}

fn read(bytes: &[u8]) -> Result<u32, String> {
    match bytes {
        [a, b, c, d, ..] => Ok(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => Err("it reaches past the end of its section".into()),
    }
}

/// The immediate of ADR and ADRP: bits 0 and 1 at 29, the other 19 at 5.
fn store_adr(bytes: &mut [u8], value: i64) -> Result<(), String> {
    let value = value as u32;
    let word = read(bytes)? & !(3 << 29 | 0x7_ffff << 5) | (value & 3) << 29 | (value >> 2 & 0x7_ffff) << 5;
    store(bytes, word.to_le_bytes())
}

/// The 16 bits of a move: group 0 to 3 of an unsigned value; with an overflow check where the kind has one.
fn movw(kind: u32, value: u64) -> Result<u32, String> {
    // G0, G0_NC, G1, G1_NC, G2, G2_NC, G3: the even ones of the first six are checked.
    let nth = kind - MOVW_UABS_G0;
    let (group, checked) = (nth / 2, nth.is_multiple_of(2) && kind != MOVW_UABS_G3);
    if checked && value >> (16 * (group + 1)) != 0 {
        return Err(format!("the address {value:#x} does not fit {} bits", 16 * (group + 1)));
    }
    Ok((value >> (16 * group) & 0xffff) as u32)
}

/// The pages of 4 KiB from `place`'s to `value`'s.
fn pages(value: u64, place: u64) -> i64 {
    (value & !0xfff).wrapping_sub(place & !0xfff).cast_signed() >> 12
}

/// The low 12 bits, in units of `1 << shift` bytes.
fn low12(value: u64, shift: u32) -> Result<u32, String> {
    let low = (value & 0xfff) as u32;
    if low & ((1 << shift) - 1) != 0 {
        return Err(format!("the address {value:#x} is not a multiple of {}", 1 << shift));
    }
    Ok(low >> shift)
}

/// A distance in bytes that fits `bits` bits, in words of 4 bytes.
fn words(distance: i64, bits: u32) -> Result<u32, String> {
    if distance & 3 != 0 {
        return Err(format!("the distance {distance} is not a multiple of 4"));
    }
    Ok((signed(distance, bits)? >> 2) as u32)
}

fn signed(value: i64, bits: u32) -> Result<i64, String> {
    let bound = 1 << (bits - 1);
    if (-bound..bound).contains(&value) {
        Ok(value)
    } else {
        Err(format!("{value} is out of the reach of {bits} bits"))
    }
}

/// A value that fits `bits` bits as a signed or as an unsigned one.
fn either(value: i64, bits: u32) -> Result<i64, String> {
    let reach = -(1_i64 << (bits - 1))..1 << bits;
    if reach.contains(&value) { Ok(value) } else { Err(format!("{value} does not fit {bits} bits")) }
}

/// The bytes of a jump, at `at`, to the address that stands at `slot`:
/// `adrp x16, slot; ldr x16, [x16, :lo12:slot]; br x16; brk #0`.
pub(crate) fn veneer(at: u64, slot: u64) -> Result<[u8; VENEER_BYTES as usize], String> {
    let mut bytes = [0; VENEER_BYTES as usize];
    for (word, instruction) in bytes.chunks_exact_mut(4).zip([0x9000_0010_u32, 0xf940_0210, 0xd61f_0200, 0xd420_0000]) {
        word.copy_from_slice(&instruction.to_le_bytes());
    }
    let site = |place| Site { place, symbol: 0, slot, addend: 0 };
    relocate(ADR_GOT_PAGE, &site(at), &mut bytes[..4])?;
    relocate(LD64_GOT_LO12_NC, &site(at + 4), &mut bytes[4..8])?;
    Ok(bytes)
}

#[cfg(test)]
#[path = "aarch64_tests.rs"]
mod tests;
