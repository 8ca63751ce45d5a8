//! Runs the commands of a pass.
//!
//! Commands change what is bound, and dispatches run with what is bound then. Everything that a pointer may reach is held
//! while the pass runs, so that what a program releases too early is found, and never read.

use std::{
    ptr,
    sync::{Arc, atomic::Ordering},
};

use super::{
    pass::{Command, Grid, Pass, Ref},
    work::Failed,
};
use crate::{
    address::gpu_address,
    kernel::{Bound, Dispatch, Residency, Violation},
    machine::Machine,
    metal::{BufferState, IndirectState, PipelineFacts, Reach, ResourceState},
    protocol::MTLCommandBufferError,
};

/// What is bound at an index: where it starts, its bytes, and the offset.
#[derive(Clone, Copy)]
struct Binding {
    base: u64,
    len: u64,
    offset: u64,
}

/// The state of an encoder while its pass runs.
struct Encoder<'a> {
    machine: &'a Machine,
    pipeline: Option<&'a PipelineFacts>,
    bindings: [Option<Binding>; 31],
    threadgroup: [u32; 31],
    held: Vec<Arc<dyn ResourceState>>,
    /// What pointers may reach, of what is held: made when a dispatch asks.
    resident: Option<Residency>,
}

/// Runs a pass.
pub(super) fn run(machine: &Machine, pass: &Pass, reach: &Reach) -> Result<(), Failed> {
    let mut encoder = Encoder {
        machine,
        pipeline: None,
        bindings: [None; 31],
        threadgroup: [0; 31],
        held: reach.allocations(),
        resident: None,
    };
    for command in &pass.commands {
        encoder.command(command)?;
    }
    for command in &pass.commands {
        living(machine, command)?;
    }
    Ok(())
}

/// Refuses a command that uses what is gone.
fn living(machine: &Machine, command: &Command) -> Result<(), Failed> {
    let gone = |state: &dyn ResourceState| (!state.life().lasts()).then(|| state.describe());
    let gone = match command {
        Command::Pipeline(pipeline) => gone(&*pipeline.state),
        Command::Buffer { buffer: Some(buffer), .. }
        | Command::Fill { buffer, .. }
        | Command::DispatchIndirect { buffer, .. } => gone(&*buffer.state),
        Command::Copy { from, to, .. } => gone(&*from.state).or_else(|| gone(&*to.state)),
        Command::Use(resource) => gone(&*resource.state),
        Command::Indirect { buffer, .. } => gone(&*buffer.state),
        _ => None,
    };
    gone.map_or(Ok(()), |what| Err(released(machine, &what)))
}

/// A command buffer that does not retain it uses something that is gone.
fn released(machine: &Machine, what: &str) -> Failed {
    let why = format!("{what} was released before the command buffer that uses it had completed");
    machine.violate_on_gpu("a command buffer with unretained references", why.clone());
    Failed { code: MTLCommandBufferError::InvalidResource, why }
}

impl<'a> Encoder<'a> {
    fn command(&mut self, command: &'a Command) -> Result<(), Failed> {
        living(self.machine, command)?;
        match command {
            Command::Pipeline(pipeline) => self.pipeline = Some(&*pipeline.state),
            Command::Buffer { index, buffer, offset } => {
                let binding = buffer.as_ref().map(|buffer| bound(&buffer.state, *offset));
                self.bindings[usize::from(*index)] = binding;
            }
            Command::Offset { index, offset } => {
                if let Some(binding) = &mut self.bindings[usize::from(*index)] {
                    binding.offset = *offset;
                }
            }
            Command::Bytes { index, bytes } => {
                let binding = Binding { base: gpu_address(bytes.address()), len: bytes.len(), offset: 0 };
                self.bindings[usize::from(*index)] = Some(binding);
            }
            Command::Threadgroup { index, len } => self.threadgroup[usize::from(*index)] = *len,
            Command::Dispatch(grid) => self.dispatch(*grid)?,
            Command::DispatchIndirect { buffer, offset, threads } => {
                let groups = words(&buffer.state, *offset);
                if !groups.contains(&0) {
                    self.dispatch(Grid { groups, threads: *threads, grid: None })?;
                }
            }
            Command::Use(resource) => {
                self.held.push(resource.state.clone());
                self.resident = None;
            }
            Command::Indirect { buffer, from, count } => self.indirect(buffer, *from, *count)?,
            Command::Fill { buffer, offset, len, byte } => fill(&buffer.state, *offset, *len, *byte),
            Command::Copy { from, from_offset, to, to_offset, len } => {
                copy(&from.state, *from_offset, &to.state, *to_offset, *len);
            }
        }
        Ok(())
    }

    fn dispatch(&mut self, grid: Grid) -> Result<(), Failed> {
        let Some(pipeline) = self.pipeline else { return Ok(()) };
        let (bindings, threadgroup) = (self.bindings, self.threadgroup);
        self.run_kernel(pipeline, &bindings, &threadgroup, grid)
    }

