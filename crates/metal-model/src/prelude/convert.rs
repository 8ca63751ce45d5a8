//! Conversions between kinds of numbers: `air.convert.TO_KIND.TO_TYPE.FROM_KIND.FROM_TYPE`, kinds `f`, `s` and `u`.
//!
//! A float becomes an integer by dropping its fraction, held to what the integer can tell, and a NaN becomes zero, as
//! Apple's GPUs do. An integer becomes a float rounded once, to the nearest, ties to even.

use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// Writes the body if the family is the conversions.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let ([to, _, from, _, rest @ ..], [value]) = (name.suffixes.as_slice(), arguments) else { return None };
    if name.family != "convert" || result.count() != value.ty.count() || !rest.iter().all(|form| known(form)) {
        return None;
    }
    let target = result.scalar()?;
    let mut elements = Vec::new();
    for element in w.elements(value) {
        elements.push(one(w, &element, target, *to == "s", *from == "s", rest)?);
    }
    Some(w.join(result, &elements))
}

/// The forms that a name may end in: held to the type's range, and the four roundings.
fn known(form: &str) -> bool {
    matches!(form, "sat" | "rte" | "rtz" | "rtp" | "rtn")
}

/// One element.
fn one(w: &mut Writer, value: &Value, to: Scalar, to_signed: bool, from_signed: bool, forms: &[&str]) -> Option<Value> {
    match (value.scalar(), to) {
        (Scalar::Int(_), Scalar::Int(bits)) => {
            Some(integer(w, value, bits, to_signed, from_signed, forms.contains(&"sat")))
        }
        (Scalar::Int(_), _) => Some(from_integer(w, value, to, from_signed)),
        (_, Scalar::Int(bits)) => Some(to_integer(w, value, bits, to_signed, forms)),
        _ => {
            // Between floats only the nearest is known.
            if forms.iter().any(|form| *form != "rte" && *form != "sat") {
                return None;
            }
            let wide = w.widen(value);
            Some(w.narrow(&wide, to))
        }
    }
}

/// An integer of other bits: the lower bits, or held to the range.
fn integer(w: &mut Writer, value: &Value, bits: u32, to_signed: bool, from_signed: bool, held: bool) -> Value {
    let extend = if from_signed { "sext" } else { "zext" };
    let to = Type::One(Scalar::Int(bits));
    if bits == 1 {
        return w.compare("icmp ne", value, &Value::new(value.ty, 0));
    }
    if !held {
        let opcode = if value.scalar().bits() > bits { "trunc" } else { extend };
        return w.cast(opcode, value, to);
    }
    let wide = Type::One(Scalar::Int(128));
    let value = w.cast(extend, value, wide);
    let (low, high) = match to_signed {
        true => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        false => (0, (1i128 << bits) - 1),
    };
    let above = w.intrinsic("smax", &[&value, &Value::new(wide, low)]);
    let value = w.intrinsic("smin", &[&above, &Value::new(wide, high)]);
    w.cast("trunc", &value, to)
}

/// A float as an integer. A truth holds for everything but zero, NaN included.
fn to_integer(w: &mut Writer, value: &Value, bits: u32, signed: bool, forms: &[&str]) -> Value {
    let mut wide = w.widen(value);
    if bits == 1 {
        return w.compare("fcmp une", &wide, &Value::float(0.0));
    }
    for form in forms {
        let round = match *form {
            "rte" => "roundeven",
            "rtp" => "ceil",
            "rtn" => "floor",
            _ => continue,
        };
        wide = w.intrinsic(round, &[&wide]);
    }
    let name = if signed { "fptosi" } else { "fptoui" };
    w.op(Type::One(Scalar::Int(bits)), format_args!("call i{bits} @llvm.{name}.sat.i{bits}.f32({})", wide.typed()))
}

/// An integer as a float.
///
/// By way of `float` a half is rounded once all the same: an integer that `float` must round is beyond the half's
/// range. For bfloat that is not so, and an integer of more bits than `float` has is first made odd in its last bit
/// that stays, where bits are lost: an odd number is no tie and on the right side of every one.
fn from_integer(w: &mut Writer, value: &Value, to: Scalar, signed: bool) -> Value {
    let opcode = if signed { "sitofp" } else { "uitofp" };
    let float = Type::One(Scalar::Float);
    let bits = value.scalar().bits();
    if to != Scalar::Bfloat || bits <= 16 {
        let wide = w.cast(opcode, value, float);
        return w.narrow(&wide, to);
    }
    // Shortened by so many bits the rest has at most 24 for i32, which `float` holds; an i64 goes in two steps.
    let (shift, scale) = (8, 256.0);
    let mut value = value.clone();
    let mut short = w.cast(opcode, &value, float);
    let mut factor = 1.0f32;
    for _ in 0..(bits - 24).div_ceil(shift) {
        let fits = fits(w, &value, signed);
        let odd = shorten(w, &value, shift, signed);
        factor *= scale;
        let wide = w.cast(opcode, &odd, float);
        let scaled = w.binary("fmul", &wide, &Value::float(factor));
        // The first step after which nothing is lost decides: later ones only lose more.
        let kept = short.clone();
        short = w.select(&fits, &kept, &scaled);
        value = w.select(&fits, &value, &odd);
    }
    w.narrow(&short, to)
}

/// Whether `float` holds the integer as it is, by its size alone.
fn fits(w: &mut Writer, value: &Value, signed: bool) -> Value {
    let limit = Value::new(value.ty, 1i64 << 24);
    if !signed {
        return w.compare("icmp ule", value, &limit);
    }
    let moved = w.binary("add", value, &limit);
    w.compare("icmp ule", &moved, &Value::new(value.ty, 1i64 << 25))
}

/// The integer without its last bits, odd where any of them was set.
fn shorten(w: &mut Writer, value: &Value, shift: u32, signed: bool) -> Value {
    let by = Value::new(value.ty, shift);
    let upper = w.binary(if signed { "ashr" } else { "lshr" }, value, &by);
    let lost = w.binary("and", value, &Value::new(value.ty, (1i64 << shift) - 1));
    let any = w.compare("icmp ne", &lost, &Value::new(value.ty, 0));
    let sticky = w.cast("zext", &any, value.ty);
    w.binary("or", &upper, &sticky)
}
