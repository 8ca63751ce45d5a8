//! rig on a GPU beside CUDA's driver interface by hand, in one run: medians, in microseconds.
//!
//! Kernels are `add` over 1,024 floats. "New buffers" takes other buffers for every ref of every run.

mod raw;

use std::time::Instant;

use raw::{Program, RawWord};
use rig::{Buffer, Device, Memory, Point, Run, read, write};
use rig_conformance::NullOpener;

const SUITE: &[u8] = include_bytes!("../kernels/suite.ptx");
/// Buffers to choose from: more than twice what the largest run takes.
const POOL: usize = 512;
const BYTES: usize = 4096;

fn main() {
    if rig_cuda::count() == 0 {
        return println!("skipped: no CUDA device");
    }
    let program = Program::new(SUITE);
    println!("{}\n", program.about());
    let bench = Bench::new(program);
    println!("| what | by hand | rig |\n| --- | --- | --- |");
    bench.waits("before any graph with branches");
    println!("\n| launches | how | CPU a submit | throughput | round trip |\n| --- | --- | --- | --- | --- |");
    for launches in [1, 2, 4, 16, 100] {
        bench.launches(launches);
    }
    println!(
        "\n| launches | graph by hand | CPU a submit | throughput | round trip |\n| --- | --- | --- | --- | --- |"
    );
    for launches in [2, 3, 4, 8, 16, 100] {
        bench.shapes(launches);
    }
    println!("\n| what | by hand | rig |\n| --- | --- | --- |");
    bench.waits("at the end");
    bench.copies();
    bench.allocation();
    bench.making();
}

/// For each launch, the one before it.
fn line(launches: usize) -> Vec<Vec<usize>> {
    (0..launches).map(|i| i.checked_sub(1).into_iter().collect()).collect()
}

/// The median of some runs of `f`, which says how long each took.
fn median(runs: usize, mut f: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..runs).map(|_| f()).collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

#[expect(unsafe_code, reason = "launches kernels")]
fn launch(run: &mut Run, buffers: &[&Buffer]) -> Point {
    // SAFETY: add reads and writes 1,024 floats of its slots, which every buffer of the pool has.
    unsafe { run.launch(buffers) }.expect("a launch")
}

struct Bench {
    program: Program,
    memory: Vec<u64>,
    device: Device,
    pool: Vec<Buffer>,
    /// Buffers of one allocation.
    views: Vec<Buffer>,
    /// A device that does nothing, and buffers of it.
    null: Device,
    nothing: Vec<Buffer>,
}

impl Bench {
    fn new(program: Program) -> Bench {
        let device = rig::open(rig_cuda::gpu(0)).expect("a GPU");
        let memory = (0..POOL).map(|_| program.memory(BYTES)).collect();
        let buffer = || {
            let buffer = device.buffer(BYTES).expect("a buffer");
            buffer.memset(0).expect("a memset");
            buffer
        };
        let pool = (0..POOL).map(|_| buffer()).collect();
        let whole = device.buffer(POOL * BYTES).expect("a buffer");
        whole.memset(0).expect("a memset");
        let views = (0..POOL).map(|i| whole.view(i * BYTES..(i + 1) * BYTES).expect("a view")).collect();
        let null = rig::open(NullOpener::new("NULL")).expect("the null device");
        let nothing = (0..POOL).map(|_| null.buffer(BYTES).expect("a buffer")).collect();
        Bench { program, memory, device, pool, views, null, nothing }
    }

    /// A run of some launches, each of two refs of its own.
    fn run(&self, device: &Device, launches: usize) -> Run {
        let add = device.load(SUITE).and_then(|image| image.function("add")).expect("add");
        let builder = (0..launches as u32)
            .fold(device.submission(), |builder, i| builder.launch(&add, [read(2 * i), write(2 * i + 1)]).params(20));
        let mut run = builder.make().expect("a submission").take();
        for part in 0..launches {
            run.part(part).groups([4, 1, 1]).threads([256, 1, 1]).set(16, 1024_u32);
        }
        run
    }

