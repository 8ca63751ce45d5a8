//! rayon: closures over the program's own vectors, on a pool of threads.
//!
//! A launch is a closure that a scope spawns. The scope is one whose body runs on the caller's thread, so that what the caller
//! spends on spawning shows, and its end is the wait. rayon has no order between launches, no buffers and no batches.

use rayon::prelude::*;

use crate::peer::{LARGE, Line, PAIRS, Peer, Result, SMALL};

/// The program's vectors.
pub struct Rayon {
    small: Vec<[Vec<f32>; 2]>,
    large: [Vec<f32>; 2],
}

/// y += x, as the other peers' kernels.
fn add(x: &[f32], y: &mut [f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
}

impl Rayon {
    /// Makes the vectors.
    pub fn open() -> Rayon {
        let pair = |floats: usize| [vec![1.0; floats], vec![0.0; floats]];
        Rayon { small: (0..PAIRS).map(|_| pair(SMALL)).collect(), large: pair(LARGE) }
    }
}

impl Peer for Rayon {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn about(&self) -> String {
        format!("1.12 with {} threads", rayon::current_num_threads())
    }

    fn has(&self, line: Line) -> bool {
        !matches!(line, Line::Allocate | Line::Write | Line::Read)
    }

    fn singles(&mut self, submitted: &mut dyn FnMut()) -> Result {
        rayon::in_place_scope(|scope| {
            for [x, y] in &mut self.small {
                scope.spawn(move |_| add(x, y));
            }
            submitted();
        });
        Ok(())
    }

    fn batch(&mut self, submitted: &mut dyn FnMut()) -> Result {
        self.singles(submitted)
    }

    fn round_trip(&mut self) -> Result {
        let [x, y] = &mut self.small[0];
        rayon::in_place_scope(|scope| scope.spawn(|_| add(x, y)));
        Ok(())
    }

    fn add(&mut self) -> Result {
        let [x, y] = &mut self.large;
        y.par_iter_mut().zip(x).for_each(|(y, x)| *y += *x);
        Ok(())
    }

    fn allocate(&mut self) -> Result {
        Err("rayon has no memory of its own".to_owned())
    }

    fn write(&mut self, from: &[f32]) -> Result {
        self.large[1].copy_from_slice(from);
        Ok(())
    }

    fn read(&mut self, to: &mut [f32]) -> Result {
        to.copy_from_slice(&self.large[1]);
        Ok(())
    }

    fn small(&mut self, pair: usize) -> Result<Vec<f32>> {
        Ok(self.small[pair][1].clone())
    }
}
