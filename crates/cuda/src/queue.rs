//! The stream: how a plan's steps go on it, and how a value ends.
//!
//! # Memory ordering
//!
//! The node that counts and the stream's write both make everything before them seen by the host before the word.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use rig_edge::{Block, Launch, Part, Work};

use crate::Cuda;
use crate::code::Entry;
use crate::counter::Counter;
use crate::fault::reason;
use crate::gpu::Gpu;
use crate::plan::resolve;
use crate::sys::Result;
use crate::sys::abi::Stream;
use crate::sys::stream::Shape;
use crate::work::Plan;

/// What a fill encodes with: the device's stream, with the GPU's context current on the thread.
///
/// What the fill puts on the stream runs in the fill's place. It must leave the context current, and the stream free of
/// captures.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
/// use rig_cuda::Cuda;
/// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
/// // A fill calls a library that puts work on a stream: the device's own, so the work runs in the fill's place.
/// let stream = capability.stream.addr();
/// let step = device.submission().fill::<Cuda>([rig::write(0)], move |encoder, slots| {
///     let (at, len) = (slots[0].device, slots[0].len);
///     println!("a library's work on {len} bytes at {at:#x} goes here");
///     if encoder.stream().addr() == stream { Ok(()) } else { Err("another device's stream".to_owned()) }
/// });
/// let x = device.buffer(64)?;
/// // SAFETY: the fill touches nothing.
/// unsafe { step.make()?.take().launch(&[&x])?.wait()? };
/// # Ok(())
/// # }
/// ```
pub struct Encoder<'a> {
    stream: Stream,
    gpu: &'static Gpu,
    lent: PhantomData<&'a ()>,
}

impl Encoder<'_> {
    /// The stream: a `CUstream`, lent for the fill alone. CUDA's runtime and its libraries take it as a `cudaStream_t`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let stream = capability.stream.addr();
    /// let step = device.submission().fill::<rig_cuda::Cuda>([], move |encoder, _| {
    ///     // As cublasSetStream takes it, among others.
    ///     let lent = encoder.stream();
    ///     if lent.addr() == stream { Ok(()) } else { Err("not the device's stream".to_owned()) }
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(&self) -> *mut c_void {
        self.stream.0
    }

    /// The GPU's primary context: a `CUcontext`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let context = capability.context.addr();
    /// let step = device.submission().fill::<rig_cuda::Cuda>([], move |encoder, _| {
    ///     // It is current here, so calls that take none act on it.
    ///     if encoder.context().addr() == context { Ok(()) } else { Err("not the GPU's context".to_owned()) }
    /// });
    /// // SAFETY: the fill touches nothing.
    /// unsafe { step.make()?.take().launch(&[])?.wait()? };
    /// # Ok(())
    /// # }
    /// ```
    pub fn context(&self) -> *mut c_void {
        self.gpu.context().0
    }

    /// Puts a store on the stream: once everything that was put there before has run, the counter shows `value`.
    ///
    /// # Errors
    ///
    /// CUDA's words, where it refuses the store.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let Ok(device) = rig::open(rig_cuda::gpu(0)) else { return Ok(()) };
    /// use std::sync::Arc;
    /// let capability = device.capability::<rig_cuda::Cuda>().expect("a device of CUDA's has one");
    /// let counter = Arc::new(capability.counter()?);
    /// let in_fill = Arc::clone(&counter);
    /// let step = device.submission().memset(0, 1).fill::<rig_cuda::Cuda>([], move |encoder, _| encoder.count(&in_fill, 1));
    /// let x = device.buffer(1 << 20)?;
    /// // SAFETY: the fill touches no memory but the counter.
    /// let point = unsafe { step.make()?.take().launch(&[&x])? };
    /// point.wait()?;
    /// // The memset has run, and so has what raises the counter behind it.
    /// assert_eq!(counter.value(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn count(&mut self, counter: &Counter, value: u64) -> std::result::Result<(), String> {
        // SAFETY: the stream is lent for the fill, and counters last as long as the process.
        #[expect(unsafe_code, reason = "writes a counter")]
        let written = unsafe { self.gpu.api.stream_write(self.stream, counter.address, value) };
        written.map_err(|failure| reason(self.gpu.api, failure))
    }
}