    fn launches(&self, launches: usize) {
        let reps = if launches >= 16 { 20 } else { 100 };
        let mut word = self.program.word();
        let mut turn = 0;
        let mut next = |count: usize| {
            turn = (turn + count) % POOL;
            turn
        };
        self.row(launches, "by hand: plain launches, write value", reps, || {
            let from = next(2 * launches);
            self.by_hand(launches, from, &mut word);
            Ended::Word(&raw const word)
        });
        self.graph_by_hand("by hand: a graph in a line, patched, then write value", &line(launches), reps);
        let mut run = self.run(&self.device, launches);
        let mut buffers: Vec<&Buffer> = Vec::with_capacity(2 * launches);
        self.row(launches, "rig: new buffers", reps, || {
            let from = next(2 * launches);
            buffers.clear();
            buffers.extend((0..2 * launches).map(|i| &self.pool[(from + i) % POOL]));
            Ended::Point(launch(&mut run, &buffers))
        });
        self.row(launches, "rig: the same bytes", reps, || Ended::Point(launch(&mut run, &buffers)));
        let mut run = self.run(&self.device, launches);
        self.row(launches, "rig: new views of one allocation, in a line", reps, || {
            let from = next(2 * launches);
            buffers.clear();
            buffers.extend((0..2 * launches).map(|i| &self.views[(from + i) % POOL]));
            Ended::Point(launch(&mut run, &buffers))
        });
        let mut run = self.run(&self.null, launches);
        let mut from = 0;
        self.row(launches, "rig's core alone, new buffers", reps, || {
            from += 2 * launches;
            buffers.clear();
            buffers.extend((0..2 * launches).map(|i| &self.nothing[(from + i) % POOL]));
            Ended::Point(launch(&mut run, &buffers))
        });
    }

    /// A graph of some launches, each of which waits for those that `before` says, every buffer new on every run.
    fn graph_by_hand(&self, how: &str, before: &[Vec<usize>], reps: usize) {
        let (launches, mut word, mut from) = (before.len(), self.program.word(), 0);
        let graph = self.program.graph(before, self.memory[0]);
        self.row(launches, how, reps, || {
            from = (from + 2 * launches) % POOL;
            for i in 0..launches {
                let at = |i: usize| self.memory[(from + i) % POOL];
                self.program.patch(&graph, i, at(2 * i), at(2 * i + 1));
            }
            self.program.launch_graph(self.program.stream, &graph);
            self.program.end_value(self.program.stream, &mut word);
            Ended::Word(&raw const word)
        });
    }

    /// The same launches in other orders.
    fn shapes(&self, launches: usize) {
        let reps = if launches >= 16 { 20 } else { 100 };
        let all = |before: &dyn Fn(usize) -> Vec<usize>| (0..launches).map(before).collect::<Vec<_>>();
        // Chains, and a last launch that waits for each.
        let joined = |count: usize| {
            all(&|i| {
                if i + 1 == launches {
                    (i.saturating_sub(count)..i).collect()
                } else {
                    i.checked_sub(count).into_iter().collect()
                }
            })
        };
        // One, then `width` that wait for it, then one that waits for those, and so on.
        let forks = |width: usize| {
            all(&|i| match i % (width + 1) {
                0 => (i.saturating_sub(width)..i).collect(),
                place => vec![i - place],
            })
        };
        self.graph_by_hand("a line", &line(launches), reps);
        self.graph_by_hand("no edges, but to the last", &joined(launches), reps);
        if launches >= 8 {
            for count in [2, 4, 8] {
                self.graph_by_hand(&format!("{count} chains, joined"), &joined(count), reps);
            }
            [3, 7].into_iter().for_each(|width| self.graph_by_hand(&format!("forks of {width}"), &forks(width), reps));
        }
        if launches >= 100 {
            // A line with two launches at once in every ten.
            let rarely = all(&|i| match i % 10 {
                5 => vec![i - 2],
                6 => vec![i - 2, i - 1],
                _ => i.checked_sub(1).into_iter().collect(),
            });
            self.graph_by_hand("a line with a pair in ten", &rarely, reps);
        }
    }

    fn by_hand(&self, launches: usize, from: usize, word: &mut RawWord) {
        for i in 0..launches {
            let at = |i: usize| self.memory[(from + i) % POOL];
            self.program.add(self.program.stream, at(2 * i), at(2 * i + 1));
        }
        self.program.end_value(self.program.stream, word);
    }

    fn row(&self, launches: usize, how: &str, reps: usize, mut one: impl FnMut() -> Ended) {
        (0..20).for_each(|_| one().wait());
        let mut cpu = || {
            let start = Instant::now();
            let last = (0..reps).map(|_| one()).last();
            let submitted = micros(start) / reps as f64;
            last.iter().for_each(Ended::wait);
            (submitted, micros(start) / reps as f64)
        };
        let submit = median(31, || cpu().0);
        let through = median(31, || cpu().1);
        let round = median(301, || {
            let start = Instant::now();
            one().wait();
            micros(start)
        });
        println!("| {launches} | {how} | {submit:.2} | {through:.2} | {round:.2} |");
    }

