//! Callers that are wrong in one way each, and what the model sees of each.
#![expect(unsafe_code, reason = "the tests break the interface's contracts on purpose")]

use super::*;

#[test]
fn sees_a_region_used_after_its_free() {
    let violation = caught(|caller| {
        let slot = caller.slot();
        caller.free();
        // SAFETY: the model checks it.
        let room = caller.with_slot(slot, |driver, plan, parts, work| unsafe { driver.room(plan, parts, work) });
        assert!(matches!(room, Room::Refused(_)));
    });
    assert!(matches!(violation, Violation::UseAfterFree { call: Call::Room, .. }));
}

#[test]
fn sees_a_region_freed_twice() {
    let violation = caught(|caller| {
        let twin = caller.region.as_ref().unwrap();
        let twin = ModelRegion { device: twin.device, at: twin.at, location: twin.location };
        caller.free();
        caller.region = Some(twin);
        caller.free();
    });
    assert!(matches!(violation, Violation::DoubleFree { .. }));
}

#[test]
fn sees_a_region_freed_under_unfinished_work_and_keeps_its_memory() {
    let violation = caught(|caller| {
        caller.submit();
        caller.free();
        // The work still runs, in memory that is nobody else's.
        caller.device.step().unwrap();
    });
    assert!(matches!(violation, Violation::FreeInUse { .. }));
}

#[test]
fn sees_a_region_and_a_slot_of_another_device() {
    let model = Model::new("MODEL");
    let (mut first, mut second) = (Caller::new(&model), Caller::new(&model));
    let slot = first.slot();
    // SAFETY: the model checks it.
    second.with_slot(slot, |driver, plan, parts, work| unsafe { driver.room(plan, parts, work) });
    assert!(matches!(seen(&model), Violation::Slot { .. }));
    std::mem::swap(&mut first.region, &mut second.region);
    first.free();
    assert!(matches!(seen(&model), Violation::RegionOfOther { device: 0, owner: 1, .. }));
    first.abandon_quietly(&model);
    second.abandon_quietly(&model);
}

#[test]
fn sees_a_slot_that_leaves_its_region_or_has_another_host_address() {
    let wrong = |change: fn(&mut Slot)| {
        caught(move |caller| {
            let mut slot = caller.slot();
            change(&mut slot);
            // SAFETY: the model checks it.
            caller.with_slot(slot, |driver, plan, parts, work| unsafe { driver.room(plan, parts, work) });
        })
    };
    assert!(matches!(wrong(|slot| slot.len += 4), Violation::Slot { .. }));
    assert!(matches!(wrong(|slot| slot.device -= 4), Violation::Slot { .. }));
    assert!(matches!(wrong(|slot| slot.host = std::ptr::null_mut()), Violation::Slot { .. }));
}

#[test]
fn sees_slots_that_are_said_to_be_apart_and_share_memory() {
    let violation = |apart: bool, shift: u64| {
        let model = Model::with("MODEL", Model::options());
        let mut caller = Caller::new(&model);
        let one = Slot { len: 8, ..caller.slot() };
        let two = Slot { device: one.device + shift, host: one.host.wrapping_add(shift as usize), ..one };
        let slots = [two, one];
        caller.with_slot(one, |driver, plan, parts, work| {
            let mut work = Work { slots: &slots, apart, scratch: &mut *work.scratch, ..*work };
            // SAFETY: the model checks it.
            unsafe { driver.room(plan, parts, &mut work) };
        });
        let violations = model.violations();
        caller.abandon_quietly(&model);
        violations
    };
    assert!(matches!(violation(true, 4)[..], [Violation::Slot { slot: 0, .. }]));
    assert!(violation(true, 8).is_empty());
    assert!(violation(false, 4).is_empty());
}

