//! The library that the program rig carries for its bench is what its source makes.

/// The folder of the sources.
#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/kernels/bench");

/// With RIG_WRITE_METALLIB=1 it writes the library instead.
#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_committed_library_is_what_the_packer_makes_of_its_source() {
    let (source, library) = (format!("{FOLDER}/metal.ll"), format!("{FOLDER}/metal.metallib"));
    let text = std::fs::read_to_string(source).unwrap();
    let packed = rig_metal_model::container::pack(&[("rig_count", &text)]).unwrap();
    if std::env::var_os("RIG_WRITE_METALLIB").is_some() {
        std::fs::write(library, packed).unwrap();
        return;
    }
    assert!(
        std::fs::read(library).unwrap() == packed,
        "make metal.metallib anew: run this test with RIG_WRITE_METALLIB=1"
    );
}
