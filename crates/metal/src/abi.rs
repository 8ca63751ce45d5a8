//! What compiled code sees: the one source of `include/rig_metal.h`.
//!
//! A fill in C, C++ or Objective-C is a function of the type [`CFill`]; [`c_fill`] makes a fill of it. It gets an encoder whose
//! functions do what [`Encoder`]'s methods do. Objects are given without a reference (+0): code that keeps one retains it.
//! Functions answer 0, or another number for an error, whose text they write to the caller's bytes.
//!
//! `cargo xtask headers` makes the header of these definitions, of `abi/head.h` and `abi/tail.h`. The comments of what is
//! exported are the header's too, so they speak to who writes C.
//!
//! # Invariants
//!
//! 1. The header is current, and a C compiler lays its structs out as these are: tests see to both.
//! 2. A record names its capability's `Made`, and an encoder its fill's [`Encoder`], by `context`; each is alive while the code
//!    that was given it may use it.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use rig_edge::Slot;

use crate::capability::Made;
use crate::code::Entry;
use crate::encoder::Encoder;
use crate::icb::{Icb, IndirectLaunch};

/// The version of the structs.
pub const RIG_METAL_VERSION: u32 = 1;

/// What a launch of a function reads (rig_metal::Entry::launch): its pipeline and its limits. Valid as the entry is.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Launch {
    /// `id<MTLComputePipelineState>`
    pub pipeline: *const c_void,
    /// The most threads of a group.
    pub threads: u32,
    /// The bytes of threadgroup memory that the function declares itself.
    pub group_bytes: u32,
}

// SAFETY: an address, which nothing here reads through, and two numbers.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Send for Launch {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Sync for Launch {}

/// The memory that fills a slot.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSlot {
    /// The GPU address of the first byte.
    pub gpu: u64,
    /// The host address of the first byte; the memory is shared.
    pub host: *mut c_void,
    /// Bytes.
    pub len: u64,
    /// `id<MTLBuffer>` that holds it.
    pub buffer: *const c_void,
    /// Where in the buffer it starts.
    pub offset: u64,
}

/// A function that rig resolved: rig_metal::abi::entry gives it.
#[derive(Debug)]
pub struct CEntry(());

/// An indirect command buffer: a record's icb makes one, and rig_metal::abi::icb lends one that was made in Rust.
#[derive(Debug)]
pub struct CIcb(());

/// What a fill encodes with, during the fill and on its thread.
#[derive(Debug)]
#[repr(C)]
pub struct CEncoder {
    /// RIG_METAL_VERSION.
    pub version: u32,
    reserved: u32,
    context: *mut c_void,
    /// `id<MTLDevice>`
    pub device: *const c_void,
    /// The open compute encoder, an `id<MTLComputeCommandEncoder>` of the serial kind, which rig ends; a new one after end. Null
    /// for an error.
    pub compute: extern "C" fn(encoder: *mut CEncoder) -> *const c_void,
    /// The open command buffer, an `id<MTLCommandBuffer>`, which rig commits. Null for an error.
    pub command_buffer: extern "C" fn(encoder: *mut CEncoder) -> *const c_void,
    /// The fence, an `id<MTLFence>`, that encoders of the fill's own wait for first and update last. Null for an error.
    pub fence: extern "C" fn(encoder: *mut CEncoder) -> *const c_void,
    /// Ends the compute encoder, so that the fill may make encoders of its own in the command buffer, which it ends itself.
    pub end: extern "C" fn(encoder: *mut CEncoder) -> i32,
    /// Commits the command buffer and opens the next one. May block while the device has 1,024 of them.
    pub next: extern "C" fn(encoder: *mut CEncoder) -> i32,
    /// Runs all launches of an indirect command buffer of this device.
    pub execute: extern "C" fn(encoder: *mut CEncoder, icb: *const CIcb) -> i32,
    /// Where a fill that answers an error leaves its reason: text with a zero byte, at most why_bytes bytes with it. A function
    /// of the encoder that answers an error has left its own there.
    pub why: *mut c_char,
    /// The bytes of why.
    pub why_bytes: usize,
}

/// A fill. user is what c_fill was given. Answers 0, or another number to fail the submit, which loses the device.
pub type CFill =
    unsafe extern "C" fn(encoder: *mut CEncoder, slots: *const CSlot, slot_count: usize, user: *mut c_void) -> i32;