    /// A launch on one queue, and one on another that waits for it.
    fn waits(&self, when: &str) {
        let (program, other) = (&self.program, self.program.new_stream());
        let (mut one, mut two) = (program.word(), program.word());
        let by_hand = median(501, || {
            let start = Instant::now();
            program.add(program.stream, self.memory[0], self.memory[1]);
            program.end_value(program.stream, &mut one);
            program.wait_for(other, &one);
            program.add(other, self.memory[1], self.memory[2]);
            program.end_value(other, &mut two);
            two.spin();
            micros(start)
        });
        let second = rig::open(rig_cuda::gpu(0)).expect("a second device");
        let (mut first_run, mut second_run) = (self.run(&self.device, 1), self.run(&second, 1));
        let shared = self.pool[1].borrow(&second).expect("a borrow on one GPU");
        let own = second.buffer(BYTES).expect("a buffer");
        let rig = median(501, || {
            let start = Instant::now();
            launch(&mut first_run, &[&self.pool[0], &self.pool[1]]);
            launch(&mut second_run, &[&shared, &own]).wait().expect("a wait");
            micros(start)
        });
        println!("| two launches, the second on another queue after the first, {when}, µs | {by_hand:.2} | {rig:.2} |");
    }

    fn copies(&self) {
        let len = 1 << 28;
        let (_, host) = self.program.pinned(len);
        let memory = self.program.memory(len);
        let pinned = self.device.buffer_in(Memory::Pinned, len).expect("pinned memory");
        let buffer = self.device.buffer(len).expect("memory");
        for (name, inward) in [("pinned to device", true), ("device to pinned", false)] {
            let rate = |micros: f64| len as f64 / micros / 1e3;
            let (from, to) = if inward { (host, memory) } else { (memory, host) };
            let by_hand = median(9, || {
                let start = Instant::now();
                self.program.copy(self.program.stream, from, to, len);
                self.program.synchronize(self.program.stream);
                micros(start)
            });
            let (from, to) = if inward { (&pinned, &buffer) } else { (&buffer, &pinned) };
            let rig = median(9, || {
                let start = Instant::now();
                let copied = from.copy_to(to).expect("a copy");
                copied.point.iter().for_each(|point| point.wait().expect("a wait"));
                micros(start)
            });
            println!("| {name}, GB/s | {:.1} | {:.1} |", rate(by_hand), rate(rig));
        }
    }

    /// Making a submission, and dropping it: with a graph in a line alone, and with one of lanes beside it.
    fn making(&self) {
        let add = self.device.load(SUITE).and_then(|image| image.function("add")).expect("add");
        for (name, slots) in [("in a line", 1), ("apart", 200)] {
            let made = median(21, || {
                let start = Instant::now();
                let refs = |i: u32| [read(2 * i % slots), write((2 * i + 1) % slots)];
                let builder =
                    (0..100).fold(self.device.submission(), |builder, i| builder.launch(&add, refs(i)).params(20));
                drop(builder.make().expect("a submission"));
                micros(start)
            });
            println!("| make a submission of 100 launches {name}, and drop it, µs | | {made:.0} |");
        }
    }

    fn allocation(&self) {
        let rig = median(101, || {
            let start = Instant::now();
            (0..1000).for_each(|_| drop(self.device.buffer(BYTES).expect("a buffer")));
            micros(start) / 1000.0
        });
        let large = median(101, || {
            let start = Instant::now();
            (0..100).for_each(|_| drop(self.device.buffer(16 << 20).expect("a buffer")));
            micros(start) / 100.0
        });
        println!("| allocate and drop 4 KiB from the cache, µs | | {rig:.3} |");
        println!("| allocate and drop 16 MiB from the cache, µs | | {large:.3} |");
    }
}

/// What shows the end of a submit.
enum Ended {
    Word(*const RawWord),
    Point(Point),
}

impl Ended {
    #[expect(unsafe_code, reason = "looks at the row's own word")]
    fn wait(&self) {
        match self {
            // SAFETY: the word outlives the row that made this, and is not changed before the wait is over.
            Ended::Word(word) => unsafe { &**word }.spin(),
            Ended::Point(point) => point.wait().expect("a wait"),
        }
    }
}
