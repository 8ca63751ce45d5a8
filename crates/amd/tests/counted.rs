//! The kernel that the program rig carries for its bench, on the software GPU.
#![cfg(all(unix, feature = "model"))]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use machine::launch;
use rig::write;
use rig_amd_model::Machine;

const COUNT: &[u8] = include_bytes!("../../cli/kernels/bench/amd.co");

#[test]
fn the_kernel_of_the_bench_counts_each_launch() {
    let machine = Machine::builder().seed(machine::seed()).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let count = device.load(COUNT).unwrap().function("rig_count").unwrap();
    let numbers = device.buffer(4 * 64).unwrap();
    numbers.memset(0).unwrap();
    let mut run = device.submission().launch(&count, [write(0)]).make().unwrap().take();
    run.part(0).groups([1, 1, 1]).threads([64, 1, 1]);
    for _ in 0..70 {
        launch(&mut run, &[&numbers]).unwrap();
    }
    numbers.read(|numbers: &[u32]| assert_eq!(numbers, [70; 64])).unwrap();
    machine.assert_clean();
}
