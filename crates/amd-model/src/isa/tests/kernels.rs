//! Kernels of the fixtures against the same work in plain Rust.

use super::kit::{Arguments, Memory, Object, launch};

pub(super) const SUITE: &[u8] = include_bytes!("../../../fixtures/suite.co");
pub(super) const WORK: &[u8] = include_bytes!("../../../fixtures/work.co");
pub(super) const PLAIN: &[u8] = include_bytes!("../../../fixtures/work_plain.co");

/// Both builds of the kernels: the compiler's usual one, and the one without what it adds for speed.
const BUILDS: [&[u8]; 2] = [WORK, PLAIN];

fn words(n: u32) -> Vec<u32> {
    (0..n).map(|i| i.wrapping_mul(2_654_435_761) ^ i >> 3).collect()
}

#[test]
fn add_adds_below_n_and_leaves_the_rest() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let (x, y): (Vec<f32>, Vec<f32>) = (0..200).map(|i| (i as f32 * 0.37, 1000.0 - i as f32)).unzip();
    let (from, to) = (memory.floats(&x), memory.floats(&y));
    let arguments = Arguments::default().long(from).long(to).word(150);
    launch(&mut memory, &object, "add", [4, 1, 1], [64, 1, 1], arguments).unwrap();
    let expected: Vec<f32> = (0..200).map(|i| if i < 150 { x[i] + y[i] } else { y[i] }).collect();
    assert_eq!(memory.read_floats(to), expected);
}

#[test]
fn ids_are_those_of_the_grid_in_three_axes() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let (groups, threads) = ([3, 2, 2], [5, 4, 3]);
        let size: [u32; 3] = std::array::from_fn(|axis| groups[axis] * threads[axis]);
        let out = memory.words(&vec![0; 4 * size.iter().product::<u32>() as usize]);
        let arguments = Arguments::default().long(out).word(size[0]).word(size[1]);
        launch(&mut memory, &object, "ids", groups, threads, arguments).unwrap();
        for (i, place) in memory.read_words(out).chunks_exact(4).enumerate() {
            let i = i as u32;
            let [x, y, z] = [i % size[0], i / size[0] % size[1], i / size[0] / size[1]];
            let group = (x / threads[0]) | ((y / threads[1]) << 8) | ((z / threads[2]) << 16);
            assert_eq!(place, [x, y, z, group]);
        }
    }
}

#[test]
fn reduce_sums_through_group_memory_and_barriers() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let x = words(1024);
        let (from, to) = (memory.words(&x), memory.words(&[0; 4]));
        let arguments = Arguments::default().long(from).long(to);
        launch(&mut memory, &object, "reduce", [4, 1, 1], [256, 1, 1], arguments).unwrap();
        let expected: Vec<u32> = x.chunks(256).map(|x| x.iter().fold(0u32, |sum, x| sum.wrapping_add(*x))).collect();
        assert_eq!(memory.read_words(to), expected);
    }
}

/// Runs a kernel of each build over x, with threads of groups of 64, and gives what it wrote to a buffer of `out` words.
fn over_words(kernel: &str, x: &[u32], out: usize, arguments: impl Fn(u64, u64) -> Arguments) -> Vec<u32> {
    let results = BUILDS.map(|build| {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let (from, to) = (memory.words(x), memory.words(&vec![0; out]));
        let groups = [(x.len() as u32).div_ceil(64), 1, 1];
        launch(&mut memory, &object, kernel, groups, [64, 1, 1], arguments(from, to)).unwrap();
        memory.read_words(to)
    });
    assert_eq!(results[0], results[1], "both builds give the same");
    results.into_iter().next().unwrap()
}

