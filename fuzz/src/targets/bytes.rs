//! Numbers drawn from an input, for targets whose subject is no string of bytes.

/// What is left of an input. Past its end there are zeros.
#[derive(Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next number of 16 bits.
    pub fn half(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// The next number of 32 bits.
    pub fn word(&mut self) -> u32 {
        u32::from(self.half()) | u32::from(self.half()) << 16
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }
}
