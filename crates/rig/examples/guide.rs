//! The program of docs/guide.md, chapter by chapter: every block of Rust in the guide stands in here.
//!
//! `cargo run --release --example guide`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use rig::{Buffer, Candidate, Device, Error, HostMemory, Image, Point, Profile, Submission, read, write};
use rig_host::{Group, Kernels, Params};

/// The floats of a block, and the threads of a group.
const N: usize = 1 << 16;
const THREADS: usize = 256;

// ---- Kernels ----

/// y = gain * x. A group takes as many floats as it has threads.
fn scale(params: &Params<'_>, at: &Group) {
    let threads = at.threads[0] as usize;
    let first = at.group[0] as usize * threads;
    // SAFETY: the launch has a thread for each float of slot 0, which nothing writes.
    let x: &[f32] = unsafe { params.slice(0, first, threads) };
    // SAFETY: and one for each of slot 1, of which no other group touches these.
    let y: &mut [f32] = unsafe { params.slice_mut(8, first, threads) };
    let gain: f32 = params.get(16);
    y.iter_mut().zip(x).for_each(|(y, x)| *y = gain * x);
}

/// y += x.
fn mix(params: &Params<'_>, at: &Group) {
    let threads = at.threads[0] as usize;
    let first = at.group[0] as usize * threads;
    // SAFETY: as above.
    let x: &[f32] = unsafe { params.slice(0, first, threads) };
    // SAFETY: as above.
    let y: &mut [f32] = unsafe { params.slice_mut(8, first, threads) };
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

fn load(device: &Device) -> rig::Result<Image> {
    device.load(&Kernels::new().group("scale", 20, scale).group("mix", 16, mix).image())
}

// ---- Devices ----

fn devices() -> rig::Result<Device> {
    let best = rig::best_of([Candidate::new(rig_host::cores()), Candidate::new(rig_host::memory())])?;
    println!("the best device here is {best}");
    let device = best.device;
    println!("{} of {} has {} MiB", device.name(), device.facts().arch, device.budget() >> 20);
    Ok(device)
}

// ---- Memory ----

fn memory(device: &Device) -> rig::Result<()> {
    let x = device.buffer(4 * N)?;
    x.write(|x: &mut [f32]| x.iter_mut().zip(0..).for_each(|(x, i)| *x = i as f32))?;
    let last = x.read(|x: &[f32]| x[N - 1])?;
    println!("the last of x is {last}");

    let tail = x.view(4 * (N - 10)..4 * N)?;
    tail.memset(0)?;
    let y = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    println!("y is {:?}", y.to_vec()?);
    Ok(())
}

// ---- Submissions ----

/// y = gain * x + z, as two launches.
fn step(device: &Device) -> rig::Result<Submission> {
    let image = load(device)?;
    let (scale, mix) = (image.function("scale")?, image.function("mix")?);
    device.submission().launch(&scale, [read(0), write(1)]).params(20).launch(&mix, [read(2), write(1)]).make()
}

fn submissions(device: &Device) -> rig::Result<()> {
    let step = step(device)?;
    let mut run = step.take();
    for part in 0..2 {
        run.part(part).groups([(N / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]);
    }
    let z = device.buffer(4 * N)?;
    z.write(|z: &mut [f32]| z.fill(0.5))?;
    for gain in [1.0_f32, 2.0, 3.0] {
        let (x, y) = (device.buffer(4 * N)?, device.buffer(4 * N)?);
        x.write(|x: &mut [f32]| x.fill(10.0))?;
        run.part(0).set(16, gain);
        // SAFETY: both kernels read N floats of their first slot and write N of their second, and touch nothing else.
        let point = unsafe { run.launch(&[&x, &y, &z])? };
        println!("value {}: y[0] = {}", point.value(), y.read(|y: &[f32]| y[0])?);
    }
    Ok(())
}

// ---- Order and points ----

fn order(cores: &Device) -> rig::Result<()> {
    let memory = rig::open(rig_host::memory())?;
    let (mut on_cores, mut on_memory) = (gain(cores)?, gain(&memory)?);
    let (a, b, c) = (cores.buffer(4 * N)?, cores.buffer(4 * N)?, memory.buffer(4 * N)?);
    let d = memory.buffer(4 * N)?;
    a.write(|a: &mut [f32]| a.fill(1.0))?;

    // Nothing here waits. Each piece of work starts after what wrote the memory that it reads.
    // SAFETY: `scale` reads N floats of slot 0 and writes N of slot 1, and touches nothing else.
    unsafe { on_cores.launch(&[&a, &b])? };
    b.copy_to(&c)?;
    // SAFETY: as above.
    let point = unsafe { on_memory.launch(&[&c, &d])? };

    println!("reached already: {}", point.reached()?);
    point.wait()?;
    println!("after both: {}", d.read(|d: &[f32]| d[0])?);

    // A point can also be followed where no memory says so, by work of any device.
    on_cores.after(&[point]);
    // SAFETY: as above.
    let last = unsafe { on_cores.launch(&[&a, &b])? };
    Point::wait_all(&[point, last])
}

/// A run of `scale` that doubles.
fn gain(device: &Device) -> rig::Result<rig::Run> {
    let scale = load(device)?.function("scale")?;
    let mut run = device.submission().launch(&scale, [read(0), write(1)]).params(20).make()?.take();
    run.part(0).groups([(N / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]).set(16, 2.0_f32);
    Ok(run)
}

// ---- Memory that comes back ----

fn reclamation(device: &Device) -> rig::Result<()> {
    let mut run = gain(device)?;
    let (x, y) = (device.buffer(4 * N)?, device.buffer(4 * N)?);
    // SAFETY: `scale` reads N floats of slot 0 and writes N of slot 1, and touches nothing else.
    let point = unsafe { run.launch(&[&x, &y])? };
    // The device still works in both. Their memory comes back once it is done, and not before.
    drop((x, y));
    point.wait()?;
    println!("in use {} bytes, cached {}", device.allocated(), device.cached());

    let all = device.budget();
    device.set_budget(64 << 20);
    match device.buffer(65 << 20) {
        Err(Error::OutOfMemory { bytes }) => println!("{} MiB do not fit in 64", bytes >> 20),
        other => println!("unexpected: {other:?}"),
    }
    device.set_budget(all);
    Ok(())
}

// ---- Memory that is not copied ----

fn sharing(cores: &Device) -> rig::Result<()> {
    let memory = rig::open(rig_host::memory())?;
    let x = cores.from_slice(&vec![1.0_f32; N])?;
    // The same memory, under the other device's hand.
    let there = x.borrow(&memory)?;
    there.memset(0)?;
    println!("x[0] = {}", x.read(|x| x[0])?);

    // Memory that the program has already.
    let samples = HostMemory::from_slice(&vec![3.0_f32; N])?;
    let samples = Buffer::from_host(cores, samples)?;
    println!("samples[0] = {}", samples.read(|s: &[f32]| s[0])?);

    // Nobody else sees the memory, so the result may take the input's place.
    match samples.consume() {
        Ok(mine) => println!("in place, over {} bytes", mine.len()),
        Err(shared) => println!("{} bytes are still seen by others", shared.len()),
    }
    Ok(())
}

// ---- Mistakes and losses ----

fn losses() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;
    let broken = Kernels::new().group("broken", 8, |_, _| panic!("a bug in a kernel"));
    let broken = device.load(&broken.image())?.function("broken")?;
    let x = device.buffer(64)?;
    let mut run = device.submission().launch(&broken, [write(0)]).make()?.take();
    // SAFETY: the kernel touches nothing.
    let point = unsafe { run.launch(&[&x])? };
    match point.wait() {
        Err(Error::Lost { device, why }) => println!("{device} is lost: {why}"),
        other => println!("unexpected: {other:?}"),
    }
    let again = rig::open(rig_host::cores())?;
    println!("{} is open again: {}", again.name(), again.lost().is_none());

    match again.load(b"not an object") {
        Err(Error::Refused(why)) => println!("refused: {why}"),
        other => println!("unexpected: {other:?}"),
    }
    Ok(())
}

// ---- Seeing what ran ----

fn profile(device: &Device) -> Result<(), Box<dyn std::error::Error>> {
    let mut run = gain(device)?;
    let (x, y) = (device.buffer(4 * N)?, device.buffer(4 * N)?);
    let (answer, profile) = Profile::take(|| -> rig::Result<()> {
        // SAFETY: `scale` reads N floats of slot 0 and writes N of slot 1, and touches nothing else.
        unsafe { run.launch(&[&x, &y])? };
        Ok(())
    })?;
    answer?;
    println!("{} values ran", profile.values.len());
    profile.write_file(std::env::temp_dir().join(format!("rig-guide-{}.html", std::process::id())))?;
    Ok(())
}

// ---- Threads ----

fn threads(device: &Device) -> rig::Result<()> {
    let mix = load(device)?.function("mix")?;
    let step = device.submission().launch(&mix, [read(0), write(1)]).make()?;
    let ones = device.from_slice(&vec![1.0_f32; N])?;
    let total = device.from_slice(&vec![0.0_f32; N])?;
    let add = || {
        // A run is one thread's; the submission is everybody's.
        let mut run = step.take();
        run.part(0).groups([(N / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]);
        // SAFETY: `mix` reads N floats of slot 0, adds them to N of slot 1, and touches nothing else.
        unsafe { run.launch(&[&ones, &total]) }
    };
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..4).map(|_| scope.spawn(add)).collect();
        adders.into_iter().try_for_each(|adder| adder.join().expect("no thread panics").map(|_| ()))
    })?;
    println!("four threads added 1 each: {}", total.read(|total| total[0])?);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // What a kernel's panic says on standard error, rig says again as the reason of the loss.
    std::panic::set_hook(Box::new(|_| {}));
    let device = devices()?;
    memory(&device)?;
    submissions(&device)?;
    order(&device)?;
    reclamation(&device)?;
    sharing(&device)?;
    threads(&device)?;
    profile(&device)?;
    losses()?;
    Ok(())
}
