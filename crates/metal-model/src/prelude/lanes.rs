//! What the lanes of a SIMD-group tell each other: reductions, prefixes, shuffles, votes; and the same within a quad.
//!
//! One primitive carries all: each lane gives some bytes and gets those of all lanes that came to the same place, with
//! the mask of which those are. The rest is arithmetic on 32 places, without a branch. What a lane gets from one that
//! is not active is zero. Sums and products are in the order of a tree over the lanes, as the hardware's are in an
//! order of its own.

use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};
use super::{EXCHANGE, LANES, SITE};
use crate::jit::abi;

/// The lanes of a quad.
pub(super) const QUAD: u32 = 4;

const I32: Type = Type::One(Scalar::Int(32));
const I1: Type = Type::One(Scalar::Int(1));

/// Gives `size` bytes: where those of all lanes lie until the next exchange, and the mask of the active lanes.
fn exchange(w: &mut Writer, mine: &Value, size: u32) -> (Value, Value) {
    let context = super::context(w);
    let (site, size, all) = (Value::int(SITE), Value::int(i64::from(size)), w.place(8, 8));
    let active = w.call(I32, EXCHANGE, &[&context, &site, mine, &size, &all], "convergent nounwind");
    (w.load(Type::Pointer(0), &all), active)
}

/// Waits for the other lanes; the answer is the mask of the active ones.
pub(super) fn meet(w: &mut Writer) -> Value {
    let byte = w.place(1, 1);
    w.store(&Value::one(Scalar::Int(8), 0), &byte);
    exchange(w, &byte, 1).1
}

/// The thread's lane in its SIMD-group.
pub(super) fn lane(w: &mut Writer) -> Value {
    let context = super::context(w);
    let place = w.offset(&context, &Value::int(i64::try_from(abi::THREAD_LANE).unwrap_or(0)));
    w.op(I32, format_args!("load i32, {}, align 4, !invariant.load !{{}}", place.typed()))
}

/// Writes the body if the family is of the lanes.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let (quad, operation) = match name.family.split_once('_')? {
        ("simd", operation) => (false, operation),
        ("quad", operation) => (true, operation),
        _ => return None,
    };
    let group = Group { quad };
    group
        .vote(w, operation, result, arguments)
        .or_else(|| group.reduction(w, operation, name.signed(), result, arguments))
        .or_else(|| group.shuffle(w, operation, result, arguments))
}

/// The lanes that take part: the SIMD-group's, or the quad's.
#[derive(Clone, Copy)]
struct Group {
    quad: bool,
}

impl Group {
    /// How many lanes take part at most.
    fn size(self) -> u32 {
        if self.quad { QUAD } else { LANES }
    }

    /// The first lane of those that take part.
    fn base(self, w: &mut Writer, lane: &Value) -> Value {
        w.binary("and", lane, &Value::int(i64::from(!(self.size() - 1) & (LANES - 1))))
    }

    /// Of the active lanes those that take part.
    fn narrow(self, w: &mut Writer, mask: Value, lane: &Value) -> Value {
        if !self.quad {
            return mask;
        }
        let base = self.base(w, lane);
        let quad = w.binary("shl", &Value::int(0xf), &base);
        w.binary("and", &mask, &quad)
    }

    /// The mask with the first lane that takes part at bit 0, as an integer of the result's type.
    fn answer(self, w: &mut Writer, mask: &Value, lane: &Value, result: Type) -> Value {
        let base = self.base(w, lane);
        let mask = w.binary("lshr", mask, &base);
        let bits = result.scalar().map_or(32, Scalar::bits);
        w.cast(if bits < 32 { "trunc" } else { "zext" }, &mask, result)
    }

    /// Exchanges a truth for each lane: the mask of lanes where it holds, and the mask of the active ones.
    fn ballot(self, w: &mut Writer, truth: &Value, lane: &Value) -> (Value, Value) {
        let byte = w.cast("zext", truth, Type::One(Scalar::Int(8)));
        let (all, active) = share(w, &[byte]);
        let bytes = Type::Many(LANES, Scalar::Int(8));
        let all = w.load(bytes, &all);
        let set = w.op(Type::Many(LANES, Scalar::Int(1)), format_args!("icmp ne {}, zeroinitializer", all.typed()));
        let set = w.cast("bitcast", &set, I32);
        let active = self.narrow(w, active, lane);
        (w.binary("and", &set, &active), active)
    }