#[test]
fn scale_iota_and_spin_work_below_n() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let mut run = |kernel: &str, y: &[u32], arguments: fn(u64) -> Arguments| {
        let to = memory.words(y);
        launch(&mut memory, &object, kernel, [3, 1, 1], [64, 1, 1], arguments(to)).unwrap();
        memory.read_words(to)
    };
    let y = words(180);
    let floats: Vec<u32> = y.iter().map(|&y| (y as f32).to_bits()).collect();
    let expected: Vec<u32> =
        (0..180).map(|i| if i < 170 { (y[i] as f32 * 0.3).to_bits() } else { floats[i] }).collect();
    assert_eq!(run("scale", &floats, |to| Arguments::default().long(to).word(170).float(0.3)), expected);
    let expected: Vec<u32> = (0..180).map(|i| if i < 170 { 5 + i as u32 } else { y[i] }).collect();
    assert_eq!(run("iota", &y, |to| Arguments::default().long(to).word(170).word(5)), expected);
    let spun = |y: u32| (0..1001).fold(y, |y: u32, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let expected: Vec<u32> = (0..180).map(|i| if i < 170 { spun(y[i]) } else { y[i] }).collect();
    assert_eq!(run("spin", &y, |to| Arguments::default().long(to).word(170).word(1001)), expected);
}

#[test]
fn count_gives_each_odd_word_a_place_of_its_own() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let x = words(1000);
        let (from, total, places) = (memory.words(&x), memory.words(&[3]), memory.words(&[u32::MAX; 1000]));
        let arguments = Arguments::default().long(from).long(total).long(places).word(990);
        launch(&mut memory, &object, "count", [8, 1, 1], [128, 1, 1], arguments).unwrap();
        let odd = x[..990].iter().filter(|&&x| x % 2 == 1).count() as u32;
        assert_eq!(memory.read_words(total), [3 + odd]);
        let places = memory.read_words(places);
        let mut given: Vec<u32> = (0..990).filter(|&i| x[i] % 2 == 1).map(|i| places[i]).collect();
        given.sort_unstable();
        assert_eq!(given, (3..3 + odd).collect::<Vec<_>>());
        assert!((0..1000).all(|i| i < 990 && x[i] % 2 == 1 || places[i] == u32::MAX));
    }
}

#[test]
fn histogram_counts_in_group_memory_and_finds_the_largest_of_64_bits() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let x = words(1000);
        let (from, total, largest) = (memory.words(&x), memory.words(&[0; 64]), memory.longs(&[1]));
        let arguments = Arguments::default().long(from).long(total).long(largest).word(1000);
        launch(&mut memory, &object, "histogram", [4, 1, 1], [256, 1, 1], arguments).unwrap();
        let mut expected = vec![0; 64];
        x.iter().for_each(|x| expected[*x as usize % 64] += 1);
        assert_eq!(memory.read_words(total), expected);
        assert_eq!(memory.read_longs(largest), [u64::from(*x.iter().max().unwrap()) << 8]);
    }
}

#[test]
fn saxpy_is_fused_and_strides() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let (x, y): (Vec<f32>, Vec<f32>) = (0..777).map(|i| (i as f32 * 0.1, 1.0 / (i as f32 + 0.3))).unzip();
        let (from, to) = (memory.floats(&x), memory.floats(&y));
        let arguments = Arguments::default().long(from).long(to).word(777).float(1.1);
        launch(&mut memory, &object, "saxpy", [4, 1, 1], [32, 1, 1], arguments).unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.1f32.mul_add(*x, *y)).collect();
        assert_eq!(memory.read_floats(to), expected);
    }
}

#[test]
fn copy_and_fill_reach_every_byte_and_no_other() {
    for build in BUILDS {
        for bytes in [0, 1, 15, 16, 17, 100, 4096, 5003] {
            let mut memory = Memory::new();
            let object = Object::load(&mut memory, build);
            let from: Vec<u8> = (0..5040).map(|i| (i * 7 % 251) as u8).collect();
            let (source, target) = (memory.map(from.clone(), false), memory.map(vec![0xee; 5040], true));
            let arguments = Arguments::default().long(source).long(target).long(bytes).word(128);
            launch(&mut memory, &object, "copy", [2, 1, 1], [64, 1, 1], arguments).unwrap();
            let end = bytes as usize;
            assert_eq!(memory.bytes(target)[..end], from[..end]);
            assert!(memory.bytes(target)[end..].iter().all(|&byte| byte == 0xee));
            let arguments = Arguments::default().long(target).long(bytes).word(128).word(0x0403_0201);
            launch(&mut memory, &object, "fill", [2, 1, 1], [64, 1, 1], arguments).unwrap();
            assert!(memory.bytes(target)[..end].iter().enumerate().all(|(i, &byte)| byte == 1 + (i % 4) as u8));
            assert!(memory.bytes(target)[end..].iter().all(|&byte| byte == 0xee));
        }
    }
}

