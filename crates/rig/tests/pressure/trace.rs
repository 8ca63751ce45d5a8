//! What traces are made of: numbers from a seed, and the sizes that programs ask for.

/// A small generator of test data (splitmix64): one seed replays a trace.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// The budget of the traces' devices.
pub const BUDGET: u64 = 16 << 20;

/// The largest buffer of a trace: a sixteenth of the budget, so that what one drop leaves rarely serves the next.
const LARGEST: usize = 1 << 20;

/// How a trace chooses sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// Powers of two from 4 bytes.
    Powers,
    /// Any size alike, so nearly all large.
    Uniform,
    /// Any order of magnitude alike.
    Logarithmic,
    /// A dozen sizes, the larger the rarer, as a program of layers asks for.
    Program,
    /// Each a little larger than the last, up to the largest, then from the start, as sequences that grow.
    Growing,
}

impl Sizes {
    /// The size of the trace's buffer number `n`.
    pub fn pick(self, random: &mut Random, n: u64) -> usize {
        const PROGRAM: [usize; 12] =
            [64, 1000, 4096, 4608, 12_288, 16_400, 49_152, 65_536, 147_456, 196_608, 589_824, 802_816];
        match self {
            Sizes::Powers => 4 << random.below(19),
            Sizes::Uniform => 1 + random.below(LARGEST),
            Sizes::Logarithmic => logarithmic(random, LARGEST),
            Sizes::Program => PROGRAM[random.below(12).min(random.below(12))],
            Sizes::Growing => {
                // 1.5% each time: 300 steps from 12 KB to 1 MB.
                let factor = 1.015_f64.powi((n % 300) as i32);
                (12_000.0 * factor) as usize + random.below(64)
            }
        }
    }
}

/// A size up to `largest`, any order of magnitude alike.
pub fn logarithmic(random: &mut Random, largest: usize) -> usize {
    let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
    (largest as f64).powf(share) as usize
}

/// The traces of one kind to play, as seeds and lengths: one of `steps`, or those that `RIG_TRACES` asks for.
pub fn traces(steps: usize) -> impl Iterator<Item = (u64, usize)> {
    let asked: Option<u64> = std::env::var("RIG_TRACES").ok().and_then(|n| n.parse().ok());
    let steps = if asked.is_some() { steps * 10 } else { steps };
    (0..asked.unwrap_or(1)).map(move |seed| (seed, steps))
}
