//! The model as a driver: every call notes itself, does what the test decided, and checks its caller.

use std::sync::Arc;

use rig_edge::{
    Code, Dma, Driver, EntryAnswer, Facts, Fault, Grown, ImageError, Location, Mapping, Memory, Opener, PlanError,
    Room, Sleep, Submitted, Timeline, WordSource, Work,
};

use super::check::ModelPart;
use super::encoder::Encoder;
use super::kernel::FunctionOf;
use super::state::{Backing, Device, Phase, PlanState, Shared, take_one};
use super::{Call, Violation};
use crate::primitive::thread;

/// Opens devices of a model. Each [`make`](Opener::make) opens a new one.
#[derive(Clone)]
pub struct ModelOpener {
    pub(crate) shared: Arc<Shared>,
}

impl Opener for ModelOpener {
    type Driver = ModelDriver;

    fn name(&self) -> String {
        self.shared.name.clone()
    }

    fn make(&self, timeline: Timeline) -> Result<ModelDriver, String> {
        let mut state = self.shared.lock();
        if let Some(why) = state.refuse_open.pop_front() {
            return Err(why);
        }
        if let Some(function) = &state.bus_given {
            return Err(format!(
                "the PCI function {function} has bus addresses of this device's memory: it cannot be opened again until the \
                 process ends"
            ));
        }
        let id = state.devices.len();
        let device = Device::new(id, &state.options, timeline.index());
        let facts = device.facts.clone();
        state.devices.push(device);
        self.shared.moved.notify_all();
        Ok(ModelDriver { shared: Arc::clone(&self.shared), id, facts })
    }
}

/// A device of a model.
pub struct ModelDriver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: usize,
    pub(super) facts: Facts,
}

/// Memory of a model's device.
#[derive(Debug)]
pub struct ModelRegion {
    pub(crate) device: usize,
    pub(crate) at: u64,
    pub(super) location: Location,
}

/// Loaded code of a model's device.
#[derive(Debug)]
pub struct ModelImage {
    pub(crate) device: usize,
    pub(crate) id: u64,
}

/// What a launch of a function needs.
#[derive(Clone)]
pub struct ModelEntry {
    pub(crate) device: usize,
    pub(crate) image: u64,
    pub(crate) function: FunctionOf,
}

/// What the runs of one submission share: a mark by which the model knows them.
pub struct ModelPlan {
    pub(super) shared: Arc<Shared>,
    pub(super) device: usize,
    pub(super) id: u64,
}

impl Drop for ModelPlan {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let device = &mut state.devices[self.device];
        device.plans.remove(&self.id);
        if let Some(value) = device.in_use(|job| job.plan == self.id) {
            state.violate(Violation::PlanInUse { device: self.device, value });
        }
    }
}

#[expect(unsafe_code, reason = "the interface's unsafe calls, whose debts the model checks and does not rely on")]
impl Driver for ModelDriver {
    type Region = ModelRegion;
    type Image = ModelImage;
    type Entry = ModelEntry;
    type Plan = ModelPlan;
    type Encoder<'a> = Encoder<'a>;
    type Capability = String;

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn capability(&self) -> Option<&String> {
        Some(&self.facts.arch)
    }

    fn alloc(&self, memory: Memory, len: usize) -> Result<Option<ModelRegion>, Fault> {
        let _entered = self.begin(Call::Alloc)?;
        if len == 0 || !len.is_multiple_of(rig_edge::WORD_BYTES) {
            return Err(self.violate(Violation::AllocLength { device: self.id, len }));
        }
        let mut state = self.lock();
        let short = Self::unlucky(&mut state, self.id);
        let capacity = state.options.capacity;
        let device = &mut state.devices[self.id];
        let full = device.live_bytes.saturating_add(len as u64) > capacity;
        if take_one(&mut device.script.alloc_fail) || short || full {
            return Ok(None);
        }
        let Some(block) = self.block(&state, len) else { return Ok(None) };
        let device = &mut state.devices[self.id];
        device.live_bytes += len as u64;
        let host = memory != Memory::Device || self.facts.host_addresses;
        Ok(Some(self.add_region(&mut state, len, host, Backing::Owned(block))))
    }