#[test]
fn matmul_works_in_tiles() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let n = 32;
        let a: Vec<f32> = (0..n * n).map(|i| (i % 17) as f32 * 0.21 - 1.0).collect();
        let b: Vec<f32> = (0..n * n).map(|i| (i % 23) as f32 * 0.13 - 1.2).collect();
        let (left, right, out) = (memory.floats(&a), memory.floats(&b), memory.floats(&vec![0.0; n * n]));
        let arguments = Arguments::default().long(left).long(right).long(out).word(n as u32);
        launch(&mut memory, &object, "matmul", [2, 2, 1], [16, 16, 1], arguments).unwrap();
        let cell = |i: usize| (0..n).fold(0f32, |sum, k| a[i / n * n + k].mul_add(b[k * n + i % n], sum));
        assert_eq!(memory.read_floats(out), (0..n * n).map(cell).collect::<Vec<_>>());
    }
}

#[test]
fn softmax_is_within_a_few_units_of_the_exact_one() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let n = 100;
        let x: Vec<f32> = (0..3 * n).map(|i| ((i * 37) % 101) as f32 * 0.17 - 4.0).collect();
        let (from, out) = (memory.floats(&x), memory.floats(&vec![0.0; 3 * n]));
        let arguments = Arguments::default().long(from).long(out).word(n as u32);
        launch(&mut memory, &object, "softmax", [3, 1, 1], [64, 1, 1], arguments).unwrap();
        let out = memory.read_floats(out);
        for row in 0..3 {
            let row = row * n..(row + 1) * n;
            let sum: f64 = x[row.clone()].iter().map(|&x| f64::from(x).exp()).sum();
            for i in row {
                let exact = f64::from(x[i]).exp() / sum;
                assert!((f64::from(out[i]) - exact).abs() <= exact * 1e-6, "{} for {exact}", out[i]);
            }
        }
    }
}

/// Floats of every kind: zeros, the least and the largest, numbers around steps, infinities, NaN.
pub(super) fn floats() -> Vec<f32> {
    let mut floats = vec![0.0, 1.0, 1.5, 2.5, 3.5, 0.5, 0.1, 3.0, 100.7, 1e10, 1e20, 1e38, f32::MAX, f32::MIN_POSITIVE];
    floats.extend([
        1e-20,
        1e-38,
        3e-39,
        f32::from_bits(1),
        0.999_999_94,
        1.000_000_1,
        16_777_216.0,
        f32::INFINITY,
        f32::NAN,
    ]);
    floats.extend(floats.clone().into_iter().map(|x| -x));
    floats
}

fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// Whether they are within some units of the last place of each other; a denormal may be off by as many of its own.
fn near(a: f32, b: f32, units: i64) -> bool {
    let order =
        |x: f32| if x.is_sign_negative() { -i64::from(x.to_bits() & 0x7fff_ffff) } else { i64::from(x.to_bits()) };
    same(a, b) || !a.is_nan() && !b.is_nan() && (order(a) - order(b)).abs() <= units
}

/// What each row of the kernel `functions` is, and how many units of the last place it may be off.
fn functions(row: usize, a: f32, b: f32) -> (f32, i64) {
    let integer =
        |x: f32, low: f64, high: f64| if x.is_nan() { 0.0 } else { f64::from(x).clamp(low, high).trunc() as f32 };
    match row {
        0 => (a.sqrt(), 0),
        1 => (f64::from(a).ln() as f32, 2),
        2 => (f64::from(a).log2() as f32, 1),
        3 => (f64::from(a).exp2() as f32, 1),
        4 => (a / b, 0),
        5 => (1.0 / a, 0),
        6 => (a.floor() + b.trunc(), 0),
        7 => (a.ceil() + b.round_ties_even(), 0),
        8 => (
            if a.is_nan() {
                b
            } else if b.is_nan() {
                a
            } else {
                a.min(b)
            },
            0,
        ),
        9 => (integer(a, -2_147_483_648.0, 2_147_483_647.0) + integer(b, 0.0, 4_294_967_295.0), 0),
        10 => (a.copysign(b) + b.abs(), 0),
        11 => (
            if a < b {
                a
            } else if b > 0.0 {
                -b
            } else {
                a
            },
            0,
        ),
        12 => ((f64::from(a) * 2f64.powi((b as i32).clamp(-500, 500))) as f32, 0),
        13 => ((f64::from(a).mul_add(f64::from(b), 1.0)) as f32, 0),
        14 => ((1.0 / f64::from(if a.is_subnormal() { 0f32.copysign(a) } else { a }).sqrt()) as f32, 1),
        _ => (half_and_back(a), 0),
    }
}

