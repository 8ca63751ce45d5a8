//! A small network trained data-parallel over all GPUs there are: each rank has its share of the samples, the ranks add up their
//! gradients, and the communication of one layer's overlaps the computation of the next.
//!
//! A second device on each GPU, the wire, does the communication: it borrows the gradients, and rig orders the two devices by
//! that memory alone. One thread drives all GPUs of its process.
//!
//! `cargo run --release -p rig-nccl --example train` uses the GPUs of this machine; under torchrun, mpirun or srun, each process
//! its share of them, on any number of machines (the README says how). With `--profile FILE` it writes what the devices did, as
//! a page where the file's name ends in `.html`. At the end the first process trains the same network on one GPU, and compares.
#![expect(unsafe_code, reason = "launches kernels and fills")]

use std::error::Error;
use std::ops::Range;
use std::time::{Duration, Instant};

use rig::{Buffer, Builder, Device, Image, Point, Profile, RefSpec, Run, ValueSpan, read, write};
use rig_nccl::{Options, Rank, Reduce, Type, World};

/// The kernels, as clang makes them of kernels/train.c.
const KERNELS: &[u8] = include_bytes!("../kernels/train.ptx");

/// The numbers of a layer's inputs and of its outputs.
const WIDTH: usize = 1024;
const LAYERS: usize = 4;
/// The samples of all ranks together.
const SAMPLES: usize = 1024;
const STEPS: usize = 40;
const RATE: f32 = 0.003;
/// How many of the steps are profiled.
const PROFILED: usize = 6;
const THREADS: u32 = 256;
/// How far the losses and the weights may be from those of one GPU, relative to their size: sums of floats in another order,
/// over all steps.
const ERROR_MOST: f64 = 1e-3;

type Answer = Result<(), Box<dyn Error>>;

