//! Functions of one element at a time: binary, unary, copies, arange.

use crate::case::{Case, uniform};
use crate::element::{Element, FLOATS};
use crate::run;

/// An odd count, so that the last thread of those that take several elements has fewer.
const COUNT: usize = 5003;

/// Both operands of a binary function, elements in rows.
fn operands(case: Case, t: Element) -> Case {
    let (a, b) = (uniform(1, COUNT, -8.0, 8.0), uniform(2, COUNT, 0.5, 4.0));
    case.input("a", t, &[COUNT], &a).input("b", t, &[COUNT], &b).output(t, COUNT)
}

/// Roundings of the output's type that a function may be off by: in float32 its error there; in the others one rounding for
/// each step that the library takes in that type, at most four.
fn roundings(t: Element, in_float: f64) -> f64 {
    if t == Element::F32 { in_float } else { 4.0 }
}

#[test]
fn binary_functions_of_contiguous_arrays_compute_what_numpy_does() {
    let exact = [
        ("Add", "a + b"),
        ("Subtract", "a - b"),
        ("Multiply", "a * b"),
        ("Maximum", "np.maximum(a, b)"),
        ("Minimum", "np.minimum(a, b)"),
    ];
    let mut cases = Vec::new();
    for t in FLOATS {
        for (name, expression) in exact {
            let case = operands(Case::new(format!("vv_{name}{}", t.name())), t);
            cases.push(case.bytes(&[COUNT as u32]).threads([COUNT, 1, 1], [256, 1, 1]).equals(expression));
            let case = operands(Case::new(format!("vvn_{name}{}", t.name())), t);
            let threads = COUNT.div_ceil(t.per_thread());
            cases.push(case.bytes(&[COUNT as u32]).threads([threads, 1, 1], [256, 1, 1]).equals(expression));
        }
        // Metal's fast division of floats may be off by two and a half units in the last place.
        let case = operands(Case::new(format!("vv_Divide{}", t.name())), t).bytes(&[COUNT as u32]);
        cases.push(case.threads([COUNT, 1, 1], [256, 1, 1]).within(roundings(t, 5.0), 0.0, "a / b"));
    }
    run(cases);
}

#[test]
fn a_power_of_floats_is_within_sixteen_units() {
    let (a, b) = (uniform(3, COUNT, 0.1, 8.0), uniform(4, COUNT, -3.0, 3.0));
    let case =
        Case::new("vv_Powerfloat32").input("a", Element::F32, &[COUNT], &a).input("b", Element::F32, &[COUNT], &b);
    let case = case.output(Element::F32, COUNT).bytes(&[COUNT as u32]).threads([COUNT, 1, 1], [256, 1, 1]);
    run(vec![case.within(32.0, 0.0, "a ** b")]);
}

#[test]
fn binary_functions_take_scalars_on_either_side() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let (long, one) = (uniform(5, COUNT, -8.0, 8.0), uniform(6, 1, -8.0, 8.0));
        for (kind, a, b) in [("sv", &one, &long), ("vs", &long, &one), ("ss", &one, &one)] {
            let case =
                Case::new(format!("{kind}_Add{}", t.name())).input("a", t, &[a.len()], a).input("b", t, &[b.len()], b);
            let count = a.len().max(b.len());
            let case = case.output(t, count).bytes(&[count as u32]).threads([count, 1, 1], [count.min(256), 1, 1]);
            cases.push(case.equals("a + b"));
        }
        let (rows, columns) = (37, 135);
        let (a, b) = (uniform(7, rows * columns, -8.0, 8.0), uniform(8, rows * columns, -8.0, 8.0));
        let case = Case::new(format!("vv2_Add{}", t.name())).input("a", t, &[rows * columns], &a);
        let case =
            case.input("b", t, &[rows * columns], &b).output(t, rows * columns).bytes(&[(rows * columns) as i64]);
        // A thread takes several elements here too, so the last of a grid have none.
        let threads = columns.div_ceil(t.per_thread());
        cases.push(case.threads([threads, rows, 1], [threads.min(32), 4, 1]).equals("a + b"));
    }
    run(cases);
}

