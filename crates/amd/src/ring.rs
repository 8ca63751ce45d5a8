//! The places of a ring: which bytes of it are free, and where the next ones go.
//!
//! Positions count bytes since the ring was made and never wrap (at 100 GB a second, 64 bits last five years); a position's
//! place in the ring is taken in one function, [`Ring::offset`]. Pure: the memory and the indices that the GPU reads are
//! elsewhere.
//!
//! # Invariants
//!
//! 1. The size is a power of two, and `freed <= write <= freed + most`.
//! 2. A piece never straddles the ring's end: one that would starts at the end instead, which is the ring's start again.

/// A ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    size: u64,
    /// The most bytes in use at a time: all, or one unit less where a full ring would look empty.
    most: u64,
    write: u64,
    freed: u64,
}

/// Where pieces would go, without a change of the ring: how `room` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The end of what is placed.
    pub position: u64,
    /// The bytes of the pieces alone, without what was left free at the ring's end.
    pub bytes: u64,
    /// The longest piece.
    pub longest: u64,
    /// Where it began.
    start: u64,
    /// Whether it passed pieces of which only the bytes are known.
    loose: bool,
}

/// Where a piece goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The piece's position.
    pub start: u64,
    /// How many bytes are left free before it.
    pub skipped: u64,
}

impl Ring {
    /// An empty ring of `size` bytes, of which at most `size - spare` are in use at a time.
    ///
    /// # Panics
    ///
    /// If the size is no power of two above the spare.
    pub fn new(size: u64, spare: u64) -> Ring {
        assert!(size.is_power_of_two() && spare < size, "a ring of {size} bytes with {spare} spare");
        Ring { size, most: size - spare, write: 0, freed: 0 }
    }

    /// Where in the ring's memory a position is.
    #[inline]
    pub fn offset(&self, position: u64) -> usize {
        (position & (self.size - 1)) as usize
    }

    /// The end of what was written.
    #[inline]
    pub fn write(&self) -> u64 {
        self.write
    }

    /// The most bytes that can be in use at a time.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// A cursor at the end of what was written.
    #[inline]
    pub fn cursor(&self) -> Cursor {
        Cursor { position: self.write, bytes: 0, longest: 0, start: self.write, loose: false }
    }

    /// Where a piece of `len` bytes goes that follows `position`.
    #[inline]
    fn piece(&self, position: u64, len: u64) -> Piece {
        let left = self.size - (position & (self.size - 1));
        let skipped = if len > left { left } else { 0 };
        Piece { start: position + skipped, skipped }
    }

    /// Moves the cursor past a piece.
    #[inline]
    pub fn pass(&self, cursor: &mut Cursor, len: u64) {
        cursor.position = self.piece(cursor.position, len).start + len;
        cursor.bytes += len;
        cursor.longest = cursor.longest.max(len);
    }

    /// Moves the cursor past pieces of at most `len` bytes in all, none longer than `longest`, wherever they come to lie.
    pub fn allow(&self, cursor: &mut Cursor, len: u64, longest: u64) {
        cursor.loose = true;
        cursor.position += len;
        cursor.bytes += len;
        cursor.longest = cursor.longest.max(longest);
    }

    /// The end of what the cursor passed, at most. What fits the ring at all meets its end at most once, where less than the
    /// longest piece is left free.
    fn end(&self, cursor: &Cursor) -> u64 {
        if cursor.loose { cursor.start + cursor.bytes + cursor.longest } else { cursor.position }
    }

    /// Whether what the cursor passed fits now.
    #[inline]
    pub fn fits(&self, cursor: &Cursor) -> bool {
        self.end(cursor) - self.freed <= self.most
    }

    /// Whether what the cursor passed can never be sure to fit, wherever in the ring it starts. It meets the end at most
    /// once, where less than its longest piece is left free.
    #[inline]
    pub fn never_fits(&self, cursor: &Cursor) -> bool {
        cursor.bytes.saturating_add(cursor.longest) > self.most
    }

    /// Takes the next piece. The caller saw that it fits.
    #[inline]
    pub fn take(&mut self, len: u64) -> Piece {
        let piece = self.piece(self.write, len);
        self.write = piece.start + len;
        debug_assert!(self.write - self.freed <= self.most, "room for {len} bytes was not seen");
        piece
    }

