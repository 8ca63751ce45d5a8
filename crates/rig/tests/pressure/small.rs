//! Small buffers: by the million, and of sizes that change.

use rig::{Buffer, Error};
use rig_conformance::NullOpener;
use rig_conformance::model::{Options, Pace};

use crate::oracle::{Oracle, SHARED};
use crate::player::Player;
use crate::trace::{BUDGET, Random, Sizes, logarithmic, traces};

/// Promises C17, C18, C33.
#[test]
fn small_sizes_that_change_fail_only_where_the_oracle_agrees() {
    for (seed, steps) in traces(12_000) {
        let mut player = Player::new("SMALL", seed, Options::default().pace(Pace::AtOnce));
        for n in 0..steps as u64 {
            // The sizes of a phase; all buffers of the one before go.
            if n.is_multiple_of(4000) {
                (0..player.held.len()).for_each(|_| player.drop_one());
            }
            let largest = [4096, 64, 1500][(n / 4000 % 3) as usize];
            let len = if player.random.one_in(100) {
                // All that could be left; what waste there is makes it fail.
                (BUDGET - player.oracle.asked) as usize
            } else if player.random.one_in(20) {
                Sizes::Logarithmic.pick(&mut player.random, n)
            } else {
                logarithmic(&mut player.random, largest)
            };
            let makes_room = len <= 1 << 20 && player.random.one_in(2);
            while makes_room && player.oracle.most() + len as u64 > BUDGET && !player.held.is_empty() {
                player.drop_one();
            }
            player.allocate(len);
            if player.random.one_in(3) && !player.held.is_empty() {
                player.drop_one();
            }
            if n.is_multiple_of(16) {
                player.check();
            }
        }
        let report = player.finish("small, in phases");
        assert!(report.refused > 0, "the trace never met the budget");
    }
}

/// Promises C17, C18, C33.
#[test]
fn tiny_buffers_under_pressure_keep_their_bytes_and_pack_as_promised() {
    const ROOM: u64 = 4 << 20;
    // One and a half million where long traces are asked for.
    let (_, count) = traces(150_000).next().unwrap();
    let device = rig::open(NullOpener::new("NULL-TINY")).unwrap();
    device.set_budget(ROOM);
    let (mut random, mut oracle) = (Random::new(7), Oracle::new(ROOM, 64));
    let mut held: Vec<(Buffer, u8)> = Vec::new();
    let (mut made, mut refused) = (0, 0);
    while made < count {
        let len = 1 + random.below(64);
        match device.buffer(len) {
            Ok(buffer) => {
                made += 1;
                oracle.allocated(len);
                let tag = random.next() as u8;
                buffer.write(|bytes: &mut [u8]| bytes.fill(tag)).unwrap();
                held.push((buffer, tag));
            }
            Err(Error::OutOfMemory { .. }) => {
                refused += 1;
                assert!(!oracle.fits(len), "{} live", held.len());
                assert!(held.len() as u64 >= (ROOM / SHARED - 1) * 1023, "{} live fill the budget", held.len());
                // A quarter goes, from all regions alike.
                for _ in 0..held.len() / 4 {
                    let (buffer, tag) = held.swap_remove(random.below(held.len()));
                    buffer.read(|bytes: &[u8]| assert!(bytes.iter().all(|byte| *byte == tag))).unwrap();
                    oracle.dropped(buffer.len());
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 4);
    assert!(device.allocated() <= oracle.most());
    drop(held);
    assert_eq!(device.allocated(), 0);
    device.buffer(ROOM as usize).unwrap();
}

/// Promise C17.
#[test]
fn an_emptied_shared_region_serves_small_buffers_of_another_size_with_no_driver_call() {
    let player = Player::new("OTHER-SIZE", 0, Options::default().pace(Pace::AtOnce));
    let device = &player.device;
    drop((0..10_000).map(|_| device.buffer(20).unwrap()).collect::<Vec<_>>());
    let calls = player.control.calls().alloc;
    drop((0..600).map(|_| device.buffer(4000).unwrap()).collect::<Vec<_>>());
    assert_eq!(player.control.calls().alloc, calls);
    player.finish("another size");
}

/// Promise C17.
#[test]
fn a_small_buffer_under_pressure_shares_a_region_wherever_there_is_room_for_one() {
    let player = Player::new("SHARES", 0, Options::default().pace(Pace::AtOnce));
    let device = &player.device;
    drop(device.buffer(BUDGET as usize).unwrap());
    let shares = device.buffer(8).unwrap();
    assert_eq!(device.allocated(), SHARED);
    let rest = device.buffer(BUDGET as usize - SHARED as usize - 1000).unwrap();
    let alone = device.buffer(900).unwrap();
    assert_eq!(device.allocated(), BUDGET - 100, "its own bytes are all that is left");
    drop((shares, rest, alone));
    player.finish("a small buffer under pressure");
}
