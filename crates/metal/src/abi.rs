//! What compiled code sees: `include/rig_metal.h`, in Rust.
//!
//! A fill in C, C++ or Objective-C is a function of the type [`CFill`]; [`c_fill`] makes a fill of it. It gets an encoder whose
//! functions do what [`Encoder`]'s methods do. Objects are given without a reference (+0): code that keeps one retains it.
//! Functions answer 0, or another number for an error, whose text they write to the caller's bytes.
//!
//! # Invariants
//!
//! 1. The structs have the layout of the header's: const asserts here, and a test compiles the header.
//! 2. A record names its capability, and an encoder its fill's [`Encoder`], by `context`; each is alive while the code that
//!    was given it may use it.

use std::ffi::{c_char, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicPtr, Ordering};

use rig_edge::Slot;

use crate::capability::Capability;
use crate::code::Entry;
use crate::encoder::Encoder;
use crate::icb::{Icb, IndirectLaunch};

/// The version of the structs.
const VERSION: u32 = 1;

/// What a launch of a function reads: `struct rig_metal_launch`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Launch {
    /// The pipeline: an `id<MTLComputePipelineState>`.
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

/// The memory of a slot: `struct rig_metal_slot`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSlot {
    /// The GPU address of the first byte.
    pub gpu: u64,
    /// The host address of the first byte.
    pub host: *mut c_void,
    /// The bytes.
    pub len: u64,
    /// The buffer that holds it: an `id<MTLBuffer>`.
    pub buffer: *const c_void,
    /// Where in the buffer it starts.
    pub offset: u64,
}

/// An encoder: `struct rig_metal_encoder`.
#[repr(C)]
pub struct CEncoder {
    version: u32,
    reserved: u32,
    context: *mut c_void,
    device: *const c_void,
    compute: extern "C" fn(*mut CEncoder) -> *const c_void,
    command_buffer: extern "C" fn(*mut CEncoder) -> *const c_void,
    fence: extern "C" fn(*mut CEncoder) -> *const c_void,
    end: extern "C" fn(*mut CEncoder) -> i32,
    next: extern "C" fn(*mut CEncoder) -> i32,
    execute: extern "C" fn(*mut CEncoder, *const c_void) -> i32,
    why: *mut c_char,
    why_bytes: usize,
}

/// One launch of an indirect command buffer: `struct rig_metal_indirect`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CIndirect {
    /// The function's entry, as [`entry`] gives it.
    pub entry: *const c_void,
    /// Its parameters.
    pub params: *const c_void,
    /// Their bytes.
    pub params_len: u64,
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of threadgroup memory 0.
    pub group_bytes: u32,
    /// Zero.
    pub reserved: u32,
}

/// A device's record: `struct rig_metal`.
#[repr(C)]
pub struct Record {
    version: u32,
    align: u32,
    context: AtomicPtr<c_void>,
    device: *const c_void,
    icb: unsafe extern "C" fn(*const Record, *const CIndirect, usize, *mut c_char, usize) -> *mut c_void,
    icb_release: unsafe extern "C" fn(*mut c_void),
}

// SAFETY: addresses of objects that may be used from any thread, and of functions.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Send for Record {}
// SAFETY: as for Send; the one field that changes is atomic.
#[expect(unsafe_code, reason = "addresses are plain data")]
unsafe impl Sync for Record {}

const _: () = {
    assert!(size_of::<Launch>() == 16 && offset_of!(Launch, group_bytes) == 12);
    assert!(size_of::<CSlot>() == 40 && offset_of!(CSlot, offset) == 32);
    assert!(size_of::<CEncoder>() == 88 && offset_of!(CEncoder, compute) == 24 && offset_of!(CEncoder, why) == 72);
    assert!(size_of::<CIndirect>() == 56 && offset_of!(CIndirect, groups) == 24);
    assert!(size_of::<Record>() == 40 && offset_of!(Record, icb) == 24);
};

/// A fill in compiled code: `rig_metal_fill`. It gets an encoder, the slots and their number, and what `c_fill` was given.
pub type CFill = unsafe extern "C" fn(*mut CEncoder, *const CSlot, usize, *mut c_void) -> i32;

/// The longest reason that a fill in compiled code gives, with its zero byte.
const WHY_BYTES: usize = 1024;

/// A fill of a function in compiled code, and of a pointer that it gets at each call.
///
/// # Safety
///
/// The function does what a fill may, from any thread, one call at a time for each device; `user` is what it expects, for as
/// long as the submission lives.
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
            version: VERSION,
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
pub fn entry(entry: &Entry) -> *const c_void {
    std::ptr::from_ref(entry).cast()
}

/// An indirect command buffer for compiled code, a `rig_metal_icb`: lent for as long as `icb` is.
pub fn icb(icb: &Icb) -> *const c_void {
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

extern "C" fn execute(given: *mut CEncoder, icb: *const c_void) -> i32 {
    // SAFETY: compiled code gives an indirect command buffer that `icb` or `make_icb` gave, and that is alive.
    #[expect(unsafe_code, reason = "compiled code gives an address")]
    let icb = unsafe { &*icb.cast::<Icb>() };
    with(given, |encoder| encoder.execute(icb)).map_or(1, |()| 0)
}

/// The record of a device, whose capability is not known yet.
pub(crate) fn record(device: *const c_void, alignment: usize) -> Record {
    Record {
        version: VERSION,
        align: alignment as u32,
        context: AtomicPtr::new(std::ptr::null_mut()),
        device,
        icb: make_icb,
        icb_release: release_icb,
    }
}

impl Record {
    /// The record as compiled code takes it, with its capability.
    pub(crate) fn give(&self, capability: &Capability) -> *const c_void {
        // ORDERING: Release: pairs with the Acquire of `make_icb`. Every call stores the same address while the capability
        // stays where it is, and after it has moved the new one.
        self.context.store(std::ptr::from_ref(capability).cast_mut().cast(), Ordering::Release);
        std::ptr::from_ref(self).cast()
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
) -> *mut c_void {
    let made = crate::sys::guard_panics(|| {
        // SAFETY: the caller's promise.
        let record = unsafe { &*record };
        // SAFETY: `give` put a capability there, which is alive: the caller's promise.
        let capability = unsafe { record.context.load(Ordering::Acquire).cast::<Capability>().as_ref() };
        let capability = capability.ok_or("the record is of no device")?;
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
        capability.icb(&launches)
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
unsafe extern "C" fn release_icb(icb: *mut c_void) {
    if !icb.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(icb.cast::<Icb>()) });
    }
}
