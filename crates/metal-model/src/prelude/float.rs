//! Functions of floating-point numbers: each element of a vector by itself, and dot.
//!
//! Half and bfloat go through float. What has no instruction is the C library's function for float, which is nearer to
//! the true value than Metal demands (docs of Metal's language, the table of accuracy: between 0 and 16 units in the
//! last place).

use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// What a function of the C library does not do.
pub(super) const PURE: &str = "nounwind willreturn memory(none)";
/// The same of one that writes through its pointer.
const WRITES: &str = "nounwind willreturn memory(argmem: write)";

/// The families that are one of the C library's functions of one float.
const LIBRARY: [(&str, &str); 20] = [
    ("acos", "acosf"),
    ("acosh", "acoshf"),
    ("asin", "asinf"),
    ("asinh", "asinhf"),
    ("atan", "atanf"),
    ("atanh", "atanhf"),
    ("cos", "cosf"),
    ("cosh", "coshf"),
    ("sin", "sinf"),
    ("sinh", "sinhf"),
    ("tan", "tanf"),
    ("tanh", "tanhf"),
    ("exp", "expf"),
    ("exp2", "exp2f"),
    ("exp10", "exp10f"),
    ("log", "logf"),
    ("log2", "log2f"),
    ("log10", "log10f"),
    ("sinpi", "rig_sinpif"),
    ("cospi", "rig_cospif"),
];

/// The families that LLVM has for float by itself.
const INSTRUCTION: [(&str, &str); 7] = [
    ("fabs", "fabs"),
    ("floor", "floor"),
    ("ceil", "ceil"),
    ("trunc", "trunc"),
    ("round", "round"),
    ("rint", "roundeven"),
    ("sqrt", "sqrt"),
];

/// Writes the body if the family is one of floats.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let first = arguments.first()?;
    if !first.ty.scalar()?.is_float() {
        return None;
    }
    match (name.family, arguments) {
        ("dot", [a, b]) if a.ty == b.ty && result == Type::One(a.scalar()) => return dot(w, a, b),
        ("ilogb", [_]) => {}
        _ if first.ty != result => return None,
        _ => {}
    }
    let mut elements = Vec::new();
    for index in 0..result.count() {
        let mut wide = Vec::new();
        for argument in arguments {
            let element = match argument.ty {
                Type::Pointer(_) => pointer(w, name.family, argument, first.scalar(), index),
                _ => w.element(argument, index),
            };
            wide.push(if element.ty.scalar().is_some_and(Scalar::is_float) { w.widen(&element) } else { element });
        }
        let value = one(w, name.family, &wide, first.scalar())?;
        elements.push(if value.scalar().is_float() { w.narrow(&value, first.scalar()) } else { value });
    }
    Some(w.join(result, &elements))
}

/// Where the second result of one element goes.
fn pointer(w: &mut Writer, family: &str, whole: &Value, element: Scalar, index: u32) -> Value {
    let bytes = if family == "frexp" { 4 } else { element.bytes() };
    if index == 0 { whole.clone() } else { w.offset(whole, &Value::int(i64::from(bytes * index))) }
}

/// The sum of the elements' products.
fn dot(w: &mut Writer, a: &Value, b: &Value) -> Option<Value> {
    let (to, mut sum) = (a.scalar(), None);
    let (a, b) = (w.elements(a), w.elements(b));
    for (a, b) in a.iter().zip(&b) {
        let (a, b) = (w.widen(a), w.widen(b));
        sum = Some(match &sum {
            None => w.binary("fmul", &a, &b),
            Some(sum) => w.intrinsic("fma", &[&a, &b, sum]),
        });
    }
    sum.map(|sum| w.narrow(&sum, to))
}

