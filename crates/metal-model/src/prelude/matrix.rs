//! The 8×8 matrices of a SIMD-group: `air.simdgroup_matrix_8x8_*`.
//!
//! Each lane holds two elements of a matrix, in the first two places of its `<64 x T>`; the other places hold nothing.
//! Lane `l` of quad `q = l / 4` has row `(q & 4) + l / 2 % 4` and the columns from `(q & 2) * 2 + l % 2 * 2` on, so
//! that the lanes of one row differ in their bits 0 and 3 alone, and those of one column in bits 1, 2 and 4.

use super::lanes;
use super::types::{Name, Scalar, Type};
use super::writer::{Value, Writer};

/// Places in a lane's vector.
const PLACES: u32 = 64;
/// The bits of a lane's number that say its row.
const ROW_BITS: i64 = 0b10110;
/// The bits of a lane's number that say its columns.
const COLUMN_BITS: i64 = 0b01001;

const I64: Type = Type::One(Scalar::Int(64));

/// Writes the body if the family is of matrices.
pub(super) fn write(w: &mut Writer, name: &Name<'_>, result: Type, arguments: &[Value]) -> Option<Value> {
    let operation = name.family.strip_prefix("simdgroup_matrix_8x8_")?;
    match (operation, arguments) {
        ("init_filled", [value]) => {
            let scalar = result.scalar().filter(|scalar| *scalar == value.scalar())?;
            matrix(w, scalar, [value.clone(), value.clone()])
        }
        ("init_diag", [value]) => diagonal(w, result, value),
        ("load", [source, rest @ ..]) => load(w, result, source, rest),
        ("store", [value, target, rest @ ..]) => store(w, value, target, rest),
        ("multiply_accumulate", [a, b, c]) if c.ty == result => multiply(w, a, b, Some(c), result),
        ("multiply", [a, b]) => multiply(w, a, b, None, result),
        _ => None,
    }
}

/// A lane's vector with these two elements.
fn matrix(w: &mut Writer, scalar: Scalar, pair: [Value; 2]) -> Option<Value> {
    let ty = Type::Many(PLACES, scalar);
    let [first, second] = pair;
    let one = w.op(ty, format_args!("insertelement {ty} poison, {}, i32 0", first.typed()));
    Some(w.op(ty, format_args!("insertelement {}, {}, i32 1", one.typed(), second.typed())))
}

/// The lane's row and first column.
fn place(w: &mut Writer) -> (Value, Value) {
    let lane = lanes::lane(w);
    let mut bit = |from: i64, mask: i64, to: i64| {
        let shifted = if from >= to {
            w.binary("lshr", &lane, &Value::int(from - to))
        } else {
            w.binary("shl", &lane, &Value::int(to - from))
        };
        w.binary("and", &shifted, &Value::int(mask))
    };
    // Row: bits 1 and 2 at 0, bit 4 at 2. Column: bit 0 at 1, bit 3 at 2.
    let (low, high) = (bit(1, 3, 0), bit(4, 4, 2));
    let (left, right) = (bit(0, 2, 1), bit(3, 4, 2));
    (w.binary("or", &low, &high), w.binary("or", &left, &right))
}

/// The matrix that has the value on its diagonal and zeros elsewhere.
fn diagonal(w: &mut Writer, result: Type, value: &Value) -> Option<Value> {
    let scalar = result.scalar().filter(|scalar| *scalar == value.scalar())?;
    let (row, column) = place(w);
    let second = w.binary("add", &column, &Value::int(1));
    let zero = Value::one(scalar, "0.0");
    let (on, next) = (w.compare("icmp eq", &row, &column), w.compare("icmp eq", &row, &second));
    let pair = [w.select(&on, value, &zero), w.select(&next, value, &zero)];
    matrix(w, scalar, pair)
}