/// One launch of an indirect command buffer. Its parameters are read by the kernel as they stand: GPU addresses in them are of
/// memory that is a slot of each fill that runs the launch.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CIndirect {
    /// The function.
    pub entry: *const CEntry,
    /// Kernel buffer 0; unless params_len is 0.
    pub params: *const c_void,
    /// The bytes of params.
    pub params_len: u64,
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of threadgroup memory 0.
    pub group_bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// A device's record (rig_metal::Capability::record).
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// RIG_METAL_VERSION.
    pub version: u32,
    /// The least alignment of a constant buffer's offset: 4 on GPUs of an Apple family, 256 on others.
    pub align: u32,
    context: *const c_void,
    /// `id<MTLDevice>`
    pub device: *const c_void,
    /// Records launches; not in a fill. Null for an error, with its text in why, cut to why_bytes bytes. Runs one launch after
    /// the other, and keeps their pipelines.
    pub icb: unsafe extern "C" fn(
        record: *const Record,
        launches: *const CIndirect,
        count: usize,
        why: *mut c_char,
        why_bytes: usize,
    ) -> *mut CIcb,
    /// Releases one; work that runs it may still be in flight.
    pub icb_release: unsafe extern "C" fn(icb: *mut CIcb),
}

// SAFETY: addresses of objects that may be used from any thread, and of functions.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Send for Record {}
// SAFETY: as for Send.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Sync for Record {}

/// The longest reason that a fill in compiled code gives, with its zero byte.
const WHY_BYTES: usize = 1024;

/// A fill of a function in compiled code, and of a pointer that it gets at each call.
///
/// # Safety
///
/// The function does what a fill may, from any thread, one call at a time for each device; `user` is what it expects, for as
/// long as the submission lives.
///
/// # Examples
///
/// ```
#[doc = include_str!("example_head.txt")]
/// use rig_metal::abi::{CEncoder, CSlot, c_fill};
/// use std::ffi::c_void;
///
/// /// In C: `int32_t next(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user)`.
/// unsafe extern "C" fn next(encoder: *mut CEncoder, slots: *const CSlot, _: usize, _: *mut c_void) -> i32 {
///     // SAFETY: the fill has a slot.
///     let slot = unsafe { &*slots };
///     // SAFETY: rig gives an encoder.
///     if slot.len == 256 { unsafe { ((*encoder).next)(encoder) } } else { 1 }
/// }
///
/// // SAFETY: `next` does what a fill may, and expects no pointer.
/// let fill = unsafe { c_fill(next, std::ptr::null_mut()) };
/// let step = device.submission().fill::<rig_metal::Metal>([rig::read(0)], fill).make()?;
/// // SAFETY: the fill touches nothing.
/// unsafe { step.take().launch(&[&y])?.wait()? };
/// # Ok(())
/// # }
/// ```
#[expect(unsafe_code, reason = "calls compiled code")]
pub unsafe fn c_fill(
    fill: CFill,
    user: *mut c_void,
) -> impl Fn(&mut Encoder<'_>, &[Slot]) -> Result<(), String> + Send + Sync + 'static {
    let user = user.expose_provenance();
    move |encoder, slots| {
        let slots: Vec<CSlot> = slots.iter().map(c_slot).collect();
        let mut why = [0u8; WHY_BYTES];
        let mut given = CEncoder {
            version: RIG_METAL_VERSION,
            reserved: 0,
            device: std::ptr::from_ref(encoder.device()).cast(),
            context: std::ptr::from_mut(encoder).cast(),
            compute,
            command_buffer,
            fence,
            end,
            next,
            execute,
            why: why.as_mut_ptr().cast(),
            why_bytes: WHY_BYTES,
        };
        let user = std::ptr::with_exposed_provenance_mut(user);
        // SAFETY: the maker's promise; the encoder and the slots last for the call.
        let answer = unsafe { fill(&raw mut given, slots.as_ptr(), slots.len(), user) };
        if answer == 0 {
            return Ok(());
        }
        let text = std::ffi::CStr::from_bytes_until_nul(&why).map(|why| why.to_string_lossy().into_owned());
        Err(text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| format!("the fill answered {answer}")))
    }
}

fn c_slot(slot: &Slot) -> CSlot {
    CSlot { gpu: slot.device, host: slot.host.cast(), len: slot.len, buffer: slot.handle, offset: slot.handle_offset }
}

