//! A reader of MessagePack, the format of code objects' metadata: as much of it as they use, over bytes that nobody vouches
//! for.
//!
//! # Invariants
//!
//! 1. Every length is checked against the bytes that are left before anything is read or kept, and nesting is bounded: no
//!    input makes the reader take more memory than a constant times its length.

/// How deep values may nest. Metadata nests five deep.
const DEPTH_MOST: u32 = 16;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Negative(i64),
    Text(&'a str),
    /// Bytes, a float or an extension: what metadata has none of that matters here.
    Other,
    Array(Vec<Value<'a>>),
    Map(Vec<(Value<'a>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The value of a key of a map.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        let Value::Map(entries) = self else { return None };
        entries.iter().find(|(k, _)| matches!(k, Value::Text(text) if *text == key)).map(|(_, value)| value)
    }

    /// The elements of an array; none of anything else.
    pub fn elements(&self) -> &[Value<'a>] {
        if let Value::Array(values) = self { values } else { &[] }
    }

    pub fn text(&self) -> Option<&'a str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub fn number(&self) -> Option<u64> {
        if let Value::Unsigned(number) = self { Some(*number) } else { None }
    }
}

/// The first value of the bytes; `None` where they are no MessagePack.
pub(crate) fn read(bytes: &[u8]) -> Option<Value<'_>> {
    Reader { bytes }.value(0)
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    /// A number of `len` bytes, the highest first.
    fn number(&mut self, len: usize) -> Option<u64> {
        Some(self.take(len)?.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    fn length(&mut self, len: usize) -> Option<usize> {
        usize::try_from(self.number(len)?).ok()
    }

    fn signed(&mut self, len: usize) -> Option<Value<'a>> {
        let shift = 64 - 8 * len as u32;
        let number = (self.number(len)? << shift).cast_signed() >> shift;
        Some(u64::try_from(number).map_or(Value::Negative(number), Value::Unsigned))
    }

    fn text(&mut self, len: usize) -> Option<Value<'a>> {
        std::str::from_utf8(self.take(len)?).ok().map(Value::Text)
    }

    fn other(&mut self, len: usize) -> Option<Value<'a>> {
        self.take(len).map(|_| Value::Other)
    }

    fn array(&mut self, len: usize, depth: u32) -> Option<Value<'a>> {
        // Every value has a byte at least: a longer array is cut short.
        if len > self.bytes.len() {
            return None;
        }
        (0..len).map(|_| self.value(depth)).collect::<Option<_>>().map(Value::Array)
    }

    fn map(&mut self, len: usize, depth: u32) -> Option<Value<'a>> {
        if len > self.bytes.len() {
            return None;
        }
        (0..len).map(|_| Some((self.value(depth)?, self.value(depth)?))).collect::<Option<_>>().map(Value::Map)
    }

    fn value(&mut self, depth: u32) -> Option<Value<'a>> {
        if depth >= DEPTH_MOST {
            return None;
        }
        let depth = depth + 1;
        let first = self.take(1)?[0];
        match first {
            0x00..=0x7f => Some(Value::Unsigned(first.into())),
            0x80..=0x8f => self.map((first & 0x0f).into(), depth),
            0x90..=0x9f => self.array((first & 0x0f).into(), depth),
            0xa0..=0xbf => self.text((first & 0x1f).into()),
            0xc0 => Some(Value::Nil),
            0xc1 => None,
            0xc2 | 0xc3 => Some(Value::Bool(first == 0xc3)),
            0xc4..=0xc6 => self.length(1 << (first - 0xc4)).and_then(|len| self.other(len)),
            0xc7..=0xc9 => self.length(1 << (first - 0xc7)).and_then(|len| self.other(len.checked_add(1)?)),
            0xca => self.other(4),
            0xcb => self.other(8),
            0xcc..=0xcf => self.number(1 << (first - 0xcc)).map(Value::Unsigned),
            0xd0..=0xd3 => self.signed(1 << (first - 0xd0)),
            0xd4..=0xd8 => self.other((1 << (first - 0xd4)) + 1),
            0xd9..=0xdb => self.length(1 << (first - 0xd9)).and_then(|len| self.text(len)),
            0xdc | 0xdd => self.length(2 << (first - 0xdc)).and_then(|len| self.array(len, depth)),
            0xde | 0xdf => self.length(2 << (first - 0xde)).and_then(|len| self.map(len, depth)),
            0xe0..=0xff => Some(Value::Negative(i64::from(first.cast_signed()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_form_are_read() {
        for (bytes, due) in [
            (&[0x07][..], Value::Unsigned(7)),
            (&[0xe0], Value::Negative(-32)),
            (&[0xcd, 1, 2], Value::Unsigned(258)),
            (&[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], Value::Unsigned(u64::MAX)),
            (&[0xd1, 0xff, 0xfe], Value::Negative(-2)),
            (&[0xd0, 5], Value::Unsigned(5)),
            (&[0xc0], Value::Nil),
            (&[0xc3], Value::Bool(true)),
            (&[0xa2, b'a', b'b'], Value::Text("ab")),
            (&[0xd9, 1, b'x'], Value::Text("x")),
            (&[0xcb, 0, 0, 0, 0, 0, 0, 0, 0], Value::Other),
            (&[0xc4, 2, 9, 9], Value::Other),
            (&[0xd5, 1, 9, 9], Value::Other),
            (&[0x92, 1, 0xa1, b'q'], Value::Array(vec![Value::Unsigned(1), Value::Text("q")])),
            (&[0xdc, 0, 1, 3], Value::Array(vec![Value::Unsigned(3)])),
            (&[0x81, 0xa1, b'k', 4], Value::Map(vec![(Value::Text("k"), Value::Unsigned(4))])),
            (&[0xde, 0, 1, 0xa1, b'k', 4], Value::Map(vec![(Value::Text("k"), Value::Unsigned(4))])),
        ] {
            assert_eq!(read(bytes), Some(due), "{bytes:x?}");
            for len in 0..bytes.len() {
                assert_eq!(read(&bytes[..len]), None, "{bytes:x?} cut to {len}");
            }
        }
        let map = [0x82, 0xa1, b'a', 1, 0xa1, b'b', 0x91, 2];
        let map = read(&map).unwrap();
        assert_eq!(map.get("b").unwrap().elements()[0].number(), Some(2));
        assert_eq!((map.get("c"), map.text(), map.get("a").unwrap().elements().len()), (None, None, 0));
    }

    #[test]
    fn lengths_beyond_the_bytes_and_endless_nesting_are_refused() {
        assert_eq!(read(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]), None);
        assert_eq!(read(&[0xdf, 0xff, 0xff, 0xff, 0xff, 1]), None);
        assert_eq!(read(&[0xdb, 0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(read(&[0xc9, 0xff, 0xff, 0xff, 0xff, 1]), None);
        assert_eq!(read(&[0x91; 10_000]), None);
        assert_eq!(read(&[0xa1, 0xff]), None, "no UTF-8");
        assert_eq!(read(&[0xc1]), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut seed = 3_u32;
        for _ in 0..100_000 {
            let bytes: [u8; 24] = std::array::from_fn(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 24) as u8
            });
            let _ = read(&bytes);
        }
    }
}