/// A number between -1 and 1 that is the same wherever it is asked for.
fn noise(seed: u64, index: usize) -> f32 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..2 {
        x = (x ^ (x >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    (x >> 40) as f32 / (1 << 23) as f32 - 1.0
}

/// One rank's network: a GPU's, with its share of the samples.
struct Network {
    wire: Option<Wire>,
    weights: Vec<Buffer>,
    /// One a step.
    losses: Buffer,
    /// The samples' way forward.
    forward: Step,
    /// The sum of what the samples are off.
    total: Step,
    /// By layer, the last first: its weights' gradient, and then the gradient that goes on to the layer before.
    back: Vec<(Step, Option<Step>)>,
    descend: Step,
}

/// A run and the buffers that fill its slots.
struct Step {
    run: Run,
    buffers: Vec<Buffer>,
}

impl Step {
    fn launch(&mut self) -> rig::Result<Point> {
        let buffers: Vec<&Buffer> = self.buffers.iter().collect();
        // SAFETY: each launch was made with the sizes of its buffers, which are all that its kernel touches; fills are
        // rig-nccl's.
        unsafe { self.run.launch(&buffers) }
    }
}

/// The communication: a rank on a device of its own, with an all-reduce for each layer and one for the losses.
struct Wire {
    layers: Vec<Step>,
    losses: Step,
}

/// A submission in the making: launches, each over as many threads as it has outputs.
struct Launches<'a> {
    image: &'a Image,
    builder: Builder,
    /// The buffers of the slots.
    buffers: Vec<&'a Buffer>,
    /// Of each launch: its threads, where its numbers start, and these.
    numbers: Vec<(usize, usize, Vec<u32>)>,
}

impl<'a> Launches<'a> {
    fn on(image: &'a Image) -> Launches<'a> {
        Launches { image, builder: image.device().submission(), buffers: Vec::new(), numbers: Vec::new() }
    }

    fn slot(&mut self, buffer: &'a Buffer) -> u32 {
        let known = self.buffers.iter().position(|&known| std::ptr::eq(known, buffer));
        known.unwrap_or_else(|| {
            self.buffers.push(buffer);
            self.buffers.len() - 1
        }) as u32
    }

    /// A launch whose parameters are the buffers, those that it reads first, and then some numbers.
    fn add(
        mut self,
        name: &str,
        (reads, writes): (&[&'a Buffer], &[&'a Buffer]),
        threads: usize,
        numbers: &[u32],
    ) -> rig::Result<Launches<'a>> {
        let function = self.image.function(name)?;
        let mut refs: Vec<RefSpec> = reads.iter().map(|buffer| read(self.slot(buffer))).collect();
        refs.extend(writes.iter().map(|buffer| write(self.slot(buffer))));
        self.numbers.push((threads, 8 * refs.len(), numbers.to_vec()));
        self.builder = self.builder.launch(&function, refs);
        Ok(self)
    }

    /// c = a b: rows by columns over a depth; the steps of a from row to row and along a row, and those of b.
    fn product(self, a: &'a Buffer, b: &'a Buffer, c: &'a Buffer, of: [usize; 7]) -> rig::Result<Launches<'a>> {
        let threads = of[0] * of[1];
        self.add("product", (&[a, b], &[c]), threads, &of.map(|number| number as u32))
    }

    fn make(self) -> rig::Result<Step> {
        let mut run = self.builder.make()?.take();
        for (index, (threads, first, numbers)) in self.numbers.iter().enumerate() {
            let groups = (*threads as u32).div_ceil(THREADS);
            let mut part = run.part(index).groups([groups, 1, 1]).threads([THREADS, 1, 1]);
            for (number, at) in numbers.iter().zip((*first..).step_by(4)) {
                part = part.set(at, *number);
            }
        }
        Ok(Step { run, buffers: self.buffers.into_iter().cloned().collect() })
    }
}

impl Network {
    /// A network on a device, over some of the samples; with the rank that it adds up its gradients with, and the device that
    /// the rank is on.
    fn new(device: &Device, samples: Range<usize>, rank: Option<(&Rank, &Device)>) -> rig::Result<Network> {
        let image = device.load(KERNELS)?;
        let (rows, last) = (samples.len(), LAYERS - 1);
        let matrix = |rows: usize| device.buffer(4 * rows * WIDTH);
        let matrices = |rows: usize| (0..LAYERS).map(|_| matrix(rows)).collect::<rig::Result<Vec<_>>>();
        let (weights, gradients) = (matrices(WIDTH)?, matrices(WIDTH)?);
        let (values, value_gradients, target) = (matrices(rows)?, matrices(rows)?, matrix(rows)?);
        let (input, lost, lost_by_row) = (matrix(rows)?, matrix(rows)?, device.buffer(4 * rows)?);
        let losses = device.buffer(4 * STEPS)?;
        let of_samples = |seed: u64| -> Vec<f32> {
            samples.clone().flat_map(|row| (0..WIDTH).map(move |i| noise(seed, row * WIDTH + i))).collect()
        };
        input.copy_from_slice(&of_samples(1))?;
        target.copy_from_slice(&of_samples(2))?;
        let size = (6.0 / WIDTH as f32).sqrt();
        for (layer, weights) in (3..).zip(&weights) {
            let some: Vec<f32> = (0..WIDTH * WIDTH).map(|i| size * noise(layer, i)).collect();
            weights.copy_from_slice(&some)?;
        }

        let n = rows * WIDTH;
        let of = |layer: usize| if layer == 0 { &input } else { &values[layer - 1] };
        let mut forward = Launches::on(&image);
        for layer in 0..LAYERS {
            let out = &values[layer];
            forward = forward.product(of(layer), &weights[layer], out, [rows, WIDTH, WIDTH, WIDTH, 1, WIDTH, 1])?;
            if layer < last {
                forward = forward.add("rectify", (&[], &[out]), n, &[n as u32])?;
            }
        }
        let scale = (1.0 / SAMPLES as f32).to_bits();
        let off = (&[&values[last], &target] as &[_], &[&lost, &value_gradients[last]] as &[_]);
        forward = forward.add("off", off, n, &[n as u32, scale])?;
        forward = forward.add("total", (&[&lost], &[&lost_by_row]), rows, &[rows as u32, WIDTH as u32])?;

        let mut back = Vec::new();
        for layer in (0..LAYERS).rev() {
            let (out, into) = (&value_gradients[layer], &gradients[layer]);
            let own = Launches::on(&image).product(of(layer), out, into, [WIDTH, WIDTH, rows, 1, WIDTH, WIDTH, 1])?;
            let before = (layer > 0).then(|| {
                let before = &value_gradients[layer - 1];
                let sizes = [rows, WIDTH, WIDTH, WIDTH, 1, 1, WIDTH];
                let on = Launches::on(&image).product(out, &weights[layer], before, sizes)?;
                on.add("rectify_back", (&[of(layer)], &[before]), n, &[n as u32])?.make()
            });
            back.push((own.make()?, before.transpose()?));
        }
        let mut descend = Launches::on(&image);
        let count = WIDTH * WIDTH;
        for (weights, gradients) in weights.iter().zip(&gradients) {
            descend = descend.add("descend", (&[gradients], &[weights]), count, &[count as u32, RATE.to_bits()])?;
        }
        // The loss of a step goes to the step's place: a view that each step's launch is given.
        let total = Launches::on(&image).add("total", (&[&lost_by_row], &[&losses]), 1, &[1, rows as u32])?;
        let wire = rank.map(|(rank, wire)| Wire::new(rank, wire, &gradients, &losses)).transpose()?;
        let (forward, descend, total) = (forward.make()?, descend.make()?, total.make()?);
        Ok(Network { wire, forward, back, descend, total, weights, losses })
    }
}

impl Wire {
    fn new(rank: &Rank, device: &Device, gradients: &[Buffer], losses: &Buffer) -> rig::Result<Wire> {
        let sum = |buffer: &Buffer| -> rig::Result<Step> {
            let submission = rank.all_reduce(device.submission(), 0, 0, Type::F32, Reduce::Sum).make()?;
            Ok(Step { run: submission.take(), buffers: vec![buffer.borrow(device)?] })
        };
        let layers = gradients.iter().rev().map(sum).collect::<rig::Result<_>>()?;
        Ok(Wire { layers, losses: sum(losses)? })
    }
}

/// A step of the training on all of the process's networks: what one waits for of another, the wire brings.
fn step(networks: &mut [Network], number: usize) -> rig::Result<()> {
    for network in &mut *networks {
        network.forward.launch()?;
        network.total.buffers[1] = network.losses.view(4 * number..4 * number + 4)?;
        network.total.launch()?;
    }
    for layer in 0..LAYERS {
        for network in &mut *networks {
            network.back[layer].0.launch()?;
            if let Some(wire) = &mut network.wire {
                wire.layers[layer].launch()?;
            }
            if let Some(before) = &mut network.back[layer].1 {
                before.launch()?;
            }
        }
    }
    networks.iter_mut().try_for_each(|network| network.descend.launch().map(drop))
}

/// Trains the networks of this process, and gives the losses of all steps, over all samples, and the last steps' profile.
fn train(networks: &mut [Network]) -> rig::Result<(Vec<f32>, Profile, Duration)> {
    (0..STEPS - 2 * PROFILED).try_for_each(|number| step(networks, number))?;
    networks.iter().try_for_each(|network| network.losses.read(|_: &[f32]| ()))?;
    let start = Instant::now();
    (STEPS - 2 * PROFILED..STEPS - PROFILED).try_for_each(|number| step(networks, number))?;
    networks.iter().try_for_each(|network| network.weights[0].view(0..4)?.read(|_: &[f32]| ()))?;
    let took = start.elapsed() / PROFILED as u32;
    let (done, profile) = Profile::take(|| (STEPS - PROFILED..STEPS).try_for_each(|number| step(networks, number)))?;
    done?;
    for network in &mut *networks {
        if let Some(wire) = &mut network.wire {
            wire.losses.launch()?;
        }
    }
    Ok((networks[0].losses.read(<[f32]>::to_vec)?, profile, took))
}

/// How much of the profile the wires' work is, and how much of that ran while the same GPU computed.
fn overlap(profile: &Profile) -> (Duration, Duration) {
    let is_wire = |value: &ValueSpan| value.parts.iter().all(|part| &*part.name == "fill");
    let (mut all, mut beside) = (Duration::ZERO, Duration::ZERO);
    for value in profile.values.iter().filter(|value| is_wire(value)) {
        let Some(ran) = value.ran else { continue };
        all += ran.took();
        for other in profile.values.iter().filter(|other| !is_wire(other) && other.device == value.device) {
            let Some(other) = other.ran else { continue };
            beside += other.end.min(ran.end).saturating_sub(other.start.max(ran.start));
        }
    }
    (all, beside)
}

/// The size of a difference beside the size of what is right.
fn difference(is: &[f32], due: &[f32]) -> f64 {
    let size = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let off = size(&mut is.iter().zip(due).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    off / size(&mut due.iter().map(|x| f64::from(*x)))
}

fn main() -> Answer {
    // SAFETY: first thing in main, with no other thread.
    unsafe { rig_nccl::prepare() };
    if rig_cuda::count() == 0 {
        println!("skipped: no CUDA device: this trains on NVIDIA's GPUs");
        return Ok(());
    }
    let page = std::env::args().skip_while(|argument| argument != "--profile").nth(1);
    let world = World::from_env()?;
    let gpus = world.share(rig_cuda::count())?;
    let open = || gpus.clone().map(|gpu| rig::open(rig_cuda::gpu(gpu))).collect::<rig::Result<Vec<Device>>>();
    let (computing, wires) = (open()?, open()?);
    let communicator = match rig_nccl::connect(&world, &wires, Options::default()) {
        Ok(communicator) => communicator,
        Err(rig_nccl::Error::Library(why)) => {
            println!("skipped: {why}");
            return Ok(());
        }
        Err(why) => return Err(why.into()),
    };
    let ranks = communicator.ranks() as usize;
    let own: Vec<Rank> = (0..wires.len()).map(|index| communicator.rank(index)).collect();
    let mut networks = Vec::new();
    for ((rank, device), wire) in own.iter().zip(&computing).zip(&wires) {
        let (number, share) = (rank.rank() as usize, |rank: usize| rank * SAMPLES / ranks);
        networks.push(Network::new(device, share(number)..share(number + 1), Some((rank, wire)))?);
    }
    let (losses, profile, took) = train(&mut networks)?;
    let (wired, beside) = overlap(&profile);
    println!(
        "process {} of {}: ranks {:?} of {ranks}: loss {:.3} to {:.3} in {STEPS} steps of {took:.2?}",
        world.process(),
        world.processes(),
        own.iter().map(Rank::rank).collect::<Vec<_>>(),
        losses[0],
        losses[STEPS - 1]
    );
    let part = 100.0 * beside.as_secs_f64() / wired.as_secs_f64().max(f64::MIN_POSITIVE);
    println!(
        "communication ran for {wired:.2?} of {PROFILED} steps, {part:.0}% of it beside computation of the same GPU"
    );
    if let Some(page) = page {
        profile.write_file(&page)?;
    }
    let weights =
        networks[0].weights.iter().map(|weights| weights.read(<[f32]>::to_vec)).collect::<rig::Result<Vec<_>>>()?;
    drop(networks);
    communicator.close();
    if world.process() != 0 {
        return Ok(());
    }
    let mut alone = [Network::new(&computing[0], 0..SAMPLES, None)?];
    let (due, _, took) = train(&mut alone)?;
    let due_weights =
        alone[0].weights.iter().map(|weights| weights.read(<[f32]>::to_vec)).collect::<rig::Result<Vec<_>>>()?;
    let off = [difference(&losses, &due), difference(&weights.concat(), &due_weights.concat())];
    println!(
        "one GPU: loss {:.3} to {:.3}, a step {took:.2?}; the losses are {:.1e} off it, the weights {:.1e}: at most {ERROR_MOST:.0e}",
        due[0],
        due[STEPS - 1],
        off[0],
        off[1]
    );
    if off.iter().all(|off| *off < ERROR_MOST) && due[STEPS - 1] < due[0] { Ok(()) } else { Err("too far off".into()) }
}
