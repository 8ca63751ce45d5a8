//! The host's devices as a program sees them, through rig.

use std::sync::mpsc;

use rig::{Buffer, Device, Error, read, write};
use rig_host::{Group, Kernels, Params};

#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn both() -> [Device; 2] {
    [rig::open(rig_host::memory()).unwrap(), rig::open(rig_host::cores()).unwrap()]
}

/// y[i] = 3 * x[i] + y[i] over n floats: slots at 0 and 8, n at 16.
#[expect(unsafe_code, reason = "a kernel works on what its launch named")]
fn saxpy(params: &Params<'_>, at: &Group) {
    let n = params.get::<u32>(16) as usize;
    let threads = at.threads[0] as usize;
    let first = at.group[0] as usize * threads;
    let len = threads.min(n - first);
    // SAFETY: slot 0 holds n floats, which nothing writes.
    let x = unsafe { params.slice::<f32>(0, first, len) };
    // SAFETY: slot 1 holds n floats, of which this group alone touches its own.
    let y = unsafe { params.slice_mut::<f32>(8, first, len) };
    y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x);
}

#[expect(unsafe_code, reason = "launches a kernel")]
fn run_saxpy(device: &Device, x: &Buffer, y: &Buffer) -> rig::Result<rig::Point> {
    let image = device.load(&Kernels::new().group("saxpy", 24, saxpy).image())?;
    let submission = device.submission().launch(&image.function("saxpy")?, [read(0), write(1)]).params(24).make()?;
    let n = (x.len() / 4) as u32;
    let mut run = submission.take();
    run.part(0).groups([n.div_ceil(64), 1, 1]).threads([64, 1, 1]).set(16, n);
    // SAFETY: saxpy reads n floats of slot 0, reads and writes n of slot 1, and nothing else.
    unsafe { run.launch(&[x, y]) }
}

/// Promises H01, H02, H03.
#[test]
fn rust_kernels_run_on_both_devices_with_sizes_that_do_not_divide_the_group() {
    for device in both() {
        for n in [1_usize, 63, 64, 65, 9_999] {
            let (x, y) = (device.buffer(4 * n).unwrap(), device.buffer(4 * n).unwrap());
            x.write(|x: &mut [f32]| x.iter_mut().enumerate().for_each(|(i, x)| *x = i as f32)).unwrap();
            y.write(|y: &mut [f32]| y.fill(0.5)).unwrap();
            run_saxpy(&device, &x, &y).unwrap();
            y.read(|y: &[f32]| assert!(y.iter().enumerate().all(|(i, &y)| y == 0.5 + 3.0 * i as f32))).unwrap();
        }
    }
}

/// Promise H01.
#[test]
fn the_memory_devices_work_is_done_before_submit_returns() {
    let device = rig::open(rig_host::memory()).unwrap();
    let (x, y) = (device.buffer(4000).unwrap(), device.buffer(4000).unwrap());
    for _ in 0..20 {
        assert!(run_saxpy(&device, &x, &y).unwrap().reached().unwrap());
    }
    let copy = device.submission().copy(0, 1).memset(0, 1).make().unwrap();
    assert!(copy.take().submit(&[&x, &y]).unwrap().reached().unwrap());
}

/// Promise H02.
#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn the_cores_devices_submit_returns_before_its_work_is_done() {
    let device = rig::open(rig_host::cores()).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    // The kernel ends only once the host, after its submit, lets it.
    let kernel = move |_: &Params<'_>, _: &Group| wait.lock().unwrap().recv().unwrap();
    let image = device.load(&Kernels::new().group("waits", 0, kernel).image()).unwrap();
    let submission = device.submission().launch(&image.function("waits").unwrap(), []).make().unwrap();
    // SAFETY: the kernel touches no memory of the device's.
    let point = unsafe { submission.take().launch(&[]) }.unwrap();
    assert!(!point.reached().unwrap());
    go.send(()).unwrap();
    point.wait().unwrap();
}