    /// Votes, and who is active.
    fn vote(self, w: &mut Writer, operation: &str, result: Type, arguments: &[Value]) -> Option<Value> {
        let lane_of = lane;
        match (operation, arguments) {
            ("all" | "any" | "ballot", [truth]) if truth.ty == I1 => {
                let lane = lane_of(w);
                let (set, active) = self.ballot(w, truth, &lane);
                Some(match operation {
                    "all" => w.compare("icmp eq", &set, &active),
                    "any" => w.compare("icmp ne", &set, &Value::int(0)),
                    _ => self.answer(w, &set, &lane, result),
                })
            }
            ("active_threads_mask" | "is_first", []) => {
                let lane = lane_of(w);
                let active = meet(w);
                let active = self.narrow(w, active, &lane);
                if operation == "active_threads_mask" {
                    return Some(self.answer(w, &active, &lane, result));
                }
                let first = w.op(I32, format_args!("call i32 @llvm.cttz.i32({}, i1 false)", active.typed()));
                Some(w.compare("icmp eq", &first, &lane))
            }
            // Of a mask that a ballot answered; it names no lane that is not active.
            ("vote_all" | "vote_any", [mask]) if matches!(mask.ty, Type::One(Scalar::Int(_))) => {
                let lane = lane_of(w);
                let active = meet(w);
                let active = self.narrow(w, active, &lane);
                let set = w.cast(if mask.scalar().bits() > 32 { "trunc" } else { "zext" }, mask, I32);
                let base = self.base(w, &lane);
                let all = w.binary("lshr", &active, &base);
                let set = w.binary("and", &set, &all);
                Some(match operation {
                    "vote_all" => w.compare("icmp eq", &set, &all),
                    _ => w.compare("icmp ne", &set, &Value::int(0)),
                })
            }
            // Helper threads are of rendering.
            ("is_helper_thread", []) => Some(Value::one(Scalar::Int(1), "false")),
            _ => None,
        }
    }

    /// Reductions and prefixes.
    fn reduction(
        self,
        w: &mut Writer,
        operation: &str,
        signed: bool,
        result: Type,
        arguments: &[Value],
    ) -> Option<Value> {
        let (operation, prefix) = match operation {
            _ if operation.starts_with("prefix_inclusive_") => (&operation[17..], Some(true)),
            _ if operation.starts_with("prefix_exclusive_") => (&operation[17..], Some(false)),
            _ => (operation, None),
        };
        let [value] = arguments else { return None };
        let from = value.ty.scalar()?;
        let fold = Fold::of(operation, from, signed)?;
        if value.ty != result || (prefix.is_some() && !matches!(operation, "sum" | "product")) {
            return None;
        }
        // A half is summed in float.
        let to = if from.is_float() { Scalar::Float } else { from };
        let mut elements = w.elements(value);
        for element in &mut elements {
            *element = w.cast("fpext", element, Type::One(to));
        }
        let lane = lane(w);
        let (all, active) = share(w, &elements);
        let mut active = self.narrow(w, active, &lane);
        if let Some(inclusive) = prefix {
            let up = w.binary("shl", &Value::int(if inclusive { -2 } else { -1 }), &lane);
            let below = w.binary("xor", &up, &Value::int(-1));
            active = w.binary("and", &active, &below);
        }
        let chosen = w.cast("bitcast", &active, Type::Many(LANES, Scalar::Int(1)));
        for (index, element) in elements.iter_mut().enumerate() {
            let row = row(w, &all, index, value.ty.count(), to);
            let folded = fold.row(w, &chosen, &row, to);
            *element = w.cast("fptrunc", &folded, Type::One(from));
        }
        Some(w.join(result, &elements))
    }

    /// Shuffles: a lane takes what another one gave.
    fn shuffle(self, w: &mut Writer, operation: &str, result: Type, arguments: &[Value]) -> Option<Value> {
        let (data, fill, by, modulo) = match arguments {
            [data] if operation == "broadcast_first" => (data, None, None, None),
            [data, by] => (data, None, Some(by), None),
            [data, fill, by, modulo] if operation.starts_with("shuffle_and_fill_") && fill.ty == data.ty => {
                (data, Some(fill), Some(by), Some(modulo))
            }
            _ => return None,
        };
        if data.ty != result || data.ty.scalar().is_none() {
            return None;
        }
        let mut given = w.elements(data);
        let count = given.len();
        if let Some(fill) = fill {
            given.extend(w.elements(fill));
        }
        // Bits travel, whatever they mean.
        let whole = data.scalar();
        for element in &mut given {
            *element = bits(w, element);
        }
        let lane = lane(w);
        let (all, active) = share(w, &given);
        let active = self.narrow(w, active, &lane);
        let index = |w: &mut Writer, value: &Value| {
            let bits = value.scalar().bits();
            w.cast(if bits > 32 { "trunc" } else { "zext" }, value, I32)
        };
        let by = by.map(|by| index(w, by));
        let modulo = modulo.map(|modulo| index(w, modulo));
        let (source, filled) = self.source(w, operation, &lane, &active, by.as_ref(), modulo.as_ref())?;
        let taken = take(w, &all, &given, &source, filled.as_ref(), count, &active);
        let elements: Vec<Value> = taken.iter().map(|element| meaning(w, element, whole)).collect();
        Some(w.join(result, &elements))
    }

