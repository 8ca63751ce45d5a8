//! Kernels of rarer things against the same in plain Rust.

use super::kernels::floats;
use super::kit::{Arguments, Memory, Object, launch};

const MORE: &[u8] = include_bytes!("../../../fixtures/more.co");

fn machine() -> (Memory, Object) {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, MORE);
    (memory, object)
}

fn run(memory: &mut Memory, object: &Object, kernel: &str, n: usize, arguments: Arguments) {
    launch(memory, object, kernel, [(n as u32).div_ceil(64), 1, 1], [64, 1, 1], arguments).unwrap();
}

/// The number that is nearest among f16, by counting in units of its last place; a tie goes to the even one.
fn nearest_half(x: f64) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let unit = 2f64.powi((((x.abs().to_bits() >> 52) as i32) - 1023).max(-14) - 10);
    let rounded = (x / unit).round_ties_even() * unit;
    if rounded.abs() > 65504.0 { f64::INFINITY.copysign(x) } else { rounded.copysign(x) }
}

fn half_value(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    let size = match exponent {
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => mantissa * 2f64.powi(-24),
        _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

fn half_edges() -> Vec<u16> {
    let mut edges = vec![0, 1, 2, 0x3ff, 0x400, 0x401, 0x3555, 0x3800, 0x3bff, 0x3c00, 0x3c01, 0x3e00, 0x4100, 0x4248];
    edges.extend([0x5640, 0x63ff, 0x6400, 0x7bff, 0x7c00, 0x7e00]);
    edges.extend(edges.clone().into_iter().map(|bits| bits | 0x8000));
    edges
}

fn half_pairs() -> Vec<(u16, u16)> {
    half_edges().into_iter().flat_map(|a| half_edges().into_iter().map(move |b| (a, b))).collect()
}

fn halves(values: impl Iterator<Item = u16>) -> Vec<u8> {
    values.flat_map(u16::to_le_bytes).collect()
}

fn read_halves(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(2).map(|half| half_value(u16::from_le_bytes(half.try_into().unwrap()))).collect()
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn half_function(row: usize, x: f64, y: f64) -> f64 {
    let number = |f: fn(f64, f64) -> f64| {
        if x.is_nan() {
            y
        } else if y.is_nan() {
            x
        } else {
            f(x, y)
        }
    };
    nearest_half(match row {
        0 => x + y,
        1 => x - y,
        2 => x * y,
        3 => x / y,
        4 => x * y + 1.5,
        5 => {
            if x < y {
                x
            } else {
                y
            }
        }
        6 => x.sqrt(),
        7 => x.floor(),
        8 => f64::from(y as i16),
        _ => number(f64::max),
    })
}

#[test]
fn halves_round_once() {
    let (mut memory, object) = machine();
    let pairs = half_pairs();
    let n = pairs.len();
    let a = memory.map(halves(pairs.iter().map(|pair| pair.0)), false);
    let b = memory.map(halves(pairs.iter().map(|pair| pair.1)), false);
    let c = memory.map(vec![0; 20 * n], true);
    run(&mut memory, &object, "halves", n, Arguments::default().long(a).long(b).long(c).word(n as u32));
    for (i, result) in read_halves(memory.bytes(c)).into_iter().enumerate() {
        let (row, (x, y)) = (i / n, pairs[i % n]);
        let (x, y) = (half_value(x), half_value(y));
        // Casts out of a type's range mean nothing in C.
        if row == 8 && (y.is_nan() || y.abs() >= 32768.0) {
            continue;
        }
        let expected = half_function(row, x, y);
        let zeros = row == 9 && x == 0.0 && y == 0.0;
        assert!(same(result, expected) || zeros, "row {row} of {x:e} and {y:e}: {result:e} for {expected:e}");
    }
}

#[test]
fn pairs_of_halves_take_the_halves_that_they_name() {
    let (mut memory, object) = machine();
    let pairs = half_pairs();
    let n = pairs.len() / 2;
    let a = memory.map(halves(pairs.iter().map(|pair| pair.0)), false);
    let b = memory.map(halves(pairs.iter().map(|pair| pair.1)), false);
    let (c, d) = (memory.map(vec![0; 16 * n], true), memory.map(vec![0; 4 * n], true));
    run(&mut memory, &object, "pairs", n, Arguments::default().long(a).long(b).long(c).long(d).word(n as u32));
    let at = |i: usize| (half_value(pairs[i].0), half_value(pairs[i].1));
    for (i, result) in read_halves(memory.bytes(c)).into_iter().enumerate() {
        let (row, place) = (i / (2 * n), i % (2 * n));
        let (x, y) = at(place);
        let expected = match row {
            0 => nearest_half(x + at(place ^ 1).1),
            1 => nearest_half(x * y),
            2 => nearest_half(x * -y + 2.0),
            _ if x.is_nan() || y.is_nan() || x == y => continue,
            _ => x.max(y),
        };
        assert!(same(result, expected), "row {row} of {x:e} and {y:e}: {result:e} for {expected:e}");
    }
    for (i, result) in memory.read_floats(d).into_iter().enumerate() {
        let (x, y) = (at(2 * i + 1).0 as f32, at(2 * i).1 as f32);
        assert!(same(result.into(), x.mul_add(y, 0.1).into()), "{x:e} {y:e}: {result:e}");
    }
}

fn double_function(row: usize, i: usize, x: f64, y: f64) -> f64 {
    match row {
        0 => x + y,
        1 => x * y,
        2 => x.mul_add(y, 0.1),
        3 => x / y,
        4 => x.sqrt(),
        5 => {
            if x < y {
                x
            } else {
                y
            }
        }
        6 => x.floor() + y.round_ties_even(),
        7 => f64::from(x as f32),
        8 => x * 2f64.powi((i % 100) as i32 - 50),
        9 => ((i as u64).wrapping_mul(0x0123_4567_89ab_cdef) as i64) as f64 + i as f64,
        _ => x.copysign(y),
    }
}

#[test]
fn doubles_are_those_of_the_host() {
    let (mut memory, object) = machine();
    let mut edges: Vec<f64> = floats().into_iter().step_by(2).map(f64::from).collect();
    edges.extend([1e300, 1e-300, 2.5e-310, f64::MAX, f64::MIN_POSITIVE, 5e-324, -1e200, 1.0 / 3.0, 2.0 / 3.0, -7.25]);
    let pairs: Vec<(f64, f64)> = edges.iter().flat_map(|&a| edges.iter().map(move |&b| (a, b))).collect();
    let n = pairs.len();
    let a = memory.longs(&pairs.iter().map(|pair| pair.0.to_bits()).collect::<Vec<_>>());
    let b = memory.longs(&pairs.iter().map(|pair| pair.1.to_bits()).collect::<Vec<_>>());
    let c = memory.longs(&vec![0; 11 * n]);
    run(&mut memory, &object, "doubles", n, Arguments::default().long(a).long(b).long(c).word(n as u32));
    for (i, result) in memory.read_longs(c).into_iter().map(f64::from_bits).enumerate() {
        let (row, (x, y)) = (i / n, pairs[i % n]);
        let expected = double_function(row, i % n, x, y);
        assert!(same(result, expected), "row {row} of {x:e} and {y:e}: {result:e} for {expected:e}");
    }
}

/// Runs `exchange` in a wave whose first lanes run, and sees what each of them gets. A lane that does not run gives nothing:
/// who would take from it keeps the old value 7 or gets 0, as its instruction says.
fn exchanges(running: usize) {
    let (mut memory, object) = machine();
    let x: Vec<u32> = (0..32).map(|i| 1000 + 17 * i).collect();
    let (from, to) = (memory.words(&x), memory.words(&[0; 320]));
    let arguments = Arguments::default().long(from).long(to);
    launch(&mut memory, &object, "exchange", [1; 3], [running as u32, 1, 1], arguments).unwrap();
    let out = memory.read_words(to);
    for i in 0..running {
        let (row, at) = (i & 16, i & 15);
        let given = |lane: usize, else_: u32| if lane < running { x[lane] } else { else_ };
        let expected = [
            if at >= 1 { given(i - 1, 7) } else { 7 },
            if at < 14 { given(i + 2, 0) } else { 0 },
            given(i ^ 3, 7),
            if row == 0 { given((at + 13) % 16, 7) } else { 7 },
            if at / 4 % 2 == 0 { given(row + 15 - at, 7) } else { 7 },
            given(row + 5, 7),
            given(i ^ 7, 0),
            given(i ^ 16, x[i]),
            given(i ^ 1, 0),
            given(i ^ 5, 0),
        ];
        let result: Vec<u32> = (0..10).map(|n| out[32 * n + i]).collect();
        assert_eq!(result, expected, "lane {i} of {running}");
    }
}

#[test]
fn lanes_exchange_their_values_in_every_pattern() {
    exchanges(32);
}

#[test]
fn lanes_that_do_not_run_give_nothing() {
    for running in [1, 5, 13, 16, 20, 27, 31] {
        exchanges(running);
    }
}

#[test]
fn bytes_are_multiplied_with_their_signs() {
    let (mut memory, object) = machine();
    let n = 40;
    let a: Vec<u8> = (0..64 * n).map(|i| (i * 73 % 256) as u8).collect();
    let b: Vec<u8> = (0..64 * n).map(|i| (i * 59 % 251) as u8).collect();
    let (x, y, z) = (memory.map(a.clone(), false), memory.map(b.clone(), false), memory.words(&vec![0; 2 * n]));
    run(&mut memory, &object, "bytes", n, Arguments::default().long(x).long(y).long(z).word(n as u32));
    let out = memory.read_words(z);
    for i in 0..n {
        let products = (64 * i..64 * i + 64).map(|k| i32::from(a[k] as i8) * i32::from(b[k] as i8));
        assert_eq!(out[i] as i32, products.sum::<i32>());
        let differences = (64 * i..64 * i + 4).map(|k| u32::from(a[k].abs_diff(b[k])));
        assert_eq!(out[n + i], differences.sum::<u32>() + 5);
    }
}

#[test]
fn an_index_chooses_a_register() {
    let (mut memory, object) = machine();
    let n = 50;
    let x: Vec<f32> = (0..16 * n).map(|i| i as f32).collect();
    let k: Vec<u32> = (0..n as u32).map(|i| 3 + i * 7).collect();
    let (from, which, to) = (memory.floats(&x), memory.words(&k), memory.words(&vec![0; n]));
    run(&mut memory, &object, "indexed", n, Arguments::default().long(from).long(which).long(to).word(n as u32));
    let expected: Vec<f32> =
        (0..n).map(|i| if k[i] % 16 == 3 { 100.0 } else { x[16 * i + k[i] as usize % 16] }).collect();
    assert_eq!(memory.read_floats(to), expected);
}

#[test]
fn calls_return_and_jumps_by_value_arrive() {
    fn mixed(x: u32, y: u32) -> u32 {
        x.wrapping_mul(31).wrapping_add(y ^ x >> 7)
    }
    for which in 0..7 {
        let (mut memory, object) = machine();
        let y: Vec<u32> = (0..50u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let to = memory.words(&y);
        run(&mut memory, &object, "calls", 50, Arguments::default().long(to).word(50).word(which));
        let expected: Vec<u32> = (0..50)
            .map(|i| {
                let v = mixed(y[i], i as u32);
                match which {
                    0 => mixed(v, 3),
                    1 => v / 7,
                    2 => v % 1000,
                    3 => v.count_ones(),
                    4 => !v,
                    _ => 0,
                }
            })
            .collect();
        assert_eq!(memory.read_words(to), expected, "case {which}");
    }
}
