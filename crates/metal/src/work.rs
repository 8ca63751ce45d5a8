//! Work: room, submit and commit.
//!
//! `room` decides where in the arena each launch's parameters go, and writes it to the part's scratch; `submit` takes those
//! places. A launch that is encoded into an open command buffer costs its messages to Metal, a copy of its parameters, and a
//! share of what a submit costs: two short holds of the lock, a pool and a guard.

use std::sync::Arc;

use objc2::rc::autoreleasepool;
use objc2::runtime::ProtocolObject;
use rig_edge::{Block, Fault, Launch, Part, Room, Submitted, Times, Work};

use crate::arena::{Placing, taken};
use crate::code::Entry;
use crate::driver::Metal;
use crate::encoder::Encoder;
use crate::grow;
use crate::limits::GROUP_MEMORY;
use crate::params::{Fit, Memory};
use crate::state::{BEHIND_LEAST, VALUES_MOST};
use crate::sys::{MTLBuffer, MTLComputeCommandEncoder, MTLSize, guard_panics};

/// In a part's scratch: the offset of its parameters.
const OFFSET: usize = 0;
/// In the first part's scratch: where the submission's bytes of the arena start.
const START: usize = 1;
/// And where they end: the same where it takes none.
const END: usize = 2;

/// The bytes of the arena that a part takes.
#[inline]
fn bytes_of(part: &Part<Metal>, block: &Block) -> u64 {
    if let Part::Launch(_) = part { taken(block.params_len) } else { 0 }
}

impl Metal {
    /// Whether the work fits now.
    #[inline]
    pub(crate) fn room_for(&self, parts: &[Part<Metal>], work: &mut Work<'_>) -> Room {
        let mut need = 0;
        for (index, (part, block)) in parts.iter().zip(work.blocks).enumerate() {
            match part {
                Part::Launch(launch) => {
                    if let Some(why) = self.limits.refuse(&launch.entry, block) {
                        return Room::Refused(format!("part {index} asks for {why}"));
                    }
                    need += taken(block.params_len);
                }
                Part::Fill(_) => {}
                Part::Copy(_) | Part::Memset(_) => {
                    return Room::Refused(format!(
                        "part {index} is a copy or a memset, which no queue of the device runs"
                    ));
                }
            }
        }
        let Some(first) = work.scratch.first_mut() else { return Room::Ok };
        first[START] = 0;
        first[END] = 0;
        if need == 0 {
            return Room::Ok;
        }
        if need > self.limits.buffer_bytes {
            return Room::Refused(format!(
                "the parameters of all launches take {need} bytes together, of at most {} in a buffer",
                self.limits.buffer_bytes
            ));
        }
        self.place(need, parts, work)
    }

    /// Places the launches' parameters in the arena.
    fn place(&self, need: u64, parts: &[Part<Metal>], work: &mut Work<'_>) -> Room {
        let blocks = parts.iter().zip(work.blocks).map(|(part, block)| bytes_of(part, block));
        let scratch = &mut *work.scratch;
        let mut state = self.shared.lock();
        let (fit, placing) = state.params.fit(need, blocks, |index, offset| scratch[index][OFFSET] = offset);
        drop(state);
        match fit {
            Fit::Now => {
                scratch[0][START] = placing.start;
                scratch[0][END] = placing.end;
                Room::Ok
            }
            Fit::Later => Room::Later,
            Fit::Grow => {
                grow::ask(need);
                Room::Grow
            }
        }
    }

    /// Encodes the work.
    ///
    /// # Safety
    ///
    /// As [`submit`](rig_edge::Driver::submit).
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    pub(crate) unsafe fn take(&self, value: u64, parts: &[Part<Metal>], work: &Work<'_>) -> Submitted {
        // Calls on Metal may autorelease, and the caller's thread may have no pool.
        autoreleasepool(|_| {
            let placing = match work.scratch.first() {
                Some(first) => Placing { start: first[START], end: first[END] },
                None => Placing { start: 0, end: 0 },
            };
            let mut encoder = match self.begin(value, placing, work.times) {
                Ok(encoder) => encoder,
                Err(fault) => return Submitted::Failed(fault),
            };
            // SAFETY: the caller's promise.
            let encoded = guard_panics(|| unsafe { encoder.put(parts, work) });
            self.finish(encoder, encoded)
        })
    }

    /// Takes the open command buffer for the value's work.
    #[inline]
    fn begin<'a>(&'a self, value: u64, placing: Placing, times: Option<&'a Arc<Times>>) -> Result<Encoder<'a>, Fault> {
        let mut state = self.shared.lock();
        state.last = value;
        state.check()?;
        if times.is_some() {
            state.commit_open()?;
        }
        let (mut taken, mut arena) = (None, None);
        if placing.end > placing.start
            && let Some((bytes, Memory { buffer, host, .. })) = state.params.take(placing)
        {
            taken = Some(bytes);
            arena = Some((std::ptr::from_ref::<ProtocolObject<dyn MTLBuffer>>(buffer), *host));
        }
        state.encoding = true;
        state.wanted = false;
        let open = state.open.take();
        drop(state);
        Ok(Encoder { shared: &self.shared, gpu: &self.gpu, open, value, times, taken, arena })
    }

