//! Every parser of foreign bytes as a function that a fuzzer can call, with what must hold of it whatever the bytes are.
//!
//! A [`Target`] takes bytes that nobody vouches for, has a parser read them, and panics where a property does not hold: the
//! fuzzer (`cargo xtask fuzz`) looks for such bytes, and the tests run every input that was kept (`corpus/TARGET`) and every one
//! that once failed (`past/TARGET`), with no fuzzer. [`Target::check`] also holds the parser to its [`Bound`] of memory, where
//! [`heap::Heap`] is the global allocator.
//!
//! Parsers of a program, or of a crate that has a reason to hide them and needs nothing else of its crate, are included as
//! modules of this crate: what is tested is the file that ships.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

pub mod heap;
mod targets;

// The program's parsers of its command line and files.
#[path = "../../crates/cli/src/element.rs"]
pub mod element;
#[path = "../../crates/cli/src/image.rs"]
pub mod image;
#[path = "../../crates/cli/src/members.rs"]
pub mod members;
#[path = "../../crates/cli/src/npy.rs"]
pub mod npy;
#[path = "../../crates/cli/src/size.rs"]
pub mod size;

// What a name of a Metal function says.
#[path = "../../crates/metal/src/constants.rs"]
mod constants;
// What processes of rig-nccl say to one another, and the one number that it takes from NCCL's types.
#[path = "../../crates/nccl/src/wire.rs"]
#[expect(dead_code, reason = "frames are read and written, not made and shown")]
mod wire;
mod sys {
    pub(crate) mod abi {
        /// The bytes of an `ncclUniqueId`.
        pub(crate) const ID_BYTES: usize = 128;
    }
}
// What CUDA's library is handed.
#[path = "../../crates/cuda/src/container.rs"]
mod container;

/// How much memory a parser may hold at one time: so many bytes for each byte of its input, and so many more.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    /// Bytes for each byte of the input.
    pub times: usize,
    /// Bytes beside those.
    pub plus: usize,
}

/// A parser under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folders of inputs.
    pub name: &'static str,
    /// The longest input that the fuzzer tries.
    pub longest: usize,
    /// The most memory that it may hold.
    pub memory: Bound,
    run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 11] = [
    target("host-elf", 16 << 10, 192, 64 << 10, targets::host::object),
    target("amd-object", 16 << 10, 256, 64 << 10, targets::amd::object),
    target("amd-msgpack", 4 << 10, 512, 4 << 10, targets::amd::msgpack),
    target("amd-topology", 4 << 10, 16, 4 << 10, targets::amd::topology),
    target("gfx1100", 2 << 10, 64, 512 << 10, targets::shader::program),
    target("metallib", 4 << 10, 32, 4 << 10, targets::metal::container),
    target("metal-metadata", 1 << 10, 256, 256 << 10, targets::metal::metadata),
    target("metal-constants", 1 << 10, 64, 4 << 10, targets::metal::constants),
    target("cuda-image", 4 << 10, 8, 4 << 10, targets::cuda::image),
    target("nccl-wire", 4 << 10, 32, 48 << 10, targets::nccl::frames),
    target("cli", 1 << 10, 256, 64 << 10, targets::cli::values),
];

const fn target(name: &'static str, longest: usize, times: usize, plus: usize, run: fn(&[u8])) -> Target {
    Target { name, longest, memory: Bound { times, plus }, run }
}

impl Target {
    /// The target of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<Target> {
        TARGETS.into_iter().find(|target| target.name == name)
    }

    /// Has the parser read the bytes.
    ///
    /// # Panics
    ///
    /// Where the parser does, where one of its properties does not hold, and where it held more memory than its bound.
    pub fn check(&self, bytes: &[u8]) {
        let peak = heap::peak(|| (self.run)(bytes));
        let most = self.memory.times * bytes.len() + self.memory.plus;
        assert!(peak <= most, "{}: {peak} bytes held for {} of input: at most {most}", self.name, bytes.len());
    }
}