#[test]
fn sees_calls_after_stop() {
    let violation = caught(|caller| {
        caller.driver.stop(None).unwrap();
        assert!(caller.driver.alloc(Memory::Device, 4).is_err());
    });
    assert!(matches!(violation, Violation::AfterStop { call: Call::Alloc, .. }));
    let violation = caught(|caller| {
        caller.driver.stop(None).unwrap();
        assert!(matches!(caller.submit_as(caller.value + 1), Submitted::Failed(_)));
    });
    assert!(matches!(violation, Violation::AfterStop { call: Call::Submit, .. }));
}

#[test]
fn sees_calls_during_stop_and_stop_during_calls() {
    let violation = caught(|caller| {
        let held = caller.device.hold(Call::Stop);
        std::thread::scope(|scope| {
            let driver = &caller.driver;
            scope.spawn(|| driver.stop(None));
            held.wait_inside(1);
            assert!(driver.alloc(Memory::Device, 4).is_err());
            held.release();
        });
    });
    assert!(matches!(violation, Violation::DuringStop { call: Call::Alloc, .. }));
    let violation = caught(|caller| {
        let held = caller.device.hold(Call::Sleep);
        let sleep = Sleep { seen: 0, until: 1, still: Duration::ZERO, help: true };
        std::thread::scope(|scope| {
            let driver = &caller.driver;
            scope.spawn(move || driver.sleep(sleep));
            held.wait_inside(1);
            driver.stop(None).unwrap();
            held.release();
        });
    });
    assert!(matches!(violation, Violation::StopDuring { calls: 1, .. }));
}

#[test]
fn sees_stop_twice_and_a_reason_without_a_fault() {
    let violation = caught(|caller| {
        caller.driver.stop(None).unwrap();
        caller.driver.stop(None).unwrap_err();
    });
    assert!(matches!(violation, Violation::StopTwice { .. }));
    let violation = caught(|caller| caller.driver.stop(Some("a guess")).unwrap());
    assert!(matches!(violation, Violation::StopReason { .. }));
}

#[test]
fn sees_hot_calls_that_overlap() {
    let violation = caught(|caller| {
        caller.submit();
        let value = caller.value;
        let held = caller.device.hold(Call::Commit);
        std::thread::scope(|scope| {
            let driver = &caller.driver;
            scope.spawn(move || driver.commit(value));
            held.wait_inside(1);
            // The second commit would stand still too: it is seen before it does.
            assert!(driver.commit(value).is_err());
            held.release();
        });
    });
    assert!(matches!(violation, Violation::HotOverlap { call: Call::Commit, other: Call::Commit, .. }));
}

#[test]
fn sees_values_out_of_order_and_with_gaps() {
    for wrong in [0, 2] {
        let violation = caught(move |caller| {
            caller.room();
            caller.submit_as(caller.value + wrong);
        });
        assert!(matches!(violation, Violation::ValueOrder { .. }), "{wrong}");
    }
}

#[test]
fn sees_a_commit_of_a_value_that_was_never_submitted() {
    let violation = caught(|caller| drop(caller.driver.commit(caller.value + 1)));
    assert!(matches!(violation, Violation::CommitUnknown { .. }));
}

#[test]
fn sees_room_not_asked_or_asked_before_another_hot_call() {
    let violation = caught(|caller| drop(caller.submit_as(caller.value + 1)));
    assert!(matches!(violation, Violation::RoomNotAsked { .. }));
    let violation = caught(|caller| {
        caller.room();
        caller.driver.commit(caller.value).unwrap();
        caller.submit_as(caller.value + 1);
    });
    assert!(matches!(violation, Violation::RoomNotAsked { .. }));
}