/// The addresses of a lane's two elements. Two forms of the last arguments are known:
/// elements of a row, origin, whether transposed; or the bounds, the steps along a row and along a column, origin.
fn addresses(w: &mut Writer, base: &Value, scalar: Scalar, rest: &[Value]) -> Option<[Value; 2]> {
    let pair = Type::Many(2, Scalar::Int(64));
    let (row, column) = place(w);
    let (row, column) = (w.cast("zext", &row, I64), w.cast("zext", &column, I64));
    let one = Value::new(I64, 1);
    let (origin, along_row, along_column) = match rest {
        [stride, origin, transposed] if stride.ty == I64 && transposed.ty == Type::One(Scalar::Int(1)) => {
            (origin, w.select(transposed, stride, &one), w.select(transposed, &one, stride))
        }
        [bounds, steps, origin] if bounds.ty == pair && steps.ty == pair => {
            (origin, w.element(steps, 0), w.element(steps, 1))
        }
        _ => return None,
    };
    if origin.ty != pair {
        return None;
    }
    // The origin counts in memory: columns, then rows, of what is not transposed. Transposed in the first form, its
    // steps go the other way round.
    let (x, y) = (w.element(origin, 0), w.element(origin, 1));
    let (x, y) = match rest {
        [stride, _, transposed] if stride.ty == I64 => (w.select(transposed, &y, &x), w.select(transposed, &x, &y)),
        _ => (x, y),
    };
    let (column, row) = (w.binary("add", &column, &x), w.binary("add", &row, &y));
    let (right, down) = (w.binary("mul", &column, &along_row), w.binary("mul", &row, &along_column));
    let first = w.binary("add", &right, &down);
    let second = w.binary("add", &first, &along_row);
    Some(
        [first, second]
            .map(|index| w.op(base.ty, format_args!("getelementptr {scalar}, {}, {}", base.typed(), index.typed()))),
    )
}

/// Reads a matrix from memory: each lane its two elements.
fn load(w: &mut Writer, result: Type, source: &Value, rest: &[Value]) -> Option<Value> {
    let scalar = result.scalar()?;
    let pair = addresses(w, source, scalar, rest)?.map(|address| w.load(Type::One(scalar), &address));
    matrix(w, scalar, pair)
}

/// Writes a matrix to memory: each lane its two elements.
fn store(w: &mut Writer, value: &Value, target: &Value, rest: &[Value]) -> Option<Value> {
    let scalar = value.ty.scalar()?;
    for (index, address) in (0u32..).zip(addresses(w, target, scalar, rest)?) {
        let element = w.element(value, index);
        w.store(&element, &address);
    }
    Some(Value::new(Type::Void, ""))
}

/// a · b + c, in float: each lane gives its elements of a and b, and computes its two of the result from a row and two
/// columns of the others'.
fn multiply(w: &mut Writer, a: &Value, b: &Value, c: Option<&Value>, result: Type) -> Option<Value> {
    let scalar = result.scalar()?;
    let known = |ty: Type| matches!(ty, Type::Many(PLACES, scalar) if scalar.is_float());
    if !known(a.ty) || !known(b.ty) || !known(result) {
        return None;
    }
    let given = [(a, 0), (a, 1), (b, 0), (b, 1)].map(|(from, index)| {
        let element = w.element(from, index);
        w.widen(&element)
    });
    let mut sums = [0, 1].map(|index| match c {
        Some(c) => {
            let element = w.element(c, index);
            w.widen(&element)
        }
        None => Value::float(0.0),
    });
    let lane = lanes::lane(w);
    let (all, _) = lanes::share(w, &given);
    // What a lane gave is four floats; of the row the first two, of the columns the last two.
    let mut at = |bits: i64, half: i64| {
        let lane = w.binary("and", &lane, &Value::int(bits));
        let bytes = w.binary("mul", &lane, &Value::int(16));
        let start = w.binary("add", &bytes, &Value::int(half * 8));
        w.offset(&all, &start)
    };
    let (row, columns) = (at(ROW_BITS, 0), at(COLUMN_BITS, 1));
    let float = Type::One(Scalar::Float);
    for k in 0..8i64 {
        // Column k of a is in the lane with k's upper bits at 0 and 3; row k of b in the one with its bits at 1, 2 and
        // 4.
        let (in_a, in_b) = ((k >> 2 << 3) | (k >> 1 & 1), (k >> 2 << 4) | ((k & 3) << 1));
        let place = w.offset(&row, &Value::int(in_a * 16 + (k & 1) * 4));
        let factor = w.load(float, &place);
        for (index, sum) in (0i64..).zip(&mut sums) {
            let place = w.offset(&columns, &Value::int(in_b * 16 + index * 4));
            let other = w.load(float, &place);
            *sum = w.intrinsic("fma", &[&factor, &other, sum]);
        }
    }
    let pair = sums.map(|sum| w.narrow(&sum, scalar));
    matrix(w, scalar, pair)
}
