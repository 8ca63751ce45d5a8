//! Reductions, softmax, norms, sorts.

use crate::case::{Case, uniform};
use crate::element::{Element, FLOATS};
use crate::run;

/// Roundings of a sum of `terms` values: each of a thread's additions is one, and the halves of a tree's.
fn sum_roundings(terms: usize) -> f64 {
    (terms as f64).sqrt() * 2.0
}

#[test]
fn a_whole_array_is_reduced_by_a_threadgroup() {
    let mut cases = Vec::new();
    let count = 4001;
    for t in FLOATS {
        let values = uniform(20, count, 0.0, 1.0);
        let of = |name: &str, values: &[f64]| {
            let case =
                Case::new(format!("all_reduce_{name}{}", t.name())).input("a", t, &[values.len()], values).output(t, 1);
            let sizes = values.len() as u64;
            case.bytes(&[sizes]).bytes(&[sizes]).groups([1, 1, 1], [512, 1, 1])
        };
        // Half and bfloat sums are kept in that type by the library itself.
        cases.push(of("sum", &values).within(sum_roundings(count), 1.0, "[a.sum()]"));
        cases.push(of("max", &values).equals("[a.max()]"));
        cases.push(of("min", &values).equals("[a.min()]"));
        let near_one = uniform(21, 64, 0.9, 1.1);
        cases.push(of("prod", &near_one).within(32.0, 0.0, "[a.prod()]"));
    }
    run(cases);
}

#[test]
fn rows_are_reduced_by_threads_and_by_threadgroups() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let (rows, columns) = (44, 333);
        let values = uniform(22, rows * columns, 0.0, 1.0);
        let case = Case::new(format!("row_reduce_simple_sum{}", t.name())).input("a", t, &[rows, columns], &values);
        let case = case.output(t, rows).bytes(&[columns as u64]).bytes(&[rows as i64]);
        // A group reduces four rows.
        let case = case.groups([1, rows / 4, 1], [96, 1, 1]);
        cases.push(case.within(sum_roundings(columns), 0.0, "a.sum(axis=1)"));

        let rest = |case: Case, columns: usize| {
            let case = case.output(t, rows).bytes(&[columns as i64]).bytes(&[1_i64]).bytes(&[rows as i32]);
            let case = case.bytes(&[columns as i64]).bytes(&[1_i32]).bytes(&[1_i32]).bytes(&[0_i64]).bytes(&[0_i32]);
            case.within(sum_roundings(columns), 0.0, "a.sum(axis=1)")
        };
        let case =
            Case::new(format!("row_reduce_looped_1_reduce_sum{}", t.name())).input("a", t, &[rows, columns], &values);
        cases.push(rest(case, columns).groups([1, rows, 1], [96, 1, 1]));
        let narrow = 7;
        let case = Case::new(format!("row_reduce_small_1_reduce_sum{}", t.name()));
        let case = case.input("a", t, &[rows, narrow], &values[..rows * narrow]);
        cases.push(rest(case, narrow).threads([rows, 1, 1], [rows, 1, 1]));
    }
    run(cases);
}

#[test]
fn columns_are_reduced_in_tiles() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let (rows, columns) = (70, 45);
        let values = uniform(23, rows * columns, 0.0, 1.0);
        let of = |kind: &str| {
            let case =
                Case::new(format!("col_reduce_{kind}_reduce_sum{}", t.name())).input("a", t, &[rows, columns], &values);
            let case = case.output(t, columns).bytes(&[rows as u64]).bytes(&[columns as i64]).bytes(&[1_i32]);
            let case =
                case.bytes(&[0_i64]).bytes(&[0_i32]).bytes(&[rows as i32]).bytes(&[columns as i64]).bytes(&[1_i32]);
            case.bytes(&[1_u64]).within(sum_roundings(rows), 0.0, "a.sum(axis=0)")
        };
        // 32 columns a group of 8 simdgroups, from a column on.
        let case = of("looped_1_32_32").bytes(&[0_i64]);
        cases.push(case.groups([columns.div_ceil(32), 1, 1], [256, 1, 1]));
    }
    run(cases);
}