/// A function's entry for compiled code, a `rig_metal_entry`: lent for as long as `entry` is.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
/// use rig_metal::abi::{self, CIndirect};
/// // What compiled code is handed, it puts into the launches that it records.
/// let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
/// let launch = CIndirect {
///     entry: abi::entry(entry),
///     params: params.as_ptr().cast(),
///     params_len: params.len() as u64,
///     groups: [1, 1, 1],
///     threads: [64, 1, 1],
///     group_bytes: 0,
///     reserved: 0,
/// };
/// let record = capability.record();
/// // SAFETY: the record and the launch last for the call, which is given no room for a reason.
/// let icb = unsafe { ((*record).icb)(record, &raw const launch, 1, std::ptr::null_mut(), 0) };
/// assert!(!icb.is_null());
/// // SAFETY: it was just made, and is not used again.
/// unsafe { ((*record).icb_release)(icb) };
/// # Ok(())
/// # }
/// ```
pub fn entry(entry: &Entry) -> *const CEntry {
    std::ptr::from_ref(entry).cast()
}

/// An indirect command buffer for compiled code, a `rig_metal_icb`: lent for as long as `icb` is.
///
/// ```
#[doc = include_str!("example_head.txt")]
/// # let capability = device.capability::<rig_metal::Metal>().ok_or("a device of another driver")?;
/// # let entry = iota.entry::<rig_metal::Metal>().ok_or("a function of another driver")?;
/// # let params = [&address.to_ne_bytes()[..], &64_u32.to_ne_bytes(), &7_u32.to_ne_bytes()].concat();
/// # let launch =
/// #     rig_metal::IndirectLaunch { entry, params: &params, groups: [1; 3], threads: [64, 1, 1], group_bytes: 0 };
/// # let icb = capability.icb(&[launch])?;
/// // Recorded in it is a launch of `iota`, which writes 64 numbers from 7 on to y.
/// use rig_metal::abi::{self, CEncoder, CIcb, CSlot, c_fill};
/// use std::ffi::c_void;
///
/// /// In C: runs the indirect command buffer that it is given as `user`.
/// unsafe extern "C" fn run(encoder: *mut CEncoder, _: *const CSlot, _: usize, user: *mut c_void) -> i32 {
///     // SAFETY: rig gives an encoder, and `user` is what the submission keeps.
///     unsafe { ((*encoder).execute)(encoder, user.cast_const().cast::<CIcb>()) }
/// }
///
/// let kept = Box::new(icb);
/// // SAFETY: `run` does what a fill may, and the submission keeps what it is given.
/// let fill = unsafe { c_fill(run, abi::icb(&kept).cast_mut().cast()) };
/// let step = device.submission().fill::<rig_metal::Metal>([rig::write(0)], fill).keep(kept);
/// // SAFETY: the fill writes the 64 numbers of slot 0, and touches nothing else.
/// unsafe { step.make()?.take().launch(&[&y])? };
/// assert_eq!(y.read(|y| y[63])?, 7 + 63);
/// # Ok(())
/// # }
/// ```
pub fn icb(icb: &Icb) -> *const CIcb {
    std::ptr::from_ref(icb).cast()
}

/// Writes a reason and its zero byte, cut where there is no room.
fn tell(why: &str, to: *mut c_char, bytes: usize) {
    if bytes == 0 || to.is_null() {
        return;
    }
    let mut cut = why.len().min(bytes - 1);
    while !why.is_char_boundary(cut) {
        cut -= 1;
    }
    // SAFETY: the caller gave this many bytes to write.
    #[expect(unsafe_code, reason = "writes compiled code's bytes")]
    let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<std::mem::MaybeUninit<u8>>(), cut + 1) };
    for (to, &byte) in to.iter_mut().zip(why.as_bytes()[..cut].iter().chain(&[0])) {
        to.write(byte);
    }
}