/// One element, in float.
fn one(w: &mut Writer, family: &str, arguments: &[Value], narrow: Scalar) -> Option<Value> {
    if let [x] = arguments {
        if let Some((_, function)) = LIBRARY.iter().find(|(name, _)| *name == family) {
            return Some(w.call(x.ty, function, &[x], PURE));
        }
        if let Some((_, function)) = INSTRUCTION.iter().find(|(name, _)| *name == family) {
            return Some(w.intrinsic(function, &[x]));
        }
    }
    choice(w, family, arguments)
        .or_else(|| blend(w, family, arguments))
        .or_else(|| two_results(w, family, arguments, narrow))
        .or_else(|| others(w, family, arguments))
}

/// The lesser and the greater, which answer the other where one is no number.
fn choice(w: &mut Writer, family: &str, arguments: &[Value]) -> Option<Value> {
    Some(match (family, arguments) {
        ("fmin" | "min", [a, b]) => w.intrinsic("minnum", &[a, b]),
        ("fmax" | "max", [a, b]) => w.intrinsic("maxnum", &[a, b]),
        ("fmin3" | "min3", [a, b, c]) => {
            let ab = w.intrinsic("minnum", &[a, b]);
            w.intrinsic("minnum", &[&ab, c])
        }
        ("fmax3" | "max3", [a, b, c]) => {
            let ab = w.intrinsic("maxnum", &[a, b]);
            w.intrinsic("maxnum", &[&ab, c])
        }
        ("fmedian3" | "median3", [a, b, c]) => {
            let (low, high) = (w.intrinsic("minnum", &[a, b]), w.intrinsic("maxnum", &[a, b]));
            let below = w.intrinsic("minnum", &[&high, c]);
            w.intrinsic("maxnum", &[&low, &below])
        }
        ("clamp", [x, low, high]) => {
            let above = w.intrinsic("maxnum", &[x, low]);
            w.intrinsic("minnum", &[&above, high])
        }
        ("saturate", [x]) => clamp_to_one(w, x),
        _ => return None,
    })
}

/// Held to 0 through 1; no number becomes 0.
fn clamp_to_one(w: &mut Writer, x: &Value) -> Value {
    let above = w.intrinsic("maxnum", &[x, &Value::float(0.0)]);
    w.intrinsic("minnum", &[&above, &Value::float(1.0)])
}

/// The common functions of shading.
fn blend(w: &mut Writer, family: &str, arguments: &[Value]) -> Option<Value> {
    let (zero, one) = (Value::float(0.0), Value::float(1.0));
    Some(match (family, arguments) {
        ("mix", [x, y, a]) => {
            let span = w.binary("fsub", y, x);
            let part = w.binary("fmul", &span, a);
            w.binary("fadd", x, &part)
        }
        ("step", [edge, x]) => {
            let below = w.compare("fcmp olt", x, edge);
            w.select(&below, &zero, &one)
        }
        ("smoothstep", [low, high, x]) => {
            let (along, span) = (w.binary("fsub", x, low), w.binary("fsub", high, low));
            let t = w.binary("fdiv", &along, &span);
            let t = clamp_to_one(w, &t);
            let twice = w.binary("fmul", &t, &Value::float(-2.0));
            let slope = w.binary("fadd", &twice, &Value::float(3.0));
            let square = w.binary("fmul", &t, &t);
            w.binary("fmul", &square, &slope)
        }
        // The sign of a zero stays; no number has no sign.
        ("sign", [x]) => {
            let (nan, zero_too) = (w.compare("fcmp uno", x, x), w.compare("fcmp oeq", x, &zero));
            let unit = w.intrinsic("copysign", &[&one, x]);
            let signed = w.select(&zero_too, x, &unit);
            w.select(&nan, &zero, &signed)
        }
        // Below 1 also where the difference rounds to 1; of an infinity 0.
        ("fract", [x]) => {
            let whole = w.intrinsic("floor", &[x]);
            let rest = w.binary("fsub", x, &whole);
            let below = Value::float(f32::from_bits(0x3f7f_ffff));
            let over = w.compare("fcmp ogt", &rest, &below);
            let rest = w.select(&over, &below, &rest);
            let size = w.intrinsic("fabs", &[x]);
            let endless = w.compare("fcmp oeq", &size, &Value::float(f32::INFINITY));
            w.select(&endless, &zero, &rest)
        }
        _ => return None,
    })
}

