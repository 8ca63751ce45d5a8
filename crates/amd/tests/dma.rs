//! Memory that a PCI function reaches: given out as a dma-buf.
#![cfg(target_os = "linux")]

#[expect(dead_code, reason = "each test binary uses some of it")]
mod machine;

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use machine::{SUITE, launch};
use rig::{Dma, Error, Memory, read, write};
use rig_amd_model::{Call, Machine};

const NETWORK_CARD: &str = "0000:41:00.0";

/// The file of a dma-buf, and where the buffer starts in it.
#[expect(unsafe_code, reason = "takes a descriptor over")]
fn file(dma: Dma) -> (File, u64) {
    match dma {
        // SAFETY: the caller of `dma` owns the descriptor.
        Dma::DmaBuf { descriptor, offset } => (File::from(unsafe { OwnedFd::from_raw_fd(descriptor) }), offset),
        other => panic!("{other:?}"),
    }
}

/// Promises E34, E35, E36: through the dma-buf a function sees what a reached value wrote, and later work sees what the function
/// wrote; the memory lasts as long as the dma-buf.
#[test]
fn a_function_and_the_gpu_see_each_others_bytes_through_a_dma_buf() {
    let machine = Machine::builder().seed(machine::seed()).pci_function(NETWORK_CARD).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let image = device.load(SUITE).unwrap();
    let n = 1 << 19;
    let (x, y) = (device.buffer(4 * n).unwrap(), device.buffer(4 * n).unwrap());
    let (card, offset) = file(x.dma(NETWORK_CARD).unwrap());
    let mut iota = device.submission().launch(&image.function("iota").unwrap(), [write(0)]).make().unwrap().take();
    iota.part(0).groups([64, 1, 1]).threads([64, 1, 1]).set(8, 4096_u32);
    let mut add = device.submission().launch(&image.function("add").unwrap(), [read(0), write(1)]);
    add = add.memset(0, 0x5A);
    let mut add = add.make().unwrap().take();
    add.part(0).groups([64, 1, 1]).threads([64, 1, 1]).set(16, 4096_u32);
    y.memset(0).unwrap();
    for round in 0..5_u32 {
        iota.part(0).set(12, round);
        launch(&mut iota, &[&x]).unwrap().wait().unwrap();
        let mut seen = [0; 8];
        card.read_exact_at(&mut seen, offset + 4000).unwrap();
        assert_eq!(seen, [1000 + round, 1001 + round].map(u32::to_le_bytes).concat()[..], "what the kernel wrote");
        let ones: Vec<u8> = (0..4096).flat_map(|_| 1_f32.to_le_bytes()).collect();
        card.write_all_at(&ones, offset).unwrap();
        launch(&mut add, &[&x, &y]).unwrap().wait().unwrap();
        y.read(|y: &[f32]| assert!(y[..4096].iter().all(|&y| y == (round + 1) as f32), "what the function wrote"))
            .unwrap();
        card.read_exact_at(&mut seen, offset).unwrap();
        assert_eq!(seen, [0x5A; 8], "what the copy engine wrote");
    }
    drop(x);
    device.close();
    let mut seen = [0; 8];
    card.read_exact_at(&mut seen, offset).unwrap();
    assert_eq!(seen, [0x5A; 8], "the dma-buf keeps the memory");
    machine.assert_clean();
}

/// Promise E34: and why not.
#[test]
fn who_gets_no_dma_buf_is_told_the_cause() {
    let machine = Machine::builder().seed(machine::seed()).pci_function(NETWORK_CARD).build();
    let device = rig::open(rig_amd::on(&machine).gpu(0)).unwrap();
    let refused = |answer: rig::Result<Dma>| match answer {
        Err(Error::Refused(why)) => why.to_string(),
        other => panic!("{other:?}"),
    };
    let own = device.buffer(1 << 20).unwrap();
    assert!(refused(own.dma("0000:99:00.0")).contains("no PCI function 0000:99:00.0"));
    let hosts = device.buffer_in(Memory::Pinned, 1 << 20).unwrap();
    assert!(refused(hosts.dma(NETWORK_CARD)).contains("the host's"));
    machine.fail(Call::ExportDmabuf, 0, 1, rig_amd_model::errno::EINVAL);
    assert!(refused(own.dma(NETWORK_CARD)).contains("no dma-buf"));
    drop(file(own.dma(NETWORK_CARD).unwrap()));
    let old = Machine::builder().kfd_version(1, 11).pci_function(NETWORK_CARD).build();
    let device = rig::open(rig_amd::on(&old).gpu(0)).unwrap();
    assert!(refused(device.buffer(1 << 20).unwrap().dma(NETWORK_CARD)).contains("1.12"));
    machine.assert_clean();
    old.assert_clean();
}
