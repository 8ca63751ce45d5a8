//! A GPU's devices: memory, code, launches, limits, order. The conformance suite holds what every driver owes; here is
//! what is CUDA's own, and what is large.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod gpu;

use std::time::{Duration, Instant};

use gpu::{busy, device, launch, run};
use rig::{Buffer, Device, Error, HostMemory, Memory, read, write};

const KINDS: [Memory; 3] = [Memory::Device, Memory::Pinned, Memory::Mapped];

fn pattern(len: usize, seed: u32) -> Vec<u8> {
    (0..len as u32).map(|i| ((i ^ seed).wrapping_mul(0x9e37_79b9) >> 21) as u8).collect()
}

fn filled(device: &Device, memory: Memory, bytes: &[u8]) -> Buffer {
    let buffer = device.buffer_in(memory, bytes.len()).unwrap();
    buffer.copy_from_slice(bytes).unwrap();
    buffer
}

fn bytes(buffer: &Buffer) -> Vec<u8> {
    buffer.read(|bytes: &[u8]| bytes.to_vec()).unwrap()
}

#[track_caller]
fn invalid<T>(answer: rig::Result<T>) -> String {
    match answer {
        Err(Error::Invalid(why)) => why,
        Err(other) => panic!("Invalid was due, not {other:?}"),
        Ok(_) => panic!("Invalid was due, not an answer"),
    }
}

/// Promises N02, N05, C12.
#[test]
fn a_graph_copies_and_sets_between_all_kinds_of_memory_whatever_its_last_run_had() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let iota = image.function("iota").unwrap();
    let submission =
        device.submission().copy(0, 1).memset(2, 9).launch(&iota, [write(3)]).params(16).copy(3, 4).make().unwrap();
    let mut run = submission.take();
    run.part(2).groups([1, 1, 1]).threads([64, 1, 1]).set(8, 64_u32);
    for (round, len) in [4_usize, 1, 0, 3, 4097, 1 << 20, 0, 70_001].into_iter().enumerate() {
        for (i, from) in KINDS.into_iter().enumerate() {
            for (j, to) in KINDS.into_iter().enumerate() {
                let seed = (round * 9 + i * 3 + j) as u32;
                let source = pattern(len, seed);
                let (a, b) = (filled(&device, from, &source), filled(&device, to, &vec![0; len]));
                let c = filled(&device, to, &vec![1; len]);
                let (x, y) = (device.buffer_in(from, 256).unwrap(), device.buffer_in(to, 256).unwrap());
                run.part(2).set(12, seed);
                launch(&mut run, &[&a, &b, &c, &x, &y]).unwrap();
                assert!(bytes(&b) == source, "{len} bytes from {from:?} to {to:?}");
                assert!(bytes(&c).iter().all(|&byte| byte == 9), "{len} bytes of {to:?} set");
                y.read(|y: &[u32]| assert!(y.iter().zip(seed..).all(|(&y, i)| y == i), "{y:?}")).unwrap();
            }
        }
    }
}

/// Promise N03.
#[test]
fn ptx_that_does_not_compile_brings_the_compilers_log() {
    let Some(device) = device() else { return };
    let text = String::from_utf8(gpu::SUITE.to_vec()).unwrap().replacen("add.rn.f32", "add.of.nothing", 1);
    match device.load(text.as_bytes()) {
        Err(Error::Refused(why)) => {
            assert!(why.contains("CUDA_ERROR_INVALID_PTX"), "{why}");
            assert!(why.contains("line") || why.contains("nothing"), "the log says where: {why}");
        }
        other => panic!("a refusal was due, not {:?}", other.map(|_| "an image")),
    }
    device.load(gpu::SUITE).unwrap();
    assert!(device.lost().is_none());
}

/// Promises N03, C10.
#[test]
fn functions_state_their_parameters_and_threads() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let (add, iota) = (image.function("add").unwrap(), image.function("iota").unwrap());
    assert_eq!((add.params(), iota.params()), (Some(20), Some(16)));
    assert_eq!(add.threads(), Some(1024));
    let nothing = device.load(gpu::TEST).unwrap().function("nothing").unwrap();
    assert_eq!(nothing.params(), Some(0));
    let mut run = device.submission().launch(&nothing, []).make().unwrap().take();
    run.part(0).groups([3, 2, 1]).threads([7, 1, 1]);
    launch(&mut run, &[]).unwrap().wait().unwrap();
}