    unsafe fn free(&self, region: ModelRegion) -> Result<(), Fault> {
        let _entered = self.enter(Call::Free)?;
        self.own(Call::Free, &region)?;
        self.free_now(region.at)?;
        self.script(Call::Free)
    }

    fn locate(&self, region: &ModelRegion) -> Location {
        if self.own(Call::Locate, region).is_ok() {
            let mut state = self.lock();
            let device = &mut state.devices[self.id];
            device.calls.add(Call::Locate);
            if device.memory.get(&region.at).is_none_or(|region| matches!(region.backing, Backing::Freed)) {
                state.violate(Violation::UseAfterFree { device: self.id, call: Call::Locate, at: region.at });
            }
        }
        region.location
    }

    unsafe fn map_host(&self, address: *mut u8, len: usize) -> Result<Mapping<ModelRegion>, Fault> {
        let _entered = self.begin(Call::MapHost)?;
        self.map_host_now(address, len)
    }

    fn peer(&self, other: &ModelDriver) -> bool {
        self.same_model(other) && self.lock().options.peer
    }

    unsafe fn map_peer(&self, other: &ModelDriver, region: &ModelRegion) -> Result<Mapping<ModelRegion>, Fault> {
        let _entered = self.begin(Call::MapPeer)?;
        self.map_peer_now(other, region)
    }

    fn dma(&self, region: &ModelRegion, function: &str) -> Result<Result<Dma, String>, Fault> {
        let _entered = self.begin(Call::Dma)?;
        self.own(Call::Dma, region)?;
        self.dma_now(region.at, function)
    }

    fn image(&self, binary: &[u8]) -> Result<Code<ModelImage>, ImageError> {
        let _entered = self.begin(Call::Image)?;
        self.image_now(binary)
    }

    fn prepare(&self, image: &ModelImage, name: &str) {
        // A prepare reports nothing: a fault that the test wants here is told by the next call.
        let Ok(_entered) = self.begin(Call::Prepare) else { return };
        let _ = (self.own_image(Call::Prepare, image), name);
    }

    fn entry(&self, image: &ModelImage, name: &str) -> Result<EntryAnswer<ModelEntry>, Fault> {
        let _entered = self.begin(Call::Entry)?;
        self.own_image(Call::Entry, image)?;
        Ok(self.entry_now(image, name))
    }

    unsafe fn unload(&self, image: ModelImage) -> Result<(), Fault> {
        let _entered = self.enter(Call::Unload)?;
        self.own_image(Call::Unload, &image)?;
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        // PANIC: `own_image` found it.
        let of = device.images.remove(&image.id).expect("an image that was found");
        device.live_bytes -= of.memory;
        if let Some(value) = device.in_use(|job| job.images.contains(&image.id)) {
            return Err(Fault::new(state.violate(Violation::UnloadInUse { device: self.id, value })));
        }
        drop(state);
        self.script(Call::Unload)
    }

    fn plan(&self, parts: &[ModelPart]) -> Result<ModelPlan, PlanError> {
        let _entered = self.begin(Call::Plan).map_err(PlanError::Fault)?;
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        let entries = parts.iter().filter_map(|part| match part {
            ModelPart::Launch(launch) => Some(&launch.entry),
            _ => None,
        });
        let checked = entries.map(|entry| device.entry(Call::Plan, entry)).find(Result::is_err);
        if let Some(Err(violation)) = checked {
            return Err(PlanError::Fault(Fault::new(state.violate(violation))));
        }
        if take_one(&mut device.script.plan_no_memory) {
            return Err(PlanError::NoMemory(64 * parts.len() as u64));
        }
        let id = device.id();
        device.plans.insert(id, PlanState { grown: false });
        Ok(ModelPlan { shared: Arc::clone(&self.shared), device: self.id, id })
    }

    unsafe fn room(&self, plan: &mut ModelPlan, parts: &[ModelPart], work: &mut Work<'_>) -> Room {
        let _entered = match self.enter(Call::Room) {
            Ok(entered) => entered,
            Err(fault) => return Room::Refused(fault.reason),
        };
        self.lock().devices[self.id].ticket = None;
        if let Err(violation) = self.check_work(Call::Room, plan, parts, work) {
            return Room::Refused(self.violate(violation).reason);
        }
        // Room has no answer for a fault: one that the test wants here is a panic.
        self.script(Call::Room).unwrap_or_else(|fault| panic!("{}", fault.reason));
        self.room_now(plan, parts, work)
    }

