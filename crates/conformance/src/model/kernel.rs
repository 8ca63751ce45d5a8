//! The model's code: kernels that are Rust closures, and the text that stands for an image of them.
//!
//! An image of the model is text, made by [`image`]: a head with the number of functions, a line for each, an end.
//!
//! ```text
//! rig-model 1 functions=2
//! add params=24 threads=256
//! scale
//! end
//! ```
//!
//! A line names a kernel that the model has, and may set what the driver then says of it: `params` and `threads` as in
//! [`EntryFacts`], `memory` the bytes that its entry needs beside the image, `invalid` a reason why its entry cannot be made (one word).

use std::sync::Arc;

use bytemuck::{AnyBitPattern, NoUninit};
use rig_edge::{Access, EntryFacts};

use super::bytes::Span;

/// What runs when a launch of a kernel does. An error is a fault of the device.
pub(crate) type KernelFn = dyn Fn(&mut Args<'_>) -> Result<(), String> + Send + Sync;

/// The grid of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of group memory that the launch asks for.
    pub group_bytes: u32,
}

impl Grid {
    /// All threads of the launch.
    pub fn total(&self) -> u64 {
        self.groups.iter().chain(&self.threads).map(|&n| u64::from(n)).product()
    }
}

/// A ref of a launch, resolved: the memory from where the ref points to the end of its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved {
    pub(crate) access: Access,
    pub(crate) span: Span,
}

/// What a kernel of the model works with. Refs go by their order in the launch.
#[derive(Debug)]
pub struct Args<'a> {
    pub(crate) grid: Grid,
    pub(crate) params: &'a [u8],
    pub(crate) refs: &'a [Resolved],
}

impl Args<'_> {
    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// The parameters, with the device address at each ref.
    pub fn params(&self) -> &[u8] {
        self.params
    }

    /// The scalar at a place in the parameters; `None` where they end before.
    pub fn scalar<T: AnyBitPattern>(&self, at: usize) -> Option<T> {
        self.params.get(at..at + size_of::<T>()).map(bytemuck::pod_read_unaligned)
    }

    /// How many refs the launch has.
    pub fn refs(&self) -> usize {
        self.refs.len()
    }

    /// The bytes from where a ref points to the end of its slot.
    pub fn len(&self, index: usize) -> usize {
        self.refs[index].span.len()
    }

    /// Whether the launch has no refs.
    pub fn is_empty(&self) -> bool {
        self.refs.is_empty()
    }

    /// The first `n` elements behind a ref.
    ///
    /// # Errors
    ///
    /// Where the slot has fewer: the device's memory unit would fault.
    pub fn read<T: AnyBitPattern>(&self, index: usize, n: usize) -> Result<Vec<T>, String> {
        let bytes = self.span(index, n * size_of::<T>())?.read();
        Ok(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// Writes elements behind a ref.
    ///
    /// # Errors
    ///
    /// Where the slot has fewer, or the ref only reads: the device's memory unit would fault.
    pub fn write<T: NoUninit>(&mut self, index: usize, elements: &[T]) -> Result<(), String> {
        if self.refs[index].access == Access::Read {
            return Err(format!("a kernel wrote through its ref {index}, which reads"));
        }
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        self.span(index, bytes.len())?.write(bytes);
        Ok(())
    }

    fn span(&self, index: usize, len: usize) -> Result<Span, String> {
        let span = self.refs[index].span;
        span.part(0, len)
            .ok_or_else(|| format!("a kernel touched {len} of {} bytes behind its ref {index}", span.len()))
    }

    /// The number of elements: the `u32` at a place in the parameters, or a thread an element where they end before.
    pub fn count(&self, at: usize) -> usize {
        self.scalar::<u32>(at).map_or(self.grid.total() as usize, |n| n as usize)
    }
}

/// A kernel that the model has.
#[derive(Clone)]
pub(crate) struct Kernel {
    pub(crate) code: Arc<KernelFn>,
}

/// A function of an image: a kernel and what the driver says of it.
#[derive(Clone)]
pub(crate) struct FunctionOf {
    pub(crate) name: Arc<str>,
    pub(crate) kernel: Kernel,
    pub(crate) facts: EntryFacts,
    pub(crate) memory: u64,
    pub(crate) invalid: Option<String>,
}

/// The text of an image with these lines, each a kernel's name and what is said of it.
pub fn image(lines: &[&str]) -> Vec<u8> {
    let mut text = format!("{HEAD}{}\n", lines.len());
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    text.push_str("end\n");
    text.into_bytes()
}

const HEAD: &str = "rig-model 1 functions=";

/// Reads an image. `find` gives the model's kernels.
pub(crate) fn parse(binary: &[u8], find: impl Fn(&str) -> Option<Kernel>) -> Result<Vec<FunctionOf>, String> {
    let text = std::str::from_utf8(binary).map_err(|_| "not an image of the model: it is no text".to_string())?;
    let mut lines = text.lines();
    let head = lines.next().and_then(|head| head.strip_prefix(HEAD));
    let count: usize = head.and_then(|n| n.parse().ok()).ok_or("not an image of the model: it has no head")?;
    let lines: Vec<&str> = lines.collect();
    let Some((&"end", functions)) = lines.split_last() else {
        return Err(format!("the image is truncated: it has no end after {} lines", lines.len()));
    };
    if functions.len() != count {
        return Err(format!("the image is truncated: {} of {count} functions", functions.len()));
    }
    functions.iter().map(|line| function(line, &find)).collect()
}

fn function(line: &str, find: &impl Fn(&str) -> Option<Kernel>) -> Result<FunctionOf, String> {
    let mut words = line.split_whitespace();
    let name = words.next().ok_or("the image has an empty line")?;
    let kernel = find(name).ok_or_else(|| format!("the model has no kernel {name}"))?;
    let mut of = FunctionOf { name: name.into(), kernel, facts: EntryFacts::default(), memory: 0, invalid: None };
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("{name}: no value in {word}"))?;
        let number = || value.parse::<u32>().map_err(|_| format!("{name}: {value} is no number"));
        match key {
            "params" => of.facts.params = Some(number()? as usize),
            "threads" => of.facts.threads = Some(number()?),
            "memory" => of.memory = u64::from(number()?),
            "invalid" => of.invalid = Some(value.into()),
            _ => return Err(format!("{name}: the model knows no {key}")),
        }
    }
    Ok(of)
}