#[test]
fn binary_functions_follow_any_strides() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let n = 24;
        let (a, b) = (uniform(9, n * n * n * 2, -8.0, 8.0), uniform(10, n * n * n * 2, -8.0, 8.0));
        let of = |name: &str, shape: &[usize]| {
            let len = shape.iter().product::<usize>();
            let case = Case::new(format!("{name}_Add{}", t.name())).input("a", t, &[a.len()], &a);
            case.input("b", t, &[b.len()], &b).output(t, len)
        };
        let case = of("g1", &[n * n]).bytes(&[2_i64]).bytes(&[3_i64]);
        cases.push(case.threads([n * n, 1, 1], [32, 1, 1]).equals(format!("a[::2][:{0}] + b[::3][:{0}]", n * n)));
        let turned = format!("a[:{0}].reshape({n}, {n}).T + b[:{0}].reshape({n}, {n})", n * n);
        let case = of("g2", &[n, n]).bytes(&[1_i64, n as i64]).bytes(&[n as i64, 1]);
        cases.push(case.threads([n, n, 1], [8, 8, 1]).equals(turned));
        let cube = format!("a[:{0}].reshape({n}, {n}, {n}).transpose(2, 0, 1) + b[:{n}]", n * n * n);
        let strides = [1, (n * n) as i64, n as i64];
        let case = of("g3", &[n, n, n]).bytes(&strides).bytes(&[0_i64, 0, 1]);
        cases.push(case.threads([n, n, n], [4, 4, 4]).equals(cube.clone()));
        let case = of("gn2", &[n, n, n]).bytes(&[n as i32; 3]).bytes(&strides).bytes(&[0_i64, 0, 1]).bytes(&[3_i32]);
        cases.push(case.threads([n / 2, n, n], [4, 4, 4]).equals(cube));
    }
    run(cases);
}

#[test]
fn unary_functions_are_within_what_metal_allows() {
    // Name, numpy's expression, the inputs' range, and units in the last place that Metal's specification allows in fast
    // mode (two roundings each), with what the library's own polynomials add; relative to at least `floor`.
    let functions = [
        ("Negative", "-a", -8.0, 8.0, 0.0, 0.0),
        ("Abs", "np.abs(a)", -8.0, 8.0, 0.0, 0.0),
        ("Square", "a * a", -8.0, 8.0, 0.0, 0.0),
        ("Floor", "np.floor(a)", -8.0, 8.0, 0.0, 0.0),
        ("Ceil", "np.ceil(a)", -8.0, 8.0, 0.0, 0.0),
        ("Round", "np.rint(a)", -8.0, 8.0, 0.0, 0.0),
        ("Sign", "np.sign(a)", -8.0, 8.0, 0.0, 0.0),
        ("Sqrt", "np.sqrt(a)", 0.1, 80.0, 2.0, 0.0),
        ("Rsqrt", "1 / np.sqrt(a)", 0.1, 80.0, 4.0, 0.0),
        ("Exp", "np.exp(a)", -8.0, 8.0, 8.0, 0.0),
        ("Log", "np.log(a)", 0.1, 80.0, 8.0, 1.0),
        ("Log2", "np.log2(a)", 0.1, 80.0, 8.0, 1.0),
        ("Sin", "np.sin(a)", -8.0, 8.0, 8.0, 1.0),
        ("Cos", "np.cos(a)", -8.0, 8.0, 8.0, 1.0),
        ("Tanh", "np.tanh(a)", -4.0, 4.0, 10.0, 0.0),
        ("ArcTan", "np.arctan(a)", -8.0, 8.0, 10.0, 0.0),
        ("Sigmoid", "1 / (1 + np.exp(-a))", -8.0, 8.0, 12.0, 0.0),
    ];
    let mut cases = Vec::new();
    for t in FLOATS {
        for (name, expression, low, high, allowed, floor) in functions {
            let values = uniform(11, COUNT, low, high);
            let case = Case::new(format!("v_{name}{0}{0}", t.name())).input("a", t, &[COUNT], &values).output(t, COUNT);
            let case = case.bytes(&[COUNT as u32]).threads([COUNT, 1, 1], [256, 1, 1]);
            let allowed = if allowed == 0.0 { 0.0 } else { roundings(t, allowed) };
            cases.push(case.within(allowed, floor, expression));
        }
    }
    run(cases);
}

