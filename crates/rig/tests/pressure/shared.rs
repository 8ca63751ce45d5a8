//! Several devices that map one another's memory: each under pressure, and none fails for what another still does with its
//! memory.

use rig_conformance::model::{Model, Options, Pace};

use crate::flight::{Setters, drop_in_flight};
use crate::player::{GRANULE, Player};
use crate::trace::{BUDGET, Sizes, traces};

const DEVICES: usize = 3;

/// Opens the devices, and lets each pair of them try its mappings, whose buffers the oracle counts too.
fn open(name: &str, seed: u64, options: Options) -> Vec<(Player, Setters)> {
    let options = options.pace(Pace::Slept).budget(BUDGET).capacity(BUDGET).alignment(GRANULE);
    let model = Model::with(&format!("{name}-{seed}"), options);
    let players: Vec<_> = (0..DEVICES as u64).map(|i| Player::of(&model, seed * 10 + i)).collect();
    let mut players: Vec<_> = players.into_iter().map(|player| (Setters::new(&player.device), player)).collect();
    for i in 0..DEVICES {
        for j in (0..DEVICES).filter(|j| *j != i) {
            let buffer = players[i].1.device.buffer(5000).unwrap();
            buffer.borrow(&players[j].1.device).unwrap();
        }
        for _ in 0..3 {
            players[i].1.oracle.allocated(4096);
        }
    }
    for (_, player) in &mut players {
        (0..3).for_each(|_| player.oracle.dropped(4096));
        player.control.encode_only(true);
    }
    players.into_iter().map(|(setters, player)| (player, setters)).collect()
}

/// One buffer on the device `home`, which `other` may reach, work on, and alone keep.
fn step(players: &mut [(Player, Setters)], home: usize, other: usize, n: u64) {
    let player = &mut players[home].0;
    let burst = player.random.one_in(32);
    let left = (BUDGET - player.oracle.asked) as usize;
    let sizes = if n.is_multiple_of(2) { Sizes::Logarithmic } else { Sizes::Program };
    let len = if burst { left / 2 + player.random.below(left) } else { sizes.pick(&mut player.random, n) };
    while !burst && player.oracle.asked + len as u64 > BUDGET / 10 * 9 {
        drop_in_flight(player);
    }
    let (what, random) = (player.random.below(4), player.random.next());
    if player.allocate(len).is_some() && what > 0 {
        let held = player.held.last_mut().unwrap();
        let (buffer, mut tag) = (held.buffer.clone(), held.tag);
        let (borrower, setters) = &mut players[other];
        let borrow = buffer.borrow(&borrower.device).unwrap();
        setters.start(&borrow, &mut tag, random);
        let held = players[home].0.held.last_mut().unwrap();
        held.tag = tag;
        if what == 1 {
            // The borrow alone keeps the memory.
            held.buffer = borrow;
        }
    }
    let player = &mut players[home].0;
    while player.oracle.asked > BUDGET / 10 * 9 {
        drop_in_flight(player);
    }
    for (player, _) in players.iter() {
        assert!(player.control.live_bytes() <= BUDGET, "a driver holds more than the budget");
    }
}

fn play(name: &str, options: &Options, steps: usize) {
    for (seed, steps) in traces(steps) {
        let mut players = open(name, seed, options.clone());
        for n in 0..steps as u64 {
            let (home, other) = {
                let random = &mut players[0].0.random;
                let home = random.below(DEVICES);
                (home, (home + 1 + random.below(DEVICES - 1)) % DEVICES)
            };
            step(&mut players, home, other, n);
        }
        let reports: Vec<_> = players.into_iter().map(|(player, _)| player).collect();
        for player in reports {
            let report = player.finish(name);
            assert!(report.refused > 0, "the trace never met the budget");
        }
    }
}

/// Promises C09, C16, C17, C18.
#[test]
fn peers_work_on_mapped_memory_fails_no_allocation_of_its_owner() {
    play("peers", &Options::default().peers(), 4000);
}

/// Promises C09, C16, C17, C18.
#[test]
fn work_on_memory_mapped_by_the_host_fails_no_allocation_of_its_owner() {
    play("mapped by the host", &Options::default().maps_host(), 4000);
}

/// Promises C09, C17, C31.
#[test]
fn a_lost_devices_mapping_keeps_no_memory_from_its_owner() {
    let model = Model::with("STUCK", Options::default().peers().pace(Pace::AtOnce).budget(BUDGET).capacity(BUDGET));
    let (a, b) = (rig::open(model.opener()).unwrap(), rig::open(model.opener()).unwrap());
    let buffer = a.buffer(BUDGET as usize / 4 * 3).unwrap();
    buffer.borrow(&b).unwrap();
    drop(buffer);
    model.device(1).fault("gone");
    assert!(b.buffer(64).and_then(|buffer| buffer.memset(1)).is_err());
    assert!(b.lost().is_some(), "and nobody has stopped it, so its mapping stays");
    let buffer = a.buffer(BUDGET as usize / 2).unwrap();
    assert_eq!(a.allocated(), BUDGET / 4 * 3, "the mapped region serves, whose mapping cannot be freed");
    drop((buffer, b));
    a.buffer(BUDGET as usize).unwrap();
    model.assert_clean();
}
