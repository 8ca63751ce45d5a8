//! Room and submit over random work: what the one counts is what the other takes.
#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rig_amd_model::Machine;
use rig_edge::{Block, Copy, Driver, Launch, Location, Memory, Memset, Opener, Slot, Timeline, Times, Wait, WordIndex};

use super::*;
use crate::code::Entry;
use crate::{Encoder, Region};

const LARGE: usize = 1 << 20;

/// The words of these devices.
static TAKEN: AtomicUsize = AtomicUsize::new(1024);

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn device(machine: &Machine) -> Amd {
    let index = WordIndex::new(TAKEN.fetch_add(1, Ordering::Relaxed));
    crate::on(machine).gpu(0).make(Timeline::new(index)).unwrap()
}

fn slot(at: Location, offset: u64, len: u64) -> Slot {
    Slot { device: at.device + offset, host: std::ptr::null_mut(), len, handle: at.handle, handle_offset: 0 }
}

/// Where the rings are written to.
fn written(amd: &Amd) -> [u64; 3] {
    let hot = amd.hot.lock();
    let Hot { queues, .. } = hot.as_ref().unwrap();
    [queues.compute.ring.write(), queues.copier.ring.write(), queues.arguments.ring.write()]
}

/// Where room counts that they will be.
fn counted(amd: &Amd, parts: &[Part<Amd>], work: &Work<'_>) -> [u64; 3] {
    let hot = amd.hot.lock();
    let counted = amd.count(hot.as_ref().unwrap(), parts, work, Detail::of(work));
    [counted.compute, counted.copier, counted.arguments].map(|cursor| cursor.position)
}

/// Promise A04.
#[test]
fn room_counts_what_submit_takes_for_every_kind_of_work() {
    let machine = Machine::builder().seed(1).build();
    let amd = device(&machine);
    let regions: Vec<_> = [Memory::Device, Memory::Device, Memory::Pinned]
        .into_iter()
        .map(|memory| amd.alloc(memory, 2 * LARGE).unwrap().unwrap())
        .collect();
    // No packet runs: the ring's bytes are what matters, and the kernel's address is none.
    machine.hang(true);
    let entries = entries(&amd);
    amd.grow_stamps().unwrap();
    let mut random = Random(5);
    let (mut filled, mut timed) = (0, 0);
    for value in 1..400 {
        let (parts, blocks, slots) = drawn(&amd, &regions, &entries, value, &mut random);
        let waits: Vec<Wait> =
            (0..random.below(3)).map(|word| Wait { word: WordIndex::new(word as usize), value: 0 }).collect();
        let params = [0; 4000];
        let times = (value % 3 == 0).then(|| Arc::new(Times::new(parts.len())));
        let mut scratch = vec![[0; 4]; parts.len()];
        let mut work = Work {
            blocks: &blocks,
            params: &params,
            slots: &slots,
            apart: false,
            waits: &waits,
            scratch: &mut scratch,
            times: times.as_ref(),
        };
        // What would otherwise be counted and not taken.
        amd.stale.store(true, Ordering::Relaxed);
        match amd.room_for(&parts, &mut work) {
            Room::Ok => {}
            Room::Later => break,
            other => panic!("{other:?}"),
        }
        let due = counted(&amd, &parts, &work);
        assert_eq!(amd.take(value, &parts, &work), Submitted::Committed);
        let (taken, all) = (written(&amd), parts.len());
        if parts.iter().any(|part| matches!(part, Part::Fill(_))) {
            filled += 1;
            assert!(taken.iter().zip(due).all(|(taken, due)| *taken <= due), "value {value}: {taken:?} of {due:?}");
        } else {
            assert_eq!(taken, due, "value {value}: {all} parts");
        }
        timed += usize::from(times.is_some());
        assert!(value > 20 || due[0] < 1 << 20);
    }
    assert!(filled > 5 && timed > 20, "{filled} with fills and {timed} with times");
    drop(amd);
}

/// Parts of every kind, at most six, with their blocks and slots.
fn drawn(
    amd: &Amd,
    regions: &[Region],
    entries: &[Entry; 4],
    value: u64,
    random: &mut Random,
) -> (Vec<Part<Amd>>, Vec<Block>, Vec<Slot>) {
    let known = known(amd, value);
    let (mut parts, mut blocks, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..random.below(7) {
        let len = [0, 1, 61, 4096, LARGE as u64, LARGE as u64 + 5][random.below(6) as usize];
        let at = slots.len() as u32;
        for region in [random.below(3), random.below(3)] {
            let at = amd.locate(&regions[region as usize]);
            slots.push(slot(at, random.below(3) * 16 + random.below(2), len));
        }
        let mut block = Block { groups: [1; 3], threads: [1; 3], group_bytes: 0, params_at: 0, params_len: 0 };
        // Few: each keeps much of the rings.
        let fills = usize::from(parts.iter().all(|part| !matches!(part, Part::Fill(_))) && value.is_multiple_of(5));
        parts.push(match random.below(3 + fills as u64) {
            0 => {
                let entry = entries[random.below(known) as usize].clone();
                block.params_len = entry.params;
                Part::Launch(Launch { entry, refs: [].into() })
            }
            1 => Part::Copy(Copy { from: at, to: at + 1 }),
            2 => Part::Memset(Memset { slot: at, byte: 3 }),
            _ => Part::Fill(fill(&entries[0], random.below(40))),
        });
        blocks.push(block);
    }
    (parts, blocks, slots)
}

/// Entries of no functions: the last two have private memory, the last of all more than there is scratch for at first.
fn entries(amd: &Amd) -> [Entry; 4] {
    let private = |scratch| Entry { private: 68, scratch, ..Entry::of_params(16, 64, 0) };
    amd.grow_scratch(9).unwrap();
    [Entry::of_params(16, 1024, 0), Entry::of_params(4000, 64, 0), private(9), private(40)]
}

/// How many of them are there when the value is placed.
fn known(amd: &Amd, value: u64) -> u64 {
    if value == 12 {
        amd.grow_scratch(40).unwrap();
    }
    if value < 12 { 3 } else { 4 }
}

/// A fill of so many commands, of every kind in turn.
#[expect(unsafe_code, reason = "encodes what never runs")]
fn fill(entry: &Entry, commands: u64) -> Fill<Amd> {
    let entry = entry.clone();
    let code = move |encoder: &mut Encoder<'_>, _: &[Slot]| {
        for command in 0..commands {
            match command % 5 {
                // SAFETY: no packet runs in this test.
                0 => unsafe { encoder.launch(&entry, [1; 3], [1; 3], 0, &[0; 16]) },
                // SAFETY: as above.
                1 => unsafe { encoder.copy(4096, 8192, 61) },
                // SAFETY: as above.
                2 => unsafe { encoder.memset(4097, 1, 70) },
                // SAFETY: as above.
                3 => unsafe { encoder.commands(&[0; 16]) },
                // SAFETY: as above.
                _ => unsafe { encoder.copy_packet(&[0; 40]) },
            }?;
        }
        Ok(())
    };
    Fill { code: Box::new(code) }
}
