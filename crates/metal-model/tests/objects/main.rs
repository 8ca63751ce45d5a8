//! Programs written with objc2, run on software Metal: what they may do, what they may not, and what goes wrong.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "Metal's interface marks messages unsafe, and memory is looked at")]

mod faults;
mod fixture;
mod kernels;
mod left;
mod messages;
mod order;
mod programs;
mod violations;
