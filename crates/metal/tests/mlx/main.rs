//! Functions of a library that Apple's compiler made, run through rig on software Metal and compared with numpy.
//!
//! The library is that of the wheel `mlx-metal`, opened as it stands. Its functions take each array at an index of its own, so
//! a fill binds them; rig loads the library, resolves the functions, orders the fills and waits.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

mod case;
mod element;
mod elementwise;
mod matrices;
mod oracle;
mod reductions;
#[path = "../../../metal-model/tests/wheel/mod.rs"]
mod wheel;