/// Promises C12, C13.
#[test]
fn a_function_that_fixes_its_threads_takes_those_and_refuses_others_without_a_loss() {
    let Some(device) = device() else { return };
    let text = b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry fixed() .reqntid 128, 1, 1 { ret; }\n";
    let fixed = device.load(text).unwrap().function("fixed").unwrap();
    let mut run = device.submission().launch(&fixed, []).make().unwrap().take();
    run.part(0).groups([1; 3]).threads([128, 1, 1]);
    launch(&mut run, &[]).unwrap().wait().unwrap();
    run.part(0).threads([64, 1, 1]);
    let why = invalid(launch(&mut run, &[]));
    println!("{why}");
    run.part(0).threads([128, 1, 1]);
    launch(&mut run, &[]).unwrap().wait().unwrap();
}

/// Promises C12, E08.
#[test]
fn grids_run_up_to_the_limit_and_are_invalid_beyond() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::TEST).unwrap();
    let y = device.buffer(8).unwrap();
    let mut run = run(&image, "groups", [write(0)]);
    run.part(0).threads([32, 1, 1]);
    let most = [i32::MAX as u32, 65_535, 65_535];
    for axis in 0..3 {
        let mut groups = [1; 3];
        for count in [most[axis] - 1, most[axis]] {
            groups[axis] = count;
            run.part(0).groups(groups);
            y.memset(0).unwrap();
            launch(&mut run, &[&y]).unwrap();
            y.read(|y: &[u64]| assert_eq!(y[0], u64::from(count))).unwrap();
        }
        groups[axis] = most[axis] + 1;
        run.part(0).groups(groups);
        let why = invalid(launch(&mut run, &[&y]));
        assert!(why.contains(&most[axis].to_string()), "{why}");
    }
    run.part(0).groups([1; 3]).threads([1025, 1, 1]);
    assert!(invalid(launch(&mut run, &[&y])).contains("1024"));
    run.part(0).threads([1, 1, 65]);
    assert!(invalid(launch(&mut run, &[&y])).contains("64"));
}

/// Promises C12, E08.
#[test]
fn group_memory_reaches_to_the_gpus_limit() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::TEST).unwrap();
    let x = filled(&device, Memory::Device, &vec![1; 4 * 300]);
    let y = device.buffer(4).unwrap();
    let mut run = run(&image, "sum", [read(0), write(1)]);
    run.part(0).groups([1; 3]).threads([512, 1, 1]).set(16, 300_u32);
    let mut most = 0;
    for bytes in [2048, 48 << 10, 100 << 10, 227 << 10] {
        run.part(0).group_bytes(bytes);
        match launch(&mut run, &[&x, &y]) {
            Ok(_) => most = bytes,
            Err(Error::Invalid(why)) => assert!(why.contains("group memory"), "{why}"),
            Err(other) => panic!("{other:?}"),
        }
        y.read(|y: &[u32]| assert_eq!(y[0], 0x0101_0101_u32.wrapping_mul(300))).unwrap();
    }
    assert!(most >= 48 << 10, "every GPU has as much");
    run.part(0).group_bytes(1 << 20);
    let why = invalid(launch(&mut run, &[&x, &y]));
    assert!(why.contains("1048576") && why.contains("group memory"), "{why}");
}

/// Promises C04, C12.
#[test]
fn a_buffer_of_five_gibibytes_is_reached_past_the_fourth() {
    let Some(device) = device() else { return };
    let len = 5_usize << 30;
    let y = match device.buffer(len) {
        Err(Error::OutOfMemory { .. }) => return println!("skipped: the GPU has less than 5 GiB free"),
        other => other.unwrap(),
    };
    y.memset(0).unwrap();
    let image = device.load(gpu::TEST).unwrap();
    let mut run = run(&image, "at64", [write(0)]);
    for start in [(1_u64 << 29) - 64, (len as u64 / 8) - 128] {
        run.part(0).groups([1; 3]).threads([128, 1, 1]).set(8, 128_u64).set(16, start);
        launch(&mut run, &[&y]).unwrap();
        let at = start as usize * 8;
        y.view(at..at + 1024).unwrap().read(|y: &[u64]| assert!(y.iter().zip(start..).all(|(&y, i)| y == i))).unwrap();
    }
    y.view(0..1024).unwrap().read(|y: &[u8]| assert!(y.iter().all(|&byte| byte == 0), "nothing wrapped")).unwrap();
    let z = device.buffer(len).unwrap();
    y.copy_to(&z).unwrap();
    z.view(len - 1024..len).unwrap().read(|z: &[u64]| assert_eq!(z[127], len as u64 / 8 - 1)).unwrap();
}

