//! Packing of normalized numbers into integers and back: `air.{pack,unpack}.{unorm,snorm}4x8.*` and their like.
//!
//! The first element is in the lowest bits. Packing rounds to the nearest, ties to even. Of the formats without an even
//! split 10-10-10-2 is here; those with shared exponents or small floats are not.

use super::float::PURE;
use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// A format: how many bits each element has, whether it has a sign, whether the first three are in sRGB.
struct Format {
    widths: Vec<u32>,
    signed: bool,
    srgb: bool,
}

impl Format {
    /// Reads the suffixes of a name.
    fn parse(suffixes: &[&str]) -> Option<Format> {
        let (first, rest) = suffixes.split_first()?;
        let (kind, layout) = first.split_at_checked(5)?;
        let signed = match kind {
            "unorm" => false,
            "snorm" => true,
            _ => return None,
        };
        let srgb = rest.first() == Some(&"srgb");
        let widths = match (layout.split_once('x'), rest.first()) {
            (Some((count, bits)), _) => vec![bits.parse().ok()?; count.parse().ok()?],
            (None, Some(&"rgb10a2")) if layout.is_empty() => vec![10, 10, 10, 2],
            _ => return None,
        };
        (widths.iter().sum::<u32>() <= 64).then_some(Format { widths, signed, srgb })
    }

    /// The integer that stands for 1.
    fn one(&self, bits: u32) -> f32 {
        let steps = if self.signed { (1u32 << (bits - 1)) - 1 } else { (1u32 << bits) - 1 };
        // Exact: at most 16 bits.
        steps as f32
    }
}

/// Writes the body if the family is pack or unpack.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let [value] = arguments else { return None };
    match name.family {
        "pack" => pack(w, &Format::parse(&name.suffixes)?, result, value),
        "unpack" => unpack(w, &Format::parse(&name.suffixes)?, result, value),
        _ => None,
    }
}

/// Floats into an integer.
fn pack(w: &mut Writer, format: &Format, result: Type, value: &Value) -> Option<Value> {
    let Type::One(Scalar::Int(bits)) = result else { return None };
    if !value.ty.scalar()?.is_float()
        || value.ty.count() as usize != format.widths.len()
        || bits != format.widths.iter().sum()
    {
        return None;
    }
    let (mut whole, mut at) = (Value::new(result, 0), 0);
    for (index, element) in w.elements(value).into_iter().enumerate() {
        let width = format.widths[index];
        let mut x = w.widen(&element);
        let least = Value::float(if format.signed { -1.0 } else { 0.0 });
        x = w.intrinsic("maxnum", &[&x, &least]);
        x = w.intrinsic("minnum", &[&x, &Value::float(1.0)]);
        if format.srgb && index < 3 {
            x = w.call(x.ty, "rig_to_srgb", &[&x], PURE);
        }
        x = w.binary("fmul", &x, &Value::float(format.one(width)));
        x = w.intrinsic("roundeven", &[&x]);
        let integer = w.op(Type::One(Scalar::Int(32)), format_args!("fptosi {} to i32", x.typed()));
        let field = w.binary("and", &integer, &Value::int(i64::from((1u32 << width) - 1)));
        let field = w.cast(if bits < 32 { "trunc" } else { "zext" }, &field, result);
        let moved = w.binary("shl", &field, &Value::new(result, at));
        whole = w.binary("or", &whole, &moved);
        at += width;
    }
    Some(whole)
}

/// An integer into floats.
fn unpack(w: &mut Writer, format: &Format, result: Type, value: &Value) -> Option<Value> {
    let Type::One(Scalar::Int(bits)) = value.ty else { return None };
    let scalar = result.scalar().filter(|scalar| scalar.is_float())?;
    if result.count() as usize != format.widths.len() || bits != format.widths.iter().sum() {
        return None;
    }
    let (mut elements, mut at) = (Vec::new(), 0);
    for (index, &width) in format.widths.iter().enumerate() {
        // To the top and down again: the shift down brings the sign or zeros.
        let up = w.binary("shl", value, &Value::new(value.ty, bits - at - width));
        let field = w.binary(if format.signed { "ashr" } else { "lshr" }, &up, &Value::new(value.ty, bits - width));
        let mut x = w.cast(if format.signed { "sitofp" } else { "uitofp" }, &field, Type::One(Scalar::Float));
        x = w.binary("fdiv", &x, &Value::float(format.one(width)));
        if format.signed {
            x = w.intrinsic("maxnum", &[&x, &Value::float(-1.0)]);
        }
        if format.srgb && index < 3 {
            x = w.call(x.ty, "rig_from_srgb", &[&x], PURE);
        }
        elements.push(w.narrow(&x, scalar));
        at += width;
    }
    Some(w.join(result, &elements))
}