#[test]
fn copies_convert_between_all_floats_and_round_once() {
    let mut cases = Vec::new();
    for from in FLOATS {
        for to in FLOATS {
            let values = uniform(12, COUNT, -300.0, 300.0);
            let of = |kind: &str, len: usize| {
                let case = Case::new(format!("{kind}_copy{}{}", from.name(), to.name()));
                case.input("a", from, &[len], &values[..len]).output(to, COUNT).bytes(&[COUNT as u32])
            };
            cases.push(of("v", COUNT).threads([COUNT, 1, 1], [256, 1, 1]).equals("a"));
            cases.push(of("s", 1).threads([COUNT, 1, 1], [256, 1, 1]).equals(format!("np.full({COUNT}, a[0])")));
            let threads = COUNT.div_ceil(to.per_thread());
            cases.push(of("vn", COUNT).threads([threads, 1, 1], [64, 1, 1]).equals("a"));
            cases.push(of("sn", 1).threads([threads, 1, 1], [64, 1, 1]).equals(format!("np.full({COUNT}, a[0])")));
        }
    }
    run(cases);
}

#[test]
fn copies_follow_any_strides_of_source_and_destination() {
    let mut cases = Vec::new();
    let n = 20_usize;
    let whole = uniform(13, 2 * n * n * n, -300.0, 300.0);
    let (long, square, cube) = (n as i64, n * n, n * n * n);
    for t in FLOATS {
        let of = |kind: &str, len: usize| {
            let case = Case::new(format!("{kind}_copy{0}{0}", t.name()));
            case.input("a", t, &[whole.len()], &whole).output(t, len)
        };
        let turned = [1, long * long, long];
        cases.push(
            of("g1", square)
                .at(3)
                .bytes(&[2_i64])
                .threads([square, 1, 1], [32, 1, 1])
                .equals(format!("a[::2][:{square}]")),
        );
        let case = of("g2", square).at(3).bytes(&[1_i64, long]).threads([n, n, 1], [8, 8, 1]);
        cases.push(case.equals(format!("a[:{square}].reshape({n}, {n}).T")));
        let expression = format!("a[:{cube}].reshape({n}, {n}, {n}).transpose(2, 0, 1)");
        let case = of("g3", cube).at(3).bytes(&turned).threads([n, n, n], [4, 4, 4]);
        cases.push(case.equals(expression.clone()));
        let case = of("gn2", cube).bytes(&[n as i32; 3]).bytes(&turned).at(5).bytes(&[3_i32]);
        cases.push(case.threads([n / 2, n, n], [4, 4, 4]).equals(expression));
        // Into every second element: the gaps are whatever the buffer held, zero.
        let case = of("gg1", 2 * square).at(3).bytes(&[3_i64]).bytes(&[2_i64]).threads([square, 1, 1], [32, 1, 1]);
        cases.push(case.equals(format!("np.stack([a[::3][:{square}], np.zeros({square})], 1)")));
        let case = of("gg2", square).at(3).bytes(&[long, 1]).bytes(&[1_i64, long]).threads([n, n, 1], [8, 8, 1]);
        cases.push(case.equals(format!("a[:{square}].reshape({n}, {n}).T")));
        let case = of("gg3", cube).at(3).bytes(&[long * long, long, 1]).bytes(&turned).threads([n, n, n], [4, 4, 4]);
        cases.push(case.equals(format!("a[:{cube}].reshape({n}, {n}, {n}).transpose(1, 2, 0)")));
        let case = of("ggn2", cube).bytes(&[n as i32; 3]).bytes(&[long * long, long, 1]).bytes(&turned).bytes(&[3_i32]);
        cases.push(
            case.threads([n / 2, n, n], [4, 4, 4])
                .equals(format!("a[:{cube}].reshape({n}, {n}, {n}).transpose(1, 2, 0)")),
        );
    }
    run(cases);
}

#[test]
fn arange_counts_from_a_start_by_a_step() {
    let mut cases = Vec::new();
    for t in FLOATS {
        // So that every element has an exact value in each type.
        let case = Case::new(format!("arange{}", t.name())).element(t, -7.0).element(t, 0.5).output(t, 100);
        cases.push(case.threads([100, 1, 1], [32, 1, 1]).equals("-7 + 0.5 * np.arange(100)"));
    }
    run(cases);
}