/// Promises H04, C20.
#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn a_kernels_panic_loses_its_device_alone_with_its_message() {
    for device in both() {
        let kernels = Kernels::new().group("fails", 0, |_, at| panic!("group {} of it fails", at.group[0]));
        let image = device.load(&kernels.image()).unwrap();
        let submission = device.submission().launch(&image.function("fails").unwrap(), []).make().unwrap();
        let y = device.buffer(64).unwrap();
        // SAFETY: the kernel touches no memory of the device's.
        let error = unsafe { submission.take().launch(&[]) }.and_then(|point| point.wait()).unwrap_err();
        let Error::Lost { device: name, why } = &error else { panic!("{error}") };
        assert_eq!(name, device.name());
        assert_eq!(&**why, "the kernel fails panicked: group 0 of it fails");
        assert!(matches!(y.memset(1), Err(Error::Lost { .. })));
        // The same hardware opens again at once, and works.
        let again = if device.name().starts_with("MEMORY") {
            rig::open(rig_host::memory())
        } else {
            rig::open(rig_host::cores())
        };
        let again = again.unwrap();
        let (x, y) = (again.buffer(400).unwrap(), again.buffer(400).unwrap());
        run_saxpy(&again, &x, &y).unwrap().wait().unwrap();
    }
}

/// Promise C24.
#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn a_kernel_that_calls_rig_gets_invalid() {
    for device in both() {
        let (answers, seen) = mpsc::channel();
        let (inner, buffer) = (device.clone(), device.buffer(64).unwrap());
        let kernel = move |_: &Params<'_>, _: &Group| {
            let copy = inner.submission().copy(0, 1).make();
            answers.send(copy.map(drop)).unwrap();
            answers.send(inner.buffer(64).map(drop)).unwrap();
            answers.send(buffer.read(|_: &[u8]| ())).unwrap();
            answers.send(buffer.memset(1)).unwrap();
            answers.send(rig::open(rig_host::memory()).map(drop)).unwrap();
        };
        let image = device.load(&Kernels::new().group("calls", 0, kernel).image()).unwrap();
        let submission = device.submission().launch(&image.function("calls").unwrap(), []).make().unwrap();
        // SAFETY: the kernel touches no memory of the device's.
        unsafe { submission.take().launch(&[]) }.unwrap().wait().unwrap();
        let answers: Vec<_> = seen.try_iter().collect();
        assert_eq!(answers.len(), 5);
        for (i, answer) in answers.iter().enumerate() {
            assert!(matches!(answer, Err(Error::Invalid(_))), "answer {i} is {answer:?}");
        }
        assert!(device.lost().is_none());
    }
}

/// Promise C10.
#[test]
fn bad_objects_are_refused_with_a_reason_and_lose_nothing() {
    for device in both() {
        for (bytes, words) in [
            (&b""[..], "neither an ELF object"),
            (b"\x7fELF", "cut short"),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xe0\0", "an AMD GPU"),
            (b"rig-host kernels", "32 bytes"),
        ] {
            let error = device.load(bytes).unwrap_err();
            assert!(matches!(&error, Error::Refused(why) if why.contains(words)), "{error}: {words}");
        }
        let image = device.load(&Kernels::new().group("a", 0, |_, _| {}).group("b", 0, |_, _| {}).image()).unwrap();
        let error = image.function("c").unwrap_err();
        assert!(error.to_string().contains('a') && error.to_string().contains('b'), "{error}");
        assert!(device.lost().is_none());
        device.buffer(64).unwrap().memset(1).unwrap();
    }
}

/// Promise E08.
#[test]
#[expect(unsafe_code, reason = "launches a kernel")]
fn a_grid_with_a_zero_axis_is_invalid_and_takes_no_value() {
    for device in both() {
        let image = device.load(&Kernels::new().thread("f", 0, 0, |_, _| {}).image()).unwrap();
        let submission = device.submission().launch(&image.function("f").unwrap(), []).make().unwrap();
        let mut run = submission.take();
        // SAFETY: the kernel touches no memory of the device's.
        let before = unsafe { run.launch(&[]) }.unwrap();
        for (groups, threads) in [([0, 1, 1], [1, 1, 1]), ([1, 1, 1], [1, 0, 1]), ([1, 1, 1], [1025, 1, 1])] {
            run.part(0).groups(groups).threads(threads);
            // SAFETY: as above.
            let error = unsafe { run.launch(&[]) }.unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        run.part(0).groups([1, 1, 1]).threads([1024, 1, 1]);
        // SAFETY: as above.
        let after = unsafe { run.launch(&[]) }.unwrap();
        assert_eq!(after.value(), before.value() + 1);
        after.wait().unwrap();
    }
}