/// To f16 and back, by counting in units of the last place.
fn half_and_back(a: f32) -> f32 {
    if !a.is_finite() || a == 0.0 {
        return a;
    }
    let unit = 2f64.powi((f64::from(a.abs()).log2().floor() as i32).max(-14) - 10);
    let rounded = (f64::from(a) / unit).round_ties_even() * unit;
    let size = if rounded.abs() > 65504.0 { f64::INFINITY } else { rounded.abs() };
    (size as f32).copysign(a)
}

#[test]
fn functions_of_floats_are_exact_or_within_their_units() {
    let values = floats();
    let (x, z): (Vec<f32>, Vec<f32>) = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip();
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let n = x.len();
        let (a, b, out) = (memory.floats(&x), memory.floats(&z), memory.floats(&vec![0.0; 16 * n]));
        let arguments = Arguments::default().long(a).long(b).long(out).word(n as u32);
        launch(&mut memory, &object, "functions", [(n as u32).div_ceil(64), 1, 1], [64, 1, 1], arguments).unwrap();
        for (i, out) in memory.read_floats(out).into_iter().enumerate() {
            let (row, a, b) = (i / n, x[i % n], z[i % n]);
            // Casts out of a type's range mean nothing in C.
            if row == 9 && !(a.abs() < 2e9 && (0.0..4e9).contains(&b)) || row == 12 && b.is_nan() {
                continue;
            }
            let (expected, units) = functions(row, a, b);
            assert!(near(out, expected, units), "row {row} of {a:e} and {b:e}: {out:e} for {expected:e}");
        }
    }
}

/// What each row of the kernel `integers` is.
fn integers(row: usize, a: u64, b: u64) -> u64 {
    let (low, low_b) = (a as u32, b as u32);
    match row {
        0 => a.wrapping_mul(b),
        1 => a.checked_div(b).unwrap_or(0),
        2 => a.checked_rem(b).unwrap_or(0),
        3 => {
            if low_b == 0 {
                1
            } else {
                (i64::from(low as i32) / i64::from(low_b as i32)) as u64
            }
        }
        4 => u64::from(low.checked_div(low_b).unwrap_or(2)),
        5 => a << (b & 63) ^ ((a as i64) >> (b & 63)) as u64,
        6 => u64::from(a.count_ones()) << 32 | if a == 0 { 99 } else { u64::from(a.leading_zeros()) },
        7 => ((a as i64).min(b as i64) as u64).wrapping_add(u64::from(a > b)),
        8 => (a as i8 as u64).wrapping_add(u64::from(b as u16)).wrapping_add((b >> 16) as i16 as u64),
        9 => a.wrapping_sub(b).wrapping_add(a ^ b),
        10 => u64::from(low.reverse_bits()) | u64::from(low_b.swap_bytes()) << 32,
        _ => ((u128::from(a) * u128::from(b)) >> 64) as u64,
    }
}

#[test]
fn integers_of_every_width_are_those_of_the_host() {
    let mut values =
        vec![0, 1, 2, 3, 7, 63, 64, 255, 256, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    values.extend([1 << 32, i64::MAX as u64, 1 << 63, u64::MAX, 0x1234_5678_9abc_def0, 10_000_000_000, u64::MAX - 1]);
    let (x, z): (Vec<u64>, Vec<u64>) = values.iter().flat_map(|&a| values.iter().map(move |&b| (a, b))).unzip();
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let n = x.len();
        let (a, b, out) = (memory.longs(&x), memory.longs(&z), memory.longs(&vec![0; 12 * n]));
        let arguments = Arguments::default().long(a).long(b).long(out).word(n as u32);
        launch(&mut memory, &object, "integers", [(n as u32).div_ceil(64), 1, 1], [64, 1, 1], arguments).unwrap();
        for (i, out) in memory.read_longs(out).into_iter().enumerate() {
            let (row, a, b) = (i / n, x[i % n], z[i % n]);
            // A quotient past its type means nothing in C.
            if row == 3 && a as u32 == 1 << 31 && b as u32 == u32::MAX {
                continue;
            }
            assert_eq!(out, integers(row, a, b), "row {row} of {a:#x} and {b:#x}");
        }
    }
}

