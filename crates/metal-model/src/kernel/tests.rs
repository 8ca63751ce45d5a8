//! Kernels from text, run.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "a buffer's bytes are looked at")]

use super::*;
use crate::address::gpu_address;
use crate::container::pack;

const ADD: &str = include_str!("../../fixtures/add.ll");

/// Memory that kernels read and write.
struct Memory<T>(Vec<T>);

impl<T: Copy> Memory<T> {
    fn address(&mut self) -> u64 {
        gpu_address(self.0.as_mut_ptr().expose_provenance() as u64)
    }

    fn bytes(&self) -> u64 {
        size_of_val(self.0.as_slice()) as u64
    }

    fn range(&mut self) -> (u64, u64) {
        (self.address(), self.bytes())
    }

    fn bound(&mut self) -> Option<Bound> {
        Some(Bound { address: self.address(), len: self.bytes() })
    }

    fn get(&self, at: usize) -> T {
        // SAFETY: the kernel that may have written it has ended.
        unsafe { (&raw const self.0[at]).read_volatile() }
    }
}

fn kernel(name: &str, text: &str) -> Kernel {
    let library = Library::open(Arc::new(pack(&[(name, text)]).unwrap())).unwrap();
    Kernel::compile(&library, name, &Constants::default(), &CompileOptions::default()).unwrap()
}

fn run(
    kernel: &Kernel,
    groups: [u32; 3],
    threads: [u32; 3],
    bound: &[Option<Bound>],
    resident: &Residency,
) -> Result<(), Violation> {
    let mut buffers = [None; 31];
    buffers[..bound.len()].copy_from_slice(bound);
    let dispatch = Dispatch { groups, threads, grid: None, buffers: &buffers, threadgroup: &[0; 31], resident };
    kernel.dispatch(&dispatch, &Workers::new(2))
}

/// Promise M80.
#[test]
fn the_documents_kernel_adds_one_through_pointers_in_a_struct() {
    let add = kernel("add", ADD);
    let mut x = Memory((0..1024).map(|i| i as f32).collect());
    let mut y = Memory(vec![0_f32; 1024]);
    let mut pointers = Memory(vec![x.address(), y.address()]);
    let resident = Residency::new([x.range(), y.range()]);
    run(&add, [4, 1, 1], [256, 1, 1], &[pointers.bound()], &resident).unwrap();
    assert_eq!(y.get(10), 11.0);
    assert!((0..1024).all(|i| y.get(i) == i as f32 + 1.0));
}
