//! Random programs and the suite's cases, each under many seeds of the scheduler: as many as `RIG_AMD_SEEDS` says.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests fail by it")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::{Machines, SUITE, launch};
use rig::{Buffer, Device, Function, Memory, Submission, read, write};
use rig_amd::{Amd, Encoder};
use rig_amd_model::Machine;
use rig_conformance::suite;
use rig_edge::Slot;

/// Groups of the suite whose outcome hangs most on the order of work.
const ORDER: [&str; 4] = ["launches::", "order::", "direct::", "stop::"];
/// Those of memory that several reach.
const SHARED: [&str; 3] = ["memory::", "sharing::", "failure::what_follows"];
/// The kernel runs nothing more of a process on a GPU where it faulted.
const REOPENS: &str = "failure::a_lost_device_can_be_opened_again_at_once";

/// Runs some of the suite's cases under many seeds.
fn under_seeds(wanted: impl Fn(&str) -> bool) {
    for seed in machine::first_seed()..machine::first_seed() + machine::seeds(1) {
        for (name, case) in suite::cases::<Machines>() {
            if wanted(name) && name != REOPENS {
                let start = std::time::Instant::now();
                case(&Machines::new(seed));
                println!("seed {seed}: {name}: {} ms", start.elapsed().as_millis());
            }
        }
    }
}

fn is_of(name: &str, groups: &[&str]) -> bool {
    groups.iter().any(|group| name.starts_with(group))
}

/// Promises A05, A13, E18.
#[test]
fn the_suites_cases_of_order_pass_under_every_seed() {
    under_seeds(|name| is_of(name, &ORDER));
}

/// Promises A06, C09, E18.
#[test]
fn the_suites_cases_of_memory_that_is_shared_pass_under_every_seed() {
    under_seeds(|name| is_of(name, &SHARED));
}

/// The rest of the suite. With one seed the conformance test has run it.
#[test]
fn the_suites_other_cases_pass_under_every_seed() {
    if machine::seeds(1) > 1 {
        under_seeds(|name| !is_of(name, &ORDER) && !is_of(name, &SHARED));
    }
}

/// A generator of numbers, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// A buffer, and what must be in it.
struct Held {
    buffer: Buffer,
    due: Vec<u32>,
}

const WORDS: usize = 300;

/// A device of the program, with submissions over three slots of `WORDS` words.
struct Player {
    device: Device,
    iota: Submission,
    spin: Submission,
    mixed: Submission,
    /// Copies 0 to 1 and spins it in a fill.
    filled: Submission,
    /// A function with private memory, which reads the first words of 0 and writes 1.
    private: Submission,
    held: Vec<Held>,
}

const SCRATCH: &[u8] = include_bytes!("../../amd-model/fixtures/scratch.co");

/// What `scratch` makes of sixteen words in the thread `i`.
fn scratched(x: &[u32], i: u32) -> u32 {
    let mut array: Vec<u32> = x[..16].iter().map(|x| x.wrapping_add(i)).collect();
    let mut sum = 0_u32;
    for k in 0..16 {
        let at = (k + i as usize) % 16;
        sum = sum.wrapping_mul(31).wrapping_add(array[at]);
        array[(at * 7 + 3) % 16] = array[(at * 7 + 3) % 16].wrapping_add(sum);
    }
    sum.wrapping_add(array[i as usize % 16])
}

/// A fill that copies the slot 0 to the slot 1, which it then spins twice.
#[expect(unsafe_code, reason = "works on the slots")]
fn copies_and_spins(spin: &Function) -> impl Fn(&mut Encoder<'_>, &[Slot]) -> Result<(), String> + Send + Sync + use<> {
    let entry = spin.entry::<Amd>().unwrap().clone();
    move |encoder, slots| {
        let mut params = slots[1].device.to_le_bytes().to_vec();
        params.extend((WORDS as u32).to_le_bytes());
        params.extend(2_u32.to_le_bytes());
        // SAFETY: both slots have the words, and the fill's refs say what it does to them.
        unsafe { encoder.copy(slots[0].device, slots[1].device, 4 * WORDS as u64) }?;
        // SAFETY: as above.
        unsafe { encoder.launch(&entry, [5, 1, 1], [64, 1, 1], 0, &params) }
    }
}

