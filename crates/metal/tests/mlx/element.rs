//! The three floats of the library's functions, and the integers that some of them answer.

use half::{bf16, f16};

/// A type of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    F32,
    F16,
    Bf16,
    U32,
}

/// Those that most functions come in.
pub const FLOATS: [Element; 3] = [Element::F32, Element::F16, Element::Bf16];

impl Element {
    /// As functions' names write it.
    pub fn name(self) -> &'static str {
        match self {
            Element::F32 => "float32",
            Element::F16 => "float16",
            Element::Bf16 => "bfloat16",
            Element::U32 => "uint32",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Element::F32 | Element::U32 => 4,
            Element::F16 | Element::Bf16 => 2,
        }
    }

    /// Half a unit in the last place of 1, which is the largest relative error of one rounding.
    pub fn half_unit(self) -> f64 {
        match self {
            Element::F32 => f64::from(f32::EPSILON) / 2.0,
            Element::F16 => f16::EPSILON.to_f64() / 2.0,
            Element::Bf16 => bf16::EPSILON.to_f64() / 2.0,
            Element::U32 => 0.0,
        }
    }

    /// How many of an array of these a thread takes, where a function takes several.
    pub fn per_thread(self) -> usize {
        8 / self.bytes()
    }

    /// Appends the element nearest to `value`.
    pub fn push(self, value: f64, to: &mut Vec<u8>) {
        match self {
            Element::F32 => to.extend((value as f32).to_ne_bytes()),
            Element::F16 => to.extend(f16::from_f64(value).to_ne_bytes()),
            Element::Bf16 => to.extend(bf16::from_f64(value).to_ne_bytes()),
            Element::U32 => to.extend((value as u32).to_ne_bytes()),
        }
    }

    /// The elements nearest to `values`.
    pub fn encode(self, values: &[f64]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(values.len() * self.bytes());
        values.iter().for_each(|&value| self.push(value, &mut bytes));
        bytes
    }

    /// The values of elements.
    pub fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let value = |element: &[u8]| match (self, element) {
            (Element::F32, &[a, b, c, d]) => f64::from(f32::from_ne_bytes([a, b, c, d])),
            (Element::U32, &[a, b, c, d]) => f64::from(u32::from_ne_bytes([a, b, c, d])),
            (Element::F16, &[a, b]) => f16::from_ne_bytes([a, b]).to_f64(),
            (Element::Bf16, &[a, b]) => bf16::from_ne_bytes([a, b]).to_f64(),
            _ => unreachable!("chunks of an element's bytes"),
        };
        bytes.chunks_exact(self.bytes()).map(value).collect()
    }

    /// What stays of `values` in this type.
    pub fn round(self, values: &[f64]) -> Vec<f64> {
        self.decode(&self.encode(values))
    }
}