/// Promises C16, C17.
#[test]
fn memory_runs_out_as_an_error_and_comes_back_whole() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let piece = 4_usize << 30;
    for round in 0..2 {
        let mut held = Vec::new();
        loop {
            match device.buffer(piece) {
                Ok(buffer) => held.push(buffer),
                Err(Error::OutOfMemory { bytes }) => break assert_eq!(bytes, piece as u64),
                Err(other) => panic!("{other:?}"),
            }
        }
        println!("round {round}: {} buffers of 4 GiB", held.len());
        assert!(!held.is_empty());
        let mut iota = run(&image, "iota", [write(0)]);
        iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32).set(12, 5_u32);
        let point = launch(&mut iota, &[&held[0]]).unwrap();
        assert!(device.buffer(piece).is_err());
        point.wait().unwrap();
        let first = held[0].view(0..4096).unwrap();
        first.read(|y: &[u32]| assert!(y.iter().zip(5..).all(|(&y, i)| y == i))).unwrap();
        // One goes while work uses it, and its memory is the next one's.
        launch(&mut iota, &[held.last().unwrap()]).unwrap();
        held.pop();
        held.push(device.buffer(piece).unwrap());
        drop(first);
    }
}

/// Promises C16, C31.
#[test]
fn a_buffer_dropped_under_a_slow_kernel_is_not_given_out_before_the_kernel_is_done() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::TEST).unwrap();
    let len = 8 << 20;
    device.set_budget(device.allocated() + (20 << 20));
    for _ in 0..5 {
        let y = device.buffer(len).unwrap();
        y.memset(0).unwrap();
        let point = launch(&mut busy(&image, Duration::from_millis(50)), &[&y]).unwrap();
        drop(y);
        assert!(!point.reached().unwrap(), "the drop did not wait");
        // Two more do not fit beside it.
        let (a, b) = (device.buffer(len).unwrap(), device.buffer(len).unwrap());
        a.memset(1).unwrap();
        b.memset(2).unwrap();
        assert!(point.reached().unwrap(), "its memory came back only after the kernel");
        for (buffer, set) in [(a, 1), (b, 2)] {
            // Not all of it: what the read is staged in counts too.
            assert!(bytes(&buffer.view(0..4096).unwrap()).iter().all(|&byte| byte == set));
        }
    }
}

/// Promises C03, S08.
#[test]
fn sixteen_threads_share_a_device() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::SUITE).unwrap();
    let total = device.buffer(4 * 1024).unwrap();
    total.memset(0).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16_u32 {
            let (device, image, total) = (&device, &image, &total);
            scope.spawn(move || {
                let mut add = run(image, "add", [read(0), write(1)]);
                add.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(16, 1024_u32);
                for i in 0..200 {
                    let ones = device.buffer(4 * 1024).unwrap();
                    ones.copy_from_slice(&[1.0_f32; 1024]).unwrap();
                    let point = launch(&mut add, &[&ones, total]).unwrap();
                    if i % 16 == thread % 16 {
                        point.wait().unwrap();
                    }
                }
            });
        }
    });
    total.read(|y: &[f32]| assert!(y.iter().all(|&y| y == 3200.0), "{:?}", &y[..4])).unwrap();
}

