//! The null driver: completes each value as it is submitted, and does nothing else.
//!
//! Its memory is the host's, its kernels have any name and do nothing, its copies and memsets are not made. So what a
//! submit on it costs is what rig costs: the floor for benches. It is also the template of a new driver: everything a
//! driver must answer is here, and nothing else.
//!
//! # What it does not do
//!
//! Work: bytes stay as they were. Faults: it has none.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use rig_edge::{
    Code, Completion, Driver, EntryAnswer, EntryFacts, Facts, Fault, ImageError, Kinds, Location, Memory, Opener, Part,
    PlanError, Queue, Reach, Room, Sleep, Submitted, Timeline, WaitFacts, WordSource, Work,
};

/// The alignment of every region.
const ALIGNMENT: usize = 64;

/// Opens null devices of one name.
#[derive(Clone, Debug)]
pub struct NullOpener {
    name: String,
}

impl NullOpener {
    /// An opener named `name`.
    pub fn new(name: impl Into<String>) -> NullOpener {
        NullOpener { name: name.into() }
    }
}

impl Opener for NullOpener {
    type Driver = NullDriver;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn make(&self, timeline: Timeline) -> Result<NullDriver, String> {
        Ok(NullDriver { timeline, facts: facts() })
    }
}

fn facts() -> Facts {
    Facts {
        arch: "null".into(),
        budget: 1 << 40,
        queues: vec![Queue { name: "NULL:0".into(), kinds: Kinds::ALL }],
        copy_engine: None,
        completion: Completion::Host,
        waits: WaitFacts::NONE,
        may_block: false,
        hang: None,
        spin: std::time::Duration::ZERO,
        maps_host: false,
        host_addresses: true,
        alignment: ALIGNMENT,
        cache_bytes: Some(64),
        reach: Reach::Device,
        word: WordSource::Given,
        bus: None,
    }
}

/// A device that completes each value in its submit.
#[derive(Debug)]
pub struct NullDriver {
    timeline: Timeline,
    facts: Facts,
}

/// Host memory.
#[derive(Debug)]
pub struct NullRegion {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a region owns its memory, and this type reads and writes none of it.
#[expect(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Send for NullRegion {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "owned memory behind a pointer")]
unsafe impl Sync for NullRegion {}

#[expect(unsafe_code, reason = "the interface's unsafe calls")]
impl Driver for NullDriver {
    type Region = NullRegion;
    type Image = ();
    type Entry = ();
    type Plan = ();
    type Encoder<'a> = ();
    type Capability = ();

    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn alloc(&self, _memory: Memory, len: usize) -> Result<Option<NullRegion>, Fault> {
        let Ok(layout) = Layout::from_size_align(len, ALIGNMENT) else {
            return Ok(None);
        };
        // SAFETY: rig asks for a positive length (E04).
        let start = NonNull::new(unsafe { alloc_zeroed(layout) });
        Ok(start.map(|start| NullRegion { start, layout }))
    }

    unsafe fn free(&self, region: NullRegion) -> Result<(), Fault> {
        // SAFETY: `alloc` made it with this layout, and the caller promises that nothing uses it.
        unsafe { dealloc(region.start.as_ptr(), region.layout) };
        Ok(())
    }

    fn locate(&self, region: &NullRegion) -> Location {
        let host = region.start.as_ptr();
        Location { device: host.expose_provenance() as u64, host, handle: std::ptr::null() }
    }

    fn image(&self, _binary: &[u8]) -> Result<Code<()>, ImageError> {
        Ok(Code::Loaded(()))
    }

    fn entry(&self, _image: &(), _name: &str) -> Result<EntryAnswer<()>, Fault> {
        Ok(EntryAnswer::Entry((), EntryFacts::default()))
    }

    unsafe fn unload(&self, _image: ()) -> Result<(), Fault> {
        Ok(())
    }

    fn plan(&self, _parts: &[Part<NullDriver>]) -> Result<(), PlanError> {
        Ok(())
    }

    unsafe fn room(&self, _plan: &mut (), _parts: &[Part<NullDriver>], _work: &mut Work<'_>) -> Room {
        Room::Ok
    }

    unsafe fn submit(
        &self,
        value: u64,
        _plan: &mut (),
        _parts: &[Part<NullDriver>],
        _work: &mut Work<'_>,
    ) -> Submitted {
        self.timeline.word().raise(value);
        Submitted::Committed
    }

    fn commit(&self, _value: u64) -> Result<(), Fault> {
        Ok(())
    }

    fn sleep(&self, _sleep: Sleep) -> Result<(), Fault> {
        Ok(())
    }

    fn stop(&self, _fault: Option<&str>) -> Result<(), Fault> {
        // Every value completed in its submit, so the word shows the last one.
        Ok(())
    }
}
