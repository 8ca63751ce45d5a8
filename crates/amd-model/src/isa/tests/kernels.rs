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
            let group = x / threads[0] | (y / threads[1]) << 8 | (z / threads[2]) << 16;
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
