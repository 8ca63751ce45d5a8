//! A work-group: its waves, its group memory, its barrier.
//!
//! A wave starts as LLVM's "User Guide for AMDGPU Backend" says: user scalar registers in the descriptor's order, then the
//! work-group's numbers, and in v0 the work-item's numbers, ten bits each. All else holds what the seed gives.

use super::LANES;
use super::bus::Bus;
use super::code::Code;
use super::dispatch::Dispatch;
use super::exchange::Exchange;
use super::fault::{Fault, FaultKind, Place};
use super::float::Mode;
use super::inst::{Flow, Inst, Outside, Run};
use super::wave::{EXEC, NULL, State, Wave};

/// What a step has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Waves are left.
    Running,
    /// All waves have ended.
    Done,
}

/// A work-group that runs.
pub struct WorkGroup {
    id: [u32; 3],
    waves: Vec<Wave>,
    memory: Vec<u8>,
    budget: u64,
    random: Random,
}

/// Numbers of a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

impl WorkGroup {
    /// Starts the waves of the work-group `id` of a dispatch.
    pub fn new(dispatch: &Dispatch, id: [u32; 3], seed: u64) -> Self {
        let mut random = Random(seed ^ 0x9e37_79b9_7f4a_7c15 | 1);
        random.next();
        let items = dispatch.workgroup.iter().product::<u32>() as usize;
        let waves = (0..items.div_ceil(LANES)).map(|n| start(dispatch, id, n as u32, &mut random)).collect();
        let memory = (0..dispatch.group_bytes).map(|_| random.next() as u8).collect();
        Self { id, waves, memory, budget: dispatch.budget, random }
    }

    /// Where each wave's scratch begins, of a dispatch whose work-items have private memory.
    pub fn set_scratch(&mut self, bases: &[u64]) {
        self.waves.iter_mut().zip(bases).for_each(|(wave, &base)| wave.scratch = base);
    }

    /// Its place in the grid.
    pub fn id(&self) -> [u32; 3] {
        self.id
    }

    /// Instructions that its waves have run.
    pub fn ran(&self) -> u64 {
        self.waves.iter().map(|wave| wave.ran).sum()
    }

    /// Advances one wave, chosen by the seed, by at most `instructions`: less if it ends, meets the barrier or sleeps.
    ///
    /// # Errors
    ///
    /// What stopped the wave. The group is not to be stepped after it.
    pub fn step(&mut self, code: &mut Code, bus: &mut dyn Bus, instructions: u32) -> Result<Progress, Fault> {
        let ready = self.waves.iter().filter(|wave| wave.state == State::Ready).count();
        if ready == 0 {
            return Ok(Progress::Done);
        }
        let chosen = (self.random.next() >> 32) as usize % ready;
        let wave = self.waves.iter_mut().filter(|wave| wave.state == State::Ready).nth(chosen);
        // PANIC: `chosen` is below the number of waves that are ready.
        let wave = wave.expect("a wave that is ready");
        let mut outside = Outside { bus, group: &mut self.memory };
        run(wave, code, &mut outside, instructions, self.budget).map_err(|fault| placed(fault, wave, self.id))?;
        Ok(self.settle())
    }

    /// Opens the barrier once every wave that has not ended is at it.
    fn settle(&mut self) -> Progress {
        if self.waves.iter().any(|wave| wave.state == State::Ready) {
            return Progress::Running;
        }
        let mut progress = Progress::Done;
        for wave in self.waves.iter_mut().filter(|wave| wave.state == State::AtBarrier) {
            wave.state = State::Ready;
            progress = Progress::Running;
        }
        progress
    }
}

/// Why a wave stopped, with the words and the text of the instruction that it stood at.
type Stop = (FaultKind, Vec<u32>, String);

fn placed((kind, words, text): Stop, wave: &Wave, group: [u32; 3]) -> Fault {
    Fault { kind, place: Some(Box::new(Place { pc: wave.pc, words, text, group, wave: wave.number })) }
}

