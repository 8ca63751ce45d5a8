//! The types that signatures of `air.*` functions are made of, read from and written as IR text.
//!
//! Invariant: what [`Type::parse`] reads, its `Display` writes back letter for letter, so that a body has exactly the
//! type of the declaration it stands for. Threads: plain values.

use std::fmt;

/// The type of one element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scalar {
    /// An integer of so many bits: 1, 8, 16, 32 or 64.
    Int(u32),
    /// IEEE 754 binary16.
    Half,
    /// The upper half of a binary32.
    Bfloat,
    /// IEEE 754 binary32.
    Float,
}

impl Scalar {
    /// Reads the IR name of an element's type.
    pub(super) fn parse(text: &str) -> Option<Scalar> {
        Some(match text {
            "i1" => Scalar::Int(1),
            "i8" => Scalar::Int(8),
            "i16" => Scalar::Int(16),
            "i32" => Scalar::Int(32),
            "i64" => Scalar::Int(64),
            "half" => Scalar::Half,
            "bfloat" => Scalar::Bfloat,
            "float" => Scalar::Float,
            _ => return None,
        })
    }

    /// Bits of one element.
    pub(super) fn bits(self) -> u32 {
        match self {
            Scalar::Int(bits) => bits,
            Scalar::Half | Scalar::Bfloat => 16,
            Scalar::Float => 32,
        }
    }

    /// Bytes that one element takes in memory.
    pub(super) fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Whether the element is a floating-point number.
    pub(super) fn is_float(self) -> bool {
        !matches!(self, Scalar::Int(_))
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Int(bits) => write!(f, "i{bits}"),
            Scalar::Half => f.write_str("half"),
            Scalar::Bfloat => f.write_str("bfloat"),
            Scalar::Float => f.write_str("float"),
        }
    }
}

/// The type of a parameter or a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    /// No result.
    Void,
    /// One element.
    One(Scalar),
    /// A vector of so many elements.
    Many(u32, Scalar),
    /// A pointer into an address space.
    Pointer(u32),
}

impl Type {
    /// Reads a type from IR text; none for a type that no `air.*` function of compute kernels has.
    pub(super) fn parse(text: &str) -> Option<Type> {
        let text = text.trim();
        if let Some(inner) = text.strip_prefix('<') {
            let (count, element) = inner.strip_suffix('>')?.split_once(" x ")?;
            return Some(Type::Many(count.trim().parse().ok()?, Scalar::parse(element.trim())?));
        }
        match text {
            "void" => Some(Type::Void),
            "ptr" => Some(Type::Pointer(0)),
            _ => match text.strip_prefix("ptr addrspace(") {
                Some(rest) => Some(Type::Pointer(rest.strip_suffix(')')?.parse().ok()?)),
                None => Scalar::parse(text).map(Type::One),
            },
        }
    }

    /// The element's type; none for void and pointers.
    pub(super) fn scalar(self) -> Option<Scalar> {
        match self {
            Type::One(scalar) | Type::Many(_, scalar) => Some(scalar),
            Type::Void | Type::Pointer(_) => None,
        }
    }

    /// How many elements: one, or the vector's; zero for void and pointers.
    pub(super) fn count(self) -> u32 {
        match self {
            Type::Void | Type::Pointer(_) => 0,
            Type::One(_) => 1,
            Type::Many(count, _) => count,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Void => f.write_str("void"),
            Type::One(scalar) => scalar.fmt(f),
            Type::Many(count, scalar) => write!(f, "<{count} x {scalar}>"),
            Type::Pointer(0) => f.write_str("ptr"),
            Type::Pointer(space) => write!(f, "ptr addrspace({space})"),
        }
    }
}

/// A function's name taken apart: `air.fast_min.u.v4i32` is the family `min` of the unsigned, and so are its suffixes.
#[derive(Clone, Debug)]
pub(super) struct Name<'a> {
    /// The name between `air.` (and `fast_`) and the first dot after it.
    pub(super) family: &'a str,
    /// What follows the family, split at the dots.
    pub(super) suffixes: Vec<&'a str>,
}

impl<'a> Name<'a> {
    /// Takes a name apart; none for a name that is not `air.*`.
    pub(super) fn parse(name: &'a str) -> Option<Name<'a>> {
        let rest = name.strip_prefix("air.")?;
        let rest = rest.strip_prefix("fast_").unwrap_or(rest);
        let mut parts = rest.split('.');
        let family = parts.next().filter(|family| !family.is_empty())?;
        Some(Name { family, suffixes: parts.collect() })
    }

    /// Whether integers are signed: the name says `.s.`.
    pub(super) fn signed(&self) -> bool {
        self.suffixes.contains(&"s")
    }
}
