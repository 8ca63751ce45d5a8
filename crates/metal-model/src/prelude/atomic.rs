//! Atomic operations on device and threadgroup memory: `air.atomic.{global,local}.OPERATION.[s|u].TYPE`.
//!
//! The last arguments say the order and the scope. Every body is sequentially consistent between all threads, which is
//! right for every order and scope and costs the same on this machine, plain stores aside.

use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// Writes the body if the family is the atomic operations.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    if name.family != "atomic" {
        return None;
    }
    if name.suffixes == ["fence"] {
        w.line("fence seq_cst");
        return Some(Value::new(Type::Void, ""));
    }
    let ["global" | "local", operation, ..] = name.suffixes.as_slice() else { return None };
    let [object, rest @ ..] = arguments else { return None };
    let Type::Pointer(_) = object.ty else { return None };
    match (*operation, rest) {
        ("load", _) => Some(load(w, object, result)),
        ("store", [value, ..]) => {
            let align = value.ty.scalar()?.bytes();
            w.line(format_args!("store atomic {}, {} seq_cst, align {align}", value.typed(), object.typed()));
            Some(Value::new(Type::Void, ""))
        }
        ("cmpxchg", [expected, desired, ..]) => compare_exchange(w, object, expected, desired, result),
        (_, [value, ..]) => {
            let operation = instruction(operation, value.ty.scalar()?, name.signed())?;
            let before =
                w.op(value.ty, format_args!("atomicrmw {operation} {}, {} seq_cst", object.typed(), value.typed()));
            Some(if result == Type::Void { Value::new(Type::Void, "") } else { before })
        }
        _ => None,
    }
}

/// A load of one element.
fn load(w: &mut Writer, object: &Value, ty: Type) -> Value {
    let align = ty.scalar().map_or(4, Scalar::bytes);
    w.op(ty, format_args!("load atomic {ty}, {} seq_cst, align {align}", object.typed()))
}

/// What LLVM calls the operation.
fn instruction(operation: &str, scalar: Scalar, signed: bool) -> Option<&'static str> {
    Some(match (operation, scalar.is_float()) {
        ("xchg", _) => "xchg",
        ("add", true) => "fadd",
        ("sub", true) => "fsub",
        ("min", true) => "fmin",
        ("max", true) => "fmax",
        ("add", false) => "add",
        ("sub", false) => "sub",
        ("and", false) => "and",
        ("or", false) => "or",
        ("xor", false) => "xor",
        ("min", false) => {
            if signed {
                "min"
            } else {
                "umin"
            }
        }
        ("max", false) => {
            if signed {
                "max"
            } else {
                "umax"
            }
        }
        _ => return None,
    })
}

/// Stores `desired` if the object holds what `expected` points to, bit for bit, and else writes there what it holds.
/// The result is what it held, or whether it was stored.
fn compare_exchange(w: &mut Writer, object: &Value, expected: &Value, desired: &Value, result: Type) -> Option<Value> {
    let Type::Pointer(_) = expected.ty else { return None };
    let scalar = desired.ty.scalar()?;
    let bits = Type::One(Scalar::Int(scalar.bits()));
    let old = w.load(bits, expected);
    let new = w.cast("bitcast", desired, bits);
    let pair = w.op(bits, format_args!("cmpxchg {}, {}, {} seq_cst seq_cst", object.typed(), old.typed(), new.typed()));
    let found = w.op(bits, format_args!("extractvalue {{ {bits}, i1 }} {pair}, 0"));
    // Where it was stored this writes what is there already.
    w.store(&found, expected);
    if result == Type::One(Scalar::Int(1)) {
        return Some(w.compare("icmp eq", &found, &old));
    }
    (result == desired.ty).then(|| w.cast("bitcast", &found, result))
}