    unsafe fn submit(&self, value: u64, plan: &mut ModelPlan, parts: &[ModelPart], work: &mut Work<'_>) -> Submitted {
        let answer = self.enter(Call::Submit).and_then(|_entered| self.submit_now(value, plan, parts, work));
        answer.unwrap_or_else(Submitted::Failed)
    }

    fn commit(&self, value: u64) -> Result<(), Fault> {
        let _entered = self.begin(Call::Commit)?;
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        device.ticket = None;
        if value > device.submitted {
            let unknown = Violation::CommitUnknown { device: self.id, value, submitted: device.submitted };
            return Err(Fault::new(state.violate(unknown)));
        }
        if let Some(fault) = device.fault.clone() {
            device.cause = true;
            return Err(Fault::new(fault));
        }
        device.committed = device.committed.max(value);
        self.shared.moved.notify_all();
        drop(self.shared.pump(state));
        Ok(())
    }

    fn grow(&self) -> Result<Grown, Fault> {
        let _entered = self.begin(Call::Grow)?;
        let mut state = self.lock();
        let me = thread::current().id();
        let Some(at) = state.devices[self.id].grow_due.iter().position(|(thread, _)| *thread == me) else {
            return Err(Fault::new(state.violate(Violation::GrowUnasked { device: self.id })));
        };
        let short = Self::unlucky(&mut state, self.id);
        let device = &mut state.devices[self.id];
        let (_, plan) = device.grow_due.remove(at);
        if take_one(&mut device.script.short) || short {
            return Ok(Grown::Short(GROWTH_BYTES));
        }
        if let Some(plan) = device.plans.get_mut(&plan) {
            plan.grown = true;
        }
        Ok(Grown::Grown)
    }

    fn signaled(&self) -> u64 {
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        device.calls.add(Call::Signaled);
        let (own, given, freed) = (device.own, device.facts.word == WordSource::Given, device.word_freed);
        let why = if given { "of a word that was given" } else { "after free_word" };
        if given || freed {
            state.violate(Violation::Word { device: self.id, call: Call::Signaled, why });
        }
        own
    }

    fn free_word(&self) {
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        device.calls.add(Call::FreeWord);
        let over = device.phase == Phase::Stopped && device.shown() >= device.submitted;
        let why = match (device.facts.word, std::mem::replace(&mut device.word_freed, true), over) {
            (WordSource::Given, ..) => "of a word that was given",
            (_, true, _) => "twice",
            (.., false) => "before the device was stopped and its word showed the end",
            _ => return,
        };
        state.violate(Violation::Word { device: self.id, call: Call::FreeWord, why });
    }

    fn sleep(&self, sleep: Sleep) -> Result<(), Fault> {
        let _entered = self.begin(Call::Sleep)?;
        self.sleep_now(sleep)
    }

    fn stop(&self, fault: Option<&str>) -> Result<(), Fault> {
        self.stop_now(fault)
    }
}

/// What a growth that is short asks for.
const GROWTH_BYTES: u64 = 1 << 20;

impl Drop for ModelDriver {
    fn drop(&mut self) {
        let mut state = self.lock();
        let device = &mut state.devices[self.id];
        device.dropped = true;
        let regions = device.memory.values().filter(|region| region.is_owed()).count();
        let images = device.images.len();
        let own = device.facts.word == WordSource::Own && !device.word_freed;
        let missing = [
            (device.phase != Phase::Stopped, "before stop".to_string()),
            (regions > 0, format!("with {regions} regions that were not freed")),
            (images > 0, format!("with {images} images that were not unloaded")),
            (own, "with its own word not freed".to_string()),
        ];
        for (_, what) in missing.into_iter().filter(|(missing, _)| *missing) {
            state.violate(Violation::Dropped { device: self.id, what });
        }
        self.shared.moved.notify_all();
    }
}
