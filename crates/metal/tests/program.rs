//! The first program, as an example and as a test.
#![cfg(any(target_os = "macos", all(feature = "model", target_os = "linux", target_arch = "x86_64")))]

#[expect(dead_code, reason = "the program's main is not the test's")]
#[path = "../examples/metal_add.rs"]
mod metal_add;

/// Promise M80.
#[test]
fn the_first_program_adds_x_to_y() {
    assert!(matches!(metal_add::run(), Ok(11.0)));
}
