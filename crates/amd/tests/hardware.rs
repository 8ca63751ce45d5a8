//! The driver on a GPU: for the person who has one.
//!
//! `cargo test -p rig-amd --test hardware` does nothing where there is no AMD GPU, and says so. On a machine with one it goes
//! from the least that the driver counts on to the whole conformance suite, one step at a time, so that the first that fails
//! says where to look; `docs/amd.md` says what each step settles. Steps that lose the GPU for the process run each in one of
//! their own.

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("AMD's GPUs are driven through Linux's kernel driver: nothing to do on this system");
}

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    steps::main()
}

#[cfg(target_os = "linux")]
#[expect(clippy::unwrap_used, reason = "steps fail by it")]
mod steps {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Command, ExitCode};
    use std::time::{Duration, Instant};

    use rig::{Buffer, Device, Memory, Point, Run, read, write};
    use rig_amd::GpuOpener;
    use rig_conformance::suite::{self, Fixtures};

    const SUITE: &[u8] = include_bytes!("../../amd-model/fixtures/suite.co");
    const WORK: &[u8] = include_bytes!("../../amd-model/fixtures/work.co");
    const FAULTS: &[u8] = include_bytes!("../../amd-model/fixtures/faults.co");
    const HIDDEN: &[u8] = include_bytes!("../../amd-model/fixtures/hidden.co");

    const SCRATCH: &[u8] = include_bytes!("../../amd-model/fixtures/scratch.co");

    /// The variable that tells a child which step it runs.
    const CHILD: &str = "RIG_AMD_STEP";

    type Step = (&'static str, fn());

    /// The steps, in the order in which they count on one another.
    const STEPS: &[Step] = &[
        ("the GPU opens: ioctls, sizes of queues, and the first copy of the copy queue", opens),
        ("a memset and copies through the copy queue's fence and interrupt", copies),
        ("a value of nothing on the compute queue: RELEASE_MEM from an indirect buffer of an AQL packet", nothing),
        ("a launch, its arguments and its result", launches),
        ("parts on both queues in turn: WAIT_REG_MEM64 and POLL_REGMEM", both_queues),
        ("more packets than the ring has: the read index moves on", wraps),
        ("group memory and barriers", group_memory),
        ("hidden arguments", hidden_arguments),
        ("an image in another's place: instruction caches", images),
        ("the host's writes through the window", window),
        ("a large copy within the GPU's memory", large_copy),
        ("a second of waiting takes little of the processor", sleeps),
        ("another device's word on the queue", other_words),
        ("private memory: scratch that the queue's page names, and grows while work is in flight", scratch),
        ("a fill's launches, copies and memsets", fills),
        ("times: both queues' stamps on the host's clock", times),
    ];

    /// Cases of the suite that lose the GPU for the process.
    const LOSSES: [&str; 4] = [
        "failure::a_lost_device_says_why_and_keeps_what_was_reached",
        "failure::what_follows_a_lost_device_is_lost_and_others_go_on",
        "failure::memory_of_a_lost_device_drops_at_any_time",
        "sharing::a_wrapped_owner_comes_back_after_a_loss",
    ];
    /// What the suite asks and this driver does not do.
    const SKIPS: &[&str] = &[
        "failure::a_lost_device_can_be_opened_again_at_once: the kernel runs nothing more of a process on a GPU where it faulted",
    ];

    struct Gpu {
        loses: bool,
    }

    impl Fixtures for Gpu {
        type Opener = GpuOpener;

        fn opener(&self) -> GpuOpener {
            rig_amd::gpu(0)
        }

        fn second(&self) -> GpuOpener {
            rig_amd::gpu(rig_amd::count().saturating_sub(1).min(1))
        }

        fn image(&self) -> Vec<u8> {
            SUITE.to_vec()
        }

        fn bad_images(&self) -> Vec<(String, Vec<u8>)> {
            vec![
                ("no ELF file".into(), b"nonsense".to_vec()),
                ("a file that is cut short".into(), SUITE[..900].to_vec()),
            ]
        }

        fn spin_rounds(&self) -> u32 {
            1_000_000
        }

        fn dma_function(&self) -> Option<String> {
            let mut functions = std::fs::read_dir("/sys/bus/pci/devices").ok()?.flatten();
            functions.next().map(|entry| entry.file_name().to_string_lossy().into_owned())
        }

        fn lose(&self, device: &Device) -> bool {
            // With one GPU there is no other device to go on: the suite's case asks for a second of the same GPU.
            if self.loses {
                stray(device);
            }
            self.loses
        }
    }

    /// Writes far from every buffer.
    fn stray(device: &Device) {
        let image = device.load(FAULTS).unwrap();
        let store = image.function("store_at").unwrap();
        let submission = device.submission().launch(&store, [write(0)]).make().unwrap();
        let y = device.buffer(4).unwrap();
        let mut run = submission.take();
        run.part(0).groups([1; 3]).threads([1; 3]).set(8, 1_u64 << 42).set(16, 1_u32);
        let _ = launch(&mut run, &[&y]);
    }

    #[expect(unsafe_code, reason = "launches kernels")]
    fn launch(run: &mut Run, buffers: &[&Buffer]) -> rig::Result<Point> {
        // SAFETY: the kernels of the tests touch the elements below the `n` that their launches set, which the buffers hold;
        // `stray` means to fault, in a process of its own.
        unsafe { run.launch(buffers) }
    }

    fn device() -> Device {
        rig::open(rig_amd::gpu(0)).unwrap()
    }

    fn opens() {
        let device = device();
        println!("{:#?}", device.facts());
        println!("{:#?}", device.capability::<rig_amd::Amd>());
        device.close();
    }

    fn copies() {
        let device = device();
        let (a, b) = (device.buffer(1 << 16).unwrap(), device.buffer(1 << 16).unwrap());
        let pattern: Vec<u32> = (0..1 << 14).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
        a.copy_from_slice(&pattern).unwrap();
        b.memset(0xA5).unwrap();
        b.read(|bytes: &[u8]| assert!(bytes.iter().all(|&byte| byte == 0xA5))).unwrap();
        a.copy_to(&b).unwrap();
        b.read(|words: &[u32]| assert!(words == pattern)).unwrap();
        b.view(3..1001).unwrap().memset(1).unwrap();
        b.read(|bytes: &[u8]| assert!(bytes[3..1001].iter().all(|&byte| byte == 1))).unwrap();
    }

    fn nothing() {
        let device = device();
        let submission = device.submission().make().unwrap();
        for _ in 0..100 {
            submission.take().submit(&[]).unwrap().wait().unwrap();
        }
    }

    fn iota(device: &Device, y: &Buffer, start: u32) {
        let iota = device.load(SUITE).unwrap().function("iota").unwrap();
        let mut run = device.submission().launch(&iota, [write(0)]).make().unwrap().take();
        let n = y.len() as u32 / 4;
        run.part(0).groups([n.div_ceil(64), 1, 1]).threads([64, 1, 1]).set(8, n).set(12, start);
        launch(&mut run, &[y]).unwrap();
    }

    fn launches() {
        let device = device();
        let y = device.buffer(4 * 100_000).unwrap();
        for start in [5, 77] {
            iota(&device, &y, start);
            y.read(|y: &[u32]| assert!(y.iter().zip(start..).all(|(&y, i)| y == i))).unwrap();
        }
    }

    fn both_queues() {
        let device = device();
        let spin = device.load(SUITE).unwrap().function("spin").unwrap();
        let (a, b) = (device.buffer(4 * 10_000).unwrap(), device.buffer(4 * 10_000).unwrap());
        iota(&device, &a, 0);
        let chain = device.submission().copy(0, 1).launch(&spin, [write(1)]).copy(1, 0).make().unwrap();
        let mut run = chain.take();
        run.part(1).groups([157, 1, 1]).threads([64, 1, 1]).set(8, 10_000_u32).set(12, 1_u32);
        for _ in 0..1000 {
            launch(&mut run, &[&a, &b]).unwrap();
        }
        let spun =
            |start: u32| (0..1000).fold(start, |y: u32, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        a.read(|a: &[u32]| assert!(a.iter().zip(0..).all(|(&a, i)| a == spun(i)))).unwrap();
    }

    fn wraps() {
        let device = device();
        let y = device.buffer(256).unwrap();
        let spin = device.load(SUITE).unwrap().function("spin").unwrap();
        let one = device.submission().launch(&spin, [write(0)]).make().unwrap();
        y.memset(0).unwrap();
        let mut run = one.take();
        run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32).set(12, 1_u32);
        for _ in 0..100_000 {
            launch(&mut run, &[&y]).unwrap();
        }
        let due = (0..100_000).fold(0, |y: u32, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        y.read(|y: &[u32]| assert!(y.iter().all(|&y| y == due))).unwrap();
    }

    fn group_memory() {
        let device = device();
        let reduce = device.load(WORK).unwrap().function("reduce").unwrap();
        let (x, y) = (device.buffer(4 * 256 * 1000).unwrap(), device.buffer(4 * 1000).unwrap());
        iota(&device, &x, 0);
        let mut run = device.submission().launch(&reduce, [read(0), write(1)]).make().unwrap().take();
        run.part(0).groups([1000, 1, 1]).threads([256, 1, 1]);
        launch(&mut run, &[&x, &y]).unwrap();
        let sum = |first: u32| (first..first + 256).fold(0, u32::wrapping_add);
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, group)| y == sum(256 * group)))).unwrap();
    }

    fn hidden_arguments() {
        let device = device();
        let hidden = device.load(HIDDEN).unwrap().function("hidden").unwrap();
        let y = device.buffer(4000).unwrap();
        let mut run = device.submission().launch(&hidden, [write(0)]).make().unwrap().take();
        run.part(0).groups([11, 1, 1]).threads([96, 1, 1]).set(8, 1000_u32);
        launch(&mut run, &[&y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == i))).unwrap();
    }

    fn images() {
        let device = device();
        let y = device.buffer(256).unwrap();
        for start in 0..50 {
            iota(&device, &y, start);
            y.read(|y: &[u32]| assert_eq!(y[63], start + 63)).unwrap();
            hidden_in(&device, &y);
            device.reclaim();
        }
    }

    fn hidden_in(device: &Device, y: &Buffer) {
        let hidden = device.load(HIDDEN).unwrap().function("hidden").unwrap();
        let mut run = device.submission().launch(&hidden, [write(0)]).make().unwrap().take();
        run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32);
        launch(&mut run, &[y]).unwrap();
        y.read(|y: &[u32]| assert_eq!(y[63], 63)).unwrap();
    }

    fn window() {
        let device = device();
        let y = device.buffer_in(Memory::Mapped, 1 << 16).unwrap();
        let copy = device.buffer(1 << 16).unwrap();
        for round in 0..100_u32 {
            y.write(|y: &mut [u32]| y.fill(round)).unwrap();
            y.copy_to(&copy).unwrap();
            copy.read(|copy: &[u32]| assert!(copy.iter().all(|&word| word == round))).unwrap();
        }
    }

    fn large_copy() {
        let device = device();
        let len = (256 << 20) + 20;
        let (a, b) = (device.buffer(len).unwrap(), device.buffer(len).unwrap());
        iota(&device, &a, 9);
        b.memset(0).unwrap();
        let start = Instant::now();
        a.copy_to(&b).unwrap();
        b.view(len - 4..len).unwrap().read(|word: &[u32]| assert_eq!(word[0], 9 + len as u32 / 4 - 1)).unwrap();
        println!("256 MiB within the GPU's memory took {:?} with the wait", start.elapsed());
        b.read(|b: &[u32]| assert!(b.iter().zip(9..).all(|(&b, i)| b == i))).unwrap();
    }

    fn sleeps() {
        let device = device();
        let spin = device.load(SUITE).unwrap().function("spin").unwrap();
        let y = device.buffer(256).unwrap();
        let mut run = device.submission().launch(&spin, [write(0)]).make().unwrap().take();
        let mut rounds = 1_u32 << 24;
        loop {
            run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32).set(12, rounds);
            let point = launch(&mut run, &[&y]).unwrap();
            let processor = || {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            };
            let (start, before) = (Instant::now(), processor());
            point.wait().unwrap();
            let (took, spent) = (start.elapsed(), processor() - before);
            if took >= Duration::from_millis(800) || rounds > 1 << 31 {
                println!("{took:?} of waiting took {spent:?} of the processor");
                assert!(spent < took.mul_f64(0.005).max(Duration::from_millis(5)));
                return;
            }
            rounds *= 2;
        }
    }

    fn other_words() {
        let (one, two) = (device(), rig::open(Gpu { loses: false }.second()).unwrap());
        let spin = one.load(SUITE).unwrap().function("spin").unwrap();
        let y = one.buffer(256).unwrap();
        let mut run = one.submission().launch(&spin, [write(0)]).make().unwrap().take();
        run.part(0).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32).set(12, 10_000_000_u32);
        let nothing = two.submission().make().unwrap();
        for _ in 0..20 {
            let before = launch(&mut run, &[&y]).unwrap();
            let mut after = nothing.take();
            let point = after.after(&[before]).submit(&[]).unwrap();
            point.wait().unwrap();
            assert!(before.reached().unwrap(), "the queue did not wait for the other's word");
        }
    }

    fn scratch() {
        let device = device();
        let image = device.load(SCRATCH).unwrap();
        let n = 100_000_u32;
        let (x, y) = (device.buffer(64).unwrap(), device.buffer(4 * n as usize).unwrap());
        let first: [u32; 16] = std::array::from_fn(|i| (i as u32).wrapping_mul(2_654_435_761));
        x.copy_from_slice(&first).unwrap();
        let recursion = |i: u32| (2..=i).fold(i.min(1), |sum, n| sum + n + n % 4);
        let large =
            |i: u32| (0..64).fold(i, |at, k| (first[at as usize % 16] ^ (at % 256).wrapping_mul(i)).wrapping_add(k));
        let one = |name: &str| {
            let function = image.function(name).unwrap();
            let slots = if name == "recurses" { vec![write(0)] } else { vec![read(0), write(1)] };
            let mut run = device.submission().launch(&function, slots).make().unwrap().take();
            run.part(0).groups([n.div_ceil(96), 1, 1]).threads([96, 1, 1]);
            run
        };
        // Each is resolved while the one before it may run: the scratch grows twice.
        let mut run = one("large");
        run.part(0).set(16, n);
        for _ in 0..100 {
            launch(&mut run, &[&x, &y]).unwrap();
        }
        let mut deep = one("recurses");
        deep.part(0).set(8, n).set(12, 150_u32);
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == large(i)))).unwrap();
        launch(&mut deep, &[&y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == recursion(i % 150)))).unwrap();
        launch(&mut run, &[&x, &y]).unwrap();
        y.read(|y: &[u32]| assert!(y.iter().zip(0..).all(|(&y, i)| y == large(i)))).unwrap();
    }

    #[expect(unsafe_code, reason = "works on the slots")]
    fn fills() {
        let device = device();
        let spin = device.load(SUITE).unwrap().function("spin").unwrap();
        let entry = spin.entry::<rig_amd::Amd>().unwrap().clone();
        let (a, b) = (device.buffer(4 * 64).unwrap(), device.buffer(4 * 64).unwrap());
        let code = move |encoder: &mut rig_amd::Encoder<'_>, slots: &[rig_edge::Slot]| {
            let mut params = slots[1].device.to_le_bytes().to_vec();
            params.extend([64_u32, 1].iter().flat_map(|word| word.to_le_bytes()));
            let [a, b] = [0, 1].map(|slot: usize| slots[slot].device);
            // SAFETY: both slots have 64 words, and the fill's refs say that it writes them.
            unsafe { encoder.memset(a, 0, 256) }?;
            // SAFETY: as above.
            unsafe { encoder.copy(a, b, 256) }?;
            // SAFETY: as above.
            unsafe { encoder.launch(&entry, [1; 3], [64, 1, 1], 0, &params) }?;
            // SAFETY: as above.
            unsafe { encoder.copy(b, a, 256) }
        };
        let submission = device.submission().fill::<rig_amd::Amd>([write(0), write(1)], code).keep(spin);
        let mut run = submission.make().unwrap().take();
        for _ in 0..100 {
            launch(&mut run, &[&a, &b]).unwrap();
        }
        a.read(|a: &[u32]| assert_eq!(a, [1_013_904_223; 64])).unwrap();
    }

    fn times() {
        let device = device();
        let spin = device.load(SUITE).unwrap().function("spin").unwrap();
        let (a, b) = (device.buffer(1 << 16).unwrap(), device.buffer(1 << 16).unwrap());
        let chain = device.submission().memset(0, 1).launch(&spin, [write(0)]).copy(0, 1).make().unwrap();
        let mut run = chain.take();
        run.part(1).groups([1; 3]).threads([64, 1, 1]).set(8, 64_u32).set(12, 1_000_000_u32);
        let (_, profile) =
            rig::Profile::take(|| (0..5).for_each(|_| _ = launch(&mut run, &[&a, &b]).unwrap())).unwrap();
        println!("{profile}");
        for value in profile.of(device.name()) {
            let parts: Vec<_> = value.parts.iter().map(|part| (part.queue, part.ran.expect("its time"))).collect();
            assert_eq!(parts.iter().map(|part| part.0).collect::<Vec<_>>(), [1, 0, 1], "the queues");
            assert!(value.error > Duration::ZERO && value.error < Duration::from_millis(1), "{:?}", value.error);
            // A million rounds take a few milliseconds: a clock that stands still or runs elsewhere shows here.
            let took = parts[1].1.took();
            assert!(took > Duration::from_micros(500) && took < profile.took, "{took:?}");
        }
    }

    /// Runs a step, here or in a process of its own.
    fn passes(name: &str, apart: bool, step: impl FnOnce()) -> bool {
        let child = std::env::var(CHILD).ok();
        if apart && child.is_none() {
            let this = std::env::current_exe().expect("this program's file");
            return Command::new(this).arg(name).env(CHILD, name).status().is_ok_and(|status| status.success());
        }
        catch_unwind(AssertUnwindSafe(step)).is_ok()
    }

    pub fn main() -> ExitCode {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if arguments.iter().any(|argument| argument == "--list") {
            return ExitCode::SUCCESS;
        }
        if rig_amd::count() == 0 {
            let why = rig::open(rig_amd::gpu(0)).expect_err("there is no GPU").to_string();
            println!("nothing to do on this machine: {why}");
            assert!(why.contains("/dev/kfd") || why.contains("no AMD GPU"), "the reason says what is missing: {why}");
            return ExitCode::SUCCESS;
        }
        let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
        let asked = |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
        let mut failed = 0;
        let mut tell = |name: &str, passed: bool, start: Instant| {
            println!("test {name} ... {} ({} ms)", if passed { "ok" } else { "FAILED" }, start.elapsed().as_millis());
            failed += u32::from(!passed);
            passed
        };
        for &(name, step) in STEPS.iter().filter(|(name, _)| asked(name)) {
            let start = Instant::now();
            if !tell(name, passes(name, true, step), start) {
                println!("the later steps count on this one: docs/amd.md says where to look");
                return ExitCode::FAILURE;
            }
        }
        for (name, case) in suite::cases::<Gpu>().into_iter().filter(|(name, _)| asked(name)) {
            let start = Instant::now();
            let loses = LOSSES.contains(&name);
            tell(name, passes(name, loses, || suite::run(name, SKIPS, || case(&Gpu { loses }))), start);
        }
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