/// The kernels that every model has. Each takes its refs first, then the number of elements as `u32` (a thread an
/// element if its parameters end before), then its scalars.
///
/// * `add(x: read f32, y: write f32, n)`: `y[i] += x[i]`
/// * `scale(y: write f32, n, a: f32)`: `y[i] *= a`
/// * `iota(y: write u32, n, start: u32)`: `y[i] = start + i`
/// * `spin(y: write u32, n, rounds: u32)`: `rounds` steps of a generator of random numbers on each `y[i]`
/// * `fault()`: faults
pub(crate) fn builtin() -> Vec<(&'static str, Arc<KernelFn>)> {
    vec![
        ("add", Arc::new(add)),
        ("scale", Arc::new(scale)),
        ("iota", Arc::new(iota)),
        ("spin", Arc::new(spin)),
        ("fault", Arc::new(|_: &mut Args<'_>| Err("the kernel faulted".into()))),
    ]
}

fn add(args: &mut Args<'_>) -> Result<(), String> {
    let n = args.count(16);
    let x: Vec<f32> = args.read(0, n)?;
    let mut y: Vec<f32> = args.read(1, n)?;
    y.iter_mut().zip(&x).for_each(|(y, x)| *y += x);
    args.write(1, &y)
}

fn scale(args: &mut Args<'_>) -> Result<(), String> {
    let a: f32 = args.scalar(12).ok_or("scale without its factor")?;
    let mut y: Vec<f32> = args.read(0, args.count(8))?;
    y.iter_mut().for_each(|y| *y *= a);
    args.write(0, &y)
}

fn iota(args: &mut Args<'_>) -> Result<(), String> {
    let start: u32 = args.scalar(12).unwrap_or(0);
    let y: Vec<u32> = (0..args.count(8) as u32).map(|i| start.wrapping_add(i)).collect();
    args.write(0, &y)
}

fn spin(args: &mut Args<'_>) -> Result<(), String> {
    let rounds: u32 = args.scalar(12).unwrap_or(1);
    let mut y: Vec<u32> = args.read(0, args.count(8))?;
    for _ in 0..rounds {
        // Numerical Recipes' generator, so that no compiler folds the loop into a formula.
        y.iter_mut().for_each(|y| *y = y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    }
    args.write(0, &y)
}
