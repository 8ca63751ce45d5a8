//! Opening, with a GPU and without.

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use rig::Error;

/// Promise N01.
#[test]
fn without_the_library_an_open_is_refused_and_says_what_is_missing() {
    if gpu::absent().is_none() {
        return println!("skipped: there is a CUDA device here");
    }
    for index in [0, 1] {
        match rig::open(rig_cuda::gpu(index)) {
            Err(Error::Refused(why)) => assert!(why.contains("NVIDIA's driver") || why.contains("CUDA"), "{why}"),
            other => panic!("a refusal was due, not {other:?}"),
        }
    }
}

/// Promises N01, C01.
#[test]
fn a_gpu_that_is_not_there_is_refused_with_how_many_there_are() {
    if let Some(why) = gpu::absent() {
        return println!("{why}");
    }
    let count = rig_cuda::count();
    let Err(Error::Refused(why)) = rig::open(rig_cuda::gpu(count + 3)) else { panic!("a refusal was due") };
    assert!(why.contains(&format!("no GPU {}", count + 3)) && why.contains(&format!("sees {count}")), "{why}");
    assert!(rig::open(rig_cuda::gpu(usize::MAX)).is_err());
}
