//! Kernels of MLX, compiled by Apple's compiler, run on software Metal and compared with plain Rust.
//!
//! The library is in the Python wheel `mlx-metal`, which `wheel` fetches. Where that cannot be done the tests say
//! "skipped" and why.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

mod wheel;

use std::fs;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytemuck::Pod;
use rig_metal_model::address::gpu_address;
use rig_metal_model::container::Library;
use rig_metal_model::kernel::{
    Bound, CompileOptions, ConstantValue, Constants, Dispatch, Effort, Kernel, Residency, Violation,
};
use rig_metal_model::workers::Workers;

/// MLX's library; nothing where it cannot be had, which is said.
fn library() -> Option<Library> {
    static LIBRARY: LazyLock<Option<Library>> = LazyLock::new(|| match wheel::library() {
        Ok(path) => Some(Library::open(Arc::new(fs::read(path).unwrap())).unwrap()),
        Err(why) => {
            eprintln!("{why}");
            None
        }
    });
    LIBRARY.clone()
}

/// Bytes that kernels read and write, aligned as Metal's buffers are.
struct Buffer {
    words: Vec<[u64; 32]>,
    bytes: usize,
}

impl Buffer {
    fn new<T: Pod>(values: &[T]) -> Self {
        let bytes = size_of_val(values);
        let mut words = vec![[0; 32]; bytes.div_ceil(256).max(1)];
        bytemuck::cast_slice_mut::<_, u8>(&mut words)[..bytes].copy_from_slice(bytemuck::cast_slice(values));
        Self { words, bytes }
    }

    fn bound(&mut self) -> Option<Bound> {
        let host = self.words.as_mut_ptr().expose_provenance() as u64;
        Some(Bound { address: gpu_address(host), len: self.bytes as u64 })
    }

    fn values<T: Pod>(&self) -> Vec<T> {
        // The kernel that wrote them has ended.
        std::hint::black_box(&self.words);
        bytemuck::cast_slice(&bytemuck::cast_slice::<_, u8>(&self.words)[..self.bytes]).to_vec()
    }
}

fn kernels_with(name: &str, constants: &[(&str, bool)]) -> Vec<Kernel> {
    let Some(library) = library() else { return Vec::new() };
    let constants = Constants {
        by_name: constants.iter().map(|&(name, value)| (name.to_owned(), ConstantValue::Bool(value))).collect(),
        ..Constants::default()
    };
    let compile = |effort| {
        let options = CompileOptions { effort, ..CompileOptions::default() };
        Kernel::compile(&library, name, &constants, &options).unwrap()
    };
    [Effort::Fast, Effort::Full].map(compile).into()
}

/// The kernel by each effort of the compiler; none where the library cannot be had.
fn kernels(name: &str) -> Vec<Kernel> {
    kernels_with(name, &[])
}

static WORKERS: LazyLock<Workers> = LazyLock::new(|| Workers::new(2));

fn try_run(kernel: &Kernel, groups: [u32; 3], threads: [u32; 3], buffers: &mut [Buffer]) -> Result<(), Violation> {
    let mut bound = [None; 31];
    for (to, buffer) in bound.iter_mut().zip(buffers) {
        *to = buffer.bound();
    }
    let resident = Residency::default();
    let dispatch =
        Dispatch { groups, threads, grid: None, buffers: &bound, threadgroup: &[0; 31], resident: &resident };
    kernel.dispatch(&dispatch, &WORKERS)
}

fn run(kernel: &Kernel, groups: [u32; 3], threads: [u32; 3], buffers: &mut [Buffer]) {
    try_run(kernel, groups, threads, buffers).unwrap();
}

/// Numbers between -1 and 1 that are the same each time.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).max(1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The largest difference, relative to values above 1.
fn error(got: &[f32], want: impl Iterator<Item = f64>) -> f64 {
    got.iter().zip(want).map(|(&got, want)| (f64::from(got) - want).abs() / want.abs().max(1.0)).fold(0.0, f64::max)
}

/// Of the processor's time, which a busy machine does not stretch as it does the clock's.
#[test]
fn a_library_of_17_248_functions_opens_in_under_a_second() {
    let Ok(path) = wheel::library() else { return eprintln!("skipped: no library") };
    let bytes = Arc::new(fs::read(path).unwrap());
    let start = processor_time();
    let library = Library::open(bytes).unwrap();
    let took = processor_time() - start;
    assert_eq!(library.names().count(), 17_248);
    assert!(took < Duration::from_secs(1), "{took:?}");
}

/// The processor time of this thread, which does all of an opening.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn the_sum_of_two_vectors_is_exact() {
    for add in kernels("vv_Addfloat32") {
        let (a, b) = (numbers(4096, 1), numbers(4096, 2));
        let mut buffers = [Buffer::new(&a), Buffer::new(&b), Buffer::new(&[0_f32; 4096]), Buffer::new(&[4096_u32])];
        run(&add, [16, 1, 1], [256, 1, 1], &mut buffers);
        let want: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(buffers[2].values::<f32>(), want);
    }
}

#[test]
fn exponentials_are_those_of_f64_to_one_part_in_five_million() {
    for exp in kernels("v_Expfloat32float32") {
        let x: Vec<f32> = numbers(4096, 3).iter().map(|x| x * 10.0).collect();
        let mut buffers = [Buffer::new(&x), Buffer::new(&[0_f32; 4096]), Buffer::new(&[4096_u32])];
        run(&exp, [16, 1, 1], [256, 1, 1], &mut buffers);
        let error = error(&buffers[1].values::<f32>(), x.iter().map(|&x| f64::from(x).exp()));
        assert!(error < 2e-7, "{error}");
    }
}