/// Calls a method of the encoder for compiled code, which gets null or 1 for an error, and the reason.
fn with<R>(given: *mut CEncoder, call: impl FnOnce(&mut Encoder<'_>) -> Result<R, String>) -> Option<R> {
    // SAFETY: compiled code gives the encoder that it was given, during its fill, on the fill's thread.
    #[expect(unsafe_code, reason = "compiled code gives an address")]
    let given = unsafe { &mut *given };
    // SAFETY: `c_fill` put its encoder there, which nothing else uses while the fill runs.
    #[expect(unsafe_code, reason = "compiled code gives an address")]
    let encoder = unsafe { &mut *given.context.cast::<Encoder<'_>>() };
    // An exception must not cross compiled code that knows of none.
    match crate::sys::guard_panics(|| call(encoder)) {
        Ok(answer) => Some(answer),
        Err(why) => {
            tell(&why, given.why, given.why_bytes);
            None
        }
    }
}

extern "C" fn compute(given: *mut CEncoder) -> *const c_void {
    with(given, |encoder| encoder.compute().map(|object| std::ptr::from_ref(object).cast())).unwrap_or(std::ptr::null())
}

extern "C" fn command_buffer(given: *mut CEncoder) -> *const c_void {
    let object = with(given, |encoder| encoder.command_buffer().map(|object| std::ptr::from_ref(object).cast()));
    object.unwrap_or(std::ptr::null())
}

extern "C" fn fence(given: *mut CEncoder) -> *const c_void {
    with(given, |encoder| encoder.fence().map(|object| std::ptr::from_ref(object).cast())).unwrap_or(std::ptr::null())
}

extern "C" fn end(given: *mut CEncoder) -> i32 {
    with(given, |encoder| encoder.end()).map_or(1, |()| 0)
}

extern "C" fn next(given: *mut CEncoder) -> i32 {
    with(given, |encoder| encoder.next_buffer()).map_or(1, |()| 0)
}

extern "C" fn execute(given: *mut CEncoder, icb: *const CIcb) -> i32 {
    // SAFETY: compiled code gives an indirect command buffer that `icb` or `make_icb` gave, and that is alive.
    #[expect(unsafe_code, reason = "compiled code gives an address")]
    let icb = unsafe { &*icb.cast::<Icb>() };
    with(given, |encoder| encoder.execute(icb)).map_or(1, |()| 0)
}

/// The record of a device that can do what `made` can, for as long as that lives.
pub(crate) fn record(made: &Arc<Made>) -> Record {
    Record {
        version: RIG_METAL_VERSION,
        align: made.alignment as u32,
        context: Arc::as_ptr(made).cast(),
        device: made.gpu.address(),
        icb: make_icb,
        icb_release: release_icb,
    }
}

/// Records launches for compiled code.
///
/// # Safety
///
/// As the header says: the record was given by a capability that is alive, and `launches` are as many as `count`.
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe extern "C" fn make_icb(
    record: *const Record,
    launches: *const CIndirect,
    count: usize,
    why: *mut c_char,
    why_bytes: usize,
) -> *mut CIcb {
    let made = crate::sys::guard_panics(|| {
        // SAFETY: the caller's promise.
        let record = unsafe { &*record };
        // SAFETY: `record` put it there, and the capability that keeps it is alive: the caller's promise.
        let device = unsafe { &*record.context.cast::<Made>() };
        let launches = if count == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(launches, count) }
        };
        let launches: Vec<IndirectLaunch<'_>> = launches
            .iter()
            .map(|launch| IndirectLaunch {
                // SAFETY: the caller's promise: `entry` gave it, and it is alive.
                entry: unsafe { &*launch.entry.cast::<Entry>() },
                params: if launch.params_len == 0 {
                    &[]
                } else {
                    // SAFETY: the caller's promise: as many bytes.
                    unsafe { std::slice::from_raw_parts(launch.params.cast(), launch.params_len as usize) }
                },
                groups: launch.groups,
                threads: launch.threads,
                group_bytes: launch.group_bytes,
            })
            .collect();
        device.icb(&launches)
    });
    match made {
        Ok(icb) => Box::into_raw(Box::new(icb)).cast(),
        Err(reason) => {
            tell(&reason, why, why_bytes);
            std::ptr::null_mut()
        }
    }
}

/// Releases what `make_icb` made, once and at any time: it lasts until its work is done.
///
/// # Safety
///
/// `make_icb` gave it, and it is not used again.
#[expect(unsafe_code, reason = "compiled code gives an address")]
unsafe extern "C" fn release_icb(icb: *mut CIcb) {
    if !icb.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(icb.cast::<Icb>()) });
    }
}

#[cfg(test)]
#[path = "abi_tests.rs"]
mod tests;
