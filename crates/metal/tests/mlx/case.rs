//! One launch of one of the library's functions, with what numpy should make of it.

use crate::element::Element;

/// What is bound at an index.
pub enum Argument {
    /// A buffer with these bytes.
    Buffer(Vec<u8>),
    /// The buffer that the function writes.
    Output,
    /// Bytes that the encoder copies.
    Bytes(Vec<u8>),
}

/// Threads or threadgroups, and threads of a group.
pub struct Grid {
    /// Whether `size` counts threads, not groups.
    pub threads: bool,
    pub size: [usize; 3],
    pub group: [usize; 3],
}

/// A launch and its result.
pub struct Case {
    pub name: String,
    /// The next argument's index.
    next: usize,
    pub arguments: Vec<(usize, Argument)>,
    pub grid: Grid,
    pub output: (Element, usize),
    /// What numpy computes, over the arrays by their names.
    pub expression: String,
    pub arrays: Vec<(&'static str, Vec<usize>, Vec<f64>)>,
    /// The largest error: this many roundings of the output's type, relative to the result or to `floor` where that is more.
    pub roundings: f64,
    pub floor: f64,
}

impl Case {
    /// A launch of the function `name`, which may carry constants.
    pub fn new(name: impl Into<String>) -> Case {
        let grid = Grid { threads: true, size: [1; 3], group: [1; 3] };
        Case {
            name: name.into(),
            next: 0,
            arguments: Vec::new(),
            grid,
            output: (Element::F32, 0),
            expression: String::new(),
            arrays: Vec::new(),
            roundings: 0.0,
            floor: 0.0,
        }
    }

    fn bind(mut self, argument: Argument) -> Case {
        self.arguments.push((self.next, argument));
        self.next += 1;
        self
    }

    /// The next argument stands at `index`.
    pub fn at(mut self, index: usize) -> Case {
        self.next = index;
        self
    }

    /// An array, rounded to its type, which numpy knows by `name` and `shape`.
    pub fn input(mut self, name: &'static str, element: Element, shape: &[usize], values: &[f64]) -> Case {
        let bytes = element.encode(values);
        self.arrays.push((name, shape.to_vec(), element.decode(&bytes)));
        self.bind(Argument::Buffer(bytes))
    }

    /// The array that is written.
    pub fn output(mut self, element: Element, len: usize) -> Case {
        self.output = (element, len);
        self.bind(Argument::Output)
    }

    /// Bytes by value.
    pub fn bytes<T: bytemuck::NoUninit>(self, values: &[T]) -> Case {
        self.bind(Argument::Bytes(bytemuck::cast_slice(values).to_vec()))
    }

    /// One value of the type of the arrays.
    pub fn element(self, element: Element, value: f64) -> Case {
        self.bind(Argument::Bytes(element.encode(&[value])))
    }

    /// So many threads, in groups of `group`.
    pub fn threads(mut self, size: [usize; 3], group: [usize; 3]) -> Case {
        self.grid = Grid { threads: true, size, group };
        self
    }

    /// So many groups of `group` threads.
    pub fn groups(mut self, size: [usize; 3], group: [usize; 3]) -> Case {
        self.grid = Grid { threads: false, size, group };
        self
    }

    /// The result is numpy's, rounded once.
    pub fn equals(self, expression: impl Into<String>) -> Case {
        self.within(0.0, 0.0, expression)
    }

    /// The result is numpy's within so many roundings, relative to the result or to `floor`.
    pub fn within(mut self, roundings: f64, floor: f64, expression: impl Into<String>) -> Case {
        (self.roundings, self.floor, self.expression) = (roundings, floor, expression.into());
        self
    }

    /// Compares what a device answered with what numpy did; the largest error in roundings.
    ///
    /// # Panics
    ///
    /// If they differ by more than the case says.
    pub fn check(&self, answered: &[f64], expected: &[f64]) -> f64 {
        assert_eq!(answered.len(), expected.len(), "{}: numpy's result is as long as the output", self.name);
        let (element, _) = self.output;
        let rounded = element.round(expected);
        let mut worst = 0.0_f64;
        for (i, ((&got, &exact), &nearest)) in answered.iter().zip(expected).zip(&rounded).enumerate() {
            if got == nearest || (got.is_nan() && nearest.is_nan()) {
                continue;
            }
            let scale = element.half_unit() * exact.abs().max(self.floor);
            let error = (got - exact).abs() / scale;
            assert!(error <= self.roundings, "{}: element {i} is {got}, not {exact}: {error} roundings", self.name);
            worst = worst.max(error);
        }
        worst
    }
}

/// Values between `low` and `high`, the same for the same seed.
pub fn uniform(seed: u64, count: usize, low: f64, high: f64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        // xorshift64: its upper bits pass for random.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    (0..count).map(|_| low + (high - low) * next()).collect()
}
