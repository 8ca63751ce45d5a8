//! Steps: a submission of three parts, made once and run hundreds of times, each time with other buffers and parameters.
//!
//! Heat spreads over two plates whose left edges a source heats, step by step. A plate's cells lie in two buffers that
//! change places with each step: what a step wrote, the next one reads. All steps of both plates are in flight at once.
//!
//! `cargo run --release --example steps`
#![expect(unsafe_code, reason = "a launch runs a kernel, and a kernel works on memory that its launch names")]

use std::time::Instant;

use rig::{Buffer, Device, Point, Run, read, write};
use rig_host::{Group, Kernels, Params};

/// The cells along each side of a plate.
const SIDE: usize = 128;
/// The rows of a group.
const ROWS: usize = 32;
const GROUPS: usize = SIDE / ROWS;
const STEPS: usize = 300;

/// What the slots are for.
const FROM: u32 = 0;
const TO: u32 = 1;
const TALLY: u32 = 2;
const KEPT: u32 = 3;
/// The launch, among the parts, and where the source's heat stands in its parameters, after three addresses.
const LAUNCH: usize = 1;
const HEAT: usize = 24;

/// One group takes some rows. It adds their heat up in its place of the tally.
fn spread(params: &Params<'_>, at: &Group) {
    let (heat, first): (u32, usize) = (params.get(HEAT), at.group[0] as usize * ROWS);
    // SAFETY: slot FROM holds a plate, which nothing writes.
    let from: &[u32] = unsafe { params.slice(0, 0, SIDE * SIDE) };
    // SAFETY: slot TO holds another, of which no other group touches these rows.
    let to: &mut [u32] = unsafe { params.slice_mut(8, first * SIDE, ROWS * SIDE) };
    // SAFETY: slot TALLY has a number for each group.
    let tally: &mut [u64] = unsafe { params.slice_mut(16, at.group[0] as usize, 1) };
    for (index, to) in to.iter_mut().enumerate() {
        *to = next(from, first + index / SIDE, index % SIDE, heat);
        tally[0] += u64::from(*to);
    }
}

/// A cell's heat one step later: half its own, half its neighbours'. Whole numbers, so that the result is exact.
fn next(plate: &[u32], row: usize, column: usize, heat: u32) -> u32 {
    let cell = |row: usize, column: usize| plate[row.min(SIDE - 1) * SIDE + column.min(SIDE - 1)];
    let left = if column == 0 { heat } else { cell(row, column - 1) };
    let around = cell(row.saturating_sub(1), column) + cell(row + 1, column) + left + cell(row, column + 1);
    (4 * cell(row, column) + around) / 8
}

/// The source's heat at a step: each plate's rises and falls in a period of its own.
fn heat(plate: usize, step: usize) -> u32 {
    let period = 40 + 30 * plate;
    1_000_000 * (step % period).abs_diff(period / 2) as u32
}

struct Plate {
    run: Run,
    cells: [Buffer; 2],
    tally: Buffer,
    /// The tally after each step.
    history: Buffer,
}

impl Plate {
    fn new(device: &Device, run: Run) -> rig::Result<Plate> {
        let cells = [device.buffer(4 * SIDE * SIDE)?, device.buffer(4 * SIDE * SIDE)?];
        cells[0].memset(0)?;
        Ok(Plate { run, cells, tally: device.buffer(8 * GROUPS)?, history: device.buffer(8 * GROUPS * STEPS)? })
    }

    fn step(&mut self, step: usize, heat: u32) -> rig::Result<Point> {
        self.run.part(LAUNCH).set(HEAT, heat);
        let kept = self.history.view(8 * GROUPS * step..8 * GROUPS * (step + 1))?;
        let (from, to) = (&self.cells[step % 2], &self.cells[(step + 1) % 2]);
        // SAFETY: `spread` reads the plate of FROM, writes that of TO and a number of TALLY a group, and nothing else.
        unsafe { self.run.launch(&[from, to, &self.tally, &kept]) }
    }

    /// Whether the plate and its history are what plain loops make of the same heat.
    fn is_right(&self, plate: usize) -> rig::Result<bool> {
        let (mut cells, mut history) = (vec![0; SIDE * SIDE], Vec::new());
        for step in 0..STEPS {
            let heat = heat(plate, step);
            cells = (0..SIDE * SIDE).map(|cell| next(&cells, cell / SIDE, cell % SIDE, heat)).collect();
            history.extend(cells.chunks(ROWS * SIDE).map(|rows| rows.iter().map(|&cell| u64::from(cell)).sum::<u64>()));
        }
        Ok(self.cells[STEPS % 2].read(|is: &[u32]| is == cells)? && self.history.read(|is: &[u64]| is == history)?)
    }
}

fn main() -> rig::Result<()> {
    let device = rig::open(rig_host::cores())?;
    let spread = device.load(&Kernels::new().group("spread", HEAT + 4, spread).image())?.function("spread")?;
    // One step: the tally starts from zero, the heat spreads, and the tally is kept.
    let step = device
        .submission()
        .memset(TALLY, 0)
        .launch(&spread, [read(FROM), write(TO), write(TALLY)])
        .copy(TALLY, KEPT)
        .make()?;

    let mut plates = [Plate::new(&device, step.take())?, Plate::new(&device, step.take())?];
    for plate in &mut plates {
        plate.run.part(LAUNCH).groups([GROUPS as u32, 1, 1]).threads([SIDE as u32, ROWS as u32, 1]);
    }
    let start = Instant::now();
    let mut points = Vec::new();
    for step in 0..STEPS {
        for (number, plate) in plates.iter_mut().enumerate() {
            points.push(plate.step(step, heat(number, step))?);
        }
    }
    let submitted = start.elapsed();
    Point::wait_all(&points)?;
    let steps = points.len() as u32;
    println!(
        "{steps} steps on {device}, {:.1?} each, of which the submit {:.2?}",
        start.elapsed() / steps,
        submitted / steps
    );
    println!("both plates as they should be: {}", plates[0].is_right(0)? && plates[1].is_right(1)?);
    Ok(())
}
