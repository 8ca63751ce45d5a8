//! Gives an object's sections a place in memory, and relocates them there.
//!
//! An image is one range of memory in three segments of whole pages: code and veneers; slots and constants; variables. A
//! *slot* holds a symbol's address, for relocations that ask for one (a GOT entry). A *veneer* is a jump through a slot to
//! a function of the host, which may lie further away than a call reaches.
//!
//! # Invariants
//!
//! 1. Sections, slots and veneers do not overlap, each lies in its segment, and the image is at most [`LEN_MAX`] bytes.
//! 2. Everything here is pure: it writes only the bytes that it is handed, for whatever base address.

use std::collections::HashMap;
use std::ops::Range;

use super::parse::{Object, Place, Relocation, Segment};
use super::{Arch, IMAGE_BYTES_MAX, aarch64, x86_64};

/// The most bytes of an image: its sections, a slot and a veneer for each symbol that needs them, and padding.
const LEN_MAX: u64 = 2 * IMAGE_BYTES_MAX;

/// The bytes of a slot.
const SLOT_BYTES: u64 = 8;

/// What a relocation needs of its symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Nothing,
    /// Its address.
    Absolute,
    /// Its distance, or a page's: for a function of the host, that of a veneer.
    Near,
    /// A slot.
    Slot,
}

/// What a relocation is calculated from: the place (P), the symbol (S), its slot (G), the addend (A).
pub(crate) struct Site {
    pub(crate) place: u64,
    pub(crate) symbol: u64,
    pub(crate) slot: u64,
    pub(crate) addend: i64,
}

/// Stores a relocated field at the start of what is left of its section.
pub(crate) fn store<const N: usize>(bytes: &mut [u8], field: [u8; N]) -> Result<(), String> {
    let place = bytes.get_mut(..N).ok_or("it reaches past the end of its section")?;
    place.copy_from_slice(&field);
    Ok(())
}

impl Arch {
    fn needs(self, kind: u32) -> Result<Use, String> {
        let (needs, thread_local) = match self {
            Arch::X86_64 => (x86_64::needs(kind), x86_64::is_thread_local(kind)),
            Arch::Aarch64 => (aarch64::needs(kind), aarch64::is_thread_local(kind)),
        };
        needs.ok_or_else(|| match thread_local {
            true => "it is for a thread-local variable, which no kernel can have".into(),
            false => "the loader does not know its type".into(),
        })
    }

    fn relocate(self, kind: u32, site: &Site, bytes: &mut [u8]) -> Result<(), String> {
        match self {
            Arch::X86_64 => x86_64::relocate(kind, site, bytes),
            Arch::Aarch64 => aarch64::relocate(kind, site, bytes),
        }
    }

    fn veneer_bytes(self) -> u64 {
        match self {
            Arch::X86_64 => x86_64::VENEER_BYTES,
            Arch::Aarch64 => aarch64::VENEER_BYTES,
        }
    }

    fn store_veneer(self, bytes: &mut [u8], at: u64, slot: u64) -> Result<(), String> {
        match self {
            Arch::X86_64 => store(bytes, x86_64::veneer(at, slot)?),
            Arch::Aarch64 => store(bytes, aarch64::veneer(at, slot)?),
        }
    }
}

/// The addresses of the host's functions, by name.
pub(crate) type Host<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Where everything lies, in bytes from the image's start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Each section of the object.
    pub(crate) sections: Vec<u64>,
    /// By symbol.
    slots: HashMap<usize, u64>,
    /// By symbol.
    veneers: HashMap<usize, u64>,
    pub(crate) code: Range<u64>,
    pub(crate) constants: Range<u64>,
    pub(crate) len: u64,
}

/// Gives everything its place, in pages of `page` bytes. Refuses relocations and symbols that nothing can serve.
pub(crate) fn layout(object: &Object<'_>, page: u64, host: Host<'_>) -> Result<Layout, String> {
    let (mut of_slots, mut of_veneers) = (Vec::new(), Vec::new());
    let mut missing = Vec::new();
    for relocation in &object.relocations {
        let needs = object.arch.needs(relocation.kind).map_err(|why| refusal(object, relocation, &why))?;
        if needs == Use::Nothing {
            continue;
        }
        let symbol = &object.symbols[relocation.symbol];
        let of_host = match symbol.place {
            Place::Undefined { weak } => match host(symbol.name) {
                None if !weak => {
                    missing.push(symbol.name);
                    continue;
                }
                address => address.is_some(),
            },
            Place::Left(section) => {
                let why = format!("it names {}, in the section {section}, which is not loaded", symbol.name);
                return Err(refusal(object, relocation, &why));
            }
            Place::Section { .. } | Place::Absolute(_) => false,
        };
        match needs {
            Use::Slot => of_slots.push(relocation.symbol),
            Use::Near if of_host => of_veneers.push(relocation.symbol),
            _ => {}
        }
    }
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        return Err(format!("the object needs {}, which a host device does not give", listed(&missing)));
    }
    of_slots.extend(&of_veneers);
    place(object, page, &of_slots, &of_veneers)
}

