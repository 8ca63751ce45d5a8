//! C in tests: the compilers that the machine has, headers held to what Rust says of their structs, and libraries of C code.
//!
//! Every function does nothing where there is no compiler of C, and says `skipped: no C compiler`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What Rust says of a struct that a header declares: see [`c_struct!`](crate::c_struct).
#[derive(Clone, Debug)]
pub struct Struct {
    /// Its name in C.
    pub name: &'static str,
    /// Its bytes.
    pub size: usize,
    /// What its address is a multiple of.
    pub align: usize,
    /// The name, offset and bytes of each field.
    pub fields: Vec<(&'static str, usize, usize)>,
}

/// What Rust says of a struct: `c_struct!(Group as "rig_group": group, groups)`, with all of its fields.
#[macro_export]
macro_rules! c_struct {
    ($type:ty as $name:literal : $($field:ident),+ $(,)?) => {{
        fn size<S, F>(_: fn(&S) -> &F) -> usize {
            size_of::<F>()
        }
        $crate::c::Struct {
            name: $name,
            size: size_of::<$type>(),
            align: align_of::<$type>(),
            fields: vec![$((
                stringify!($field),
                std::mem::offset_of!($type, $field),
                size(|of: &$type| &of.$field),
            )),+],
        }
    }};
}

/// The flags under which a header must stand.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

/// The compilers of C and of C++ that are tried.
const OF_C: [&str; 4] = ["cc", "gcc", "clang", "clang-19"];
const OF_CXX: [&str; 4] = ["c++", "g++", "clang++", "clang++-19"];

/// Those of some compilers that run here.
fn found(compilers: &[&'static str]) -> Vec<&'static str> {
    let runs = |name: &&&str| {
        let mut command = Command::new(name);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    compilers.iter().filter(runs).copied().collect()
}

/// A compiler of C; none where there is none, which is printed.
pub fn compiler() -> Option<&'static str> {
    let compiler = found(&OF_C).first().copied();
    if compiler.is_none() {
        println!("skipped: no C compiler ({})", OF_C.join(", "));
    }
    compiler
}

/// A folder of a test's own, which goes with it.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rig-c-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        // PANIC: a test without a place to write ends.
        fs::create_dir_all(&path).expect("the temporary folder takes a folder");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a compiler.
///
/// # Panics
///
/// If it refuses, with what it says.
fn compile(command: &mut Command) {
    // PANIC: the compiler was found to run.
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Holds that every compiler of C and C++ here takes `file`, which includes headers of `include`, with no warning: as C11, C17,
/// C++11 and C++20, as far as it is of the language.
///
/// # Panics
///
/// If one refuses it.
pub fn takes(include: &Path, file: &Path) {
    if compiler().is_none() {
        return;
    }
    let languages = [(&OF_C, "c", ["c11", "c17"]), (&OF_CXX, "c++", ["c++11", "c++20"])];
    for (compilers, language, standards) in languages {
        for (compiler, standard) in found(compilers).into_iter().flat_map(|name| standards.map(|of| (name, of))) {
            let mut command = Command::new(compiler);
            command.args(["-x", language, &format!("-std={standard}"), "-fsyntax-only"]).args(STRICT);
            compile(command.arg("-I").arg(include).arg(file));
        }
    }
}

/// Compiles a file of C, which includes headers of `include`, to a shared library, and gives what `open` makes of it; nothing
/// where there is no compiler. The file of the library is gone when this returns, and a library that is open stays good.
///
/// # Panics
///
/// If the compiler refuses it.
pub fn library<T>(include: &Path, file: &Path, open: impl FnOnce(&Path) -> T) -> Option<T> {
    let compiler = compiler()?;
    let folder = Folder::new();
    let made = folder.0.join("library.so");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-std=c11", "-O1"]).args(STRICT);
    compile(command.arg("-I").arg(include).arg("-o").arg(&made).arg(file));
    Some(open(&made))
}

/// Compiles a file of C, which includes headers of `include`, to an object, and gives its bytes; nothing where there is no
/// compiler.
///
/// # Panics
///
/// If the compiler refuses it.
pub fn object(include: &Path, file: &Path) -> Option<Vec<u8>> {
    let compiler = compiler()?;
    let folder = Folder::new();
    let made = folder.0.join("object.o");
    let mut command = Command::new(compiler);
    command.args(["-c", "-std=c11", "-O2"]).args(STRICT);
    compile(command.arg("-I").arg(include).arg("-o").arg(&made).arg(file));
    // PANIC: the compiler made it.
    Some(fs::read(&made).expect("the object is there"))
}

/// Holds that a compiler of C lays out the structs of a header as Rust does, and that these are all of its structs and all of
/// their fields.
///
/// # Panics
///
/// If it does not.
pub fn same_layout(header: &Path, structs: &[Struct]) {
    let in_rust = structs.iter().fold(String::new(), |text, of| text + &in_rust(of));
    let text = fs::read_to_string(header).unwrap_or_default();
    let declared = declared(&text);
    for (name, fields) in &declared {
        let of = structs.iter().find(|of| of.name == name);
        let compared = of.map(|of| of.fields.len());
        assert_eq!(compared, Some(*fields), "{name} of {} is compared whole", header.display());
    }
    assert_eq!(declared.len(), structs.len(), "every struct is in {}", header.display());
    let Some(compiler) = compiler() else { return };
    let folder = Folder::new();
    let (source, program) = (folder.0.join("layout.c"), folder.0.join("layout"));
    fs::write(&source, program_of(header, structs)).expect("the temporary folder takes a file");
    compile(Command::new(compiler).arg("-std=c11").args(STRICT).arg("-o").arg(&program).arg(&source));
    // PANIC: the compiler made the program.
    let output = Command::new(&program).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), in_rust);
}

/// The structs that a header declares with fields, and how many each has: every field ends a line with its semicolon.
fn declared(header: &str) -> Vec<(String, usize)> {
    let mut structs: Vec<(String, usize)> = Vec::new();
    let mut inside = false;
    for line in header.lines().map(str::trim) {
        let start = line.strip_prefix("typedef struct ").and_then(|line| line.strip_suffix(" {"));
        if let Some(name) = start {
            structs.push((name.to_owned(), 0));
            inside = true;
        } else if line.starts_with('}') {
            inside = false;
        } else if inside
            && line.ends_with(';')
            && !line.starts_with("//")
            && let Some((_, fields)) = structs.last_mut()
        {
            *fields += 1;
        }
    }
    structs
}

fn in_rust(of: &Struct) -> String {
    let mut text = format!("{} {} {}\n", of.name, of.size, of.align);
    for (field, offset, size) in &of.fields {
        // Writing to a String does not fail.
        let _ = writeln!(text, "{} {field} {offset} {size}", of.name);
    }
    text
}

/// The program that prints the same of the structs in C.
fn program_of(header: &Path, structs: &[Struct]) -> String {
    let mut text =
        format!("#include <stdio.h>\n#include <stddef.h>\n#include \"{}\"\nint main(void) {{\n", header.display());
    for Struct { name, fields, .. } in structs {
        let _ = writeln!(text, "  printf(\"{name} %zu %zu\\n\", sizeof({name}), _Alignof({name}));");
        for (field, ..) in fields {
            let size = format!("sizeof((({name} *)0)->{field})");
            let _ = writeln!(text, "  printf(\"{name} {field} %zu %zu\\n\", offsetof({name}, {field}), {size});");
        }
    }
    text + "  return 0;\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    struct Pair {
        one: u8,
        two: u64,
    }

    const HEADER: &str =
        "#include <stdint.h>\ntypedef struct pair {\n  // One;\n  uint8_t one;\n  WIDE two;\n} pair;\n";

    fn compare(wide: &str, structs: &[Struct]) {
        let folder = Folder::new();
        let header = folder.0.join("pair.h");
        fs::write(&header, HEADER.replace("WIDE", wide)).unwrap();
        same_layout(&header, structs);
    }

    #[test]
    fn the_same_struct_in_both_languages_has_one_layout() {
        compare("uint64_t", &[c_struct!(Pair as "pair": one, two)]);
    }

    #[test]
    fn another_layout_is_found() {
        let other = || compare("uint32_t", &[c_struct!(Pair as "pair": one, two)]);
        assert!(compiler().is_none() || std::panic::catch_unwind(other).is_err());
    }

    #[test]
    #[should_panic(expected = "pair of")]
    fn a_field_that_is_not_compared_is_found() {
        compare("uint64_t", &[c_struct!(Pair as "pair": one)]);
    }

    #[test]
    #[should_panic(expected = "pair of")]
    fn a_struct_that_is_not_compared_is_found() {
        compare("uint64_t", &[]);
    }
}
