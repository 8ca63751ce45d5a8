//! How fast software Metal is: opening a library, compiling a first function, taking it from the cache, an elementwise add.
//!
//! `speed [LIBRARY]`: with MLX's library, its functions; without, a fixture.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rig_metal_model::address::gpu_address;
use rig_metal_model::container::{Library, pack};
use rig_metal_model::kernel::{Bound, Checks, CompileOptions, Constants, Dispatch, Effort, Kernel, Residency};
use rig_metal_model::workers::Workers;

/// Elements of the add.
const COUNT: usize = 16 << 20;
/// Times that each thing is done; the best counts.
const ROUNDS: usize = 20;

/// `z[i] = x[i] + y[i]`, three buffers, as Apple's compiler writes it.
const ADD: &str = r#"
target datalayout = "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-f32:32:32-f64:64:64-v16:16:16-v24:32:32-v32:32:32-v48:64:64-v64:64:64-v96:128:128-v128:128:128-v192:256:256-v256:256:256-v512:512:512-v1024:1024:1024-n8:16:32"
target triple = "air64_v26-apple-macosx14.0.0"
define void @vv_Addfloat32(ptr addrspace(1) %0, ptr addrspace(1) %1, ptr addrspace(1) %2, i32 %3) {
  %5 = zext i32 %3 to i64
  %6 = getelementptr inbounds float, ptr addrspace(1) %0, i64 %5
  %7 = load float, ptr addrspace(1) %6, align 4
  %8 = getelementptr inbounds float, ptr addrspace(1) %1, i64 %5
  %9 = load float, ptr addrspace(1) %8, align 4
  %10 = fadd float %7, %9
  %11 = getelementptr inbounds float, ptr addrspace(1) %2, i64 %5
  store float %10, ptr addrspace(1) %11, align 4
  ret void
}
!air.kernel = !{!0}
!0 = !{ptr @vv_Addfloat32, !1, !2}
!1 = !{}
!2 = !{!3, !4, !5, !6}
!3 = !{i32 0, !"air.buffer", !"air.location_index", i32 0, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"x"}
!4 = !{i32 1, !"air.buffer", !"air.location_index", i32 1, i32 1, !"air.read", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"y"}
!5 = !{i32 2, !"air.buffer", !"air.location_index", i32 2, i32 1, !"air.read_write", !"air.address_space", i32 1, !"air.arg_type_size", i32 4, !"air.arg_type_align_size", i32 4, !"air.arg_type_name", !"float", !"air.arg_name", !"z"}
!6 = !{i32 3, !"air.thread_position_in_grid", !"air.arg_type_name", !"uint", !"air.arg_name", !"i"}
"#;

fn best(mut work: impl FnMut()) -> Duration {
    let time = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..ROUNDS).map(|_| time(&mut work)).min().unwrap_or_default()
}

fn bound(values: &mut [f32]) -> Option<Bound> {
    let host = values.as_mut_ptr().expose_provenance() as u64;
    Some(Bound { address: gpu_address(host), len: size_of_val(values) as u64 })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let bytes = match std::env::args().nth(1) {
        Some(path) => fs::read(path)?,
        None => pack(&[("vv_Addfloat32", ADD)])?,
    };
    println!("read or packed in {:.1?}", start.elapsed());
    let start = Instant::now();
    let library = Library::open(Arc::new(bytes))?;
    println!("opened {} functions in {:.1?}", library.names().count(), start.elapsed());
    let cache = std::env::temp_dir().join(format!("rig-metal-model-speed-{}", std::process::id()));
    let full = CompileOptions { cache: Some(cache.clone()), ..CompileOptions::default() };
    let compile = |what: &str, options: &CompileOptions| {
        let start = Instant::now();
        let kernel = Kernel::compile(&library, "vv_Addfloat32", &Constants::default(), options);
        println!("{what}: {:.1?}", start.elapsed());
        kernel
    };
    let checked = compile("first compile", &full)?;
    compile("from the cache", &full)?;
    compile("second compile", &CompileOptions::default())?;
    compile("light passes", &CompileOptions { effort: Effort::Fast, ..CompileOptions::default() })?;
    let unchecked = CompileOptions { checks: Checks::None, ..CompileOptions::default() };
    let unchecked = compile("without checks", &unchecked)?;
    fs::remove_dir_all(cache)?;
    add(&[("checked", &checked), ("without checks", &unchecked)])?;
    Ok(())
}

fn add(kernels: &[(&str, &Kernel)]) -> Result<(), Box<dyn std::error::Error>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = Workers::new(threads);
    let (mut x, mut y, mut z) = (vec![1_f32; COUNT], vec![2_f32; COUNT], vec![0_f32; COUNT]);
    let mut size = [COUNT as f32];
    let resident = Residency::default();
    for (what, kernel) in kernels {
        let mut buffers = [None; 31];
        let all = [bound(&mut x), bound(&mut y), bound(&mut z), bound(&mut size)];
        buffers[..4].copy_from_slice(&all);
        let groups = [COUNT as u32 / 256, 1, 1];
        let (grid, threadgroup) = (None, &[0; 31]);
        let dispatch =
            Dispatch { groups, threads: [256, 1, 1], grid, buffers: &buffers, threadgroup, resident: &resident };
        kernel.dispatch(&dispatch, &workers)?;
        let took = best(|| drop(kernel.dispatch(&dispatch, &workers)));
        println!("add of 16 Mi floats, {what}, {threads} workers: {took:.2?}, {:.1} GB/s", rate(took));
    }
    let took = best(|| {
        std::thread::scope(|scope| {
            let part = COUNT / threads;
            let parts = x.chunks(part).zip(y.chunks(part)).zip(z.chunks_mut(part));
            for ((x, y), z) in parts {
                scope.spawn(move || z.iter_mut().zip(x).zip(y).for_each(|((z, x), y)| *z = x + y));
            }
        });
    });
    println!("plain Rust, {threads} threads: {took:.2?}, {:.1} GB/s", rate(took));
    Ok(())
}

fn rate(took: Duration) -> f64 {
    (COUNT * 12) as f64 / took.as_secs_f64() / 1e9
}
