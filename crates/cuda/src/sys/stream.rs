//! Calls on streams.
//!
//! The unsafe ones owe that the stream is alive, and that the addresses are those of memory that stays until the work is
//! done.

use super::abi::{
    EVENT_DEFAULT, Event, Function, STREAM_NON_BLOCKING, Stream, WAIT_VALUE_GEQ, WRITE_VALUE_DEFAULT, extra,
};
use super::{Api, Code, Failure, Result, ok};

/// What of a launch is no parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// Group memory beside what the function declares.
    pub group_bytes: u32,
}

impl Shape {
    /// One group of one thread.
    pub const ONE: Shape = Shape { groups: [1; 3], threads: [1; 3], group_bytes: 0 };
}

impl Api {
    /// A stream of the current context that does not wait for the default stream.
    pub fn stream_create(&self) -> Result<Stream> {
        let mut stream = Stream::NULL;
        // SAFETY: the call writes one handle.
        ok("cuStreamCreate", unsafe { (self.table.stream_create)(&raw mut stream, STREAM_NON_BLOCKING) })?;
        Ok(stream)
    }

    /// Gives a stream back; its work goes on.
    pub unsafe fn stream_destroy(&self, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuStreamDestroy", unsafe { (self.table.stream_destroy)(stream) })
    }

    /// Whether all of the stream's work is done.
    pub unsafe fn stream_query(&self, stream: Stream) -> Result<bool> {
        // SAFETY: the caller's promise.
        match unsafe { (self.table.stream_query)(stream) } {
            Code::SUCCESS => Ok(true),
            Code::NOT_READY => Ok(false),
            code => Err(Failure { call: "cuStreamQuery", code }),
        }
    }

    /// Waits until all of the stream's work is done.
    pub unsafe fn stream_synchronize(&self, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuStreamSynchronize", unsafe { (self.table.stream_synchronize)(stream) })
    }

    /// Holds the stream's later work until the 64 bits at `address` are `value` or more.
    pub unsafe fn stream_wait(&self, stream: Stream, address: u64, value: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuStreamWaitValue64", unsafe { (self.table.stream_wait)(stream, address, value, WAIT_VALUE_GEQ) })
    }

    /// Writes the 64 bits at `address` after the stream's earlier work, whose writes the host sees before it.
    pub unsafe fn stream_write(&self, stream: Stream, address: u64, value: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuStreamWriteValue64", unsafe { (self.table.stream_write)(stream, address, value, WRITE_VALUE_DEFAULT) })
    }

    /// An event that keeps its time.
    pub fn event_create(&self) -> Result<Event> {
        let mut event = Event::NULL;
        // SAFETY: the call writes one handle.
        ok("cuEventCreate", unsafe { (self.table.event_create)(&raw mut event, EVENT_DEFAULT) })?;
        Ok(event)
    }

    /// Gives an event back, also before the stream has met it.
    pub unsafe fn event_destroy(&self, event: Event) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuEventDestroy", unsafe { (self.table.event_destroy)(event) })
    }

    /// Puts an event on the stream.
    pub unsafe fn event_record(&self, event: Event, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuEventRecord", unsafe { (self.table.event_record)(event, stream) })
    }

    /// Waits until the stream has met the event.
    pub unsafe fn event_synchronize(&self, event: Event) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuEventSynchronize", unsafe { (self.table.event_synchronize)(event) })
    }

    /// The milliseconds from one event to another, both met.
    pub unsafe fn event_elapsed(&self, from: Event, to: Event) -> Result<f32> {
        let mut milliseconds = 0.0;
        // SAFETY: the caller's promise; the call writes one number.
        let code = unsafe { (self.table.event_elapsed)(&raw mut milliseconds, from, to) };
        ok("cuEventElapsedTime", code)?;
        Ok(milliseconds)
    }

    /// Copies between any two addresses of CUDA's address space.
    pub unsafe fn copy(&self, stream: Stream, from: u64, to: u64, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuMemcpyAsync", unsafe { (self.table.copy)(to, from, len, stream) })
    }

    /// Sets each of `len` bytes.
    pub unsafe fn memset(&self, stream: Stream, at: u64, byte: u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuMemsetD8Async", unsafe { (self.table.memset)(at, byte, len, stream) })
    }

    /// Launches a function with parameters as bytes, which CUDA copies.
    pub unsafe fn launch(&self, stream: Stream, function: Function, shape: &Shape, params: &mut [u8]) -> Result<()> {
        let Shape { groups: [x, y, z], threads: [a, b, c], group_bytes } = *shape;
        let mut len = params.len();
        let mut list = extra(params.as_mut_ptr(), &raw mut len);
        let list = if params.is_empty() { std::ptr::null_mut() } else { list.as_mut_ptr() };
        let none = std::ptr::null_mut();
        // SAFETY: the list and what it names live to the end of the call, which copies the parameters; the rest is the
        // caller's promise.
        let code = unsafe { (self.table.launch)(function, x, y, z, a, b, c, group_bytes, stream, none, list) };
        ok("cuLaunchKernel", code)
    }
}