    /// The lane that a shuffle takes from, and whether it takes what that lane gave to fill.
    fn source(
        self,
        w: &mut Writer,
        operation: &str,
        lane: &Value,
        active: &Value,
        by: Option<&Value>,
        modulo: Option<&Value>,
    ) -> Option<(Value, Option<Value>)> {
        let last = Value::int(i64::from(self.size() - 1));
        let base = self.base(w, lane);
        let own = w.binary("and", lane, &last);
        let inside = match (operation, by) {
            ("broadcast_first", _) => {
                return Some((w.op(I32, format_args!("call i32 @llvm.cttz.i32({}, i1 false)", active.typed())), None));
            }
            ("shuffle" | "broadcast", Some(by)) => w.binary("and", by, &last),
            ("shuffle_xor", Some(by)) => {
                let other = w.binary("xor", &own, by);
                w.binary("and", &other, &last)
            }
            ("shuffle_rotate_down", Some(by)) => {
                let other = w.binary("add", &own, by);
                w.binary("and", &other, &last)
            }
            ("shuffle_rotate_up", Some(by)) => {
                let other = w.binary("sub", &own, by);
                w.binary("and", &other, &last)
            }
            // Beyond the group's edge a lane keeps its own.
            ("shuffle_down" | "shuffle_up", Some(by)) => {
                let other = w.binary(if operation == "shuffle_down" { "add" } else { "sub" }, &own, by);
                let beyond = w.compare("icmp ugt", &other, &last);
                w.select(&beyond, &own, &other)
            }
            ("shuffle_and_fill_down" | "shuffle_and_fill_up", Some(by)) => {
                let (inside, filled) = edge(w, operation == "shuffle_and_fill_down", &own, by, modulo?);
                return Some((w.binary("add", &base, &inside), Some(filled)));
            }
            _ => return None,
        };
        Some((w.binary("add", &base, &inside), None))
    }
}

/// Within vectors of `modulo` lanes: the lane `by` further, and whether it is beyond the vector's edge, where the
/// values to fill with come in from the other end.
fn edge(w: &mut Writer, down: bool, own: &Value, by: &Value, modulo: &Value) -> (Value, Value) {
    let last = w.binary("sub", modulo, &Value::int(1));
    let place = w.binary("and", own, &last);
    let start = w.binary("sub", own, &place);
    let moved = w.binary(if down { "add" } else { "sub" }, &place, by);
    let filled = w.compare("icmp ugt", &moved, &last);
    let place = w.binary("and", &moved, &last);
    (w.binary("add", &start, &place), filled)
}

/// What a lane gave, by elements: of a shuffle that fills, the second half where `filled` holds. Zero from a lane that
/// is not active.
fn take(
    w: &mut Writer,
    all: &Value,
    given: &[Value],
    source: &Value,
    filled: Option<&Value>,
    count: usize,
    active: &Value,
) -> Vec<Value> {
    let scalar = given[0].scalar();
    let bytes = i64::from(scalar.bytes());
    let stride = Value::int(bytes * i64::try_from(given.len()).unwrap_or(1));
    let mut at = w.binary("mul", source, &stride);
    if let Some(filled) = filled {
        let half = Value::int(bytes * i64::try_from(count).unwrap_or(1));
        let to_fill = w.select(filled, &half, &Value::int(0));
        at = w.binary("add", &at, &to_fill);
    }
    let bit = w.binary("lshr", active, source);
    let alive = w.cast("trunc", &bit, I1);
    let from = w.offset(all, &at);
    let mut elements = Vec::new();
    for index in 0..count {
        let place = w.offset(&from, &Value::int(bytes * i64::try_from(index).unwrap_or(0)));
        let value = w.load(Type::One(scalar), &place);
        elements.push(w.select(&alive, &value, &Value::one(scalar, 0)));
    }
    elements
}