/// Those that write a second result through a pointer.
fn two_results(w: &mut Writer, family: &str, arguments: &[Value], narrow: Scalar) -> Option<Value> {
    let [x, out] = arguments else { return None };
    if !matches!(out.ty, Type::Pointer(_)) {
        return None;
    }
    Some(match family {
        "sincos" => {
            let cos = w.call(x.ty, "cosf", &[x], PURE);
            let cos = w.narrow(&cos, narrow);
            w.store(&cos, out);
            w.call(x.ty, "sinf", &[x], PURE)
        }
        "modf" => {
            let whole = w.intrinsic("trunc", &[x]);
            let (rest, size) = (w.binary("fsub", x, &whole), w.intrinsic("fabs", &[x]));
            let endless = w.compare("fcmp oeq", &size, &Value::float(f32::INFINITY));
            let rest = w.select(&endless, &Value::float(0.0), &rest);
            let whole = w.narrow(&whole, narrow);
            w.store(&whole, out);
            w.intrinsic("copysign", &[&rest, x])
        }
        "frexp" => {
            let place = w.place(4, 4);
            let fraction = w.call(x.ty, "frexpf", &[x, &place], WRITES);
            let exponent = w.load(Type::One(Scalar::Int(32)), &place);
            w.store(&exponent, out);
            fraction
        }
        _ => return None,
    })
}

/// The rest.
fn others(w: &mut Writer, family: &str, arguments: &[Value]) -> Option<Value> {
    let float = Type::One(Scalar::Float);
    Some(match (family, arguments) {
        ("fma", [a, b, c]) => w.intrinsic("fma", &[a, b, c]),
        ("rsqrt", [x]) => {
            let root = w.intrinsic("sqrt", &[x]);
            w.binary("fdiv", &Value::float(1.0), &root)
        }
        ("recip", [x]) => w.binary("fdiv", &Value::float(1.0), x),
        ("divide", [a, b]) => w.binary("fdiv", a, b),
        ("tanpi", [x]) => {
            let (sin, cos) = (w.call(float, "rig_sinpif", &[x], PURE), w.call(float, "rig_cospif", &[x], PURE));
            w.binary("fdiv", &sin, &cos)
        }
        ("pow", [x, y]) => w.call(float, "powf", &[x, y], PURE),
        ("powr", [x, y]) => {
            let size = w.intrinsic("fabs", &[x]);
            let power = w.call(float, "powf", &[&size, y], PURE);
            let below = w.compare("fcmp olt", x, &Value::float(0.0));
            w.select(&below, &Value::float(f32::NAN), &power)
        }
        ("atan2", [y, x]) => w.call(float, "atan2f", &[y, x], PURE),
        ("fmod", [x, y]) => w.call(float, "fmodf", &[x, y], PURE),
        ("hypot", [x, y]) => w.call(float, "hypotf", &[x, y], PURE),
        ("nextafter", [x, y]) => w.call(float, "nextafterf", &[x, y], PURE),
        ("copysign", [x, y]) => w.intrinsic("copysign", &[x, y]),
        ("fdim", [x, y]) => {
            let rest = w.binary("fsub", x, y);
            let not_above = w.compare("fcmp ole", x, y);
            w.select(&not_above, &Value::float(0.0), &rest)
        }
        ("ldexp", [x, by]) => {
            let by = match by.ty.scalar()? {
                Scalar::Int(32) => by.clone(),
                Scalar::Int(bits) if bits < 32 => w.cast("sext", by, Type::One(Scalar::Int(32))),
                _ => return None,
            };
            w.call(float, "ldexpf", &[x, &by], PURE)
        }
        ("ilogb", [x]) => w.call(Type::One(Scalar::Int(32)), "ilogbf", &[x], PURE),
        _ => return None,
    })
}