    fn run_kernel(
        &mut self,
        pipeline: &PipelineFacts,
        bindings: &[Option<Binding>; 31],
        threadgroup: &[u32; 31],
        grid: Grid,
    ) -> Result<(), Failed> {
        let buffers =
            bindings.map(|binding| binding.map(|at| Bound { address: at.base + at.offset, len: at.len - at.offset }));
        let held = &self.held;
        let resident =
            self.resident.get_or_insert_with(|| Residency::new(held.iter().filter_map(|state| state.range())));
        let Grid { groups, threads, grid } = grid;
        let dispatch = Dispatch { groups, threads, grid, buffers: &buffers, threadgroup, resident };
        self.machine.0.tally.dispatches.fetch_add(1, Ordering::Relaxed);
        pipeline.code.dispatch(&dispatch, self.machine.workers()).map_err(|violation| failed(&violation))
    }

    /// Runs commands that were recorded before.
    fn indirect(&mut self, buffer: &Ref<IndirectState>, from: usize, count: usize) -> Result<(), Failed> {
        let state = &buffer.state;
        let mut commands = state.commands.lock().get(from..from + count).unwrap_or_default().to_vec();
        // Commands between two barriers are concurrent.
        for concurrent in commands.chunk_by_mut(|_, next| !next.barrier) {
            shuffle(concurrent, self.machine);
        }
        for recorded in commands {
            let Some(grid) = recorded.grid else { continue };
            let inherited = self.pipeline;
            let pipeline = if state.inherits_pipeline { inherited } else { recorded.pipeline.as_deref() };
            let Some(pipeline) = pipeline else { continue };
            if !pipeline.life().lasts() {
                return Err(released(self.machine, &pipeline.describe()));
            }
            let mut bindings = if state.inherits_buffers { self.bindings } else { [None; 31] };
            for (index, buffer, offset) in &recorded.buffers {
                if !buffer.life().lasts() {
                    return Err(released(self.machine, &buffer.describe()));
                }
                let at = bound(buffer, *offset);
                if !self.held.iter().any(|held| held.range() == buffer.range()) {
                    let why = format!(
                        "{}: {} is bound by a command of an indirect command buffer, and is not resident",
                        pipeline.name,
                        buffer.describe()
                    );
                    return Err(Failed { code: MTLCommandBufferError::PageFault, why });
                }
                bindings[usize::from(*index)] = Some(at);
            }
            let mut threadgroup = if state.inherits_buffers { self.threadgroup } else { [0; 31] };
            for (index, len) in &recorded.threadgroup {
                threadgroup[usize::from(*index)] = *len;
            }
            self.run_kernel(pipeline, &bindings, &threadgroup, grid)?;
        }
        Ok(())
    }
}

/// Brings what may run at one time into an order of chance.
fn shuffle<T>(concurrent: &mut [T], machine: &Machine) {
    if machine.overlaps() {
        for last in (1..concurrent.len()).rev() {
            let other = machine.random(last as u64 + 1);
            concurrent.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

fn bound(buffer: &BufferState, offset: u64) -> Binding {
    Binding { base: buffer.gpu(), len: buffer.len() as u64, offset }
}

/// Metal's error of what a kernel did.
fn failed(violation: &Violation) -> Failed {
    let code = match violation {
        Violation::Timeout { .. } => MTLCommandBufferError::Timeout,
        Violation::NotResident { .. } | Violation::OutOfBounds { .. } | Violation::MisalignedAccess { .. } => {
            MTLCommandBufferError::PageFault
        }
        Violation::UnboundBuffer { .. } | Violation::ShortBuffer { .. } | Violation::UnboundThreadgroup { .. } => {
            MTLCommandBufferError::InvalidResource
        }
        _ => MTLCommandBufferError::Internal,
    };
    Failed { code, why: violation.to_string() }
}

/// Three words of a buffer, which the encoder found to be there.
fn words(buffer: &BufferState, offset: u64) -> [u32; 3] {
    // SAFETY: the encoder checked that twelve bytes lie at the offset, on four; the buffer lives.
    unsafe { ptr::read((buffer.host() + offset as usize) as *const [u32; 3]) }
}

fn fill(buffer: &BufferState, offset: usize, len: usize, byte: u8) {
    // SAFETY: the encoder checked the range, and the buffer lives.
    unsafe { ptr::write_bytes((buffer.host() + offset) as *mut u8, byte, len) };
}

fn copy(from: &BufferState, from_offset: usize, to: &BufferState, to_offset: usize, len: usize) {
    let (source, destination) = ((from.host() + from_offset) as *const u8, (to.host() + to_offset) as *mut u8);
    // SAFETY: the encoder checked both ranges, which do not overlap, and the buffers live.
    unsafe { ptr::copy_nonoverlapping(source, destination, len) };
}