/// Promise C15.
#[test]
fn a_wait_of_a_second_costs_next_to_no_processor_time() {
    let Some(device) = device() else { return };
    let image = device.load(gpu::TEST).unwrap();
    let y = device.buffer(4).unwrap();
    y.memset(0).unwrap();
    let thread_time = || {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let mut run = busy(&image, Duration::from_secs(1));
    launch(&mut run, &[&y]).unwrap().wait().unwrap();
    let point = launch(&mut run, &[&y]).unwrap();
    let (start, before) = (Instant::now(), thread_time());
    point.wait().unwrap();
    let (passed, used) = (start.elapsed(), thread_time() - before);
    println!("a wait of {passed:?} took {used:?} of processor time");
    assert!(passed > Duration::from_millis(900) && used < Duration::from_millis(5), "{used:?} of {passed:?}");
}

/// Promises N05, C09.
#[test]
fn two_devices_on_one_gpu_overlap_a_copy_with_a_launch_and_borrow_for_nothing() {
    let Some(one) = device() else { return };
    let two = rig::open(rig_cuda::gpu(0)).unwrap();
    let image = one.load(gpu::TEST).unwrap();
    let y = one.buffer(4).unwrap();
    y.memset(0).unwrap();
    let len = 1_usize << 30;
    let (from, to) = (two.buffer_in(Memory::Pinned, len).unwrap(), two.buffer(len).unwrap());
    let mut run = busy(&image, Duration::from_millis(20));
    let copy = two.submission().copy(0, 1).make().unwrap();
    let timed = |launches: bool, copies: bool, run: &mut rig::Run| {
        let start = Instant::now();
        let launched = launches.then(|| launch(run, &[&y]).unwrap());
        let copied = copies.then(|| copy.take().submit(&[&from, &to]).unwrap());
        launched.into_iter().chain(copied).for_each(|point| point.wait().unwrap());
        start.elapsed()
    };
    timed(true, true, &mut run);
    let (launch_alone, copy_alone) = (timed(true, false, &mut run), timed(false, true, &mut run));
    let both = timed(true, true, &mut run);
    println!("launch {launch_alone:?}, copy {copy_alone:?}, both {both:?}");
    assert!(both < (launch_alone + copy_alone) * 3 / 4, "they overlap");
    // The other device reaches the memory at no cost, and its work is ordered.
    let borrowed = y.borrow(&two).unwrap();
    let image = two.load(gpu::TEST).unwrap();
    let mut run = busy(&image, Duration::from_millis(1));
    launch(&mut run, &[&borrowed]).unwrap();
    y.read(|y: &[u32]| assert_eq!(y[0], 4)).unwrap();
}

/// Promises C22, N05.
#[test]
fn a_profile_tells_when_values_ran_on_the_gpu_and_that_two_devices_of_one_overlap() {
    let Some(one) = device() else { return };
    let two = rig::open(rig_cuda::gpu(0)).unwrap();
    let image = one.load(gpu::TEST).unwrap();
    let y = one.buffer(4).unwrap();
    let len = 1_usize << 30;
    let (from, to) = (two.buffer_in(Memory::Pinned, len).unwrap(), two.buffer(len).unwrap());
    let busy_time = Duration::from_millis(20);
    let mut run = busy(&image, busy_time);
    let copy = two.submission().copy(0, 1).make().unwrap();
    launch(&mut run, &[&y]).unwrap().wait().unwrap();
    let ((), profile) = rig::Profile::take(|| {
        launch(&mut run, &[&y]).unwrap();
        copy.take().submit(&[&from, &to]).unwrap();
        launch(&mut run, &[&y]).unwrap();
    })
    .unwrap();
    println!("{profile}");
    let ran: Vec<rig::Interval> = profile.values.iter().map(|value| value.ran.unwrap()).collect();
    let [first, copied, second] = ran[..] else { panic!("{profile:?}") };
    assert!(first.took() > busy_time / 2 && second.took() > busy_time / 2, "{ran:?}");
    assert!(first.end <= second.start, "values of one device never overlap: {ran:?}");
    assert!(copied.overlaps(&first) || copied.overlaps(&second), "{ran:?}");
    let error = profile.values.iter().map(|value| value.error).max().unwrap();
    println!("ran {ran:?}, within {error:?}");
    assert!(error > Duration::ZERO && error < Duration::from_millis(1), "{error:?}");
}

/// Promises N02, S03.
#[test]
fn work_waits_on_the_queue_for_another_devices_word() {
    let Some(one) = device() else { return };
    let two = rig::open(rig_cuda::gpu(0)).unwrap();
    let (image, other) = (one.load(gpu::TEST).unwrap(), two.load(gpu::TEST).unwrap());
    let y = one.buffer(4).unwrap();
    y.memset(0).unwrap();
    let borrowed = y.borrow(&two).unwrap();
    let (mut a, mut b) = (busy(&image, Duration::from_millis(20)), busy(&other, Duration::from_micros(10)));
    launch(&mut a, &[&y]).unwrap().wait().unwrap();
    launch(&mut b, &[&borrowed]).unwrap().wait().unwrap();
    let start = Instant::now();
    for _ in 0..5 {
        launch(&mut a, &[&y]).unwrap();
        launch(&mut b, &[&borrowed]).unwrap();
    }
    assert!(start.elapsed() < Duration::from_millis(15), "the host waited: {:?}", start.elapsed());
    y.read(|y: &[u32]| assert_eq!(y[0], 12)).unwrap();
}

/// Promises N05, C08, H05.
#[test]
fn host_memory_is_registered_once_for_two_devices_and_outlives_neither() {
    let Some(one) = device() else { return };
    let two = rig::open(rig_cuda::gpu(0)).unwrap();
    let mut memory = HostMemory::zeroed(1 << 20).unwrap();
    memory.fill(3);
    let buffer = Buffer::from_host(&one, memory).unwrap();
    let borrowed = buffer.borrow(&two).unwrap();
    let image = two.load(gpu::SUITE).unwrap();
    let mut iota = run(&image, "iota", [write(0)]);
    iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32).set(12, 7_u32);
    launch(&mut iota, &[&borrowed]).unwrap();
    buffer.read(|y: &[u32]| assert!(y[1023] == 1030 && y[1024] == 0x0303_0303)).unwrap();
}