#[test]
fn sees_room_asked_for_other_work() {
    let other = |change: fn(&mut Caller)| {
        caught(move |caller| {
            caller.room();
            change(caller);
            caller.submit_as(caller.value + 1);
        })
    };
    let what = |violation| match violation {
        Violation::RoomForOther { what, .. } => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(what(other(|caller| caller.blocks[0].threads[0] = 2)), "blocks");
    assert_eq!(what(other(|caller| caller.params[1] = 1)), "parameters");
    assert_eq!(what(other(|caller| caller.plan = caller.driver.plan(&caller.parts).ok())), "a plan");
    assert_eq!(what(other(|caller| caller.waits.push(Wait { word: WordIndex::new(0), value: 0 }))), "waits");
    assert!(matches!(other(|caller| caller.scratch[0][3] += 1), Violation::Scratch { .. }));
}

#[test]
fn sees_waits_beyond_the_facts() {
    let violation = caught(|caller| {
        caller.waits.push(Wait { word: WordIndex::new(0), value: 0 });
        caller.room();
    });
    assert!(matches!(violation, Violation::TooManyWaits { waits: 1, most: 0, .. }));
    let only_hosts = WaitFacts { stores: false, hosts: true, most: 1 };
    let violation = caught_with(Model::options().waits(only_hosts), |caller| {
        caller.waits.push(Wait { word: caller.index, value: caller.value + 1 });
        caller.room();
    });
    assert!(matches!(violation, Violation::WaitNotAllowed { .. }));
}

#[test]
fn sees_a_wait_for_a_value_that_nobody_committed() {
    let waits = WaitFacts { stores: true, hosts: true, most: 1 };
    let model = Model::with("MODEL", Model::options().waits(waits));
    let (first, mut second) = (Caller::new(&model), Caller::new(&model));
    second.waits.push(Wait { word: first.index, value: first.value + 1 });
    second.room();
    assert!(matches!(seen(&model), Violation::WaitUncommitted { .. }));
    first.abandon(&model);
    second.abandon(&model);
}

#[test]
fn sees_an_alloc_of_nothing_or_of_part_of_a_word() {
    for len in [0, 6] {
        let violation = caught(move |caller| assert!(caller.driver.alloc(Memory::Device, len).is_err()));
        assert!(matches!(violation, Violation::AllocLength { .. }));
    }
}

#[test]
fn sees_an_unload_under_unfinished_work_and_an_entry_after_it() {
    let violation = caught(|caller| {
        caller.submit();
        caller.unload();
    });
    assert!(matches!(violation, Violation::UnloadInUse { .. }));
    let violation = caught(|caller| {
        caller.unload();
        caller.room();
    });
    assert!(matches!(violation, Violation::EntryAfterUnload { call: Call::Room, .. }));
    let violation = caught(|caller| {
        caller.unload();
        assert!(caller.driver.plan(&caller.parts).is_err());
    });
    assert!(matches!(violation, Violation::EntryAfterUnload { call: Call::Plan, .. }));
    let violation = caught(|caller| {
        let image = caller.image.as_ref().unwrap();
        let twin = ModelImage { device: image.device, id: image.id };
        caller.unload();
        caller.image = Some(twin);
        caller.unload();
    });
    assert!(matches!(violation, Violation::ImageUnloaded { .. }));
}

#[test]
fn sees_a_plan_dropped_under_unfinished_work() {
    let violation = caught(|caller| {
        caller.submit();
        caller.plan = None;
    });
    assert!(matches!(violation, Violation::PlanInUse { .. }));
}

#[test]
fn sees_memory_freed_after_stop_before_the_word_shows_the_end() {
    let violation = caught_with(Model::options().lingers(), |caller| {
        caller.submit();
        caller.driver.stop(None).unwrap();
        caller.free();
    });
    assert!(matches!(violation, Violation::BeforeWord { call: Call::Free, .. }));
}

#[test]
fn sees_a_growth_that_nobody_asked_for() {
    let violation = caught(|caller| assert!(caller.driver.grow().is_err()));
    assert!(matches!(violation, Violation::GrowUnasked { .. }));
    let violation = caught(|caller| {
        caller.device.grow_next(1);
        caller.room();
        std::thread::scope(|scope| scope.spawn(|| assert!(caller.driver.grow().is_err())).join().unwrap());
    });
    assert!(matches!(violation, Violation::GrowUnasked { .. }));
}

#[test]
fn sees_parts_that_are_wrong() {
    let wrong = |change: fn(&mut Caller)| {
        let violation = caught(move |caller| {
            change(caller);
            caller.room();
        });
        assert!(matches!(violation, Violation::Part { .. }), "{violation:?}");
    };
    wrong(|caller| caller.blocks[0].params_len = 4);
    wrong(|caller| caller.blocks[0].params_at = 8);
    wrong(|caller| caller.params[0] = BYTES as u64 + 1);
    wrong(|caller| caller.blocks.clear());
    wrong(|caller| {
        let Part::Launch(launch) = &mut caller.parts[0] else { unreachable!() };
        launch.refs[0].slot = 1;
    });
    wrong(|caller| caller.parts[0] = Part::Copy(rig_edge::Copy { from: 0, to: 0 }));
}

#[test]
fn sees_a_part_that_no_queue_runs() {
    let kinds = rig_edge::Kinds { copy: true, ..rig_edge::Kinds::NONE };
    let violation = caught_with(Model::options().queues(&[("COPY:0", kinds)]), |caller| drop(caller.room()));
    assert!(matches!(violation, Violation::Part { .. }));
}

#[test]
fn sees_maps_that_were_not_offered_or_not_of_pages() {
    let map = |options: Options, at: usize| {
        caught_with(options, move |caller| {
            // SAFETY: the model checks it, and touches no byte of it.
            assert!(unsafe { caller.driver.map_host(std::ptr::without_provenance_mut(at), 4) }.is_err());
        })
    };
    assert!(matches!(map(Model::options(), 4096), Violation::MapHost { .. }));
    assert!(matches!(map(Model::options().maps_host(), 4100), Violation::MapHost { .. }));
}

#[test]
fn sees_a_region_freed_under_a_mapping_of_it() {
    let model = Model::with("MODEL", Model::options().peers());
    let (mut first, second) = (Caller::new(&model), Caller::new(&model));
    let region = first.region.as_ref().unwrap();
    // SAFETY: the model checks it.
    let Ok(Mapping::Mapped(mapping)) = (unsafe { second.driver.map_peer(&first.driver, region) }) else {
        panic!("no mapping")
    };
    first.free();
    assert!(matches!(seen(&model), Violation::FreeUnder { .. }));
    // SAFETY: no work uses it.
    unsafe { second.driver.free(mapping) }.unwrap();
    first.abandon(&model);
    second.abandon(&model);
}

#[test]
fn sees_a_driver_dropped_with_what_it_made() {
    let model = Model::new("MODEL");
    drop(Caller::new(&model));
    let whats: Vec<String> = model
        .violations()
        .into_iter()
        .map(|violation| match violation {
            Violation::Dropped { what, .. } => what,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(whats.len(), 3, "{whats:?}");
}

#[test]
fn sees_a_word_of_its_own_freed_too_early_or_read_after() {
    let options = Model::options().own_word(100);
    let violation = caught_with(options.clone(), |caller| caller.driver.free_word());
    assert!(matches!(violation, Violation::Word { call: Call::FreeWord, .. }));
    let violation = caught_with(options, |caller| {
        assert_eq!(caller.driver.signaled(), 100);
        caller.driver.stop(None).unwrap();
        caller.driver.free_word();
        caller.driver.signaled();
    });
    assert!(matches!(violation, Violation::Word { call: Call::Signaled, .. }));
    let violation = caught(|caller| {
        caller.driver.signaled();
    });
    assert!(matches!(violation, Violation::Word { .. }));
}

#[test]
#[should_panic(expected = "broke its promises")]
fn a_model_dropped_with_violations_that_nobody_took_panics() {
    let model = Model::new("MODEL");
    let caller = Caller::new(&model);
    let _ = caller.driver.alloc(Memory::Device, 0);
    drop(model);
    drop(caller);
}
