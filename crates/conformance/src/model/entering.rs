//! How a call of the driver begins and ends: it is counted, seen against stop and other hot calls, held, and fails as the
//! test decided.

use std::sync::Arc;

use rig_edge::Fault;

use super::driver::ModelDriver;
use super::state::{Phase, State};
use super::{Call, Violation};
use crate::primitive::{MutexGuard, thread};

/// A call under way. Its drop notes the end.
pub(crate) struct Entered<'a> {
    driver: &'a ModelDriver,
    call: Call,
    counted: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut state = self.driver.shared.lock();
        let device = &mut state.devices[self.driver.id];
        if self.counted {
            device.inflight -= 1;
        }
        if device.hot == Some(self.call) {
            device.hot = None;
        }
        self.driver.shared.moved.notify_all();
    }
}

impl ModelDriver {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    /// Notes a violation; its text is the answer's.
    pub(super) fn violate(&self, violation: Violation) -> Fault {
        Fault::new(self.lock().violate(violation))
    }

    /// Begins a call: sees that it may come now, and stands still where the test holds it.
    pub(super) fn enter(&self, call: Call) -> Result<Entered<'_>, Fault> {
        let id = self.id;
        let mut state = self.lock();
        let device = &mut state.devices[id];
        device.calls.add(call);
        let mut counted = true;
        match device.phase {
            Phase::Open => {}
            Phase::Stopped if call.may_follow_stop() => {
                let (shown, last) = (device.shown(), device.submitted);
                if shown < last {
                    return Err(Fault::new(state.violate(Violation::BeforeWord { device: id, call, shown, last })));
                }
                counted = false;
            }
            Phase::Stopping => return Err(Fault::new(state.violate(Violation::DuringStop { device: id, call }))),
            Phase::Stopped => return Err(Fault::new(state.violate(Violation::AfterStop { device: id, call }))),
        }
        if call.is_hot() {
            if let Some(other) = device.hot {
                return Err(Fault::new(state.violate(Violation::HotOverlap { device: id, call, other })));
            }
            device.hot = Some(call);
        }
        let device = &mut state.devices[id];
        device.inflight += u32::from(counted);
        self.shared.moved.notify_all();
        let entered = Entered { driver: self, call, counted };
        self.pause(state, call);
        Ok(entered)
    }

    /// Stands still while the test holds the call; then runs the test's hooks, and a seed's steps.
    pub(super) fn pause(&self, mut state: MutexGuard<'_, State>, call: Call) {
        while let Some(hold) = state.devices[self.id].script.holds.iter_mut().find(|hold| hold.call == call) {
            hold.inside += 1;
            let held = hold.id;
            self.shared.moved.notify_all();
            while state.devices[self.id].script.holds.iter().any(|hold| hold.id == held) {
                state = self.shared.moved.wait_timeout(state, super::control::LIMIT);
            }
        }
        let hooks = &state.devices[self.id].script.hooks;
        let hooks: Vec<_> = hooks.iter().filter(|(of, _)| *of == call).map(|(_, hook)| Arc::clone(hook)).collect();
        let state = self.shared.chance(state);
        drop(state);
        hooks.iter().for_each(|hook| hook());
        // A hot call is short: let another thread have a chance to break in.
        if cfg!(rig_shuttle) {
            thread::yield_now();
        }
    }

    /// Fails or panics as the test decided for the next call of its kind.
    pub(super) fn script(&self, call: Call) -> Result<(), Fault> {
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        if let Some((good, panics)) = device.script.last_good
            && device.calls.total() > good
        {
            device.script.last_good = None;
            if panics {
                device.script.panics.insert(0, call);
            } else {
                device.script.faults.insert(0, (call, format!("call {} faulted, in {call:?}", good + 1)));
            }
        }
        if let Some(at) = device.script.panics.iter().position(|of| *of == call) {
            device.script.panics.remove(at);
            device.cause = true;
            drop(state);
            panic!("the model was told to panic in {call:?}");
        }
        if let Some(at) = device.script.faults.iter().position(|(of, _)| *of == call) {
            let (_, reason) = device.script.faults.remove(at);
            device.fault.get_or_insert_with(|| reason.clone());
            device.cause = true;
            self.shared.moved.notify_all();
            return Err(Fault::new(reason));
        }
        Ok(())
    }

    /// The usual beginning of a cold call.
    pub(super) fn begin(&self, call: Call) -> Result<Entered<'_>, Fault> {
        let entered = self.enter(call)?;
        self.script(call)?;
        Ok(entered)
    }
}
