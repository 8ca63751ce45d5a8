//! Rotary embeddings, matrix times vector, matrix times matrix.

use crate::case::{Case, uniform};
use crate::element::{Element, FLOATS};
use crate::run;

#[test]
fn rotary_embeddings_turn_pairs_in_both_layouts() {
    let mut cases = Vec::new();
    let (heads, steps, width) = (6_usize, 9_usize, 64_usize);
    let half = width / 2;
    for t in FLOATS {
        let x = uniform(30, heads * steps * width, -2.0, 2.0);
        for traditional in [false, true] {
            let name = format!("rope_{}{{forward=true, traditional={traditional}, hs_transpose=false}}", t.name());
            let strides = [(steps * width) as i64, width as i64, 1];
            let case = Case::new(name).input("x", t, &[heads, steps, width], &x).output(t, heads * steps * width);
            let case = case.bytes(&[3_i32]).bytes(&[0.5_f32]).bytes(&strides).bytes(&strides).bytes(&[0_i64]);
            let case = case.bytes(&[heads as i32]).at(10).bytes(&[10_000_f32.log2()]);
            // A thread turns one pair of four heads.
            let case = case.threads([half, steps, heads.div_ceil(4)], [half, steps, 1]);
            let angle = format!(
                "(0.5 * (np.arange({steps}) + 3))[:, None] * 2.0 ** (-np.arange({half}) / {half} * np.log2(10000.0))"
            );
            let (one, two, join) = if traditional {
                ("x[..., ::2]", "x[..., 1::2]", "np.stack([p, q], -1)")
            } else {
                ("x[..., :32]", "x[..., 32:]", "np.concatenate([p, q], -1)")
            };
            let expression = format!(
                "(lambda g, one, two: (lambda p, q: {join})(one * np.cos(g) - two * np.sin(g), one * np.sin(g) + two * np.cos(g)))({angle}, {one}, {two})"
            );
            // Metal's fast sine and cosine are off by 2^-11 of 1 at most; the model's by less.
            let allowed = if t == Element::F32 { 64.0 } else { 2.0 };
            cases.push(case.within(allowed, 2.0, expression));
        }
    }
    run(cases);
}

#[test]
fn a_matrix_times_a_vector_adds_up_in_simdgroups() {
    let mut cases = Vec::new();
    for t in FLOATS {
        let (rows, columns) = (83_usize, 515_usize);
        let matrix = uniform(31, rows * columns, -1.0, 1.0);
        let sizes = |case: Case, vector: usize, out: usize| {
            let case = case.output(t, out).bytes(&[vector as i32]).bytes(&[out as i32]).bytes(&[columns as i32]);
            case.at(9).bytes(&[1_i32]).bytes(&[1_i32]).bytes(&[0_i64]).bytes(&[0_i64])
        };
        let allowed = |terms: usize| if t == Element::F32 { (terms as f64).sqrt() } else { 2.0 };
        let vector = uniform(32, columns, -1.0, 1.0);
        let case = Case::new(format!("gemv_{}_bm4_bn1_sm1_sn32_tm4_tn4_nc0_axpby0", t.name()));
        let case = case.input("m", t, &[rows, columns], &matrix).input("v", t, &[columns], &vector).at(3);
        // A group's 4 simdgroups take 4 rows each.
        let case = sizes(case, columns, rows).groups([rows.div_ceil(16), 1, 1], [32, 1, 4]);
        cases.push(case.within(allowed(columns), 4.0, "m @ v"));
        let vector = uniform(33, rows, -1.0, 1.0);
        let case = Case::new(format!("gemv_t_{}_bm1_bn2_sm8_sn4_tm4_tn4_nc0_axpby0", t.name()));
        let case = case.input("m", t, &[rows, columns], &matrix).input("v", t, &[rows], &vector).at(3);
        // 2 simdgroups, each over 4 times 4 columns.
        let case = sizes(case, rows, columns).groups([columns.div_ceil(32), 1, 1], [32, 2, 1]);
        cases.push(case.within(allowed(rows), 4.0, "v @ m"));
    }
    run(cases);
}

/// The sizes of a product, as the library's structure holds them.
#[derive(Clone, Copy, bytemuck::NoUninit)]
#[repr(C)]
struct Product {
    m: i32,
    n: i32,
    k: i32,
    lda: i32,
    ldb: i32,
    ldd: i32,
    tiles_n: i32,
    tiles_m: i32,
    batch_strides: [i64; 3],
    swizzle_log: i32,
    k_iterations: i32,
    batch_dimensions: i32,
    padding: i32,
}

#[test]
fn a_matrix_product_of_whole_and_of_ragged_tiles() {
    let mut cases = Vec::new();
    for t in FLOATS {
        for (m, n, k) in [(128_usize, 64_usize, 96_usize), (100, 77, 53)] {
            let (a, b) = (uniform(34, m * k, -1.0, 1.0), uniform(35, k * n, -1.0, 1.0));
            let constants = format!(
                "has_batch=false, use_out_source=false, do_axpby=false, align_M={}, align_N={}, align_K={}",
                m % 64 == 0,
                n % 64 == 0,
                k % 16 == 0
            );
            let name = format!("steel_gemm_fused_nn_{0}_{0}_bm64_bn64_bk16_wm2_wn2{{{constants}}}", t.name());
            let (tiles_m, tiles_n) = (m.div_ceil(64), n.div_ceil(64));
            let product = Product {
                m: m as i32,
                n: n as i32,
                k: k as i32,
                lda: k as i32,
                ldb: n as i32,
                ldd: n as i32,
                tiles_n: tiles_n as i32,
                tiles_m: tiles_m as i32,
                batch_strides: [(m * k) as i64, (k * n) as i64, (m * n) as i64],
                swizzle_log: 0,
                k_iterations: (k / 16) as i32,
                batch_dimensions: 1,
                padding: 0,
            };
            let case = Case::new(name).input("a", t, &[m, k], &a).input("b", t, &[k, n], &b).at(3);
            let case = case.output(t, m * n).bytes(&[product]).groups([tiles_n, tiles_m, 1], [32, 2, 2]);
            let allowed = if t == Element::F32 { 16.0 } else { 2.0 };
            cases.push(case.within(allowed, 4.0, "a @ b"));
        }
    }
    run(cases);
}