    /// Gives the open command buffer back, or commits it, or drops it where the submit failed.
    #[inline]
    fn finish(&self, encoder: Encoder<'_>, encoded: Result<(), String>) -> Submitted {
        let Encoder { open, value, times, taken, .. } = encoder;
        let mut state = self.shared.lock();
        state.encoding = false;
        let opened = match (encoded, open) {
            (Err(why), open) => Err((why, open)),
            (Ok(()), None) => Err(("the work has no command buffer".into(), None)),
            (Ok(()), open) if state.failure.is_some() => Err((String::new(), open)),
            (Ok(()), Some(open)) => Ok(open),
        };
        let mut open = match opened {
            Ok(open) => open,
            Err((why, open)) => {
                let fault = state.fail(why);
                drop(state);
                if let Some(open) = open {
                    open.abandon();
                }
                self.shared.wake();
                return Submitted::Failed(fault);
            }
        };
        open.values += 1;
        open.upto = value;
        if let Some(taken) = taken {
            open.taken = Some(taken.after(open.taken));
        }
        let behind = state.ring.uncompleted();
        if !(times.is_some() || state.wanted || behind < BEHIND_LEAST || open.values >= VALUES_MOST) {
            state.open = Some(open);
            return Submitted::Encoded;
        }
        match state.commit(open) {
            Ok(()) => Submitted::Committed,
            Err(fault) => {
                drop(state);
                self.shared.wake();
                Submitted::Failed(fault)
            }
        }
    }

    /// Commits the work of all values that are not committed.
    pub(crate) fn commit_all(&self) -> Result<(), Fault> {
        let mut state = self.shared.lock();
        state.check()?;
        let committed = state.commit_open();
        drop(state);
        if committed.is_err() {
            self.shared.wake();
        }
        committed
    }
}

impl Encoder<'_> {
    /// Encodes all parts in order.
    ///
    /// # Safety
    ///
    /// As [`submit`](rig_edge::Driver::submit).
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put(&mut self, parts: &[Part<Metal>], work: &Work<'_>) -> Result<(), String> {
        // Also a value without parts has a place in the order.
        self.opened()?;
        for (index, part) in parts.iter().enumerate() {
            match part {
                Part::Launch(launch) => {
                    let offset = work.scratch[index][OFFSET];
                    // SAFETY: the caller's promise; `room` placed the parameters there.
                    unsafe { self.launch(launch, &work.blocks[index], offset, work) }?;
                }
                Part::Fill(fill) => {
                    // The encoder is open when the fill gets it.
                    self.compute()?;
                    (fill.code)(self, work.slots)?;
                }
                Part::Copy(_) | Part::Memset(_) => return Err(format!("part {index} is no launch and no fill")),
            }
        }
        Ok(())
    }

    /// Encodes one launch, with its parameters at `offset` of the arena.
    #[inline]
    #[expect(unsafe_code, reason = "writes the arena and binds it; the caller owes the memory")]
    unsafe fn launch(
        &mut self,
        launch: &Launch<Entry>,
        block: &Block,
        offset: u64,
        work: &Work<'_>,
    ) -> Result<(), String> {
        let params = work.params_of(block);
        let arena = if params.is_empty() { None } else { self.arena };
        let encoder = self.opened()?;
        let encoder = encoder.compute_encoder()?;
        encoder.setComputePipelineState(launch.entry.pipeline());
        if let Some((buffer, host)) = arena {
            let at = host.wrapping_add(offset as usize);
            // SAFETY: `room` placed these bytes in the arena for this launch, and no work in flight has them.
            unsafe { std::ptr::copy_nonoverlapping(params.as_ptr(), at, params.len()) };
            for r in &launch.refs {
                let at = at.wrapping_add(r.at as usize).cast::<u64>();
                // SAFETY: the 8 bytes of a ref lie in the launch's parameters, by the submission's making.
                let within = unsafe { at.read_unaligned() };
                let address = work.slots[r.slot as usize].device.wrapping_add(within);
                // SAFETY: as above.
                unsafe { at.write_unaligned(address) };
            }
            // SAFETY: the arena lasts until the next `room`, and in command buffers until their work is done.
            let buffer = unsafe { &*buffer };
            // SAFETY: the offset is in the buffer.
            unsafe { encoder.setBuffer_offset_atIndex(Some(buffer), offset as usize, 0) };
        }
        if block.group_bytes > 0 {
            let length = block.group_bytes.next_multiple_of(GROUP_MEMORY) as usize;
            // SAFETY: `room` saw that the GPU has as much beside what the function declares.
            unsafe { encoder.setThreadgroupMemoryLength_atIndex(length, 0) };
        }
        encoder.dispatchThreadgroups_threadsPerThreadgroup(size(block.groups), size(block.threads));
        Ok(())
    }
}

/// A size as Metal writes it.
#[inline]
pub(crate) fn size([width, height, depth]: [u32; 3]) -> MTLSize {
    MTLSize { width: width as usize, height: height as usize, depth: depth as usize }
}
