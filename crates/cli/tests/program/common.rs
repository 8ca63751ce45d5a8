//! What the tests of the program share: folders of their own, the compilers of this machine, the program, and files of
//! values.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// A compiler that was found here.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The program.
    pub program: &'static str,
    rust: bool,
    /// Sets of options; each makes another kind of object. The first is what a user would write.
    pub variants: &'static [&'static [&'static str]],
}

const C: &[&[&str]] = &[&["-O2"], &["-O2", "-fno-pic"], &["-O3", "-march=native"], &["-O0", "-g"]];
const RUST: &[&[&str]] = &[
    &["-C", "opt-level=2"],
    &["-C", "opt-level=2", "-C", "relocation-model=static"],
    &["-C", "opt-level=3", "-C", "target-cpu=native"],
];

const COMPILERS: [Compiler; 4] = [
    Compiler { program: "gcc", rust: false, variants: C },
    Compiler { program: "clang", rust: false, variants: C },
    Compiler { program: "clang-19", rust: false, variants: C },
    Compiler { program: "rustc", rust: true, variants: RUST },
];

/// The compilers of this machine. Those that are skipped are named once, past the capture of the tests.
pub fn compilers() -> &'static [Compiler] {
    static FOUND: OnceLock<Vec<Compiler>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let (found, skipped): (Vec<Compiler>, Vec<Compiler>) =
            COMPILERS.into_iter().partition(|compiler| runs(Command::new(compiler.program).arg("--version")));
        let names = |of: &[Compiler]| of.iter().map(|compiler| compiler.program).collect::<Vec<_>>().join(", ");
        say(&format!("kernels compiled by {}", names(&found)));
        if !skipped.is_empty() {
            say(&format!("skipped, since they are not here: {}", names(&skipped)));
        }
        assert!(!found.is_empty(), "no compiler is here, not even rustc");
        found
    })
}

/// Says something even where the test passes.
pub fn say(what: &str) {
    // Written past print!, which the tests' harness captures. A closed standard error loses it, and no more.
    let _ = writeln!(std::io::stderr(), "{what}");
}

/// Whether a command can be run, and succeeds.
pub fn runs(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The compiler that builds this test: it is always here.
pub fn rustc() -> Compiler {
    COMPILERS[3].clone()
}

impl Compiler {
    /// Compiles the kernel `name` of the repository into `folder`.
    pub fn kernel(&self, name: &str, variant: &[&str], folder: &Path) -> PathBuf {
        let kernels = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
        let source = kernels.join(name).with_extension(if self.rust { "rs" } else { "c" });
        self.compile(&source, variant, folder)
    }

    /// Compiles `source` into `folder`.
    pub fn compile(&self, source: &Path, variant: &[&str], folder: &Path) -> PathBuf {
        let stem = source.file_stem().unwrap().to_str().unwrap();
        let object = folder.join(format!("{stem}-{}-{}.o", self.program, variant.concat().replace(['-', '='], "")));
        let mut command = Command::new(self.program);
        if self.rust {
            command.args(["--crate-type=lib", "--emit=obj", "--edition=2024", "-C", "panic=abort"]).args(variant);
        } else {
            let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/include");
            command.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(headers).args(variant).arg("-c");
        }
        let output = command.arg("-o").arg(&object).arg(source).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        object
    }
}

/// An empty folder of the test's own.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// What the program answered.
pub struct Answer {
    /// The exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub error: String,
}

/// Runs the program in `folder` with arguments separated by spaces.
pub fn rig(folder: &Path, line: &str) -> Answer {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rig"));
    let Output { status, stdout, stderr } = command.current_dir(folder).args(line.split_whitespace()).output().unwrap();
    Answer { code: status.code(), out: String::from_utf8(stdout).unwrap(), error: String::from_utf8(stderr).unwrap() }
}

impl Answer {
    /// The output of a success, which says nothing on standard error but which device it picked.
    #[track_caller]
    pub fn done(self) -> String {
        assert_eq!((self.code, self.other_errors().as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Standard error without the line that says which device was picked.
    pub fn other_errors(&self) -> String {
        let picked = |line: &&str| {
            line.starts_with("rig: ") && line.contains(" is an object for ") && line.contains(": on CORES (")
        };
        self.error.split_inclusive('\n').filter(|line| !picked(line)).collect()
    }

    /// The one line that says why it failed, with this exit code and these words.
    #[track_caller]
    pub fn failed(self, code: i32, says: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{}", self.error);
        for word in says {
            assert!(self.error.contains(word), "{:?} does not say {word:?}", self.error);
        }
        let errors = self.other_errors();
        assert!(errors.starts_with("rig: ") && errors.lines().count() == 1, "{:?}", self.error);
    }
}

/// Values in -1 to 1, the same for the same seed.
pub fn random(seed: u64, count: usize) -> Vec<f32> {
    // splitmix64: full period from any seed.
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    // 24 bits are what a float holds exactly.
    (0..count).map(|_| (next() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
}

/// Writes values as the program reads them.
pub fn write(path: &Path, values: &[f32]) {
    std::fs::write(path, bytemuck::cast_slice::<f32, u8>(values)).unwrap();
}

/// Reads values as the program writes them.
pub fn read(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap();
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Half a unit in the last place of 1: what one rounding of a float may be off, relative.
pub const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// Checks each value against what it should be and how far it may be off, and says how near the worst one came to that.
#[track_caller]
pub fn agree(what: &str, got: &[f32], want: impl ExactSizeIterator<Item = (f64, f64)>) {
    assert_eq!(got.len(), want.len(), "{what}");
    let mut worst = 0.0_f64;
    for (index, (&got, (want, bound))) in got.iter().zip(want).enumerate() {
        let off = (f64::from(got) - want).abs();
        // Not `>`: a NaN is off by any bound.
        assert!(off <= bound, "{what}: value {index} is {got}, not {want} within {bound:e}");
        if off > 0.0 {
            worst = worst.max(off / bound);
        }
    }
    say(&format!("{what}: {} values agree, the worst at {:.0}% of the bound", got.len(), 100.0 * worst));
}