    /// Everything before `position` is free.
    #[inline]
    pub fn free_to(&mut self, position: u64) {
        debug_assert!(position <= self.write, "{position} of {}", self.write);
        self.freed = self.freed.max(position);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// What a ring is to do, told plainly: the pieces in use, each with its place in the memory and what stands before it.
    struct Plain {
        size: u64,
        spare: u64,
        at: u64,
        /// Length with what was skipped, and the place.
        pieces: VecDeque<(u64, u64, u64)>,
    }

    impl Plain {
        fn used(&self) -> u64 {
            self.pieces.iter().map(|(whole, ..)| whole).sum()
        }

        /// Where the piece goes, if it fits.
        fn take(&mut self, len: u64) -> Option<u64> {
            let (mut skipped, mut place) = (0, self.at);
            if self.at + len > self.size {
                (skipped, place) = (self.size - self.at, 0);
            }
            if self.used() + skipped + len > self.size - self.spare {
                return None;
            }
            self.at = (place + len) % self.size;
            self.pieces.push_back((skipped + len, place, len));
            Some(place)
        }
    }

    /// Runs both on one story: each step frees the oldest piece or takes one of some length.
    fn agree(size: u64, spare: u64, steps: impl Iterator<Item = Option<u64>>) {
        let mut ring = Ring::new(size, spare);
        let mut plain = Plain { size, spare, at: 0, pieces: VecDeque::new() };
        let mut ends = VecDeque::new();
        for step in steps {
            match step {
                None => {
                    plain.pieces.pop_front();
                    if let Some(end) = ends.pop_front() {
                        ring.free_to(end);
                    }
                }
                Some(len) => {
                    let mut cursor = ring.cursor();
                    ring.pass(&mut cursor, len);
                    let due = plain.take(len);
                    assert_eq!(ring.fits(&cursor), due.is_some(), "{len} in {ring:?}");
                    if let Some(place) = due {
                        let piece = ring.take(len);
                        assert_eq!(ring.offset(piece.start) as u64, place);
                        assert_eq!(ring.write(), cursor.position);
                        ends.push_back(ring.write());
                    }
                }
            }
            for (_, place, len) in &plain.pieces {
                assert!(place + len <= size, "a piece straddles the end");
            }
        }
    }

    #[test]
    fn a_ring_does_what_a_plain_queue_of_pieces_does() {
        let mut seed = 7_u64;
        let mut random = move || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for size in [16, 64, 1024] {
            for spare in [0, 4] {
                let steps = (0..20_000)
                    .map(|_| (random() % 3 > 0).then(|| 4 * (1 + random() % (size / 16))))
                    .collect::<Vec<_>>();
                agree(size, spare, steps.into_iter());
            }
        }
    }

    #[test]
    fn small_rings_are_right_in_every_story() {
        for size in [1, 2, 4] {
            for story in 0..6_u64.pow(6) {
                let steps = (0..6).map(|step| match story / 6_u64.pow(step) % 6 {
                    0 => None,
                    len => Some(len.min(size)),
                });
                agree(size, 0, steps);
            }
        }
    }

    #[test]
    fn what_fits_an_empty_ring_at_one_place_fits_it_at_all_or_is_said_never_to() {
        for lens in [vec![28; 36], vec![28; 35], vec![4; 255], vec![512, 500], vec![512, 250, 250], vec![1020]] {
            let places = (0..256_u64).map(|place| {
                let mut ring = Ring::new(1024, 4);
                ring.take(4 * place % 1024);
                ring.free_to(ring.write());
                let mut cursor = ring.cursor();
                lens.iter().for_each(|&len| ring.pass(&mut cursor, len));
                (ring.fits(&cursor), ring.never_fits(&cursor))
            });
            for (fits, never) in places.collect::<Vec<_>>() {
                assert!(fits || never, "{lens:?} would wait for ever");
            }
        }
    }

    /// Promise A04: what is allowed and then taken in pieces of any lengths fits, from every place in the ring.
    #[test]
    fn pieces_of_which_only_the_bytes_were_known_fit_where_they_were_allowed() {
        let mut seed = 3_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let mut ring = Ring::new(1024, 4);
            (ring.write, ring.freed) = (random(5000) & !3, 0);
            ring.freed = ring.write - (random(300) & !3).min(ring.write);
            let mut cursor = ring.cursor();
            let exact: Vec<u64> = (0..random(4)).map(|_| 4 + 4 * random(16)).collect();
            let allowed: Vec<u64> = (0..random(4)).map(|_| 64 + (random(200) & !3)).collect();
            exact.iter().for_each(|&len| ring.pass(&mut cursor, len));
            allowed.iter().for_each(|&len| ring.allow(&mut cursor, len, 32));
            exact.iter().for_each(|&len| ring.pass(&mut cursor, len));
            let mut empty = ring;
            empty.freed = empty.write;
            assert!(empty.fits(&cursor) || empty.never_fits(&cursor), "{cursor:?} would wait for ever");
            if ring.fits(&cursor) && !ring.never_fits(&cursor) {
                // `take` sees that no piece reaches what is not free.
                exact.iter().for_each(|&len| _ = ring.take(len));
                for len in allowed {
                    let mut left = len;
                    while left > 0 {
                        let piece = (4 + 4 * random(8)).min(left);
                        ring.take(piece);
                        left -= piece;
                    }
                }
                exact.iter().for_each(|&len| _ = ring.take(len));
                assert!(ring.write - ring.freed <= ring.most);
            }
        }
    }

    #[test]
    fn positions_keep_their_places_far_beyond_32_bits() {
        let mut ring = Ring::new(64, 0);
        ring.write = (1 << 40) - 8;
        ring.freed = ring.write;
        assert_eq!(ring.take(12), Piece { start: 1 << 40, skipped: 8 });
        assert_eq!(ring.offset((1 << 40) + 12), 12);
    }
}
