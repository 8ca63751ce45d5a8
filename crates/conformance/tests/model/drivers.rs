//! Devices of different drivers: never peers, and shared by host addresses alone.

use rig::{CopyPath, Error};
use rig_conformance::NullOpener;
use rig_conformance::model::{Model, Options, Pace, image};

/// Promises C06, C09, E14.
#[test]
fn devices_of_different_drivers_are_no_peers_and_share_memory_by_the_hosts_addresses() {
    let model = Model::with("MODEL", Options::default().pace(Pace::AtOnce).peers().maps_host().alignment(64));
    let (device, null) = (rig::open(model.opener()).unwrap(), rig::open(NullOpener::new("NULL")).unwrap());
    // Null devices map no host memory.
    let (x, y) = (device.buffer(1 << 14).unwrap(), null.buffer(1 << 14).unwrap());
    match x.borrow(&null) {
        Err(Error::Refused(why)) => assert!(why.contains("no peer") && why.contains("host memory"), "{why}"),
        other => panic!("{other:?}"),
    }
    y.write(|words: &mut [u32]| words.fill(7)).unwrap();
    assert_eq!(y.copy_to(&x).unwrap().path, CopyPath::Host);
    let borrow = y.borrow(&device).unwrap();
    let iota = device.load(&image(&["iota"])).unwrap().function("iota").unwrap();
    let mut run = device.submission().launch(&iota, [rig::write(0)]).params(16).make().unwrap().take();
    run.part(0).set(8, 100_u32).set(12, 3_u32);
    // SAFETY: iota writes a hundred numbers to slot 0, which has room for them.
    #[expect(unsafe_code, reason = "launches a kernel")]
    unsafe { run.launch(&[&borrow]) }.unwrap();
    y.read(|words: &[u32]| assert_eq!(words[98..102], [101, 102, 7, 7])).unwrap();
    x.read(|words: &[u32]| assert_eq!(words[98..102], [7; 4])).unwrap();
    let calls = model.device(0).calls();
    assert_eq!((calls.map_peer, calls.map_host), (0, 1));
    drop((run, borrow, x, y, iota, device));
    model.assert_clean();
}