#[test]
fn bytes_and_halves_keep_their_signs() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let a: Vec<i8> = (0..300).map(|i| (i * 77) as i8).collect();
        let b: Vec<u16> = (0..300u32).map(|i| (i * 30_011) as u16).collect();
        let from = memory.map(a.iter().map(|&a| a as u8).collect(), false);
        let halves = memory.map(b.iter().flat_map(|b| b.to_le_bytes()).collect(), false);
        let (y, z) = (memory.map(vec![0; 600], true), memory.map(vec![0; 300], true));
        let arguments = Arguments::default().long(from).long(halves).long(y).long(z).word(300);
        launch(&mut memory, &object, "narrow", [5, 1, 1], [64, 1, 1], arguments).unwrap();
        let expected: Vec<u8> =
            (0..300).flat_map(|i| ((i32::from(a[i]) * 3 + i32::from(b[i])) as i16).to_le_bytes()).collect();
        assert_eq!(memory.bytes(y), expected);
        assert_eq!(memory.bytes(z), (0..300).map(|i| (b[i] >> 8) as u8 ^ a[i] as u8).collect::<Vec<_>>());
    }
}

#[test]
fn lanes_see_each_other() {
    let x = words(128);
    let out = over_words("lanes", &x, 4 * 128, |from, to| Arguments::default().long(from).long(to).word(128));
    for i in 0..128 {
        let wave = i / 32 * 32;
        assert_eq!(out[i], x[wave + (i + 1) % 32]);
        assert_eq!(out[128 + i], x[wave]);
        assert_eq!(out[256 + i], x[wave..i].iter().filter(|&&x| x % 2 == 1).count() as u32);
        assert_eq!(out[384 + i], x[wave + 7]);
    }
}

#[test]
fn waves_that_wait_for_each_other_all_end() {
    for build in BUILDS {
        let mut memory = Memory::new();
        let object = Object::load(&mut memory, build);
        let (word, trace) = (memory.words(&[0]), memory.words(&[99; 8]));
        let arguments = Arguments::default().long(word).long(trace).word(8);
        launch(&mut memory, &object, "relay", [1, 1, 1], [256, 1, 1], arguments).unwrap();
        assert_eq!(memory.read_words(trace), [7, 6, 5, 4, 3, 2, 1, 0]);
        assert!(memory.acknowledged > 0);
        assert!(
            memory.invalidations.iter().any(|caches| caches.gl0)
                && memory.invalidations.iter().any(|caches| caches.gl1)
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let mut memory = Memory::new();
    let object = Object::load(&mut memory, SUITE);
    let y = memory.words(&words(1000));
    let begun = std::time::Instant::now();
    let arguments = Arguments::default().long(y).word(1000).word(20_000);
    let ran = launch(&mut memory, &object, "spin", [16, 1, 1], [64, 1, 1], arguments).unwrap();
    let spent = begun.elapsed();
    println!("spin: {ran} instructions, {:?} each", spent / u32::try_from(ran).unwrap());
    let object = Object::load(&mut memory, WORK);
    let begun = std::time::Instant::now();
    let (x, y, z) = (memory.words(&vec![0; 1 << 16]), memory.words(&vec![0; 1 << 16]), memory.words(&vec![0; 1 << 16]));
    let arguments = Arguments::default().long(x).long(y).long(z).word(256);
    let ran = launch(&mut memory, &object, "matmul", [16, 16, 1], [16, 16, 1], arguments).unwrap();
    println!("matmul: {ran} instructions, {:?} each", begun.elapsed() / u32::try_from(ran).unwrap());
}
