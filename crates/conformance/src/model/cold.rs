//! Memory and code.

use std::sync::Arc;

use rig_edge::{Code, EntryAnswer, Fault, ImageError, Location};

use super::driver::{ModelDriver, ModelEntry, ModelImage, ModelRegion};
use super::options::Pace;
use super::state::{Backing, State, take_one};
use super::{Call, Violation};

impl ModelDriver {
    pub(super) fn same_model(&self, other: &ModelDriver) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Adds a region to the device's memory.
    pub(super) fn add_region(&self, state: &mut State, len: usize, host: bool, backing: Backing) -> ModelRegion {
        let device = &mut state.devices[self.id];
        let at = device.next_address;
        // A page between regions: an address past one is in none.
        let alignment = self.facts.alignment.max(4096) as u64;
        device.next_address += (len as u64).next_multiple_of(alignment) + alignment;
        let region = super::state::Region { len, host, backing, mapped: 0, bus: Vec::new() };
        let start = region.span().map_or(std::ptr::null_mut(), |span| span.start());
        device.memory.insert(at, region);
        let host = if host { start } else { std::ptr::null_mut() };
        ModelRegion { device: self.id, at, location: Location { device: at, host, handle: std::ptr::null() } }
    }

    /// Sees that a region is this device's.
    pub(super) fn own(&self, call: Call, region: &ModelRegion) -> Result<(), Fault> {
        if region.device == self.id {
            return Ok(());
        }
        Err(self.violate(Violation::RegionOfOther { device: self.id, call, owner: region.device }))
    }

    pub(super) fn own_image(&self, call: Call, image: &ModelImage) -> Result<(), Fault> {
        if image.device != self.id {
            return Err(self.violate(Violation::ImageOfOther { device: self.id, call, owner: image.device }));
        }
        let loaded = self.lock().devices[self.id].images.contains_key(&image.id);
        if loaded { Ok(()) } else { Err(self.violate(Violation::ImageUnloaded { device: self.id, call })) }
    }

    /// Whether a seed decides that memory is short now.
    pub(super) fn unlucky(state: &mut State, id: usize) -> bool {
        if !state.options.shortages || state.options.pace != Pace::Seeded {
            return false;
        }
        let unlucky = state.devices[id].script.in_a_row < 2 && state.rng.one_in(8);
        let in_a_row = &mut state.devices[id].script.in_a_row;
        *in_a_row = if unlucky { *in_a_row + 1 } else { 0 };
        unlucky
    }

    /// What a region's freeing does, once it is checked.
    pub(super) fn free_now(&self, at: u64) -> Result<(), Fault> {
        let mut state = self.lock();
        let checked = state.devices[self.id].check_free(at);
        let device = &mut state.devices[self.id];
        let mut len = 0;
        let backing = device.memory.get_mut(&at).map(|region| {
            len = region.len;
            std::mem::replace(&mut region.backing, Backing::Freed)
        });
        match backing {
            Some(Backing::Owned(block)) => {
                device.live_bytes -= len as u64;
                if checked.is_err() {
                    device.quarantine.push(block);
                }
            }
            Some(Backing::Peer(other, origin, _)) => {
                if let Some(region) = state.devices[other].memory.get_mut(&origin) {
                    region.mapped -= 1;
                }
            }
            Some(Backing::Host(_) | Backing::Freed) | None => {}
        }
        checked.map_err(|violation| Fault::new(state.violate(violation)))
    }

    pub(super) fn image_now(&self, binary: &[u8]) -> Result<Code<ModelImage>, ImageError> {
        let mut state = self.lock();
        let functions = super::kernel::parse(binary, |name| state.kernels.get(name).cloned());
        let functions = functions.map_err(ImageError::Refused)?;
        let place = state.options.place;
        let device = &mut state.devices[self.id];
        if take_one(&mut device.script.image_no_memory) {
            return Err(ImageError::NoMemory(binary.len() as u64));
        }
        let id = device.id();
        let image = super::state::Image { functions, entries: Vec::new(), memory: 0, place: None };
        let handle = ModelImage { device: self.id, id };
        let Some(memory) = place else {
            device.images.insert(id, image);
            return Ok(Code::Loaded(handle));
        };
        let (shared, device, bytes) = (Arc::clone(&self.shared), self.id, binary.to_vec());
        Ok(Code::Place(rig_edge::Place {
            memory,
            len: binary.len(),
            finish: Box::new(move |location| {
                let place = Some((location.device, bytes.clone()));
                shared.lock().devices[device].images.insert(id, super::state::Image { place, ..image });
                Ok((bytes, handle))
            }),
        }))
    }

    pub(super) fn entry_now(&self, image: &ModelImage, name: &str) -> EntryAnswer<ModelEntry> {
        let mut state = self.lock();
        let short = Self::unlucky(&mut state, self.id);
        let capacity = state.options.capacity;
        let device = &mut state.devices[self.id];
        // PANIC: `own_image` found it.
        let of = &device.images[&image.id];
        let Some(function) = of.functions.iter().find(|function| &*function.name == name).cloned() else {
            return EntryAnswer::Absent { names: of.functions.iter().map(|f| f.name.to_string()).collect() };
        };
        if let Some(why) = function.invalid {
            return EntryAnswer::Invalid(why);
        }
        let made = of.entries.contains(&function.name);
        if take_one(&mut device.script.no_memory) || (short && !made) {
            return EntryAnswer::NoMemory(function.memory);
        }
        if !made {
            if device.live_bytes + function.memory > capacity {
                return EntryAnswer::NoMemory(function.memory);
            }
            device.live_bytes += function.memory;
            let of = device.images.get_mut(&image.id).expect("found above");
            of.memory += function.memory;
            of.entries.push(Arc::clone(&function.name));
        }
        let facts = function.facts;
        EntryAnswer::Entry(ModelEntry { device: self.id, image: image.id, function }, facts)
    }
}
