//! Functions of integers: each element of a vector by itself.

use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// Writes the body if the family is one of integers.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    if let ("all" | "any", [value]) = (name.family, arguments) {
        return truth(w, name.family, value);
    }
    let first = arguments.first()?;
    if matches!(result.scalar()?, Scalar::Int(_)) && first.ty == result {
        return each(w, name, result, arguments);
    }
    None
}

/// Whether all, or any, of the elements of a vector of truths hold.
fn truth(w: &mut Writer, family: &str, value: &Value) -> Option<Value> {
    let Type::Many(_, Scalar::Int(1)) = value.ty else {
        return (value.ty == Type::One(Scalar::Int(1))).then(|| value.clone());
    };
    let elements = w.elements(value);
    let opcode = if family == "all" { "and" } else { "or" };
    elements.into_iter().reduce(|all, element| w.binary(opcode, &all, &element))
}

/// Applies the family to each element.
fn each(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let mut elements = Vec::new();
    for index in 0..result.count() {
        let arguments: Vec<Value> = arguments.iter().map(|value| w.element(value, index)).collect();
        elements.push(one(w, name.family, name.signed(), &arguments)?);
    }
    Some(w.join(result, &elements))
}

/// The letter by which LLVM names the signed and the unsigned form.
fn letter(signed: bool) -> &'static str {
    if signed { "s" } else { "u" }
}

/// One element.
fn one(w: &mut Writer, family: &str, signed: bool, arguments: &[Value]) -> Option<Value> {
    let s = letter(signed);
    let (min, max) = (format!("{s}min"), format!("{s}max"));
    Some(match (family, arguments) {
        ("min", [a, b]) => w.intrinsic(&min, &[a, b]),
        ("max", [a, b]) => w.intrinsic(&max, &[a, b]),
        ("min3", [a, b, c]) => {
            let ab = w.intrinsic(&min, &[a, b]);
            w.intrinsic(&min, &[&ab, c])
        }
        ("max3", [a, b, c]) => {
            let ab = w.intrinsic(&max, &[a, b]);
            w.intrinsic(&max, &[&ab, c])
        }
        ("median3", [a, b, c]) => {
            let (low, high) = (w.intrinsic(&min, &[a, b]), w.intrinsic(&max, &[a, b]));
            let below = w.intrinsic(&min, &[&high, c]);
            w.intrinsic(&max, &[&low, &below])
        }
        ("clamp", [a, low, high]) => {
            let above = w.intrinsic(&max, &[a, low]);
            w.intrinsic(&min, &[&above, high])
        }
        // Of the least number the absolute value is that number again.
        ("abs", [a]) if signed => w.op(a.ty, format_args!("call {0} @llvm.abs.{0}({1}, i1 false)", a.ty, a.typed())),
        ("abs", [a]) => a.clone(),
        ("abs_diff", [a, b]) => {
            let (low, high) = (w.intrinsic(&min, &[a, b]), w.intrinsic(&max, &[a, b]));
            w.binary("sub", &high, &low)
        }
        ("add_sat", [a, b]) => w.intrinsic(&format!("{s}add.sat"), &[a, b]),
        ("sub_sat", [a, b]) => w.intrinsic(&format!("{s}sub.sat"), &[a, b]),
        ("mul_hi" | "mulhi", [a, b]) => high(w, signed, a, b),
        ("mad_hi", [a, b, c]) => {
            let high = high(w, signed, a, b);
            w.binary("add", &high, c)
        }
        ("mad_sat", [a, b, c]) => mad_sat(w, signed, a, b, c),
        ("mul24", [a, b]) => mul24(w, signed, a, b),
        ("mad24", [a, b, c]) => {
            let product = mul24(w, signed, a, b);
            w.binary("add", &product, c)
        }
        ("hadd", [a, b]) => halfway(w, signed, a, b, false),
        ("rhadd", [a, b]) => halfway(w, signed, a, b, true),
        _ => return bits(w, family, signed, arguments),
    })
}

/// One element, of the families that work on bits.
fn bits(w: &mut Writer, family: &str, signed: bool, arguments: &[Value]) -> Option<Value> {
    Some(match (family, arguments) {
        ("popcount", [a]) => w.intrinsic("ctpop", &[a]),
        // The second argument says that the result for zero does not matter; it is the number of bits all the same.
        ("clz", [a] | [a, _]) => w.op(a.ty, format_args!("call {0} @llvm.ctlz.{0}({1}, i1 false)", a.ty, a.typed())),
        ("ctz", [a] | [a, _]) => w.op(a.ty, format_args!("call {0} @llvm.cttz.{0}({1}, i1 false)", a.ty, a.typed())),
        ("reverse_bits", [a]) => w.intrinsic("bitreverse", &[a]),
        ("bswap", [a]) if a.scalar().bits() == 8 => a.clone(),
        ("bswap", [a]) => w.intrinsic("bswap", &[a]),
        ("rotate", [a, by]) if by.ty == a.ty => w.intrinsic("fshl", &[a, a, by]),
        ("extract_bits", [a, from, count]) => extract(w, signed, a, from, count),
        ("insert_bits", [base, insert, from, count]) => insert_bits(w, base, insert, from, count),
        ("select", [a, b, condition]) if condition.ty == Type::One(Scalar::Int(1)) => w.select(condition, b, a),
        _ => return None,
    })
}

