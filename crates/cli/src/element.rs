//! The types of the values in buffers and scalars.

use std::fmt;

use crate::size;

/// Calls `$body` with the type `$T` that an element stands for.
macro_rules! with_element {
    ($element:expr, $T:ident => $body:expr) => {
        match $element {
            $crate::element::Element::U8 => {
                type $T = u8;
                $body
            }
            $crate::element::Element::I8 => {
                type $T = i8;
                $body
            }
            $crate::element::Element::U16 => {
                type $T = u16;
                $body
            }
            $crate::element::Element::I16 => {
                type $T = i16;
                $body
            }
            $crate::element::Element::U32 => {
                type $T = u32;
                $body
            }
            $crate::element::Element::I32 => {
                type $T = i32;
                $body
            }
            $crate::element::Element::U64 => {
                type $T = u64;
                $body
            }
            $crate::element::Element::I64 => {
                type $T = i64;
                $body
            }
            $crate::element::Element::F32 => {
                type $T = f32;
                $body
            }
            $crate::element::Element::F64 => {
                type $T = f64;
                $body
            }
        }
    };
}
pub(crate) use with_element;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Unsigned, 8 bits.
    U8,
    /// Signed, 8 bits.
    I8,
    /// Unsigned, 16 bits.
    U16,
    /// Signed, 16 bits.
    I16,
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
    /// Floating, 32 bits.
    F32,
    /// Floating, 64 bits.
    F64,
}

/// Every element with its name on the command line and its name in a .npy file.
const ELEMENTS: [(Element, &str, &str); 10] = [
    (Element::U8, "u8", "|u1"),
    (Element::I8, "i8", "|i1"),
    (Element::U16, "u16", "<u2"),
    (Element::I16, "i16", "<i2"),
    (Element::U32, "u32", "<u4"),
    (Element::I32, "i32", "<i4"),
    (Element::U64, "u64", "<u8"),
    (Element::I64, "i64", "<i8"),
    (Element::F32, "f32", "<f4"),
    (Element::F64, "f64", "<f8"),
];

impl Element {
    /// The bytes of one value.
    pub fn size(self) -> usize {
        with_element!(self, T => size_of::<T>())
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        // PANIC: every element is in the table (a test says so).
        ELEMENTS
            .iter()
            .find(|(element, ..)| *element == self)
            .map(|(_, name, _)| name)
            .expect("every element is listed")
    }

    /// The name in a .npy file.
    pub fn npy(self) -> &'static str {
        // PANIC: as in `name`.
        ELEMENTS.iter().find(|(element, ..)| *element == self).map(|(.., npy)| npy).expect("every element is listed")
    }

    /// The element of this name.
    pub fn parse(text: &str) -> Result<Element, String> {
        ELEMENTS.iter().find(|(_, name, _)| *name == text).map(|(element, ..)| *element).ok_or_else(|| {
            let names: Vec<&str> = ELEMENTS.iter().map(|(_, name, _)| *name).collect();
            format!("{text} is no type; the types are {}", names.join(", "))
        })
    }

    /// The bytes of the value that `text` says, in the host's byte order.
    pub fn value(self, text: &str) -> Result<Vec<u8>, String> {
        with_element!(self, T => T::value(text).map(|value| bytemuck::bytes_of(&value).to_vec()))
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that an element stands for.
pub trait Value: bytemuck::Pod {
    /// The value that `text` says.
    fn value(text: &str) -> Result<Self, String>;
    /// The value of the element at `index` of `--iota`: an integer keeps its low bits, a float rounds.
    fn at_index(index: usize) -> Self;
    /// Writes the value in as many digits as tell it from its neighbours.
    fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

/// The sizes that a float is written out at; others get an exponent.
const WRITTEN_OUT: std::ops::Range<f64> = 1e-5..1e16;

macro_rules! integers {
    ($($T:ty),*) => { $(
        impl Value for $T {
            fn value(text: &str) -> Result<Self, String> {
                let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
                let number = match digits.strip_prefix("0x") {
                    Some(hex) => u64::from_str_radix(hex, 16).map_err(|_| format!("{text} is no hexadecimal number")),
                    None => size::parse(digits),
                }?;
                let number = if negative { -i128::from(number) } else { i128::from(number) };
                <$T>::try_from(number).map_err(|_| {
                    format!("{text} is no {}: these go from {} to {}", stringify!($T), <$T>::MIN, <$T>::MAX)
                })
            }

            fn at_index(index: usize) -> Self {
                index as $T
            }

            fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    )* };
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! floats {
    ($($T:ty),*) => { $(
        impl Value for $T {
            fn value(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("{text} is no number"))
            }

            fn at_index(index: usize) -> Self {
                index as $T
            }

            fn show(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let size = f64::from(self.abs());
                if size == 0.0 || !size.is_finite() || WRITTEN_OUT.contains(&size) {
                    write!(f, "{self}")
                } else {
                    write!(f, "{self:e}")
                }
            }
        }
    )* };
}
floats!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_name_of_its_own_and_the_size_that_the_name_says() {
        for (element, name, npy) in ELEMENTS {
            assert_eq!(Element::parse(name), Ok(element));
            assert_eq!((element.name(), element.npy()), (name, npy));
            assert_eq!(name[1..].parse::<usize>().unwrap(), 8 * element.size());
            assert_eq!(npy[2..].parse::<usize>().unwrap(), element.size());
        }
        assert!(Element::parse("f16").unwrap_err().contains("the types are u8, i8"));
    }

    #[test]
    fn values_are_in_range_or_refused() {
        assert_eq!(Element::U32.value("16Mi").unwrap(), (16u32 << 20).to_ne_bytes());
        assert_eq!(Element::U16.value("0xbeef").unwrap(), 0xbeef_u16.to_ne_bytes());
        assert_eq!(Element::I8.value("-128").unwrap(), [0x80]);
        assert_eq!(Element::I64.value("-9223372036854775808").unwrap(), i64::MIN.to_ne_bytes());
        assert_eq!(Element::U64.value("0xffffffffffffffff").unwrap(), [0xff; 8]);
        assert_eq!(Element::F32.value("-2.5e-3").unwrap(), (-2.5e-3_f32).to_ne_bytes());
        assert_eq!(Element::F64.value("inf").unwrap(), f64::INFINITY.to_ne_bytes());
        assert!(Element::U8.value("256").unwrap_err().contains("from 0 to 255"));
        assert!(Element::U32.value("-1").unwrap_err().contains("from 0 to 4294967295"));
        assert!(Element::I32.value("2.5").is_err());
        assert!(Element::F32.value("16Mi").is_err());
    }
}
