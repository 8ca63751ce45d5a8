//! A pipeline: three devices work on a stream of blocks at the same time, and the program names no event.
//!
//! The source and the sink stand for what has a speed of its own and needs no processor: a camera that delivers a block
//! every so often, a disk that takes so long to write one. Between them a device transforms the blocks on one core. So two
//! cores are enough for all three to be at work at once.
//!
//! The blocks do not move: each device works in the memory in which the one before it left a block, by a borrow. The memory
//! is also what orders the work, so the loop only gives each device its next block. The same loop with a wait after each
//! stage shows the difference.
//!
//! `cargo run --release --example pipeline`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::num::NonZero;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rig::{Buffer, Device, Point, Run, write};
use rig_host::Kernels;

const BLOCKS: u32 = 16;
/// The numbers of a block.
const LEN: usize = 1 << 16;
/// How often the source delivers a block: a camera of 200 pictures a second.
const SOURCE_TIME: Duration = Duration::from_millis(5);
/// How long the sink takes for one: a disk that writes 64 MiB a second.
const SINK_TIME: Duration = Duration::from_millis(4);

/// A list that kernels add to.
type List<T> = Arc<Mutex<Vec<T>>>;
/// When the work on a block began and ended.
type Span = (Instant, Instant);

/// A device of its own and a run of a kernel that calls `work` with a block and its number.
fn stage(spans: &List<Span>, work: impl Fn(&mut [u32], u32) + Send + Sync + 'static) -> rig::Result<(Device, Run)> {
    // Each open makes a device with a timeline and a pool of its own.
    let device = rig::open(rig_host::cores().threads(NonZero::<u32>::MIN))?;
    let spans = Arc::clone(spans);
    let kernels = Kernels::new().group("stage", 12, move |params, _| {
        let start = Instant::now();
        // SAFETY: slot 0 holds a block, and the launch has one group.
        work(unsafe { params.slice_mut(0, 0, LEN) }, params.get(8));
        spans.lock().push((start, Instant::now()));
    });
    let stage = device.load(&kernels.image())?.function("stage")?;
    let run = device.submission().launch(&stage, [write(0)]).make()?.take();
    Ok((device, run))
}

fn launch(run: &mut Run, block: &Buffer, number: u32) -> rig::Result<Point> {
    run.part(0).set(8, number);
    // SAFETY: a stage's kernel works on the block of slot 0, and on nothing else that is shared without a lock.
    unsafe { run.launch(&[block]) }
}

fn fill(block: &mut [u32], number: u32) {
    block.iter_mut().zip(number..).for_each(|(value, i)| *value = i);
}

/// Sixteen rounds of a generator over each number.
fn transform(block: &mut [u32]) {
    let round = |value: u32, _| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).rotate_left(7);
    block.iter_mut().for_each(|value| *value = (0..16).fold(*value, round));
}

fn sum(block: &[u32]) -> u64 {
    block.iter().map(|&value| u64::from(value)).sum()
}

/// Takes all blocks through the stages; gives the sums that the sink saw.
fn stream(what: &str, waits: bool) -> rig::Result<Vec<u64>> {
    let (spans, sums) = (List::default(), List::default());
    let seen = Arc::clone(&sums);
    let (source, on_source) = stage(&spans, |block, number| {
        thread::sleep(SOURCE_TIME);
        fill(block, number);
    })?;
    let (middle, on_middle) = stage(&spans, |block, _| transform(block))?;
    let (sink, on_sink) = stage(&spans, move |block, _| {
        thread::sleep(SINK_TIME);
        seen.lock().push(sum(block));
    })?;
    // Memory for four blocks: one for each stage, and one for the source to be ahead.
    let borrowed = |block: Buffer| Ok([block.borrow(&source)?, block.borrow(&middle)?, block.borrow(&sink)?]);
    let blocks: Vec<[Buffer; 3]> =
        (0..4).map(|_| source.buffer(4 * LEN).and_then(borrowed)).collect::<rig::Result<_>>()?;

    let start = Instant::now();
    let (mut runs, mut points) = ([on_source, on_middle, on_sink], Vec::new());
    // In each turn a stage takes the block that the stage before it had in the turn before.
    for turn in 0..BLOCKS + 2 {
        for (index, run) in runs.iter_mut().enumerate() {
            let Some(number) = turn.checked_sub(index as u32).filter(|&number| number < BLOCKS) else { continue };
            let point = launch(run, &blocks[number as usize % 4][index], number)?;
            if waits {
                point.wait()?;
            }
            points.push(point);
        }
    }
    Point::wait_all(&points)?;
    println!("{what}: {:.0?}, at most {} at work at a time", start.elapsed(), most_at_once(&spans.lock()));
    Ok(std::mem::take(&mut *sums.lock()))
}

/// The most spans that have an instant in common. Those of one device have none.
fn most_at_once(spans: &[Span]) -> usize {
    let at = |now: Instant| spans.iter().filter(|(start, end)| *start <= now && now < *end).count();
    spans.iter().map(|(start, _)| at(*start)).max().unwrap_or(0)
}

fn main() -> rig::Result<()> {
    println!("{BLOCKS} blocks through three devices");
    let waited = stream("with a wait after each stage", true)?;
    let streamed = stream("as a pipeline", false)?;
    let mut block = vec![0; LEN];
    let expected = (0..BLOCKS).map(|number| {
        fill(&mut block, number);
        transform(&mut block);
        sum(&block)
    });
    println!("every block right and in its place: {}", expected.eq(streamed.iter().copied()) && streamed == waited);
    Ok(())
}
