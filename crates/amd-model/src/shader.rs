//! Memory as a work-group of a dispatch sees it: the bus of the shader core, with the caches in front of it.

use crate::caches::{self, Cache, Found, Hit, LINE, Piece, pieces};
use crate::isa::{Access, AtomicOp, Bus, Caches, Fault, FaultKind, Scope};
use crate::memory::{Miss, Space};
use crate::violation::{Violation, Want};
use std::sync::atomic::Ordering;

/// What a work-group reaches memory through, for one step.
pub(crate) struct ShaderBus<'a> {
    pub(crate) space: &'a Space,
    pub(crate) gpu: usize,
    pub(crate) queue: u32,
    pub(crate) l2: &'a mut Cache,
    pub(crate) gl0: &'a mut Cache,
    pub(crate) scalar: &'a mut Cache,
    /// The lines that instructions were decoded from.
    pub(crate) fetched: &'a mut Cache,
    /// What this dispatch stored.
    pub(crate) stores: &'a mut Cache,
    /// What earlier dispatches of the queue stored and did not release.
    pub(crate) unreleased: &'a Cache,
    /// Accesses until one is to fault.
    pub(crate) trip: &'a mut Option<u64>,
    /// An access faulted because a test planned it.
    pub(crate) tripped: bool,
    pub(crate) found: Vec<Violation>,
    pub(crate) now: u64,
    /// When the dispatch began.
    pub(crate) launched: u64,
    pub(crate) clock: u64,
    /// Whether there are caches.
    pub(crate) caches: bool,
}

impl ShaderBus<'_> {
    fn miss(access: Access, miss: Miss) -> Fault {
        let address = miss.va;
        if miss.mapped { FaultKind::Denied { address, access } } else { FaultKind::Unmapped { address, access } }.into()
    }

    /// Counts an access that a planned fault waits for.
    fn trip(&mut self, address: u64, access: Access) -> Result<(), Fault> {
        match self.trip {
            Some(0) => {
                *self.trip = None;
                self.tripped = true;
                Err(FaultKind::Unmapped { address, access }.into())
            }
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn stale(&mut self, va: u64, cache: &'static str) {
        self.found.push(Violation::StaleRead { queue: self.queue, va, cache });
    }

    /// Reads a piece behind GL0: this dispatch's stores over L2 over memory.
    fn outer(&mut self, piece: Piece, bytes: &mut [u8], want: Want) -> Result<(), Miss> {
        let va = piece.line + piece.at as u64;
        let times = (want, self.now, self.launched);
        match caches::read_through(self.l2, (self.space, self.gpu), piece, bytes, times)? {
            Found::Fresh => {}
            Found::Stale => self.stale(va, "L2"),
            Found::Unflushed => self.found.push(Violation::Unflushed { queue: self.queue, va }),
        }
        if self.unreleased.has(piece.line) {
            let mut newer = [0; LINE as usize];
            let newer = &mut newer[..piece.len];
            newer.copy_from_slice(bytes);
            if self.unreleased.overlay(piece, newer) {
                self.stale(va, "stores that an earlier dispatch did not release");
            }
        }
        self.stores.overlay(piece, bytes);
        Ok(())
    }

    fn raw(&mut self, piece: Piece, bytes: &mut [u8], want: Want) -> Result<(), Miss> {
        let found = self.space.reach(self.gpu, piece.line + piece.at as u64, want)?;
        found.raw.read(found.at, bytes);
        Ok(())
    }

    /// Reads a piece through a cache that keeps what was read.
    fn inner(&mut self, piece: Piece, bytes: &mut [u8], scalar: bool) -> Result<(), Miss> {
        let va = piece.line + piece.at as u64;
        self.space.reach(self.gpu, va, Want::Read)?;
        let cache = if scalar { &*self.scalar } else { &*self.gl0 };
        let (hit, filled) = cache.get(piece, bytes);
        if hit == Hit::All {
            if filled < self.launched {
                let mut current = [0; LINE as usize];
                let current = &mut current[..piece.len];
                self.outer(piece, current, Want::Read)?;
                if current != bytes {
                    self.stale(va, if scalar { "the scalar cache" } else { "GL0" });
                }
            }
            return Ok(());
        }
        let whole = Piece { from: 0, len: LINE as usize, line: piece.line, at: 0 };
        let mut line = [0; LINE as usize];
        self.outer(whole, &mut line, Want::Read)?;
        let now = self.now;
        let cache = if scalar { &mut *self.scalar } else { &mut *self.gl0 };
        cache.fill(piece.line, &line, now);
        cache.get(piece, bytes);
        Ok(())
    }

    /// Notes the line that an instruction was decoded from.
    fn note_fetched(&mut self, piece: Piece) {
        if self.caches && !self.fetched.has(piece.line) {
            let whole = Piece { from: 0, len: LINE as usize, line: piece.line, at: 0 };
            let mut line = [0; LINE as usize];
            if self.outer(whole, &mut line, Want::Execute).is_ok() {
                self.fetched.fill(piece.line, &line, self.now);
            }
        }
    }

    /// Changes a word of memory that no cache holds.
    fn atomic_raw(&self, address: u64, apply: impl Fn(u64) -> u64, width: u32) -> Result<u64, Miss> {
        let found = self.space.reach(self.gpu, address, Want::Write)?;
        let old = if width == 4 {
            let change = |old: u32| Some(apply(u64::from(old)) as u32);
            let word = found.raw.u32(found.at).fetch_update(Ordering::AcqRel, Ordering::Acquire, change);
            u64::from(word.unwrap_or_else(|old| old))
        } else {
            let word =
                found.raw.u64(found.at).fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(apply(old)));
            word.unwrap_or_else(|old| old)
        };
        found.show(width as usize);
        Ok(old)
    }
}