/// Some names of a list that may be long.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 20;
    let shown = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}

fn place(object: &Object<'_>, page: u64, of_slots: &[usize], of_veneers: &[usize]) -> Result<Layout, String> {
    let mut layout = Layout {
        sections: vec![0; object.sections.len()],
        slots: HashMap::new(),
        veneers: HashMap::new(),
        code: 0..0,
        constants: 0..0,
        len: 0,
    };
    let mut end = 0_u64;
    let sections = |segment, end: &mut u64, places: &mut [u64]| {
        for (section, place) in object.sections.iter().zip(places).filter(|(section, _)| section.segment == segment) {
            *place = end.next_multiple_of(section.align);
            *end = *place + section.size;
        }
    };
    sections(Segment::Code, &mut end, &mut layout.sections);
    reserve(&mut layout.veneers, of_veneers, object.arch.veneer_bytes(), &mut end);
    end = end.next_multiple_of(page);
    layout.code = 0..end;
    reserve(&mut layout.slots, of_slots, SLOT_BYTES, &mut end);
    sections(Segment::Constants, &mut end, &mut layout.sections);
    end = end.next_multiple_of(page);
    layout.constants = layout.code.end..end;
    sections(Segment::Variables, &mut end, &mut layout.sections);
    layout.len = end.next_multiple_of(page);
    // By the bounds of `parse` no sum above has come near to overflowing.
    if layout.len > LEN_MAX {
        return Err(format!("the object takes {} bytes in memory, and an image at most {LEN_MAX}", layout.len));
    }
    Ok(layout)
}

/// Gives each symbol a piece of `bytes`.
fn reserve(places: &mut HashMap<usize, u64>, symbols: &[usize], bytes: u64, end: &mut u64) {
    for &symbol in symbols {
        places.entry(symbol).or_insert_with(|| {
            let place = end.next_multiple_of(bytes);
            *end = place + bytes;
            place
        });
    }
}

/// Fills `image`, which is zero and will lie at `base`, with the object.
pub(crate) fn link(
    object: &Object<'_>,
    layout: &Layout,
    base: u64,
    image: &mut [u8],
    host: Host<'_>,
) -> Result<(), String> {
    for (section, &place) in object.sections.iter().zip(&layout.sections) {
        image[place as usize..][..section.data.len()].copy_from_slice(section.data);
    }
    let address = |symbol: usize| match object.symbols[symbol].place {
        Place::Section { section, offset } => base.wrapping_add(layout.sections[section]).wrapping_add(offset),
        Place::Absolute(value) => value,
        Place::Undefined { .. } => host(object.symbols[symbol].name).unwrap_or(0),
        // `layout` refused it.
        Place::Left(_) => 0,
    };
    for (&symbol, &slot) in &layout.slots {
        store(&mut image[slot as usize..], address(symbol).to_le_bytes())?;
    }
    for (symbol, &veneer) in &layout.veneers {
        let (at, slot) = (base + veneer, base + layout.slots[symbol]);
        object.arch.store_veneer(&mut image[veneer as usize..], at, slot)?;
    }
    for relocation in &object.relocations {
        let place = layout.sections[relocation.section] + relocation.offset;
        let left = object.sections[relocation.section].data.len() - relocation.offset as usize;
        let near = object.arch.needs(relocation.kind) == Ok(Use::Near);
        let veneer = layout.veneers.get(&relocation.symbol).filter(|_| near);
        let site = Site {
            place: base + place,
            symbol: veneer.map_or_else(|| address(relocation.symbol), |veneer| base + veneer),
            slot: layout.slots.get(&relocation.symbol).map_or(0, |slot| base + slot),
            addend: relocation.addend,
        };
        object
            .arch
            .relocate(relocation.kind, &site, &mut image[place as usize..][..left])
            .map_err(|why| refusal(object, relocation, &why))?;
    }
    Ok(())
}

fn refusal(object: &Object<'_>, relocation: &Relocation, why: &str) -> String {
    let (section, symbol) = (object.sections[relocation.section].name, object.symbols[relocation.symbol].name);
    let of = if symbol.is_empty() { String::new() } else { format!(" for {symbol}") };
    format!("the relocation of type {} at {section}+{:#x}{of} fails: {why}", relocation.kind, relocation.offset)
}
