//! What a wait for events reports.

/// One event of a wait. The kernel gives it as a union: `data` is a [`MemoryException`] or a [`HwException`] by the event's
/// type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct EventData {
    pub data: [u64; 4],
    pub ext: u64,
    pub event_id: u32,
    pub pad: u32,
}

const _: () = {
    assert!(size_of::<EventData>() == 48);
    assert!(std::mem::offset_of!(EventData, event_id) == 40);
};

/// A memory fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryException {
    pub not_present: bool,
    pub read_only: bool,
    pub no_execute: bool,
    pub imprecise: bool,
    pub va: u64,
    pub gpu_id: u32,
    pub error_type: u32,
}

/// A reset of the GPU, or a hang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HwException {
    pub reset_type: u32,
    pub reset_cause: u32,
    pub memory_lost: u32,
    pub gpu_id: u32,
}

/// The two halves of a word, in the order of its bytes.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [half(0), half(4)]
}

impl EventData {
    /// The wait for the event `id`.
    pub fn of(id: u32) -> EventData {
        EventData { event_id: id, ..EventData::default() }
    }

    /// What a memory event reports. Its GPU is 0 while there was no fault.
    pub fn memory(&self) -> MemoryException {
        let [not_present, read_only] = halves(self.data[0]);
        let [no_execute, imprecise] = halves(self.data[1]);
        let [gpu_id, error_type] = halves(self.data[3]);
        MemoryException {
            not_present: not_present != 0,
            read_only: read_only != 0,
            no_execute: no_execute != 0,
            imprecise: imprecise != 0,
            va: self.data[2],
            gpu_id,
            error_type,
        }
    }

    /// What an event of the hardware reports. Its GPU is 0 while nothing happened.
    pub fn hardware(&self) -> HwException {
        let [reset_type, reset_cause] = halves(self.data[0]);
        let [memory_lost, gpu_id] = halves(self.data[1]);
        HwException { reset_type, reset_cause, memory_lost, gpu_id }
    }
}
