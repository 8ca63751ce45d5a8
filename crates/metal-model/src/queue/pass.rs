//! What an encoder records: a pass.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use objc2::{rc::Retained, runtime::AnyObject};
use parking_lot::Mutex;

use crate::metal::{BufferState, IndirectState, Life, PipelineFacts, ResourceState};

/// An object that a command buffer keeps alive.
struct Kept {
    _object: Retained<AnyObject>,
}

// SAFETY: what is kept is an object of the model's own classes, whose state may be released on any thread; nothing but its
// release is done through this.
unsafe impl Send for Kept {}
// SAFETY: as above; a shared reference does nothing.
unsafe impl Sync for Kept {}

/// What a command uses: its state, and its object where the command buffer retains what it uses.
pub(crate) struct Ref<S: ?Sized> {
    pub(crate) state: Arc<S>,
    _object: Option<Kept>,
}

impl<S: ?Sized> Ref<S> {
    pub(crate) fn new(state: &Arc<S>, keep: Option<&AnyObject>) -> Self {
        let object = keep.map(|object| Kept { _object: objc2::Message::retain(object) });
        Self { state: state.clone(), _object: object }
    }
}

/// One command.
pub(crate) enum Command {
    Pipeline(Ref<PipelineFacts>),
    Buffer { index: u8, buffer: Option<Ref<BufferState>>, offset: u64 },
    Offset { index: u8, offset: u64 },
    Bytes { index: u8, bytes: Aligned },
    Threadgroup { index: u8, len: u32 },
    Dispatch(Grid),
    DispatchIndirect { buffer: Ref<BufferState>, offset: u64, threads: [u32; 3] },
    Use(Ref<dyn ResourceState>),
    Indirect { buffer: Ref<IndirectState>, from: usize, count: usize },
    Fill { buffer: Ref<BufferState>, offset: usize, len: usize, byte: u8 },
    Copy { from: Ref<BufferState>, from_offset: usize, to: Ref<BufferState>, to_offset: usize, len: usize },
}

/// The threads of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) groups: [u32; 3],
    pub(crate) threads: [u32; 3],
    /// Threads of the whole grid, where groups at its edges are smaller.
    pub(crate) grid: Option<[u32; 3]>,
}

/// Bytes that the encoder copied: on 16 bytes, and on purpose no more, since Metal promises no more.
pub(crate) struct Aligned {
    words: Box<[u128]>,
    len: usize,
}

impl Aligned {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let words = bytes.chunks(16).map(|chunk| {
            let mut word = [0; 16];
            word[..chunk.len()].copy_from_slice(chunk);
            u128::from_ne_bytes(word)
        });
        Self { words: words.collect(), len: bytes.len() }
    }

    pub(crate) fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }
}

/// Whether a pass has run, for those that wait for it.
pub(crate) struct Done {
    pub(crate) queue: u64,
    done: AtomicBool,
}

impl Done {
    pub(crate) fn new(queue: u64) -> Arc<Self> {
        Arc::new(Self { queue, done: AtomicBool::new(false) })
    }

    pub(crate) fn get(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Release: pairs with the Acquire in `get`. What the pass wrote is seen by the pass that waits.
    pub(crate) fn set(&self) {
        self.done.store(true, Ordering::Release);
    }
}

/// A fence: the pass that updated it last, of those committed.
#[derive(Default)]
pub(crate) struct FenceState {
    pub(crate) life: Life,
    pub(crate) last: Mutex<Option<Arc<Done>>>,
}

/// A buffer that a pass binds: it is ordered with other uses where Metal tracks it.
pub(crate) struct Tracked {
    pub(crate) buffer: Arc<BufferState>,
    pub(crate) writes: bool,
}

/// What one encoder recorded.
#[derive(Default)]
pub(crate) struct Pass {
    pub(crate) commands: Vec<Command>,
    pub(crate) waits: Vec<Ref<FenceState>>,
    pub(crate) updates: Vec<Ref<FenceState>>,
    pub(crate) tracked: Vec<Tracked>,
    /// What the fences that it waits for wait for: set when it is committed.
    pub(crate) after: Vec<Arc<Done>>,
    /// Set when it is committed.
    pub(crate) done: Option<Arc<Done>>,
}

impl Pass {
    /// Notes a tracked buffer, once.
    pub(crate) fn track(&mut self, buffer: &Arc<BufferState>, writes: bool) {
        if !buffer.tracked() {
            return;
        }
        match self.tracked.iter_mut().find(|tracked| Arc::ptr_eq(&tracked.buffer, buffer)) {
            Some(tracked) => tracked.writes |= writes,
            None => self.tracked.push(Tracked { buffer: buffer.clone(), writes }),
        }
    }

    /// Whether the pass must run after an earlier one, by what both bind.
    pub(crate) fn conflicts(&self, earlier: &Self) -> bool {
        self.tracked.iter().any(|mine| {
            let same = |theirs: &&Tracked| Arc::ptr_eq(&theirs.buffer, &mine.buffer);
            earlier.tracked.iter().find(same).is_some_and(|theirs| theirs.writes || mine.writes)
        })
    }
}