/// Promises N07, C29.
#[test]
fn a_fill_gets_the_stream_and_runs_in_its_place() {
    let Some(device) = device() else { return };
    let capability = device.capability::<rig_cuda::Cuda>().unwrap();
    assert!(!capability.context.is_null() && !capability.stream.is_null() && capability.ordinal == 0);
    // SAFETY: NVIDIA's library is open already.
    #[expect(unsafe_code, reason = "a fill calls CUDA")]
    let library = unsafe { libloading::Library::new("libcuda.so.1") }.unwrap();
    type Memset = unsafe extern "system" fn(u64, u8, usize, *mut std::ffi::c_void) -> i32;
    // SAFETY: the type is the function's in cuda.h.
    #[expect(unsafe_code, reason = "a fill calls CUDA")]
    let memset: Memset = unsafe { *library.get::<Memset>(b"cuMemsetD8Async\0").unwrap() };
    let image = device.load(gpu::SUITE).unwrap();
    let iota = image.function("iota").unwrap();
    let submission = device
        .submission()
        .launch(&iota, [write(0)])
        .params(16)
        .fill::<rig_cuda::Cuda>([write(1)], move |encoder, slots| {
            // SAFETY: the slot has these bytes, and the stream is the device's.
            #[expect(unsafe_code, reason = "a fill calls CUDA")]
            match unsafe { memset(slots[1].device, 4, slots[1].len as usize, encoder.stream()) } {
                0 => Ok(()),
                code => Err(format!("cuMemsetD8Async answered {code}")),
            }
        })
        .copy(1, 2)
        .launch(&iota, [write(1)])
        .params(16)
        .make()
        .unwrap();
    let mut run = submission.take();
    run.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32).set(12, 1_u32);
    run.part(3).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32);
    for round in 0..10_u32 {
        let [x, y, z] = [(); 3].map(|()| device.buffer(4096).unwrap());
        z.memset(0).unwrap();
        run.part(3).set(12, round);
        launch(&mut run, &[&x, &y, &z]).unwrap();
        assert!(bytes(&z).iter().all(|&byte| byte == 4), "after the fill");
        x.read(|x: &[u32]| assert_eq!(x[1023], 1024)).unwrap();
        y.read(|y: &[u32]| assert_eq!(y[1023], round + 1023, "before the last launch")).unwrap();
    }
}

/// Promises N02, S03.
#[test]
fn the_queue_waits_for_a_word_that_the_host_writes() {
    let Some(device) = device() else { return };
    let cores = rig::open(rig_host::cores()).unwrap();
    let naps = rig_host::Kernels::new().group("nap", 0, |_, _| {
        // TIMEOUT: long beside a submit.
        std::thread::sleep(NAP_PERIOD);
    });
    let nap = cores.load(&naps.image()).unwrap().function("nap").unwrap();
    let mut nap = cores.submission().launch(&nap, []).make().unwrap().take();
    let y = device.buffer(4096).unwrap();
    let image = device.load(gpu::SUITE).unwrap();
    let mut iota = run(&image, "iota", [write(0)]);
    iota.part(0).groups([4, 1, 1]).threads([256, 1, 1]).set(8, 1024_u32).set(12, 9_u32);
    launch(&mut iota, &[&y]).unwrap().wait().unwrap();
    for _ in 0..5 {
        let napped = launch(&mut nap, &[]).unwrap();
        let start = Instant::now();
        let point = launch(iota.after(&[napped]), &[&y]).unwrap();
        assert!(start.elapsed() < NAP_PERIOD / 2, "the host waited");
        point.wait().unwrap();
        assert!(napped.reached().unwrap() && start.elapsed() > NAP_PERIOD / 2);
    }
}

/// TIMEOUT: how long a kernel of the host naps, for the GPU to wait for it.
const NAP_PERIOD: Duration = Duration::from_millis(40);
