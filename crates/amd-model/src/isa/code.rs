//! The cache of decoded instructions.

use super::bus::{Access, Bus};
use super::decode::{WORDS, fetch};
use super::fault::FaultKind;
use super::inst::Inst;
use std::collections::HashMap;

/// Bytes of code that one entry covers.
const PAGE: u64 = 4096;

/// Decoded instructions: the cache of instructions of a shader array. It keeps what it fetched until it is invalidated, so
/// code that changes under it runs as it was.
#[derive(Default)]
pub struct Code {
    /// The pages by their numbers.
    by_number: HashMap<u64, usize>,
    pages: Vec<Page>,
    /// The page that was looked up last: its number and its place.
    last: Option<(u64, usize)>,
}

struct Page {
    /// By word: the instruction that begins there, plus one; 0 where none was decoded.
    at: Box<[u16; (PAGE / 4) as usize]>,
    instructions: Vec<Inst>,
}

/// Why an instruction could not be had, with the words that were fetched.
pub(super) type Missing = (FaultKind, [u32; WORDS], usize);

impl Code {
    /// A cache that holds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Drops all that was fetched.
    pub fn invalidate(&mut self) {
        *self = Self::default();
    }

    /// The instruction at an address.
    #[inline]
    pub(super) fn at(&mut self, pc: u64, bus: &mut dyn Bus) -> Result<&Inst, Missing> {
        let number = pc / PAGE;
        let place = match self.last {
            Some((last, place)) if last == number => place,
            _ => self.page(number),
        };
        let slot = (pc % PAGE / 4) as usize;
        if self.pages[place].at[slot] == 0 || !pc.is_multiple_of(4) {
            self.decode(place, slot, pc, bus)?;
        }
        let page = &self.pages[place];
        Ok(&page.instructions[usize::from(page.at[slot]) - 1])
    }

    fn page(&mut self, number: u64) -> usize {
        let next = self.pages.len();
        let place = *self.by_number.entry(number).or_insert(next);
        if place == next {
            self.pages.push(Page { at: Box::new([0; (PAGE / 4) as usize]), instructions: Vec::new() });
        }
        self.last = Some((number, place));
        place
    }

    #[cold]
    fn decode(&mut self, place: usize, slot: usize, pc: u64, bus: &mut dyn Bus) -> Result<(), Missing> {
        if !pc.is_multiple_of(4) {
            return Err((FaultKind::Misaligned { address: pc, access: Access::Fetch, align: 4 }, [0; WORDS], 0));
        }
        let inst = fetch(|n| bus.fetch(pc + 4 * n as u64))?;
        let page = &mut self.pages[place];
        page.instructions.push(inst);
        page.at[slot] = page.instructions.len() as u16;
        Ok(())
    }
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let instructions: usize = self.pages.iter().map(|page| page.instructions.len()).sum();
        f.debug_struct("Code").field("instructions", &instructions).finish()
    }
}