/// Runs a wave. On an error its pc is the instruction's that failed.
fn run(wave: &mut Wave, code: &mut Code, out: &mut Outside<'_>, instructions: u32, budget: u64) -> Result<(), Stop> {
    for _ in 0..instructions {
        let pc = wave.pc;
        let inst = code.at(pc, out.bus).map_err(|(kind, words, have)| (kind, words[..have].to_vec(), String::new()))?;
        wave.pc = pc + 4 * u64::from(inst.len);
        wave.ran += 1;
        let flow =
            if wave.ran > budget { Err(FaultKind::Budget { instructions: budget }) } else { execute(wave, inst, out) };
        match flow {
            Ok(Flow::Next) => {}
            Ok(Flow::Yield) => return Ok(()),
            Ok(Flow::Barrier) => {
                wave.state = State::AtBarrier;
                return Ok(());
            }
            Ok(Flow::End) => {
                wave.state = State::Ended;
                return Ok(());
            }
            Err(kind) => {
                wave.pc = pc;
                return Err((kind, inst.words[..usize::from(inst.len)].to_vec(), inst.to_string()));
            }
        }
    }
    Ok(())
}

#[inline]
fn execute(wave: &mut Wave, inst: &Inst, out: &mut Outside<'_>) -> Result<Flow, FaultKind> {
    wave.check(inst)?;
    match inst.row.run {
        Run::Registers(run) if inst.exchange != Exchange::None => wave.exchange(inst, run),
        Run::Registers(run) => match &inst.second {
            None => run(wave, inst),
            Some(second) => both(wave, inst, second),
        },
        Run::Memory(run) => run(wave, inst, out)?,
        Run::Control(run) => return run(wave, inst),
    }
    Ok(Flow::Next)
}

/// The halves of VOPD read their sources before either writes; their destinations differ.
fn both(wave: &mut Wave, first: &Inst, second: &Inst) {
    let (Run::Registers(one), Run::Registers(two)) = (first.row.run, second.row.run) else { return };
    let register = usize::from(first.dst);
    let before = wave.v[register];
    one(wave, first);
    let after = std::mem::replace(&mut wave.v[register], before);
    two(wave, second);
    wave.v[register] = after;
}

/// A wave as it starts.
fn start(dispatch: &Dispatch, id: [u32; 3], number: u32, random: &mut Random) -> Wave {
    let descriptor = &dispatch.descriptor;
    let mut s: [u32; 128] = std::array::from_fn(|_| random.next() as u32);
    let mut v: Vec<_> = (0..descriptor.vector_registers()).map(|_| [random.next() as u32; LANES]).collect();
    let mut at = 0;
    // The dispatch packet, the queue, the arguments, the dispatch's number: pairs, in this order, where asked for.
    for (bit, value) in [(1, dispatch.packet), (2, dispatch.queue), (3, dispatch.kernarg), (4, dispatch.id)] {
        if descriptor.properties >> bit & 1 != 0 {
            (s[at], s[at + 1]) = (value as u32, (value >> 32) as u32);
            at += 2;
        }
    }
    at = descriptor.user_registers() as usize;
    for (axis, &group) in id.iter().enumerate() {
        if descriptor.rsrc2 >> (7 + axis) & 1 != 0 {
            s[at] = group;
            at += 1;
        }
    }
    s[NULL] = 0;
    s[EXEC + 1] = 0;
    s[EXEC] = 0;
    let [width, height, _] = dispatch.workgroup;
    let items = dispatch.workgroup.iter().product::<u32>();
    for (lane, first) in v[0].iter_mut().enumerate() {
        let item = number * LANES as u32 + lane as u32;
        let place = [item % width, item / width % height, item / width / height];
        let inside = (0..3).all(|axis| {
            u64::from(id[axis]) * u64::from(dispatch.workgroup[axis]) + u64::from(place[axis])
                < u64::from(dispatch.grid[axis])
        });
        if item < items && inside {
            s[EXEC] |= 1 << lane;
        }
        *first = place[0] | place[1] << 10 | place[2] << 20;
    }
    let state = if s[EXEC] == 0 { State::Ended } else { State::Ready };
    let mode = Mode::of_rsrc1(descriptor.rsrc1);
    let (pc, private) = (dispatch.entry, dispatch.private_bytes);
    Wave { number, state, pc, s, v, scc: false, mode, exchanged: [0; LANES], scratch: 0, private, ran: 0 }
}

impl std::fmt::Debug for WorkGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let states: Vec<State> = self.waves.iter().map(|wave| wave.state).collect();
        f.debug_struct("WorkGroup").field("id", &self.id).field("waves", &states).finish_non_exhaustive()
    }
}
