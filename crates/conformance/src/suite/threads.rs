//! Many threads: bounded, and checked against what a serial run gives.

use rig::Buffer;

use super::Fixtures;
use super::kit::{Kit, all_are, bytes, pattern, spun, words};

const THREADS: u32 = 4;

/// Promises C03, S08.
pub fn threads_share_one_device<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    let (x, sum) = (kit.floats(&[1.0; 300]), kit.floats(&[0.0; 300]));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (kit, x, sum) = (&kit, &x, &sum);
            scope.spawn(move || {
                let own = kit.device.buffer(1200).unwrap();
                for i in 0..200 {
                    kit.add(x, sum).unwrap();
                    kit.iota(&own, 1000 * thread + i).unwrap();
                    if i % 20 == 0 {
                        assert_eq!(words(&own)[299], 1000 * thread + i + 299);
                    }
                }
            });
        }
    });
    all_are(&sum, 200.0 * THREADS as f32);
}

/// Promises C03, C14, S08.
pub fn threads_share_buffers_on_two_devices<F: Fixtures>(f: &F) {
    let kits = [Kit::new(f), Kit::second(f)];
    // Each device has its own sums; the ones travel between the devices, in both orders of naming.
    let ones: Vec<Buffer> = kits.iter().map(|kit| kit.floats(&[1.0; 100])).collect();
    let sums: Vec<Buffer> = kits.iter().map(|kit| kit.floats(&[0.0; 100])).collect();
    std::thread::scope(|scope| {
        for thread in 0..THREADS as usize {
            let (kits, ones, sums) = (&kits, &ones, &sums);
            scope.spawn(move || {
                for i in 0..60 {
                    let (here, there) = ((thread + i) % 2, (thread + i + 1) % 2);
                    kits[here].add(&ones[here], &sums[here]).unwrap();
                    ones[here].copy_to(&ones[there]).unwrap();
                    kits[there].add(&ones[there], &sums[there]).unwrap();
                }
            });
        }
    });
    for sum in &sums {
        all_are(sum, 60.0 * THREADS as f32);
    }
}

/// Promises C03, C16.
pub fn threads_allocate_and_drop<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let kit = &kit;
            scope.spawn(move || {
                for i in 0..150 {
                    let dice = spun(1000 * thread + i, 4) >> 8;
                    let len = 4 + 4 * (dice as usize % [10, 3000, 30_000][i as usize % 3]);
                    let buffer = kit.device.buffer(len).unwrap();
                    let expected = pattern(len, dice);
                    buffer.copy_from_slice(&expected).unwrap();
                    if i % 2 == 0 {
                        assert!(bytes(&buffer) == expected, "{len} bytes");
                    } else {
                        kit.iota(&buffer, dice).unwrap();
                    }
                }
            });
        }
    });
}

/// Promise C28.
pub fn threads_load_code_while_others_wait<F: Fixtures>(f: &F) {
    let kit = Kit::new(f);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let kit = &kit;
            scope.spawn(move || {
                for _ in 0..10 {
                    if thread % 2 == 0 {
                        kit.busy().wait().unwrap();
                    } else {
                        let image = kit.device.load(&f.image()).unwrap();
                        image.prepare(&["spin"]);
                        assert_eq!(image.function("iota").unwrap().name(), "iota");
                    }
                }
            });
        }
    });
}

/// Promises C01, C02, C03.
pub fn threads_open_and_close<F: Fixtures>(f: &F) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for i in 0..8 {
                    let kit = Kit::new(f);
                    let y = kit.device.buffer(64).unwrap();
                    kit.iota(&y, thread).unwrap();
                    if i % 2 == 0 {
                        assert_eq!(words(&y)[15], thread + 15);
                    }
                }
            });
        }
    });
}