#[test]
fn a_softmax_of_rows_sums_to_one() {
    let mut cases = Vec::new();
    let expression = "np.exp(a - a.max(axis=1, keepdims=True)) / np.exp(a - a.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)";
    for t in FLOATS {
        // A block takes a row at once, four elements a thread; a loop as many as there are.
        for (kind, columns, threads) in [("block", 999, 256), ("looped", 5000, 512)] {
            let rows = 6;
            let values = uniform(24, rows * columns, -4.0, 4.0);
            let case = Case::new(format!("{kind}_softmax_{}", t.name())).input("a", t, &[rows, columns], &values);
            let case = case.output(t, rows * columns).bytes(&[columns as i32]).groups([rows, 1, 1], [threads, 1, 1]);
            // Below a type's least normal number its steps are those of that number.
            let floor = if t == Element::F16 { 2.0_f64.powi(-14) } else { 0.0 };
            // The exponential, its sum and their quotient are each taken in the type itself.
            cases.push(case.within(if t == Element::F32 { 48.0 } else { 8.0 }, floor, expression));
        }
    }
    run(cases);
}

#[test]
fn norms_of_rows_have_their_scale_and_shift() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let rows = 5;
        // The last thread of a row has fewer elements than the others. It must have some: of a row that leaves a thread none,
        // the library's `layer_norm` writes before that thread's variable, which software Metal stops.
        for (kind, columns, threads) in [("", 1020, [256, 128]), ("_looped", 5000, [512, 512])] {
            let x = uniform(25, rows * columns, -3.0, 3.0);
            let (w, b) = (uniform(26, columns, 0.5, 1.5), uniform(27, columns, -1.0, 1.0));
            let allowed = if t == Element::F32 { 48.0 } else { 6.0 };
            let case = Case::new(format!("rms{kind}{}", t.name())).input("x", t, &[rows, columns], &x).input(
                "w",
                t,
                &[columns],
                &w,
            );
            let case = case.output(t, rows * columns).bytes(&[1e-5_f32]).bytes(&[columns as u32]).bytes(&[1_u32]);
            // As many threads as take a row at four elements each, or at eight.
            let case = case.groups([rows, 1, 1], [threads[0], 1, 1]);
            cases.push(case.within(allowed, 0.1, "w * x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)"));
            let case = Case::new(format!("layer_norm{kind}{}", t.name())).input("x", t, &[rows, columns], &x);
            let case = case.input("w", t, &[columns], &w).input("b", t, &[columns], &b).output(t, rows * columns);
            let case = case.bytes(&[1e-5_f32]).bytes(&[columns as u32]).bytes(&[1_u32]).bytes(&[1_u32]);
            let expression =
                "(x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5) * w + b";
            cases.push(case.groups([rows, 1, 1], [threads[1], 1, 1]).within(allowed, 2.0, expression));
        }
    }
    run(cases);
}

#[test]
fn rows_are_sorted_and_their_order_is_answered() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let rows = 4;
        for (threads, columns) in [(32, 100), (128, 509), (256, 1024)] {
            // Distinct in every type, so that the order is one.
            let mut values: Vec<f64> = (0..rows * columns).map(|i| ((i * 389) % 1021) as f64 / 8.0).collect();
            if t == Element::Bf16 {
                values.iter_mut().for_each(|value| *value = (*value * 8.0) % 251.0);
            }
            let sizes = |case: Case| {
                let case = case.bytes(&[columns as i32]).bytes(&[1_i32]).bytes(&[1_i32]);
                case.bytes(&[columns as i32]).bytes(&[columns as i32]).groups([1, rows, 1], [threads, 1, 1])
            };
            let case = Case::new(format!("c_block_sort_{0}_{0}_bn{threads}_tn4", t.name()));
            let case = case.input("a", t, &[rows, columns], &values).output(t, rows * columns);
            cases.push(sizes(case).equals("np.sort(a, axis=1)"));
            if t == Element::F32 {
                let case = Case::new(format!("carg_block_sort_{}_uint32_bn{threads}_tn4", t.name()));
                let case = case.input("a", t, &[rows, columns], &values).output(Element::U32, rows * columns);
                cases.push(sizes(case).equals("np.argsort(a, axis=1, kind='stable')"));
            }
        }
    }
    run(cases);
}