/// An integer of twice the bits.
fn twice(w: &mut Writer, signed: bool, value: &Value) -> Value {
    let wide = Type::One(Scalar::Int(value.scalar().bits() * 2));
    w.cast(if signed { "sext" } else { "zext" }, value, wide)
}

/// The upper half of the product.
fn high(w: &mut Writer, signed: bool, a: &Value, b: &Value) -> Value {
    let (wide_a, wide_b) = (twice(w, signed, a), twice(w, signed, b));
    let product = w.binary("mul", &wide_a, &wide_b);
    let by = Value::new(product.ty, a.scalar().bits());
    let upper = w.binary("lshr", &product, &by);
    w.cast("trunc", &upper, a.ty)
}

/// a * b + c, held to what the type can tell. In twice the bits and two more neither step overflows.
fn mad_sat(w: &mut Writer, signed: bool, a: &Value, b: &Value, c: &Value) -> Value {
    let bits = a.scalar().bits();
    let wide = Type::One(Scalar::Int(bits * 2 + 2));
    let extend = if signed { "sext" } else { "zext" };
    let (a_wide, b_wide, c_wide) = (w.cast(extend, a, wide), w.cast(extend, b, wide), w.cast(extend, c, wide));
    let product = w.binary("mul", &a_wide, &b_wide);
    let sum = w.binary("add", &product, &c_wide);
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    let above = w.intrinsic("smax", &[&sum, &Value::new(wide, low)]);
    let held = w.intrinsic("smin", &[&above, &Value::new(wide, high)]);
    w.cast("trunc", &held, a.ty)
}

/// The product of the lower 24 bits.
fn mul24(w: &mut Writer, signed: bool, a: &Value, b: &Value) -> Value {
    let [a, b] = [a, b].map(|value| {
        let by = Value::new(value.ty, 8);
        let up = w.binary("shl", value, &by);
        w.binary(if signed { "ashr" } else { "lshr" }, &up, &by)
    });
    w.binary("mul", &a, &b)
}

/// (a + b) / 2 without overflow, rounded down or up.
fn halfway(w: &mut Writer, signed: bool, a: &Value, b: &Value, up: bool) -> Value {
    let (wide_a, wide_b) = (twice(w, signed, a), twice(w, signed, b));
    let mut sum = w.binary("add", &wide_a, &wide_b);
    if up {
        sum = w.binary("add", &sum, &Value::new(sum.ty, 1));
    }
    let half = w.binary("ashr", &sum, &Value::new(sum.ty, 1));
    w.cast("trunc", &half, a.ty)
}

/// A position or a count of bits as an integer of the value's type.
fn position(w: &mut Writer, value: &Value, like: &Value) -> Value {
    let (from, to) = (value.scalar().bits(), like.scalar().bits());
    w.cast(if from > to { "trunc" } else { "zext" }, value, like.ty)
}

/// A run of ones as long as `count`; all of them where the count is the type's bits.
fn ones(w: &mut Writer, count: &Value) -> Value {
    let (bits, all) = (Value::new(count.ty, count.scalar().bits()), Value::new(count.ty, -1));
    let by = w.binary("sub", &bits, count);
    let shifted = w.binary("lshr", &all, &by);
    let none = w.compare("icmp eq", count, &Value::new(count.ty, 0));
    w.select(&none, &Value::new(count.ty, 0), &shifted)
}

/// `count` bits from bit `from` on; the topmost is the sign where the type is signed.
fn extract(w: &mut Writer, signed: bool, a: &Value, from: &Value, count: &Value) -> Value {
    let (from, count) = (position(w, from, a), position(w, count, a));
    let shifted = w.binary("lshr", a, &from);
    let mask = ones(w, &count);
    let field = w.binary("and", &shifted, &mask);
    if !signed {
        return field;
    }
    // Adding and taking away the sign's bit spreads it over the bits above.
    let half = w.binary("lshr", &mask, &Value::new(a.ty, 1));
    let sign = w.binary("xor", &mask, &half);
    let flipped = w.binary("xor", &field, &sign);
    w.binary("sub", &flipped, &sign)
}

/// `base` with `count` bits from bit `from` on taken from the lowest bits of `insert`.
fn insert_bits(w: &mut Writer, base: &Value, insert: &Value, from: &Value, count: &Value) -> Value {
    let (from, count) = (position(w, from, base), position(w, count, base));
    let mask = ones(w, &count);
    let mask = w.binary("shl", &mask, &from);
    let moved = w.binary("shl", insert, &from);
    let inside = w.binary("and", &moved, &mask);
    let outside_mask = w.binary("xor", &mask, &Value::new(mask.ty, -1));
    let outside = w.binary("and", base, &outside_mask);
    w.binary("or", &outside, &inside)
}
