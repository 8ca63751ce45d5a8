//! The relocations of x86-64 (System V ABI, AMD64 supplement, table 4.9, "Relocation Types").

use super::link::{Site, Use, store};

/// The bytes of a veneer.
pub(crate) const VENEER_BYTES: u64 = 8;

const R_64: u32 = 1;
const R_PC32: u32 = 2;
const R_PLT32: u32 = 4;
const R_GOTPCREL: u32 = 9;
const R_32: u32 = 10;
const R_32S: u32 = 11;
const R_PC64: u32 = 24;
const R_GOTPCRELX: u32 = 41;
const R_REX_GOTPCRELX: u32 = 42;

/// What a relocation needs; `None` if the loader does not know it.
pub(crate) fn needs(kind: u32) -> Option<Use> {
    Some(match kind {
        0 => Use::Nothing,
        R_64 | R_32 | R_32S => Use::Absolute,
        R_PC32 | R_PLT32 | R_PC64 => Use::Near,
        R_GOTPCREL | R_GOTPCRELX | R_REX_GOTPCRELX => Use::Slot,
        _ => return None,
    })
}

/// Whether the relocation is one of thread-local variables (TPOFF64, DTPMOD64 ... GOTTPOFF; TLSDESC).
pub(crate) fn is_thread_local(kind: u32) -> bool {
    matches!(kind, 16..=23 | 34..=36)
}

/// Relocates: `S + A`, `S + A - P` or `G + A - P`, in 4 or 8 bytes.
pub(crate) fn relocate(kind: u32, site: &Site, bytes: &mut [u8]) -> Result<(), String> {
    let value = site.symbol.wrapping_add_signed(site.addend);
    let (place, slot) = (site.place, site.slot.wrapping_add_signed(site.addend));
    match kind {
        R_64 => store(bytes, value.to_le_bytes()),
        R_PC64 => store(bytes, value.wrapping_sub(place).to_le_bytes()),
        R_32 => {
            let short = u32::try_from(value).map_err(|_| low(value))?;
            store(bytes, short.to_le_bytes())
        }
        R_32S => {
            let short = i32::try_from(value.cast_signed()).map_err(|_| low(value))?;
            store(bytes, short.to_le_bytes())
        }
        R_PC32 | R_PLT32 => store(bytes, near(value, place)?),
        R_GOTPCREL | R_GOTPCRELX | R_REX_GOTPCRELX => store(bytes, near(slot, place)?),
        _ => Ok(()),
    }
}

/// The bytes of a jump, at `at`, to the address that stands at `slot`: `jmp *slot(%rip)`, then `ud2`.
pub(crate) fn veneer(at: u64, slot: u64) -> Result<[u8; VENEER_BYTES as usize], String> {
    let [a, b, c, d] = near(slot, at + 6)?;
    Ok([0xff, 0x25, a, b, c, d, 0x0f, 0x0b])
}

fn near(to: u64, from: u64) -> Result<[u8; 4], String> {
    let distance = to.wrapping_sub(from).cast_signed();
    i32::try_from(distance).map(i32::to_le_bytes).map_err(|_| format!("{distance} is out of the reach of 32 bits"))
}

fn low(value: u64) -> String {
    format!("the address {value:#x} does not fit 32 bits: compile with -fPIC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relocated(kind: u32, site: Site) -> Result<[u8; 8], String> {
        let mut bytes = [0; 8];
        relocate(kind, &site, &mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn each_relocation_is_calculated_as_the_abi_says() {
        let site = || Site { place: 0x40_0010, symbol: 0x40_1000, slot: 0x40_2000, addend: -4 };
        let low = |value: i32| u64::from(value.cast_unsigned()).to_le_bytes();
        assert_eq!(relocated(R_64, site()).unwrap(), 0x40_0ffc_u64.to_le_bytes());
        assert_eq!(relocated(R_PC64, site()).unwrap(), 0xfec_u64.to_le_bytes());
        assert_eq!(relocated(R_32, site()).unwrap(), low(0x40_0ffc));
        assert_eq!(relocated(R_32S, site()).unwrap(), low(0x40_0ffc));
        for kind in [R_PC32, R_PLT32] {
            assert_eq!(relocated(kind, site()).unwrap(), low(0xfec));
        }
        for kind in [R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX] {
            assert_eq!(relocated(kind, site()).unwrap(), low(0x1fec));
        }
    }

    #[test]
    fn addresses_out_of_reach_are_refused_at_the_boundary() {
        let from = 0x7f00_0000_0000;
        let pc = |symbol: u64| relocated(R_PC32, Site { place: from, symbol, slot: 0, addend: 0 });
        assert_eq!(pc(from + 0x7fff_ffff).unwrap()[..4], [0xff, 0xff, 0xff, 0x7f]);
        assert!(pc(from + 0x8000_0000).is_err());
        assert_eq!(pc(from - 0x8000_0000).unwrap()[..4], [0, 0, 0, 0x80]);
        assert!(pc(from - 0x8000_0001).is_err());
        let absolute = |kind, symbol| relocated(kind, Site { place: 0, symbol, slot: 0, addend: 0 });
        assert!(absolute(R_32, 0xffff_ffff).is_ok() && absolute(R_32, 0x1_0000_0000).is_err());
        assert!(absolute(R_32S, 0x7fff_ffff).is_ok() && absolute(R_32S, 0x8000_0000).is_err());
        assert!(absolute(R_32S, 0xffff_ffff_8000_0000).is_ok());
    }

    #[test]
    fn a_veneer_jumps_through_its_slot() {
        assert_eq!(veneer(0x1000, 0x2000).unwrap(), [0xff, 0x25, 0xfa, 0x0f, 0, 0, 0x0f, 0x0b]);
    }

    #[test]
    fn a_place_at_the_end_of_its_section_is_refused() {
        let site = Site { place: 0, symbol: 0, slot: 0, addend: 0 };
        assert!(relocate(R_64, &site, &mut [0; 7]).is_err());
        assert!(relocate(R_PC32, &site, &mut [0; 3]).is_err());
    }
}