#[test]
fn softmax_of_full_and_ragged_rows() {
    for softmax in kernels("block_softmax_float32") {
        for columns in [1024_usize, 999, 31] {
            let x = numbers(8 * columns, 4);
            let mut buffers = [Buffer::new(&x), Buffer::new(&vec![0_f32; x.len()]), Buffer::new(&[columns as i32])];
            let threads = columns.div_ceil(4).next_multiple_of(32) as u32;
            run(&softmax, [8, 1, 1], [threads, 1, 1], &mut buffers);
            let want = x.chunks(columns).flat_map(|row| {
                let total: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
                row.iter().map(move |&x| f64::from(x).exp() / total)
            });
            let error = error(&buffers[1].values::<f32>(), want);
            assert!(error < 1e-7, "{columns}: {error}");
        }
    }
}

#[test]
fn the_root_mean_square_norm() {
    for rms in kernels("rmsfloat32") {
        let columns = 1000_usize;
        let (x, w) = (numbers(4 * columns, 5), numbers(columns, 6));
        let mut buffers = [
            Buffer::new(&x),
            Buffer::new(&w),
            Buffer::new(&vec![0_f32; x.len()]),
            Buffer::new(&[1e-5_f32]),
            Buffer::new(&[columns as u32]),
            Buffer::new(&[1_u32]),
        ];
        run(&rms, [4, 1, 1], [256, 1, 1], &mut buffers);
        let want = x.chunks(columns).flat_map(|row| {
            let mean = row.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / columns as f64;
            let scale = 1.0 / (mean + 1e-5).sqrt();
            row.iter().zip(&w).map(move |(&x, &w)| f64::from(x) * scale * f64::from(w))
        });
        let error = error(&buffers[2].values::<f32>(), want);
        assert!(error < 2e-6, "{error}");
    }
}

#[test]
fn a_sort_of_rows_is_exact() {
    for sort in kernels("c_block_sort_float32_float32_bn256_tn4") {
        let columns = 1000_usize;
        let x = numbers(3 * columns, 7);
        let mut buffers = [
            Buffer::new(&x),
            Buffer::new(&vec![0_f32; x.len()]),
            Buffer::new(&[columns as i32]),
            Buffer::new(&[1_i32]),
            Buffer::new(&[1_i32]),
            Buffer::new(&[columns as i32]),
            Buffer::new(&[columns as i32]),
        ];
        run(&sort, [1, 3, 1], [256, 1, 1], &mut buffers);
        let mut want = x;
        want.chunks_mut(columns).for_each(|row| row.sort_by(f32::total_cmp));
        assert_eq!(buffers[1].values::<f32>(), want);
    }
}

/// The parameters of MLX's matrix multiplication, as its host code lays them out.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Gemm {
    m: i32,
    n: i32,
    k: i32,
    lda: i32,
    ldb: i32,
    ldd: i32,
    tiles_n: i32,
    tiles_m: i32,
    batch_strides: [i64; 3],
    swizzle: i32,
    iterations: i32,
    batches: i32,
    padding: i32,
}

#[test]
fn a_matrix_product_of_whole_and_ragged_tiles() {
    for [m, n, k] in [[128_usize, 128, 64], [100, 75, 50]] {
        let aligned = m % 64 == 0;
        let names = ["has_batch", "use_out_source", "do_axpby", "align_M", "align_N", "align_K"];
        let constants: Vec<_> = names.iter().map(|&name| (name, aligned && name.starts_with("align"))).collect();
        let name = "steel_gemm_fused_nn_float32_float32_bm64_bn64_bk16_wm2_wn2";
        for gemm in kernels_with(name, &constants) {
            product(&gemm, [m, n, k]);
        }
    }
}

/// Multiplies two matrices, and compares.
fn product(gemm: &Kernel, [m, n, k]: [usize; 3]) {
    let (a, b) = (numbers(m * k, 8), numbers(k * n, 9));
    let (tiles_n, tiles_m) = (n.div_ceil(64) as i32, m.div_ceil(64) as i32);
    let parameters = Gemm {
        m: m as i32,
        n: n as i32,
        k: k as i32,
        lda: k as i32,
        ldb: n as i32,
        ldd: n as i32,
        tiles_n,
        tiles_m,
        batch_strides: [(m * k) as i64, (k * n) as i64, (m * n) as i64],
        swizzle: 0,
        iterations: (k / 16) as i32,
        batches: 1,
        padding: 0,
    };
    let mut buffers = [
        Buffer::new(&a),
        Buffer::new(&b),
        Buffer::new(&[0_f32]),
        Buffer::new(&vec![0_f32; m * n]),
        Buffer::new(&[parameters]),
        Buffer::new(&[0_u8; 24]),
        Buffer::new(&[1_i32]),
        Buffer::new(&[0_i64]),
    ];
    run(gemm, [tiles_n as u32, tiles_m as u32, 1], [32, 2, 2], &mut buffers);
    let want = (0..m * n)
        .map(|at| (0..k).map(|inner| f64::from(a[at / n * k + inner]) * f64::from(b[inner * n + at % n])).sum());
    let error = error(&buffers[3].values::<f32>(), want);
    assert!(error < 1e-5, "{m} {n} {k}: {error}");
}

#[test]
fn a_missing_constant_is_named() {
    let Some(library) = library() else { return };
    let name = "steel_gemm_fused_nn_float32_float32_bm64_bn64_bk16_wm2_wn2";
    let failed = Kernel::compile(&library, name, &Constants::default(), &CompileOptions::default()).unwrap_err();
    assert!(failed.to_string().contains("has_batch, index 10"), "{failed}");
}
