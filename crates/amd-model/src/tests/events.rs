//! Events: what a driver sleeps on.

use super::calls::{driver, field, found};
use super::kit::*;
use crate::{abi, errno};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn event(driver: &Driver, kind: u32, page: u64) -> Result<abi::CreateEvent, i32> {
    let mut value = abi::CreateEvent { event_type: kind, event_page_offset: page, auto_reset: 1, ..Default::default() };
    driver.call(abi::BOTH, 0x08, &mut value).map(|()| value)
}

pub(super) fn wait_for(driver: &Driver, events: &mut [abi::EventData], all: bool, ms: u32) -> Result<u32, i32> {
    let mut value = abi::WaitEvents {
        events_ptr: events.as_mut_ptr() as u64,
        num_events: events.len() as u32,
        wait_for_all: u32::from(all),
        timeout: ms,
        wait_result: 9,
    };
    driver.call(abi::BOTH, 0x0c, &mut value).map(|()| value.wait_result)
}

pub(super) fn named(id: u32) -> abi::EventData {
    abi::EventData { event_id: id, ..Default::default() }
}

#[test]
fn events_are_set_waited_for_and_reset() {
    let driver = driver();
    let page = driver.alloc(32768, SHARED);
    let first = event(&driver, abi::EVENT_SIGNAL, page.handle).unwrap();
    let second = event(&driver, abi::EVENT_SIGNAL, 0).unwrap();
    assert_eq!(page.word(u64::from(first.event_slot_index) * 8).load(Ordering::Acquire), u64::MAX);
    let set = |id| driver.call(abi::IN, 0x0a, &mut abi::Id { id, pad: 0 });
    let mut both = [named(first.event_id), named(second.event_id)];
    assert_eq!(wait_for(&driver, &mut both, false, 0), Ok(abi::WAIT_TIMEOUT));
    set(first.event_id).unwrap();
    assert_eq!(wait_for(&driver, &mut both, true, 1), Ok(abi::WAIT_TIMEOUT), "not all");
    assert_eq!(wait_for(&driver, &mut both, false, 0), Ok(abi::WAIT_COMPLETE));
    assert_eq!(wait_for(&driver, &mut [named(first.event_id)], false, 0), Ok(abi::WAIT_TIMEOUT), "it was reset");
    set(first.event_id).unwrap();
    driver.call(abi::IN, 0x0b, &mut abi::Id { id: first.event_id, pad: 0 }).unwrap();
    assert_eq!(wait_for(&driver, &mut [named(first.event_id)], false, 0), Ok(abi::WAIT_TIMEOUT));
    driver.machine.assert_clean();
    assert_eq!(event(&driver, abi::EVENT_SIGNAL, page.handle).unwrap_err(), errno::EINVAL);
    assert_eq!(field(&found(&driver)), "event_page_offset");
    assert_eq!(event(&driver, 77, 0).unwrap_err(), errno::EINVAL);
    assert_eq!(field(&found(&driver)), "event_type");
    driver.call(abi::IN, 0x09, &mut abi::Id { id: second.event_id, pad: 0 }).unwrap();
    assert_eq!(wait_for(&driver, &mut both, false, 0), Err(errno::EINVAL));
    assert_eq!(set(second.event_id), Err(errno::EINVAL));
    assert_eq!(field(&found(&driver)), "event_id");
}

#[test]
fn a_wait_that_names_an_older_age_does_not_sleep() {
    let driver = driver();
    let event = event(&driver, abi::EVENT_SIGNAL, 0).unwrap();
    let mut seen = abi::EventData { data0: 1, ..named(event.event_id) };
    driver.call(abi::IN, 0x0a, &mut abi::Id { id: event.event_id, pad: 0 }).unwrap();
    assert_eq!(wait_for(&driver, &mut [named(event.event_id)], false, 0), Ok(abi::WAIT_COMPLETE), "another took it");
    let mut array = [seen];
    assert_eq!(wait_for(&driver, &mut array, false, 0), Ok(abi::WAIT_COMPLETE), "its age is newer than 1");
    seen.data0 = array[0].data0;
    assert_eq!(seen.data0, 2);
    assert_eq!(wait_for(&driver, &mut [seen], false, 0), Ok(abi::WAIT_TIMEOUT));
}

#[test]
fn a_wait_ends_by_a_set_from_another_thread() {
    let driver = driver();
    let event = event(&driver, abi::EVENT_SIGNAL, 0).unwrap();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| wait_for(&driver, &mut [named(event.event_id)], false, 60_000));
        driver.call(abi::IN, 0x0a, &mut abi::Id { id: event.event_id, pad: 0 }).unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(abi::WAIT_COMPLETE));
    });
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn the_page_of_events_stays_until_the_process_ends() {
    let driver = driver();
    let page = driver.alloc(32768, SHARED);
    event(&driver, abi::EVENT_SIGNAL, page.handle).unwrap();
    driver.unmap(page).unwrap();
    assert_eq!(driver.free(page), Err(errno::EPERM));
    assert_eq!(field(&found(&driver)), "handle");
}
