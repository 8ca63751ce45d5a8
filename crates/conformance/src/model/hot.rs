//! The hot calls, sleep and stop.

use std::sync::Arc;
use std::time::Duration;

use rig_edge::{Fault, Room, Sleep, Submitted, Work};

use super::check::{ModelPart, Taken, ticket_of};
use super::control::LIMIT;
use super::driver::{ModelDriver, ModelPlan};
use super::encoder::Encoder;
use super::options::Pace;
use super::state::{Job, Op, Phase, take_one};
use super::{Call, Violation};
use crate::primitive::thread;

/// How often a sleep looks at words that other models and drivers write. TIMEOUT: nobody tells the model of those.
const FOREIGN_POLL: Duration = Duration::from_millis(1);

impl ModelDriver {
    /// The checks of a hot call's work.
    pub(super) fn check_work(
        &self,
        call: Call,
        plan: &ModelPlan,
        parts: &[ModelPart],
        work: &Work<'_>,
    ) -> Result<Taken, Violation> {
        let state = self.lock();
        let device = &state.devices[self.id];
        if plan.device != self.id || !Arc::ptr_eq(&plan.shared, &self.shared) {
            return Err(Violation::PlanOfOther { device: self.id, call, owner: plan.device });
        }
        state.check_waits(device, work)?;
        device.take(call, parts, work)
    }

    pub(super) fn room_now(&self, plan: &ModelPlan, parts: &[ModelPart], work: &mut Work<'_>) -> Room {
        let mut state = self.lock();
        let seeded = state.options.pace == Pace::Seeded;
        let (later, grow) = (seeded && state.rng.one_in(8), seeded && state.rng.one_in(4));
        let device = &mut state.devices[self.id];
        let script = &mut device.script;
        if let Some(why) = script.refuse.pop_front() {
            return Room::Refused(why);
        }
        if let Some(why) = device.refuses(parts, work) {
            return Room::Refused(why);
        }
        let grown = device.plans.get(&plan.id).is_some_and(|plan| plan.grown);
        if take_one(&mut device.script.grow) || (grow && !grown) {
            device.grow_due.push((thread::current().id(), plan.id));
            return Room::Grow;
        }
        if take_one(&mut device.script.later) {
            // With nothing in flight the caller may lose the device for it (S04).
            device.cause |= device.jobs.is_empty();
            return Room::Later;
        }
        let blocks = self.facts.may_block && !device.stands_behind_another();
        let full = device.jobs.len() >= state.options.depth && !blocks;
        let device = &mut state.devices[self.id];
        if !device.jobs.is_empty() && device.fault.is_none() && (full || later) {
            return Room::Later;
        }
        device.tickets += 1;
        let number = device.tickets;
        device.write_scratch(number, work);
        device.ticket = Some(ticket_of(number, plan.id, work));
        Room::Ok
    }

    /// Notes the value, and checks it and its room. From here on the value counts as given.
    pub(super) fn take_value(&self, value: u64, plan: &ModelPlan, work: &Work<'_>) -> Result<(), Violation> {
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        let expected = device.submitted + 1;
        let ticket = device.check_ticket(value, plan.id, work);
        device.ticket = None;
        if value != expected {
            return Err(Violation::ValueOrder { device: self.id, expected, got: value });
        }
        device.submitted = value;
        device.apart = work.apart;
        ticket
    }

    pub(super) fn submit_now(
        &self,
        value: u64,
        plan: &ModelPlan,
        parts: &[ModelPart],
        work: &Work<'_>,
    ) -> Result<Submitted, Fault> {
        let checked =
            self.take_value(value, plan, work).and_then(|()| self.check_work(Call::Submit, plan, parts, work));
        let taken = checked.map_err(|violation| self.violate(violation))?;
        self.script(Call::Submit)?;
        let mut ops = Vec::new();
        for (op, part) in taken.ops.into_iter().zip(parts) {
            match (op, part) {
                (Some(op), _) => ops.push(op),
                (None, ModelPart::Fill(fill)) => self.fill(fill, work, &mut ops)?,
                (None, _) => unreachable!("only a fill has no step of its own"),
            }
        }
        let mut state = self.lock();
        if self.facts.may_block {
            while state.devices[self.id].jobs.len() >= state.options.depth && state.devices[self.id].fault.is_none() {
                state = self.shared.moved.wait_timeout(state, LIMIT);
            }
        }
        let encode = state.options.pace == Pace::Seeded && state.rng.one_in(2);
        let device = &mut state.devices[self.id];
        if let Some(fault) = device.fault.clone() {
            device.cause = true;
            return Err(Fault::new(fault));
        }
        let waits = work.waits.to_vec();
        let encode = encode || device.script.encode_only;
        device.jobs.push_back(Job {
            value,
            waits,
            ops,
            regions: taken.regions,
            images: taken.images,
            plan: plan.id,
            times: work.times.cloned(),
        });
        if !encode {
            device.committed = value;
        }
        self.shared.moved.notify_all();
        drop(self.shared.pump(state));
        Ok(if encode { Submitted::Encoded } else { Submitted::Committed })
    }

