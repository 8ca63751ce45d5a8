//! What the tests share: kernels, machines, a device by rig, and a driver without rig.

#[cfg(not(target_os = "macos"))]
pub mod direct;
#[cfg(not(target_os = "macos"))]
pub mod machine;

use rig::{Buffer, Device, Function, Point, Result, Run, Submission, read, write};

/// The kernels of one `.metal` file of tests/kernels: on macOS as Apple's compiler made them, in the folder that the variable
/// RIG_METAL_KERNELS names (`cargo xtask metal` compiles them and sets it), and elsewhere as packed from the IR beside.
#[cfg(target_os = "macos")]
pub fn library(name: &str) -> Vec<u8> {
    let folder = std::env::var("RIG_METAL_KERNELS").expect("run `cargo xtask metal`, which compiles the kernels");
    let path = std::path::Path::new(&folder).join(name).with_extension("metallib");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The kernels of one file of tests/kernels.
#[cfg(not(target_os = "macos"))]
pub fn library(name: &str) -> Vec<u8> {
    macro_rules! ir {
        ($folder:literal, $($function:literal),*) => {
            &[$(($function, include_str!(concat!("../kernels/", $folder, "/", $function, ".ll")))),*]
        };
    }
    let modules: &[(&str, &str)] = match name {
        "suite" => ir!("suite", "add", "scale", "iota", "spin"),
        "add" => ir!("add", "add"),
        "test" => ir!("test", "nothing", "words", "place", "turn", "holds", "limited", "chosen"),
        "large" => ir!("large", "large"),
        "vertex" => ir!("vertex", "corner"),
        other => panic!("there are no kernels {other}"),
    };
    rig_metal_model::container::pack(modules).unwrap()
}

/// Launches a run of the tests' kernels.
pub fn launch(run: &mut Run, buffers: &[&Buffer]) -> Result<Point> {
    // SAFETY: each test's kernels touch the elements that its grid has and its buffers hold, as their refs say.
    #[expect(unsafe_code, reason = "the tests launch their own kernels")]
    unsafe {
        run.launch(buffers)
    }
}

/// The suite's kernels on a device.
pub struct Kernels {
    pub device: Device,
    pub add: Submission,
    pub iota: Submission,
    pub spin: Submission,
}

impl Kernels {
    pub fn new(device: Device) -> Kernels {
        let image = device.load(&library("suite")).unwrap();
        let of = |name: &str, refs: Vec<rig::RefSpec>| {
            let function = image.function(name).unwrap();
            device.submission().launch(&function, refs).make().unwrap()
        };
        Kernels {
            add: of("add", vec![read(0), write(1)]),
            iota: of("iota", vec![write(0)]),
            spin: of("spin", vec![write(0)]),
            device,
        }
    }

    /// `y[i] = start + i`.
    pub fn iota(&self, y: &Buffer, start: u32) -> Result<Point> {
        let n = (y.len() / 4) as u32;
        let mut run = self.iota.take();
        grid(&mut run, 0, n).set(8, n).set(12, start);
        launch(&mut run, &[y])
    }

    /// `y[i] += x[i]`.
    pub fn add(&self, x: &Buffer, y: &Buffer) -> Result<Point> {
        let n = (y.len() / 4) as u32;
        let mut run = self.add.take();
        grid(&mut run, 0, n).set(16, n);
        launch(&mut run, &[x, y])
    }

    /// Each number `rounds` times on.
    pub fn spin(&self, y: &Buffer, rounds: u32) -> Result<Point> {
        let n = (y.len() / 4) as u32;
        let mut run = self.spin.take();
        grid(&mut run, 0, n).set(8, n).set(12, rounds);
        launch(&mut run, &[y])
    }
}

/// Sets a grid of `n` threads along x or some more, in groups of 64.
pub fn grid(run: &mut Run, part: usize, n: u32) -> rig::PartMut<'_> {
    run.part(part).groups([n.div_ceil(64).max(1), 1, 1]).threads([64, 1, 1])
}

/// What `spin` makes of a number.
pub fn spun(mut number: u32, rounds: u32) -> u32 {
    for _ in 0..rounds {
        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
    number
}

/// The words of a buffer.
pub fn words(buffer: &Buffer) -> Vec<u32> {
    buffer.read(|words: &[u32]| words.to_vec()).unwrap()
}

/// A launch of one function alone.
pub fn alone(device: &Device, function: &Function, refs: impl IntoIterator<Item = rig::RefSpec>) -> Submission {
    device.submission().launch(function, refs).make().unwrap()
}

/// Sees that the answer is Lost, and gives the reason.
#[track_caller]
pub fn lost<T>(answer: Result<T>) -> String {
    match answer {
        Err(rig::Error::Lost { why, .. }) => why.to_string(),
        Err(other) => panic!("Lost was due, not {other:?}"),
        Ok(_) => panic!("Lost was due, not an answer"),
    }
}

/// Sees that the answer is Invalid, and gives the reason.
#[track_caller]
pub fn invalid<T>(answer: Result<T>) -> String {
    match answer {
        Err(rig::Error::Invalid(why)) => why,
        Err(other) => panic!("Invalid was due, not {other:?}"),
        Ok(_) => panic!("Invalid was due, not an answer"),
    }
}
