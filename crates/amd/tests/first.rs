//! First.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(unsafe_code, reason = "tests")]
use rig_amd_model::Machine;
#[test]
fn opens() {
    let machine = Machine::builder().gpus(1).build();
    let system = rig_amd::on(&machine);
    let device = rig::open(system.gpu(0)).unwrap();
    println!("{:?}", device.facts());
    let x = device.buffer(4000).unwrap();
    let y = device.buffer(4000).unwrap();
    let data: Vec<u32> = (0..1000).collect();
    x.copy_from_slice(&data).unwrap();
    x.copy_to(&y).unwrap();
    let mut back = vec![0u32; 1000];
    y.copy_to_slice(&mut back).unwrap();
    assert_eq!(data, back);
    y.memset(7).unwrap();
    y.read(|b: &[u8]| assert!(b.iter().all(|&b| b == 7))).unwrap();
    println!("{:?}", machine.violations());
    let image = device.load(include_bytes!("../../amd-model/fixtures/suite.co")).unwrap();
    let iota = image.function("iota").unwrap();
    let submission = device.submission().launch(&iota, [rig::write(0)]).make().unwrap();
    let mut run = submission.take();
    run.part(0).groups([16, 1, 1]).threads([64, 1, 1]).set(8, 1000u32).set(12, 5u32);
    unsafe { run.launch(&[&y]) }.unwrap();
    y.read(|b: &[u32]| assert!(b.iter().zip(5..).all(|(&b, i)| b == i))).unwrap();
    machine.assert_clean();
}
