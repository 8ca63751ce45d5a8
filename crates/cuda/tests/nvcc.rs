//! Kernels that nvcc compiled on the machine with the GPU, as PTX, cubin and fatbin, against PyTorch's answers.
//!
//! The variable `RIG_CUDA_NVCC` names a folder with `real.ptx`, `real.cubin` and `real.fatbin` of `kernels/real.cu`, and
//! what `kernels/real.py` wrote; without it there is nothing to do.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::path::{Path, PathBuf};

use gpu::{device, launch};
use rig::{Buffer, Device, Function, Image, RefSpec, read, write};

/// The side of the matrices.
const N: usize = 1024;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("RIG_CUDA_NVCC").map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: RIG_CUDA_NVCC names no folder of what nvcc made");
    }
    folder
}

fn floats(folder: &Path, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(folder.join(format!("{name}.bin"))).unwrap();
    bytes.chunks(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().unwrap())).collect()
}

fn filled(device: &Device, values: &[f32]) -> Buffer {
    let buffer = device.buffer(4 * values.len()).unwrap();
    buffer.copy_from_slice(values).unwrap();
    buffer
}

/// The size of the difference beside that of the answer.
fn error(values: &[f32], answer: &[f32]) -> f64 {
    let size = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = size(&mut values.iter().zip(answer).map(|(v, a)| f64::from(*v) - f64::from(*a)));
    difference / size(&mut answer.iter().map(|a| f64::from(*a)))
}

struct Case<'a> {
    device: &'a Device,
    image: &'a Image,
}

impl Case<'_> {
    /// Runs a function, whose last parameter is the number `n` behind its refs.
    fn run(&self, name: &str, refs: Vec<RefSpec>, grid: [[u32; 3]; 2], n: usize, buffers: &[&Buffer]) {
        let function: Function = self.image.function(name).unwrap();
        let at = 8 * refs.len();
        assert_eq!(function.params(), Some(at + 4));
        let mut run = self.device.submission().launch(&function, refs).params(at + 4).make().unwrap().take();
        let bytes = if name == "scan" { 4 * grid[1][0] } else { 0 };
        run.part(0).groups(grid[0]).threads(grid[1]).group_bytes(bytes).set(at, n as u32);
        launch(&mut run, buffers).unwrap();
    }
}

/// Promise N03.
#[test]
fn what_nvcc_makes_gives_pytorchs_answers_as_ptx_cubin_and_fatbin() {
    let (Some(folder), Some(device)) = (folder(), device()) else { return };
    let (x, b) = (filled(&device, &floats(&folder, "x")), filled(&device, &floats(&folder, "b")));
    let sides = [N as u32 / 256, 1, 1];
    for kind in ["ptx", "cubin", "fatbin"] {
        let image = device.load(&std::fs::read(folder.join(format!("real.{kind}"))).unwrap()).unwrap();
        let case = Case { device: &device, image: &image };
        let two = || vec![read(0), write(1)];
        let rows = N as u32;
        for (name, grid, n, most) in [
            ("reduce", [sides, [256, 1, 1]], N * N, 1e-4),
            ("scan", [[rows, 1, 1], [1024, 1, 1]], N * N, 1e-5),
            ("transpose", [[rows / 32, rows / 32, 1], [32, 32, 1]], N, 0.0),
            ("softmax", [[rows, 1, 1], [256, 1, 1]], N, 1e-5),
            ("histogram", [[64, 1, 1], [256, 1, 1]], N * N, 0.0),
        ] {
            let answer = floats(&folder, name);
            let y = device.buffer(4 * answer.len()).unwrap();
            y.memset(0).unwrap();
            case.run(name, two(), grid, n, &[&x, &y]);
            let values = y.read(|y: &[u32]| y.to_vec()).unwrap();
            let number = |&bits: &u32| if name == "histogram" { bits as f32 } else { f32::from_bits(bits) };
            let error = error(&values.iter().map(number).collect::<Vec<_>>(), &answer);
            println!("{kind}: {name}: error {error:.1e}");
            assert!(error <= most, "{kind}: {name}: {error}");
        }
        let c = device.buffer(4 * N * N).unwrap();
        c.memset(0xff).unwrap();
        let grid = [[rows / 16, rows / 16, 1], [16, 16, 1]];
        case.run("matmul", vec![read(0), read(1), write(2)], grid, N, &[&x, &b, &c]);
        let error = c.read(|c: &[f32]| error(c, &floats(&folder, "matmul"))).unwrap();
        println!("{kind}: matmul: error {error:.1e}");
        assert!(error < 1e-5);
    }
    let cubin = std::fs::read(folder.join("real.cubin")).unwrap();
    for part in [2, 3, 10] {
        let cut = &cubin[..cubin.len() - cubin.len() / part];
        assert!(matches!(device.load(cut), Err(rig::Error::Refused(_))), "a cubin that is cut short");
    }
    assert!(device.lost().is_none());
}