/// The bits of a value as an integer that memory holds as it is.
fn bits(w: &mut Writer, value: &Value) -> Value {
    match value.scalar() {
        Scalar::Int(1) => w.cast("zext", value, Type::One(Scalar::Int(8))),
        Scalar::Int(_) => value.clone(),
        other => w.cast("bitcast", value, Type::One(Scalar::Int(other.bits()))),
    }
}

/// The value that has these bits.
fn meaning(w: &mut Writer, bits: &Value, scalar: Scalar) -> Value {
    match scalar {
        Scalar::Int(1) => w.cast("trunc", bits, I1),
        Scalar::Int(_) => bits.clone(),
        _ => w.cast("bitcast", bits, Type::One(scalar)),
    }
}

/// Gives these elements to the other lanes: where all that was given lies, lane by lane, and the active lanes.
pub(super) fn share(w: &mut Writer, elements: &[Value]) -> (Value, Value) {
    let bytes = elements[0].scalar().bytes();
    let count = u32::try_from(elements.len()).unwrap_or(1);
    let mine = w.place(bytes * count, 16);
    for (index, element) in (0u32..).zip(elements) {
        let place = w.offset(&mine, &Value::int(i64::from(index * bytes)));
        w.store(element, &place);
    }
    exchange(w, &mine, bytes * count)
}

/// Element `index` of what each lane gave, as a vector over the lanes.
fn row(w: &mut Writer, all: &Value, index: usize, count: u32, scalar: Scalar) -> Value {
    let everything = w.load(Type::Many(LANES * count, scalar), all);
    if count == 1 {
        return everything;
    }
    let places: Vec<String> =
        (0..LANES).map(|lane| format!("i32 {}", lane as usize * count as usize + index)).collect();
    w.op(
        Type::Many(LANES, scalar),
        format_args!(
            "shufflevector {}, {} poison, <{LANES} x i32> <{}>",
            everything.typed(),
            everything.ty,
            places.join(", ")
        ),
    )
}

/// How the lanes' values become one.
struct Fold {
    /// LLVM's reduction of a vector.
    reduce: &'static str,
    /// Where the reduction of floats starts.
    start: Option<f32>,
    /// What a lane that takes no part counts as.
    neutral: String,
}

impl Fold {
    /// The reduction of this name; none if there is none for this type.
    fn of(operation: &str, scalar: Scalar, signed: bool) -> Option<Fold> {
        if scalar.is_float() {
            let float = |value: f32| Value::float(value).to_string();
            let (reduce, start, neutral) = match operation {
                "sum" => ("fadd", Some(0.0), float(0.0)),
                "product" => ("fmul", Some(1.0), float(1.0)),
                // No number loses against every number, so that it is the answer only where there is none.
                "min" => ("fmin", None, float(f32::NAN)),
                "max" => ("fmax", None, float(f32::NAN)),
                _ => return None,
            };
            return Some(Fold { reduce, start, neutral });
        }
        let bits = scalar.bits();
        let (reduce, neutral) = match (operation, signed) {
            ("sum", _) => ("add", "0".to_owned()),
            ("product", _) => ("mul", "1".to_owned()),
            ("min", true) => ("smin", ((1i128 << (bits - 1)) - 1).to_string()),
            ("max", true) => ("smax", (-(1i128 << (bits - 1))).to_string()),
            ("min", false) => ("umin", "-1".to_owned()),
            ("max", false) => ("umax", "0".to_owned()),
            ("and", _) => ("and", "-1".to_owned()),
            ("or", _) => ("or", "0".to_owned()),
            ("xor", _) => ("xor", "0".to_owned()),
            _ => return None,
        };
        Some(Fold { reduce, start: None, neutral })
    }

    /// Folds the chosen places of a row.
    fn row(&self, w: &mut Writer, chosen: &Value, row: &Value, scalar: Scalar) -> Value {
        let place = format!("{scalar} {}", self.neutral);
        let neutral = Value::new(row.ty, format!("<{}>", vec![place; LANES as usize].join(", ")));
        let row = w.select(chosen, row, &neutral);
        let one = Type::One(scalar);
        let element = if scalar == Scalar::Float { "f32".to_owned() } else { scalar.to_string() };
        let callee = format!("@llvm.vector.reduce.{}.v{LANES}{element}", self.reduce);
        match self.start {
            // In any order of adding: the same one on every lane.
            Some(start) => {
                let start = Value::float(start);
                w.op(one, format_args!("call reassoc {one} {callee}({}, {})", start.typed(), row.typed()))
            }
            None => w.call_text(one, &callee, &[&row]),
        }
    }
}