impl Bus for ShaderBus<'_> {
    fn fetch(&mut self, address: u64) -> Result<u32, Fault> {
        let mut bytes = [0; 4];
        for piece in pieces(address, 4) {
            let part = &mut bytes[piece.from..piece.from + piece.len];
            let got =
                if self.caches { self.outer(piece, part, Want::Execute) } else { self.raw(piece, part, Want::Execute) };
            got.map_err(|miss| Self::miss(Access::Fetch, miss))?;
            self.note_fetched(piece);
        }
        Ok(u32::from_le_bytes(bytes))
    }

    fn load(&mut self, address: u64, bytes: &mut [u8], scope: Scope) -> Result<(), Fault> {
        self.trip(address, Access::Load)?;
        for piece in pieces(address, bytes.len()) {
            let part = &mut bytes[piece.from..piece.from + piece.len];
            let got = if !self.caches {
                self.raw(piece, part, Want::Read)
            } else if scope.glc {
                let cache = if scope.scalar { &mut *self.scalar } else { &mut *self.gl0 };
                cache.drop_line(piece.line);
                self.outer(piece, part, Want::Read)
            } else {
                self.inner(piece, part, scope.scalar)
            };
            got.map_err(|miss| Self::miss(Access::Load, miss))?;
        }
        Ok(())
    }

    fn store(&mut self, address: u64, bytes: &[u8], _scope: Scope) -> Result<(), Fault> {
        self.trip(address, Access::Store)?;
        for piece in pieces(address, bytes.len()) {
            let va = piece.line + piece.at as u64;
            let reach = self.space.reach(self.gpu, va, Want::Write);
            let found = reach.map_err(|miss| Self::miss(Access::Store, miss))?;
            let part = &bytes[piece.from..piece.from + piece.len];
            if self.caches {
                self.stores.put(piece, part, self.queue);
                self.gl0.update(piece, part);
            } else {
                found.write(part);
            }
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        address: u64,
        op: AtomicOp,
        width: u32,
        value: u64,
        compare: u64,
        _scope: Scope,
    ) -> Result<u64, Fault> {
        self.trip(address, Access::Atomic)?;
        if !address.is_multiple_of(u64::from(width)) {
            return Err(FaultKind::Misaligned { address, access: Access::Atomic, align: width }.into());
        }
        let apply = |old| op.apply(width, old, value, compare);
        let failed = |miss| Self::miss(Access::Atomic, miss);
        let cached = self.space.reach(self.gpu, address, Want::Write).map_err(failed)?.cached;
        let line = address - address % LINE;
        if self.caches {
            self.stores.release_line(self.space, self.gpu, self.l2, line);
            self.gl0.drop_line(line);
        }
        if !(self.caches && cached) {
            return self.atomic_raw(address, apply, width).map_err(failed);
        }
        let piece = Piece { from: 0, len: width as usize, line, at: (address % LINE) as usize };
        let mut old = [0; 8];
        let bytes = &mut old[..width as usize];
        self.outer(piece, bytes, Want::Write).map_err(failed)?;
        let old = u64::from_le_bytes(old);
        self.l2.put(piece, &apply(old).to_le_bytes()[..width as usize], self.queue);
        Ok(old)
    }

    fn invalidate(&mut self, caches: Caches) {
        if caches.gl0 {
            self.gl0.clear();
        }
        if caches.scalar {
            self.scalar.clear();
        }
    }

    fn acknowledge(&mut self) {
        self.stores.release(self.space, self.gpu, self.l2);
    }

    fn clock(&mut self) -> u64 {
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfd::abi;
    use crate::memory::{Backing, Memory};
    use crate::raw::Pages;

    const VA: u64 = 1 << 32;
    const BYPASS: Scope = Scope { scalar: false, glc: true, slc: false, dlc: false };
    const PLAIN: Scope = Scope { scalar: false, glc: false, slc: false, dlc: false };

    /// A page of memory that L2 does not hold, and the caches of a unit.
    struct Unit {
        space: Space,
        caches: [Cache; 6],
    }

    impl Unit {
        fn new() -> Self {
            let backing = Backing::Pages(Pages::new(4096).unwrap());
            let flags = abi::FLAG_GTT | abi::FLAG_UNCACHED | abi::FLAG_WRITABLE;
            let (mapped, window) = (vec![0], None);
            let memory =
                Memory { handle: 1, va: VA, size: 4096, gpu: 0, flags, backing, mapped, used: 0, offset: 0, window };
            let mut space = Space::default();
            space.insert(memory);
            Self { space, caches: Default::default() }
        }

        /// What others see at the first word.
        fn memory(&self) -> u32 {
            self.space.at(VA).unwrap().raw().unwrap().u32(0).load(Ordering::Acquire)
        }

        /// Others store the first word.
        fn set(&self, value: u32) {
            self.space.at(VA).unwrap().raw().unwrap().u32(0).store(value, Ordering::Release);
        }

        fn bus<R>(&mut self, work: impl FnOnce(&mut ShaderBus<'_>) -> R) -> R {
            let [l2, gl0, scalar, fetched, stores, unreleased] = &mut self.caches;
            let mut bus = ShaderBus {
                space: &self.space,
                gpu: 0,
                queue: 0,
                l2,
                gl0,
                scalar,
                fetched,
                stores,
                unreleased,
                trip: &mut None,
                tripped: false,
                found: Vec::new(),
                now: 1,
                launched: 0,
                clock: 0,
                caches: true,
            };
            let result = work(&mut bus);
            assert!(bus.found.is_empty(), "{:?}", bus.found);
            result
        }

        fn load(&mut self, scope: Scope) -> u32 {
            let mut bytes = [0; 4];
            self.bus(|bus| bus.load(VA, &mut bytes, scope)).unwrap();
            u32::from_le_bytes(bytes)
        }
    }

    #[test]
    fn a_dispatch_sees_its_own_stores_and_others_do_not_until_it_waits_for_them() {
        let mut unit = Unit::new();
        unit.bus(|bus| bus.store(VA, &7u32.to_le_bytes(), PLAIN)).unwrap();
        assert_eq!((unit.load(BYPASS), unit.load(PLAIN), unit.memory()), (7, 7, 0));
        unit.bus(|bus| bus.acknowledge());
        assert_eq!((unit.load(PLAIN), unit.memory()), (7, 7));
    }

    #[test]
    fn what_was_read_stays_until_a_load_goes_past_it_or_the_cache_is_invalidated() {
        let mut unit = Unit::new();
        unit.set(1);
        assert_eq!(unit.load(PLAIN), 1);
        unit.set(2);
        assert_eq!(unit.load(PLAIN), 1);
        assert_eq!((unit.load(BYPASS), unit.load(PLAIN)), (2, 2));
        unit.set(3);
        assert_eq!(unit.load(PLAIN), 2);
        unit.bus(|bus| bus.invalidate(Caches { gl0: true, gl1: true, scalar: false }));
        assert_eq!(unit.load(PLAIN), 3);
    }

    #[test]
    fn an_atomic_works_on_what_the_dispatch_stored_and_is_seen_at_once() {
        let mut unit = Unit::new();
        unit.bus(|bus| bus.store(VA, &7u32.to_le_bytes(), PLAIN)).unwrap();
        let old = unit.bus(|bus| bus.atomic(VA, AtomicOp::Add, 4, 5, 0, BYPASS)).unwrap();
        assert_eq!((old, unit.memory(), unit.load(PLAIN)), (7, 12, 12));
        let fault = unit.bus(|bus| bus.atomic(VA + 2, AtomicOp::Add, 4, 5, 0, BYPASS)).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Misaligned { align: 4, .. }));
    }

    #[test]
    fn the_scalar_cache_is_another_than_that_of_vectors() {
        let mut unit = Unit::new();
        let scalar = Scope { scalar: true, ..PLAIN };
        unit.set(1);
        assert_eq!(unit.load(scalar), 1);
        unit.set(2);
        assert_eq!((unit.load(scalar), unit.load(PLAIN)), (1, 2));
        unit.bus(|bus| bus.invalidate(Caches { gl0: false, gl1: false, scalar: true }));
        assert_eq!(unit.load(scalar), 2);
    }
}
