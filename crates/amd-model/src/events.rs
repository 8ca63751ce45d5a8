//! Events: what a caller sleeps on, and how a GPU wakes it.
//!
//! A GPU signals by writing an event's number to its slot in the page of events and raising an interrupt that names it. As
//! in the kernel's driver, the interrupt alone does nothing: the slot must have been written before.

use crate::errno;
use crate::kfd::abi::{self, CreateEvent, EventData};
use crate::raw::Pages;
use std::collections::BTreeMap;

/// Events of signals that a process may have, and slots of the page.
pub(crate) const SIGNALS: u32 = 4096;

/// What a slot holds until a GPU writes it.
pub(crate) const UNSIGNALLED: u64 = u64::MAX;

/// What an event of an exception tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exception {
    /// An access that no mapping allows.
    Memory { va: u64, gpu_id: u32, not_present: bool, read_only: bool, no_execute: bool },
    /// A reset or a hang.
    Hardware { reset_type: u32, reset_cause: u32, memory_lost: u32, gpu_id: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    kind: u32,
    auto_reset: bool,
    signalled: bool,
    /// Rises with each signal; a wait that names an older one does not sleep.
    age: u64,
    exception: Option<Exception>,
}

/// Where the slots are.
#[derive(Debug, Default)]
enum Page {
    #[default]
    None,
    /// In a memory of the caller's, by its handle.
    Given(u64),
    /// In pages that the kernel made.
    Own(Pages),
}

/// All events of the process.
#[derive(Debug, Default)]
pub(crate) struct Events {
    events: BTreeMap<u32, Event>,
    page: Page,
}

/// What a look at a wait's events gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Nothing,
    Complete,
    /// An event is not there, or no longer.
    Gone,
}

impl Events {
    pub(crate) fn own_page(&self) -> Option<&Pages> {
        match &self.page {
            Page::Own(pages) => Some(pages),
            Page::None | Page::Given(_) => None,
        }
    }

    pub(crate) fn given_page(&self) -> Option<u64> {
        match self.page {
            Page::Given(handle) => Some(handle),
            Page::None | Page::Own(_) => None,
        }
    }

    pub(crate) fn has_page(&self) -> bool {
        !matches!(self.page, Page::None)
    }

    pub(crate) fn give_page(&mut self, handle: u64) {
        self.page = Page::Given(handle);
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn create(&mut self, arguments: &mut CreateEvent) -> Result<(), i32> {
        let signal = arguments.event_type == abi::EVENT_SIGNAL;
        let (first, end) = if signal { (0, SIGNALS) } else { (SIGNALS, SIGNALS * 2) };
        let id = (first..end).find(|id| !self.events.contains_key(id)).ok_or(errno::ENOSPC)?;
        if signal && !self.has_page() {
            let pages = Pages::new(SIGNALS as usize * 8)?;
            pages.raw().fill(0xff);
            self.page = Page::Own(pages);
        }
        let auto_reset = arguments.auto_reset != 0;
        let event = Event { kind: arguments.event_type, auto_reset, signalled: false, age: 1, exception: None };
        self.events.insert(id, event);
        arguments.event_id = id;
        if signal {
            arguments.event_trigger_data = id;
            arguments.event_slot_index = id;
            arguments.event_page_offset = if self.own_page().is_some() { abi::MMAP_EVENTS } else { 0 };
        }
        Ok(())
    }

    pub(crate) fn destroy(&mut self, id: u32) -> bool {
        self.events.remove(&id).is_some()
    }

    pub(crate) fn contains(&self, id: u32) -> bool {
        self.events.contains_key(&id)
    }

    /// Signals an event; false for one that is not there or that only the kernel signals.
    pub(crate) fn set(&mut self, id: u32) -> bool {
        match self.events.get_mut(&id) {
            Some(event) if event.kind == abi::EVENT_SIGNAL => {
                event.signalled = true;
                event.age += 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn reset(&mut self, id: u32) -> bool {
        match self.events.get_mut(&id) {
            Some(event) if event.kind == abi::EVENT_SIGNAL => {
                event.signalled = false;
                true
            }
            _ => false,
        }
    }

    /// Tells every event of the exception's kind. How many there are.
    pub(crate) fn raise(&mut self, exception: Exception) -> usize {
        let kind = match exception {
            Exception::Memory { .. } => abi::EVENT_MEMORY,
            Exception::Hardware { .. } => abi::EVENT_HW_EXCEPTION,
        };
        let told = self.events.values_mut().filter(|event| event.kind == kind);
        told.map(|event| {
            event.signalled = true;
            // The kernel keeps the first exception of an event that nobody has waited for.
            event.exception = event.exception.or(Some(exception));
        })
        .count()
    }

    /// Whether a wait for these events is over; if it is, the data of those that were signalled, and their resets.
    pub(crate) fn look(&mut self, wanted: &mut [EventData], all: bool) -> Look {
        if wanted.iter().any(|data| !self.events.contains_key(&data.event_id)) {
            return Look::Gone;
        }
        let ready = |events: &BTreeMap<u32, Event>, data: &EventData| {
            let event = &events[&data.event_id];
            let seen = u64::from(data.data0) | u64::from(data.data1) << 32;
            event.signalled || event.kind == abi::EVENT_SIGNAL && seen != 0 && seen != event.age
        };
        let count = wanted.iter().filter(|data| ready(&self.events, data)).count();
        if count == 0 && !wanted.is_empty() || all && count < wanted.len() {
            return Look::Nothing;
        }
        for data in wanted {
            if !ready(&self.events, data) {
                continue;
            }
            if let Some(event) = self.events.get_mut(&data.event_id) {
                event.tell(data);
            }
        }
        Look::Complete
    }
}

impl Event {
    fn tell(&mut self, data: &mut EventData) {
        match self.exception {
            Some(Exception::Memory { va, gpu_id, not_present, read_only, no_execute }) => {
                data.data0 = u32::from(not_present);
                data.data1 = u32::from(read_only);
                data.data2 = u32::from(no_execute);
                (data.va, data.gpu_id) = (va, gpu_id);
            }
            Some(Exception::Hardware { reset_type, reset_cause, memory_lost, gpu_id }) => {
                (data.data0, data.data1, data.data2, data.data3) = (reset_type, reset_cause, memory_lost, gpu_id);
            }
            None if self.kind == abi::EVENT_SIGNAL => {
                (data.data0, data.data1) = (self.age as u32, (self.age >> 32) as u32);
            }
            None => {}
        }
        if self.auto_reset {
            self.signalled = false;
            self.exception = None;
        }
    }
}