impl Cuda {
    /// Puts the waits, the steps and the store of the word on the stream.
    ///
    /// # Safety
    ///
    /// As [`submit`](rig_edge::Driver::submit).
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    pub(crate) unsafe fn put(
        &self,
        value: u64,
        plan: &mut Plan,
        parts: &[Part<Cuda>],
        work: &Work<'_>,
    ) -> std::result::Result<(), String> {
        let failed = |failure| reason(self.gpu.api, failure);
        let _current = self.gpu.enter().map_err(failed)?;
        for wait in work.waits {
            let word = self.gpu.word(wait.word);
            // SAFETY: the stream lives until `stop`, and the table of words for ever.
            unsafe { self.gpu.api.stream_wait(self.stream, word, wait.value) }.map_err(failed)?;
        }
        let Some(times) = work.times else {
            // SAFETY: the caller's promise.
            return unsafe { self.put_steps(value, plan, parts, work) };
        };
        let started = self.gpu.time_from(self.stream).map_err(failed)?;
        // SAFETY: the caller's promise.
        let put = unsafe { self.put_steps(value, plan, parts, work) };
        // Also behind work that failed: the events go with the settle.
        put.and(self.gpu.time_to(started, self.stream, times).map_err(failed))
    }

    /// Puts the steps and the store of the word on the stream.
    #[inline]
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put_steps(
        &self,
        value: u64,
        plan: &mut Plan,
        parts: &[Part<Cuda>],
        work: &Work<'_>,
    ) -> std::result::Result<(), String> {
        let failed = |failure| reason(self.gpu.api, failure);
        for step in &plan.steps {
            if let Some(patched) = step.graph(work.apart)
                && patched.goes(work)
            {
                if patched.counts {
                    self.count_to(value).map_err(failed)?;
                }
                // SAFETY: the hot calls run one at a time; the memory and code are the caller's promise.
                unsafe { patched.graph.launch(self.stream) }.map_err(failed)?;
                if patched.counts {
                    return Ok(());
                }
                continue;
            }
            for index in step.parts.clone() {
                // SAFETY: the caller's promise.
                unsafe { self.put_part(&work.blocks[index], &parts[index], work, &mut plan.stage) }
                    .map_err(|why| format!("part {index}: {why}"))?;
            }
        }
        // SAFETY: the word lasts as long as the process; nothing else on the GPU writes it now.
        unsafe { self.gpu.api.stream_write(self.stream, self.word_at, value) }.map_err(failed)
    }

    /// Sees that the counter stands one before `value` when the next graph counts it up: values that ended with a write left it
    /// behind.
    #[inline]
    fn count_to(&self, value: u64) -> Result<()> {
        // ORDERING: Relaxed: only the hot calls touch it, and one runs at a time.
        if self.counted.load(Ordering::Relaxed) != value - 1 {
            // SAFETY: the counter lasts as long as the process, and on the GPU only this stream's work writes it.
            #[expect(unsafe_code, reason = "writes the device's counter")]
            unsafe { self.gpu.api.stream_write(self.stream, self.counter_at, value - 1) }?;
        }
        self.counted.store(value, Ordering::Relaxed);
        Ok(())
    }

    /// Puts one part on the stream.
    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put_part(
        &self,
        block: &Block,
        part: &Part<Cuda>,
        work: &Work<'_>,
        stage: &mut [u8],
    ) -> std::result::Result<(), String> {
        let (api, stream) = (self.gpu.api, self.stream);
        let done = match part {
            Part::Launch(launch) => {
                // SAFETY: the caller's promise.
                unsafe { self.put_launch(launch, block, work, stage) }
            }
            Part::Copy(copy) => {
                let (from, to) = (work.slots[copy.from as usize], work.slots[copy.to as usize]);
                // CUDA takes no copy of nothing from addresses of nothing.
                if from.len == 0 {
                    return Ok(());
                }
                // SAFETY: both slots have these bytes, and outlive the work: the caller's promise.
                unsafe { api.copy(stream, from.device, to.device, from.len.min(to.len) as usize) }
            }
            Part::Memset(memset) => {
                let slot = work.slots[memset.slot as usize];
                if slot.len == 0 {
                    return Ok(());
                }
                // SAFETY: the slot has these bytes, and outlives the work: the caller's promise.
                unsafe { api.memset(stream, slot.device, memset.byte, slot.len as usize) }
            }
            Part::Fill(fill) => {
                let mut encoder = Encoder { stream, gpu: self.gpu, lent: PhantomData };
                return (fill.code)(&mut encoder, work.slots);
            }
        };
        done.map_err(|failure| reason(api, failure))
    }

    #[expect(unsafe_code, reason = "the caller owes the memory")]
    unsafe fn put_launch(
        &self,
        launch: &Launch<Entry>,
        block: &Block,
        work: &Work<'_>,
        stage: &mut [u8],
    ) -> Result<()> {
        let params = work.params_of(block);
        let stage = &mut stage[..params.len()];
        resolve(params, &launch.refs, work.slots, stage);
        // SAFETY: the function is loaded, and has parameters of this length, which `room` saw; the rest is the caller's
        // promise.
        unsafe { self.gpu.api.launch(self.stream, launch.entry.function, &Shape::of(block), stage) }
    }
}