fn spun(y: u32, rounds: u32) -> u32 {
    (0..rounds).fold(y, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
}

impl Player {
    fn new(device: Device) -> Player {
        let image = device.load(SUITE).unwrap();
        let function = |name: &str| image.function(name).unwrap();
        let one = |name: &str| device.submission().launch(&function(name), [write(0)]).make().unwrap();
        // A chain through both queues: 0 is spun into 1 and 2, and set at last.
        let mixed = device.submission().copy(0, 1).launch(&function("spin"), [write(1)]).copy(1, 2);
        let mixed = mixed.launch(&function("spin"), [write(2)]).memset(0, 0x5C).make().unwrap();
        let kinds = [Memory::Device, Memory::Device, Memory::Device, Memory::Pinned, Memory::Mapped, Memory::Device];
        let held = kinds.into_iter().map(|memory| {
            let buffer = device.buffer_in(memory, 4 * WORDS).unwrap();
            buffer.memset(0).unwrap();
            Held { buffer, due: vec![0; WORDS] }
        });
        let spin = function("spin");
        let filled = device.submission().fill::<Amd>([read(0), write(1)], copies_and_spins(&spin)).keep(spin);
        let filled = filled.make().unwrap();
        let private = device.load(SCRATCH).unwrap().function("scratch").unwrap();
        let private = device.submission().launch(&private, [read(0), write(1)]).make().unwrap();
        Player { iota: one("iota"), spin: one("spin"), mixed, filled, private, held: held.collect(), device }
    }

    fn set(run: &mut rig::Run, part: usize, scalar: u32) {
        run.part(part).groups([5, 1, 1]).threads([64, 1, 1]).set(8, WORDS as u32).set(12, scalar);
    }

    fn step(&mut self, random: &mut Random) {
        let rounds = 1 + random.below(3) as u32;
        let (a, b, c) = (random.below(6), random.below(6), random.below(6));
        match random.below(8) {
            6 if a != b => {
                let buffers = [a, b].map(|at| self.held[at].buffer.clone());
                launch(&mut self.filled.take(), &buffers.each_ref()).unwrap();
                self.held[b].due = self.held[a].due.iter().map(|&y| spun(y, 2)).collect();
            }
            7 if a != b => {
                let mut run = self.private.take();
                run.part(0).groups([10, 1, 1]).threads([32, 1, 1]).set(16, WORDS as u32);
                let buffers = [a, b].map(|at| self.held[at].buffer.clone());
                launch(&mut run, &buffers.each_ref()).unwrap();
                self.held[b].due = (0..WORDS as u32).map(|i| scratched(&self.held[a].due, i)).collect();
            }
            0 => {
                let mut run = self.iota.take();
                Player::set(&mut run, 0, rounds);
                launch(&mut run, &[&self.held[a].buffer]).unwrap();
                self.held[a].due = (rounds..rounds + WORDS as u32).collect();
            }
            1 => {
                let mut run = self.spin.take();
                Player::set(&mut run, 0, rounds);
                launch(&mut run, &[&self.held[a].buffer]).unwrap();
                self.held[a].due.iter_mut().for_each(|y| *y = spun(*y, rounds));
            }
            2 if a != b && b != c && a != c => {
                let mut run = self.mixed.take();
                Player::set(&mut run, 1, rounds);
                Player::set(&mut run, 3, rounds + 1);
                let buffers = [a, b, c].map(|at| self.held[at].buffer.clone());
                launch(&mut run, &buffers.each_ref()).unwrap();
                self.held[b].due = self.held[a].due.iter().map(|&y| spun(y, rounds)).collect();
                self.held[c].due = self.held[b].due.iter().map(|&y| spun(y, rounds + 1)).collect();
                self.held[a].due = vec![0x5C5C_5C5C; WORDS];
            }
            3 if a != b => {
                self.held[a].buffer.copy_to(&self.held[b].buffer).unwrap();
                self.held[b].due = self.held[a].due.clone();
            }
            4 => {
                let held = &mut self.held[a];
                held.buffer.write(|words: &mut [u32]| words.iter_mut().for_each(|y| *y ^= rounds)).unwrap();
                held.due.iter_mut().for_each(|y| *y ^= rounds);
            }
            _ => {
                let view = self.held[a].buffer.view(4..4 * WORDS - 7).unwrap();
                view.memset(rounds as u8).unwrap();
                let mut bytes: Vec<u8> = self.held[a].due.iter().flat_map(|y| y.to_ne_bytes()).collect();
                bytes[4..4 * WORDS - 7].fill(rounds as u8);
                let words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap()));
                self.held[a].due = words.collect();
            }
        }
    }

    fn check(&self, seed: u64) {
        for (at, Held { buffer, due }) in self.held.iter().enumerate() {
            buffer.read(|words: &[u32]| assert!(words == due, "seed {seed}, buffer {at}")).unwrap();
        }
    }
}

/// Promises A02, A05, A06, A13, C14: what two devices make of a random program is what a plain walk through it makes.
#[test]
fn random_programs_on_two_devices_do_what_their_steps_say() {
    for seed in machine::first_seed()..machine::first_seed() + machine::seeds(6) {
        let machine = Machine::builder().seed(seed).gpus(2).build();
        machine.delay(seed % 4 * 15);
        let system = rig_amd::on(&machine);
        let mut random = Random(seed ^ 0x9E37_79B9_7F4A_7C15);
        let mut players = [0, 1].map(|gpu| Player::new(rig::open(system.gpu(gpu)).unwrap()));
        for _ in 0..60 {
            let at = random.below(2);
            if random.below(5) == 0 {
                // From one device to the other: a wait on its queues, or the host's.
                let (from, to) = (random.below(6), random.below(6));
                players[at].held[from].buffer.copy_to(&players[1 - at].held[to].buffer).unwrap();
                players[1 - at].held[to].due = players[at].held[from].due.clone();
            } else {
                players[at].step(&mut random);
            }
        }
        players.iter().for_each(|player| player.check(seed));
        players.iter().for_each(|player| player.device.close());
        machine.assert_clean();
    }
}
