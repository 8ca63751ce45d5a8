//! What the runtime's calls cost: a message, a reference, an object's life, a pool, a block.
//!
//! A send through objc2 with debug assertions compares encodings each time; this bench is of the release profile.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(unsafe_code, reason = "a send by hand is unsafe")]

use std::cell::Cell;

use block2::RcBlock;
use divan::{Bencher, black_box};
use objc2::{
    AllocAnyThread, DefinedClass, define_class, msg_send,
    rc::{Allocated, Retained, autoreleasepool},
    runtime::NSObject,
};
use objc2_foundation::NSString;
use rig_metal_model::live;

fn main() {
    divan::main();
    println!("{:?}", live::objects());
}

define_class!(
    // SAFETY: the root class may be subclassed; the class has no `Drop`.
    #[unsafe(super(NSObject))]
    #[name = "RigBenchCounter"]
    #[ivars = Cell<usize>]
    struct Counter;

    impl Counter {
        #[unsafe(method(add:))]
        fn add(&self, more: usize) -> usize {
            self.ivars().set(self.ivars().get() + more);
            self.ivars().get()
        }
    }
);

fn counter() -> Retained<Counter> {
    let this: Allocated<Counter> = Counter::alloc();
    let this = this.set_ivars(Cell::new(0));
    // SAFETY: `init` of the root class takes nothing and returns its receiver.
    unsafe { msg_send![super(this), init] }
}

#[divan::bench(sample_size = 10_000)]
fn send(bencher: Bencher) {
    let counter = counter();
    bencher.bench_local(|| {
        // SAFETY: the class has this method, with these types.
        let sum: usize = unsafe { msg_send![black_box(&*counter), add: 1usize] };
        sum
    });
}

#[divan::bench(sample_size = 10_000)]
fn retain_and_release(bencher: Bencher) {
    let counter = counter();
    bencher.bench_local(|| drop(black_box(&counter).clone()));
}

#[divan::bench(sample_size = 1_000)]
fn object(bencher: Bencher) {
    bencher.bench_local(|| drop(black_box(counter())));
}

#[divan::bench(sample_size = 1_000)]
fn pool_with_one_object(bencher: Bencher) {
    let counter = counter();
    bencher.bench_local(|| autoreleasepool(|_| Retained::autorelease_ptr(black_box(&counter).clone())));
}

#[divan::bench(sample_size = 1_000)]
fn block(bencher: Bencher) {
    bencher.bench_local(|| {
        let number = black_box(3_usize);
        RcBlock::new(move |more: usize| number + more).call((4,))
    });
}

#[divan::bench(sample_size = 1_000)]
fn string(bencher: Bencher) {
    bencher.bench_local(|| NSString::from_str(black_box("a label")));
}
