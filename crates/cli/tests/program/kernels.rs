//! The program's main job: functions that each compiler of this machine made from `kernels/`, run on files, and held
//! against a reference in 64-bit floats.
//!
//! How far a result may be off is worked out from the roundings of the kernel's own steps, each at most [`ROUNDING`]
//! relative: a sum of n terms, in any order, is off by at most n - 1 roundings of the sum of the terms' sizes (Higham,
//! Accuracy and Stability of Numerical Algorithms, 2nd edition, section 4.2), to first order; `SLACK` covers the rest.

use std::path::Path;

use crate::common::{ROUNDING, agree, compilers, folder, random, read, rig, write};

/// Covers terms of second order.
const SLACK: f64 = 1.01;

/// Compiles the kernel by every compiler in every variant, and calls `check` with a folder, what to call it, the start of the
/// line that runs it, and whether it is the compiler's first.
fn each(kernel: &str, check: impl Fn(&Path, &str, &str, bool)) {
    let folder = folder(kernel);
    for compiler in compilers() {
        for (index, variant) in compiler.variants.iter().enumerate() {
            let object = compiler.kernel(kernel, variant, &folder);
            let what = format!("{kernel} by {} {}", compiler.program, variant.join(" "));
            check(&folder, &what, &format!("run {} {kernel}", object.display()), index == 0);
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// Promise H03.
#[test]
fn saxpy_over_16_mi_floats_of_a_file_agrees_with_the_reference() {
    const A: f32 = 2.5;
    let check = |folder: &Path, what: &str, run: &str, n: usize| {
        let (x, y) = (random(1, n), random(2, n));
        write(&folder.join("x"), &x);
        write(&folder.join("y"), &y);
        // 1,000 divides neither size.
        let groups = n.div_ceil(1000);
        rig(
            folder,
            &format!(
                "{run} --grid {groups} --group 1000 --in f32:x --inout f32:y --scalar f32:{A} --scalar u32:{n} --out z"
            ),
        )
        .done();
        // One rounding of the product, unless it is fused, and one of the sum.
        let want = x.iter().zip(&y).map(|(&x, &y)| {
            let (product, y) = (f64::from(A) * f64::from(x), f64::from(y));
            (product + y, SLACK * ROUNDING * (product.abs() + (product + y).abs()))
        });
        agree(what, &read(&folder.join("z")), want);
    };
    each("saxpy", |folder, what, run, first| check(folder, what, run, if first { 16 << 20 } else { 100_003 }));
}

/// Promise H03.
#[test]
fn a_softmax_over_rows_agrees_with_the_reference() {
    let check = |folder: &Path, what: &str, run: &str, rows: usize, columns: usize| {
        let x: Vec<f32> = random(3, rows * columns).iter().map(|x| 20.0 * x).collect();
        write(&folder.join("x"), &x);
        let groups = rows.div_ceil(7);
        rig(
            folder,
            &format!(
                "{run} --grid {groups} --group 7 --in f32:x --zeros f32:{} --scalar u32:{rows} --scalar u32:{columns} \
                 --out z",
                rows * columns
            ),
        )
        .done();
        let want: Vec<(f64, f64)> = x.chunks_exact(columns).flat_map(softmax).collect();
        agree(what, &read(&folder.join("z")), want.into_iter());
    };
    // 4,099 rows of 4,093 are 9 elements short of 16 Mi.
    each("softmax", |folder, what, run, first| {
        let (rows, columns) = if first { (4099, 4093) } else { (101, 257) };
        check(folder, what, run, rows, columns);
    });
}

/// A row's softmax and how far each value may be off: the subtraction is off by one rounding of up to 40, which the
/// exponential turns into a relative error; the exponential by 1 unit in the last place (2 roundings) or less; the sum by
/// one rounding an element; the quotient by one.
fn softmax(row: &[f32]) -> Vec<(f64, f64)> {
    let most = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let powers: Vec<f64> = row.iter().map(|&x| (f64::from(x) - most).exp()).collect();
    let sum: f64 = powers.iter().sum();
    let roundings = 2.0 * 40.0 + 2.0 * 2.0 + row.len() as f64 + 1.0;
    powers.iter().map(|power| (power / sum, SLACK * roundings * ROUNDING * power / sum)).collect()
}

/// Promise H03.
#[test]
fn a_matrix_product_agrees_with_the_reference() {
    let (m, n, k) = (131, 203, 167);
    let (a, b) = (random(4, m * k), random(5, k * n));
    each("matmul", |folder, what, run, _| {
        write(&folder.join("a"), &a);
        write(&folder.join("b"), &b);
        // 32 by 8 threads divide neither side.
        let (across, down) = (n.div_ceil(32), m.div_ceil(8));
        rig(
            folder,
            &format!(
                "{run} --grid {across},{down} --group 32,8 --in f32:a --in f32:b --zeros f32:{} --scalar u32:{m} \
                 --scalar u32:{n} --scalar u32:{k} --out c",
                m * n
            ),
        )
        .done();
        let want: Vec<(f64, f64)> = (0..m * n)
            .map(|at| {
                let (i, j) = (at / n, at % n);
                let terms = (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j]));
                let size: f64 = terms.clone().map(f64::abs).sum();
                // One rounding for the product of a term, and one for each sum that it is part of.
                (terms.sum(), SLACK * (k as f64 + 1.0) * ROUNDING * size)
            })
            .collect();
        agree(what, &read(&folder.join("c")), want.into_iter());
    });
}

/// Promise H03.
#[test]
fn a_step_of_n_bodies_agrees_with_the_reference() {
    const N: usize = 509;
    const STEP: f32 = 0.01;
    const SOFTENING: f32 = 0.125;
    let (mut bodies, velocities) = (random(6, 4 * N), random(7, 4 * N));
    // A mass is not negative.
    bodies.iter_mut().skip(3).step_by(4).for_each(|mass| *mass = mass.abs());
    each("nbody", |folder, what, run, _| {
        write(&folder.join("bodies"), &bodies);
        write(&folder.join("velocities"), &velocities);
        rig(
            folder,
            &format!(
                "{run} --grid {} --group 64 --in f32:bodies --zeros f32:{} --inout f32:velocities --scalar f32:{STEP} \
                 --scalar f32:{SOFTENING} --scalar u32:{N} --out 1:moved --out 2:faster",
                N.div_ceil(64),
                4 * N
            ),
        )
        .done();
        let (moved, faster) = step(&bodies, &velocities, f64::from(STEP), f64::from(SOFTENING));
        agree(what, &read(&folder.join("moved")), moved.into_iter());
        agree(what, &read(&folder.join("faster")), faster.into_iter());
    });
}

/// Values, each with how far a result may be off.
type Bounded = Vec<(f64, f64)>;

/// The step's places and velocities.
///
/// A term of the pull is a product of a force, which takes some 12 roundings of positive numbers (three differences that
/// are off by a rounding of themselves, their squares and sums, a root, products, a quotient), and a difference: 16
/// roundings of the term cover it. The sum is off by one rounding of the terms' sizes for each body.
fn step(bodies: &[f32], velocities: &[f32], step: f64, softening: f64) -> (Bounded, Bounded) {
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<f64>>();
    let (bodies, velocities) = (wide(bodies), wide(velocities));
    let (mut moved, mut faster) = (Vec::new(), Vec::new());
    for (at, velocity) in bodies.chunks_exact(4).zip(velocities.chunks_exact(4)) {
        let (mut pull, mut size) = ([0.0; 3], [0.0; 3]);
        for other in bodies.chunks_exact(4) {
            let d = [0, 1, 2].map(|axis| other[axis] - at[axis]);
            let squared = d.iter().map(|d| d * d).sum::<f64>() + softening;
            let force = other[3] / (squared * squared.sqrt());
            for axis in 0..3 {
                pull[axis] += force * d[axis];
                size[axis] += (force * d[axis]).abs();
            }
        }
        for axis in 0..3 {
            let speed = velocity[axis] + step * pull[axis];
            let roundings = bodies.len() as f64 / 4.0 + 16.0;
            let speed_off = ROUNDING * (step * size[axis] * (roundings + 1.0) + speed.abs());
            let place = at[axis] + step * speed;
            let place_off = step * speed_off + ROUNDING * ((step * speed).abs() + place.abs());
            faster.push((speed, SLACK * speed_off));
            moved.push((place, SLACK * place_off));
        }
        faster.push((velocity[3], 0.0));
        moved.push((at[3], 0.0));
    }
    (moved, faster)
}

/// Promises H02, H03.
#[test]
fn a_reduction_whose_threads_meet_at_barriers_agrees_with_the_reference() {
    const N: usize = 50_021;
    const THREADS: usize = 256;
    let x = random(8, N);
    each("reduce", |folder, what, run, _| {
        write(&folder.join("x"), &x);
        let groups = N.div_ceil(THREADS);
        rig(
            folder,
            &format!(
                "{run} --grid {groups} --group {THREADS} --group-memory {} --in f32:x --zeros f32:{groups} \
                 --scalar u32:{N} --out sums",
                4 * THREADS
            ),
        )
        .done();
        let want = x.chunks(THREADS).map(|group| {
            let size: f64 = group.iter().map(|&x| f64::from(x).abs()).sum();
            // The tree adds each element into 8 sums.
            (group.iter().map(|&x| f64::from(x)).sum(), SLACK * 8.0 * ROUNDING * size)
        });
        agree(what, &read(&folder.join("sums")), want);
    });
}