    /// Runs a fill's code, with no lock held.
    pub(super) fn fill(
        &self,
        fill: &rig_edge::Fill<ModelDriver>,
        work: &Work<'_>,
        ops: &mut Vec<Op>,
    ) -> Result<(), Fault> {
        /// A fill that panics is a failed submit too: its unwinding leaves the device faulted.
        struct Faulted<'a>(&'a ModelDriver);
        impl Drop for Faulted<'_> {
            fn drop(&mut self) {
                let mut state = self.0.lock();
                let device = &mut state.devices[self.0.id];
                device.fault.get_or_insert_with(|| "a fill panicked".into());
                device.cause = true;
            }
        }
        let mut encoder = Encoder::new(self, ops);
        let unwinding = Faulted(self);
        let answer = (fill.code)(&mut encoder, work.slots);
        std::mem::forget(unwinding);
        answer.map_err(|why| {
            let mut state = self.lock();
            let device = &mut state.devices[self.id];
            device.fault.get_or_insert_with(|| why.clone());
            device.cause = true;
            Fault::here(why)
        })
    }

    pub(super) fn sleep_now(&self, sleep: Sleep) -> Result<(), Fault> {
        let mut state = self.lock();
        let mut left = sleep.still;
        loop {
            let device = &mut state.devices[self.id];
            if let Some(fault) = device.fault.clone() {
                device.cause = true;
                return Err(Fault::new(fault));
            }
            if device.shown() != sleep.seen || left.is_zero() {
                return Ok(());
            }
            let runs = device.jobs.front().is_some_and(|job| job.value <= sleep.until)
                && device.script.pace == Pace::Slept
                && device.blocked().is_ok();
            if runs && sleep.help {
                state = self.shared.run_next(state, self.id).0;
                continue;
            }
            if runs && !cfg!(rig_shuttle) {
                // Not on the thread of the caller, who does not help.
                drop(state);
                std::thread::scope(|scope| scope.spawn(|| drop(self.shared.run_next(self.lock(), self.id))).join())
                    .unwrap_or_default();
                state = self.lock();
                continue;
            }
            if device.script.pace == Pace::Seeded {
                let (state, stepped) = self.shared.step_any(state);
                drop(state);
                if stepped.is_none() {
                    thread::yield_now();
                }
                return Ok(());
            }
            if cfg!(rig_shuttle) {
                // Shuttle has no time, and a sleep may return early.
                drop(state);
                thread::yield_now();
                return Ok(());
            }
            let still = if device.waits_for().is_some() { FOREIGN_POLL.min(left) } else { left };
            let start = std::time::Instant::now();
            state = self.shared.moved.wait_timeout(state, still);
            left = left.saturating_sub(start.elapsed());
            state = self.shared.pump(state);
        }
    }

    pub(super) fn stop_now(&self, fault: Option<&str>) -> Result<(), Fault> {
        let id = self.id;
        let mut state = self.lock();
        let device = &mut state.devices[id];
        device.calls.add(Call::Stop);
        if device.phase != Phase::Open {
            return Err(Fault::new(state.violate(Violation::StopTwice { device: id })));
        }
        device.phase = Phase::Stopping;
        let (calls, cause) = (device.inflight, device.cause || device.facts.hang.is_some());
        if calls > 0 {
            state.violate(Violation::StopDuring { device: id, calls });
        }
        let elsewhere = self.facts.reach == rig_edge::Reach::Driver;
        if let Some(given) = fault.filter(|_| !cause && !elsewhere) {
            state.violate(Violation::StopReason { device: id, given: given.into() });
        }
        self.pause(state, Call::Stop);
        let mut state = self.lock();
        let device = &mut state.devices[id];
        let committed = device.committed;
        device.jobs.retain(|job| job.value <= committed);
        device.stopped_with = Some(fault.map(str::to_string));
        device.end_if_stopped();
        device.phase = Phase::Stopped;
        self.shared.moved.notify_all();
        drop(self.shared.pump(state));
        self.script(Call::Stop)
    }
}
