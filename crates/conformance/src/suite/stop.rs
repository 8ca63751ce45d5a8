//! Stop: closing, dropping, opening again.

use super::Fixtures;
use super::kit::{Kit, launch, lost, words};

/// Promises C02, E13.
pub fn close_waits_for_no_work_and_later_calls_say_so<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let y = kit.words(&[0; 1000]);
    let reached = kit.iota(&y, 1).unwrap();
    reached.wait().unwrap();
    for _ in 0..20 {
        kit.spin(&y, f.spin_rounds()).unwrap();
    }
    let last = kit.spin(&y, f.spin_rounds()).unwrap();
    kit.device.close();
    kit.device.close();
    assert!(reached.reached().unwrap());
    // The last one may have run before the close; then it stays reached.
    if let Ok(false) | Err(_) = last.reached() {
        lost(last.wait());
    }
    lost(kit.device.buffer(4));
    lost(kit.iota(&y, 1));
    lost(y.read(|_: &[u8]| ()));
    lost(kit.device.load(&f.image()));
    assert!(kit.device.lost().is_some());
}

/// Promise C02.
pub fn handles_drop_in_any_order<F: Fixtures>(f: &F) {
    for order in 0..24_usize {
        let kit = Kit::new(f);
        let y = kit.words(&[0; 256]);
        let mut run = kit.run(&kit.spin, 256, 8);
        run.part(0).set(12, f.spin_rounds());
        let point = launch(&mut run, &[&y]).unwrap();
        let view = y.view(4..8).unwrap();
        let mut left = order;
        let mut handles: Vec<Box<dyn std::any::Any>> = vec![Box::new(y), Box::new(run), Box::new(view)];
        let Kit { image, add, device, .. } = kit;
        handles.push(Box::new((image, add)));
        handles.push(Box::new(device));
        while !handles.is_empty() {
            drop(handles.swap_remove(left % handles.len()));
            left /= 2;
        }
        // The device is closed by its last handle: the point is reached or Lost, and asking is no crash.
        let _ = point.reached();
    }
}

/// Promise C01.
pub fn a_device_opens_again_while_another_of_its_name_is_open<F: Fixtures>(f: &F) {
    let kits: Vec<_> = (0..3).map(|_| Kit::new(f)).collect();
    let outs: Vec<_> = kits.iter().map(|kit| kit.device.buffer(400).unwrap()).collect();
    for (i, (kit, out)) in kits.iter().zip(&outs).enumerate() {
        kit.busy();
        kit.iota(out, 10 * i as u32).unwrap();
    }
    for (i, out) in outs.iter().enumerate() {
        assert_eq!(words(out)[99], 10 * i as u32 + 99);
    }
    kits[1].device.close();
    kits[0].iota(&outs[0], 7).unwrap();
    assert_eq!(words(&outs[0])[0], 7);
    lost(words_of(&outs[1]));
}

fn words_of(buffer: &rig::Buffer) -> rig::Result<Vec<u32>> {
    buffer.read(|words: &[u32]| words.to_vec())
}

/// Promises C01, C02.
pub fn devices_open_and_close_many_times<F: Fixtures>(f: &F) {
    for round in 0..30 {
        let kit = Kit::new(f);
        let y = kit.device.buffer(400).unwrap();
        kit.iota(&y, round).unwrap();
        if round % 3 == 0 {
            kit.device.close();
            continue;
        }
        assert_eq!(words(&y)[99], round + 99);
    }
}
