//! The small libraries, compiled by Apple's compilers of several years, that the crate `metal` ships with its examples.
//!
//! Cargo fetches the crate into its own cache; where that cannot be done the tests say "skipped" and why.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, LazyLock};

use rig_metal_model::address::gpu_address;
use rig_metal_model::container::{FunctionKind, Library};
use rig_metal_model::kernel::{
    Bound, CompileError, CompileOptions, Constants, Dispatch, Effort, Kernel, Residency, Violation, reflect,
};
use rig_metal_model::metadata::{Access, ArgumentKind, Space};
use rig_metal_model::workers::Workers;

const MANIFEST: &str = "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n[dependencies]\nmetal = { version = \"=0.33.0\", default-features = false }\n\n[workspace]\n";

fn cargo(folder: &Path, words: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(words).current_dir(folder).output().map_err(|why| why.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The folder of the crate's examples.
fn fetch() -> Result<PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("rig-metal-model-fetch-{}", std::process::id()));
    fs::create_dir_all(folder.join("src")).map_err(|why| why.to_string())?;
    fs::write(folder.join("Cargo.toml"), MANIFEST).map_err(|why| why.to_string())?;
    fs::write(folder.join("src/lib.rs"), "").map_err(|why| why.to_string())?;
    let found = cargo(&folder, &["fetch"]).and_then(|_| cargo(&folder, &["metadata", "--format-version", "1"]));
    let _ = fs::remove_dir_all(&folder);
    let found = found?;
    // The crate's own manifest among all that the answer names.
    let end = found.find("metal-0.33.0/Cargo.toml").ok_or("cargo names no folder of the crate")?;
    let start = found[..end].rfind('"').ok_or("cargo's answer is cut off")?;
    Ok(Path::new(&found[start + 1..end]).join("metal-0.33.0/examples"))
}

static EXAMPLES: LazyLock<Option<PathBuf>> = LazyLock::new(|| match fetch() {
    Ok(folder) => Some(folder),
    Err(why) => {
        eprintln!("skipped: the crate metal cannot be fetched: {why}");
        None
    }
});

fn library(example: &str) -> Option<Library> {
    let bytes = fs::read(EXAMPLES.as_ref()?.join(example).join("shaders.metallib")).unwrap();
    Some(Library::open(Arc::new(bytes)).unwrap())
}

fn bound<T>(values: &mut [T]) -> Option<Bound> {
    let host = values.as_mut_ptr().expose_provenance() as u64;
    Some(Bound { address: gpu_address(host), len: size_of_val(values) as u64 })
}

#[test]
fn a_kernel_of_metal_2_2_adds_numbers_up_atomically() {
    let Some(library) = library("compute") else { return };
    let mut numbers: Vec<u32> = (0..100_000).collect();
    for effort in [Effort::Fast, Effort::Full] {
        let options = CompileOptions { effort, ..CompileOptions::default() };
        let sum = Kernel::compile(&library, "sum", &Constants::default(), &options).unwrap();
        let mut total = [0_u32];
        let mut buffers = [None; 31];
        (buffers[0], buffers[1]) = (bound(&mut numbers), bound(&mut total));
        let resident = Residency::default();
        let (groups, threads, grid) = ([1000, 1, 1], [100, 1, 1], None);
        let dispatch =
            Dispatch { groups, threads, grid, buffers: &buffers, threadgroup: &[0; 31], resident: &resident };
        sum.dispatch(&dispatch, &Workers::new(2)).unwrap();
        assert_eq!(std::hint::black_box(total)[0], (0..100_000_u32).fold(0, u32::wrapping_add));
        let dispatch = Dispatch { groups: [1001, 1, 1], ..dispatch };
        let failed = sum.dispatch(&dispatch, &Workers::new(2)).unwrap_err();
        assert!(matches!(failed, Violation::OutOfBounds { len: 400_000, .. }), "{failed}");
    }
}

#[test]
fn arguments_without_an_address_space_have_that_of_their_parameter() {
    let Some(library) = library("compute") else { return };
    let reflection = reflect(&library, "sum").unwrap();
    let names: Vec<_> = reflection.arguments.iter().map(|argument| argument.name.as_str()).collect();
    assert_eq!(names, ["data", "sum", "gid"]);
    let ArgumentKind::Buffer { index: 1, space, access, data_size: 4, is_struct: true, reference: false, .. } =
        reflection.arguments[1].kind
    else {
        panic!("{:?}", reflection.arguments[1])
    };
    assert_eq!((space, access), (Space::Device, Access::ReadWrite));
}

#[test]
fn functions_that_do_not_compute_are_refused_by_their_kind() {
    let Some(window) = library("window") else { return };
    let kinds: Vec<_> = window.names().map(|name| window.kind(name).unwrap()).collect();
    assert!(kinds.contains(&FunctionKind::Vertex) && kinds.contains(&FunctionKind::Fragment));
    for name in window.names() {
        let refused = Kernel::compile(&window, name, &Constants::default(), &CompileOptions::default()).unwrap_err();
        assert!(matches!(refused, CompileError::NotKernel { .. }), "{refused}");
    }
}

#[test]
fn ray_tracing_and_textures_are_refused_by_name() {
    let Some(library) = library("raytracing") else { return };
    let mut refused = Vec::new();
    for name in library.names().filter(|name| library.kind(name) == Some(FunctionKind::Kernel)) {
        let why = Kernel::compile(&library, name, &Constants::default(), &CompileOptions::default()).unwrap_err();
        assert!(matches!(why, CompileError::Unsupported { .. }), "{why}");
        refused.push(why.to_string());
    }
    refused.sort();
    assert!(refused.iter().all(|why| why.contains("air.")), "{refused:?}");
    assert!(!refused.is_empty());
}
