//! An elementwise add of 16 Mi floats through rig, on software Metal and on the host's cores, in turns: so that the share of the
//! cores' rate that software Metal reaches stays what it is while a shared machine's speed drifts.
//!
//! `cargo bench -p rig-metal --features model --bench elementwise`
#![cfg_attr(feature = "model", expect(clippy::unwrap_used, reason = "a bench"))]

#[cfg(not(all(feature = "model", target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("the bench runs on software Metal: --features model, on x86-64 Linux");
}

#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
fn main() {
    bench::run();
}

#[cfg(all(feature = "model", target_os = "linux", target_arch = "x86_64"))]
mod bench {
    use std::time::{Duration, Instant};

    use rig::{Buffer, Device, Image, Run, read, write};
    use rig_host::{Group, Kernels, Params};

    const ELEMENTS: usize = 16 << 20;
    /// Threads of a group: as MLX launches its elementwise functions.
    const THREADS: usize = 1024;
    const ROUNDS: usize = 41;

    /// The same work as a function of the host's devices.
    fn add(params: &Params<'_>, at: &Group) {
        let threads = at.threads[0] as usize;
        let first = at.group[0] as usize * threads;
        // SAFETY: the launch has a thread for each float of slot 0, which nothing writes.
        #[expect(unsafe_code, reason = "reads a kernel's input")]
        let x: &[f32] = unsafe { params.slice(0, first, threads) };
        // SAFETY: and one for each of slot 1, of which no other group touches these.
        #[expect(unsafe_code, reason = "writes a kernel's output")]
        let y: &mut [f32] = unsafe { params.slice_mut(8, first, threads) };
        x.iter().zip(y).for_each(|(x, y)| *y += x);
    }

    /// A device with its run and its buffers.
    struct Subject {
        device: Device,
        run: Run,
        x: Buffer,
        y: Buffer,
        took: Vec<Duration>,
    }

    impl Subject {
        fn new(device: Device, image: &Image) -> Subject {
            let add = image.function("add").unwrap();
            let step = device.submission().launch(&add, [read(0), write(1)]).make().unwrap();
            let mut run = step.take();
            run.part(0).groups([(ELEMENTS / THREADS) as u32, 1, 1]).threads([THREADS as u32, 1, 1]);
            let (x, y) = (device.buffer(4 * ELEMENTS).unwrap(), device.buffer(4 * ELEMENTS).unwrap());
            x.write(|x: &mut [f32]| x.fill(1.0)).unwrap();
            y.write(|y: &mut [f32]| y.fill(0.0)).unwrap();
            Subject { device, run, x, y, took: Vec::new() }
        }

        fn round(&mut self) {
            let start = Instant::now();
            // SAFETY: add reads the floats of slot 0, reads and writes those of slot 1, and the grid has a thread for each.
            #[expect(unsafe_code, reason = "runs the bench's own kernel")]
            let point = unsafe { self.run.launch(&[&self.x, &self.y]) }.unwrap();
            point.wait().unwrap();
            self.took.push(start.elapsed());
        }

        /// The median round, in seconds.
        fn median(&mut self) -> f64 {
            self.took.sort_unstable();
            self.took[self.took.len() / 2].as_secs_f64()
        }
    }

    pub fn run() {
        let library =
            rig_metal_model::container::pack(&[("add", include_str!("../tests/kernels/add/add.ll"))]).unwrap();
        let metal = rig::open(rig_metal::gpu(0)).unwrap();
        let image = metal.load(&library).unwrap();
        let cores = rig::open(rig_host::cores()).unwrap();
        let kernels = cores.load(&Kernels::new().group("add", 16, add).image()).unwrap();
        let mut both = [Subject::new(metal, &image), Subject::new(cores, &kernels)];
        for _ in 0..ROUNDS {
            both.iter_mut().for_each(Subject::round);
        }
        for subject in &both {
            subject.y.read(|y: &[f32]| assert!(y.iter().all(|&y| y == ROUNDS as f32))).unwrap();
        }
        let medians = both.each_mut().map(Subject::median);
        for (subject, median) in both.iter().zip(medians) {
            let rate = 12.0 * ELEMENTS as f64 / median / 1e9;
            println!("{}: {:.2} ms, {rate:.1} GB/s", subject.device, median * 1e3);
        }
        println!("software Metal runs at {:.0} % of the cores' rate", medians[1] / medians[0] * 100.0);
    }
}
