//! Matrices multiplied by cuBLAS in a fill: a vendor's library puts its work on the device's stream, in the place of the
//! fill's part, and rig orders it with all else by the memory that the fill names.
//!
//! cuBLAS is looked for when the program runs: `cargo run --release -p rig-cuda --example cublas`.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use std::ffi::c_void;
use std::sync::Arc;

use libloading::Library;
use rig::{read, write};

/// The side of the matrices.
const N: usize = 512;

/// cuBLAS, with a handle of it. Calls on one handle come one at a time: a device runs its fills so.
struct Blas {
    library: Library,
    handle: *mut c_void,
}

// SAFETY: a handle may be used from any thread, one at a time.
unsafe impl Send for Blas {}
// SAFETY: as above: the fills of one device never overlap.
unsafe impl Sync for Blas {}

type Create = unsafe extern "C" fn(*mut *mut c_void) -> i32;
type SetStream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32;
type Sgemm = unsafe extern "C" fn(
    *mut c_void,
    i32,
    i32,
    i32,
    i32,
    i32,
    *const f32,
    u64,
    i32,
    u64,
    i32,
    *const f32,
    u64,
    i32,
) -> i32;

impl Blas {
    fn open() -> Result<Blas, String> {
        let names = ["libcublas.so.13", "libcublas.so.12", "libcublas.so"];
        // SAFETY: opening cuBLAS runs its initialisers, which ask for nothing.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let library = library.ok_or("there is no cuBLAS here: LD_LIBRARY_PATH may lead to one")?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the type is the function's in cublas_v2.h.
        let create = unsafe { library.get::<Create>(b"cublasCreate_v2\0") }.map_err(|why| why.to_string())?;
        // SAFETY: the call writes one handle.
        match unsafe { create(&raw mut handle) } {
            0 => Ok(Blas { library, handle }),
            code => Err(format!("cublasCreate answered {code}")),
        }
    }

    /// c = a b, of square matrices by rows. cuBLAS reads by columns, so it multiplies the transposed ones: b first.
    fn multiply(&self, stream: *mut c_void, [a, b, c]: [u64; 3]) -> Result<(), String> {
        let n = N as i32;
        // SAFETY: the types are the functions' in cublas_v2.h.
        let set = unsafe { self.library.get::<SetStream>(b"cublasSetStream_v2\0") }.map_err(|why| why.to_string())?;
        // SAFETY: as above.
        let sgemm = unsafe { self.library.get::<Sgemm>(b"cublasSgemm_v2\0") }.map_err(|why| why.to_string())?;
        // SAFETY: the stream is the device's, lent for the fill.
        let code = unsafe { set(self.handle, stream) };
        if code != 0 {
            return Err(format!("cublasSetStream answered {code}"));
        }
        // SAFETY: the slots are matrices of this size.
        match unsafe { sgemm(self.handle, 0, 0, n, n, n, &1.0, b, n, a, n, &0.0, c, n) } {
            0 => Ok(()),
            code => Err(format!("cublasSgemm answered {code}")),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if rig_cuda::count() == 0 {
        println!("skipped: no CUDA device");
        return Ok(());
    }
    let device = rig::open(rig_cuda::gpu(0))?;
    let blas = match Blas::open() {
        Ok(blas) => Arc::new(blas),
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let multiply = device
        .submission()
        .fill::<rig_cuda::Cuda>([read(0), read(1), write(2)], move |encoder, slots| {
            blas.multiply(encoder.stream(), [slots[0].device, slots[1].device, slots[2].device])
        })
        .make()?;
    let a: Vec<f32> = (0..N * N).map(|i| ((i * 7) % 13) as f32 - 6.0).collect();
    let b: Vec<f32> = (0..N * N).map(|i| ((i * 5) % 11) as f32 - 5.0).collect();
    let (x, y) = (device.from_slice(&a)?, device.from_slice(&b)?);
    let z = device.typed::<f32>(N * N)?;
    // SAFETY: the fill reads all of slots 0 and 1, writes all of slot 2, and nothing else.
    unsafe { multiply.take().launch(&[&x, &y, &z])? };
    let c = z.to_vec()?;
    for (row, column) in [(0, 0), (3, 500), (511, 511)] {
        let expected: f32 = (0..N).map(|k| a[row * N + k] * b[k * N + column]).sum();
        assert_eq!(c[row * N + column], expected, "whole numbers of this size are exact in floats");
        println!("c[{row}][{column}] = {expected}");
    }
    Ok(())
}
