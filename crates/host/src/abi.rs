//! What compiled code sees of a host device: the one source of `include/rig_host.h`.
//!
//! A fill in C is a function of the type [`CFill`]; [`c_fill`] makes a fill of it. It gets an encoder whose functions do what
//! [`Encoder`]'s methods do. Functions answer 0, or another number for an error, whose text they write to the caller's bytes.
//!
//! `cargo xtask headers` makes the header of these definitions, of [`Group`](crate::Group)'s, and of `abi/head.h` and
//! `abi/tail.h`. The comments of what is exported are the header's too, so they speak to who writes C.
//!
//! # Invariants
//!
//! 1. The header is current, and a C compiler lays its structs out as these are: tests see to both.
//! 2. An encoder names its fill's [`Encoder`] by `context`, which is alive while the code that was given it may use it.

use std::ffi::{CStr, c_char, c_void};

use bytemuck::AnyBitPattern;
use rig_edge::Slot;

use crate::code::Entry;
use crate::encoder::{Encoder, FillLaunch};
use crate::work::caught;

/// The version of the structs of fills.
pub const RIG_HOST_VERSION: u32 = 1;

/// What an object says of the kernel NAME, in a variable rig_kernel_NAME.
#[derive(Clone, Copy, Debug, AnyBitPattern)]
#[repr(C)]
pub struct KernelRecord {
    /// 1.
    pub version: u32,
    /// 0: group kernel, 1: thread kernel.
    pub kind: u32,
    /// The bytes of its parameters; UINT32_MAX: unknown.
    pub params: u32,
    /// The bytes of group memory that it needs beside what a launch asks for.
    pub group_bytes: u32,
}

/// A function that rig resolved: rig_host::abi::entry gives it. Valid as long as rig's handle to the function is.
#[derive(Debug)]
pub struct CEntry(());

/// The memory that fills a slot. Only tasks may touch it.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CSlot {
    /// The address of the first byte.
    pub host: *mut c_void,
    /// Bytes.
    pub len: u64,
}

/// One launch of a fill. Its parameters are read by the kernel as they stand: addresses in them are of the fill's slots.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct CLaunch {
    /// The function.
    pub entry: *const CEntry,
    /// Its parameters, which are copied; they may be null where params_len is 0.
    pub params: *const c_void,
    /// Their bytes.
    pub params_len: u64,
    /// Groups along x, y, z.
    pub groups: [u32; 3],
    /// Threads of a group along x, y, z.
    pub threads: [u32; 3],
    /// The bytes of group memory beside what the function declares.
    pub group_bytes: u32,
    /// 0.
    pub reserved: u32,
}

/// A task in C. data is the copy of what was handed to the encoder with it. Answers 0, or another number to fail, which loses
/// the device: the reason is what the task leaves in why, text with a zero byte, at most why_bytes bytes with it.
pub type CTask = unsafe extern "C" fn(data: *mut c_void, why: *mut c_char, why_bytes: usize) -> i32;

/// What a fill encodes with, during the fill and on its thread. The functions add tasks, which run one after the other in the
/// place of the fill's part in the order of the work, on one thread, whichever it is.
#[derive(Debug)]
#[repr(C)]
pub struct CEncoder {
    /// RIG_HOST_VERSION.
    pub version: u32,
    reserved: u32,
    context: *mut c_void,
    /// Adds code. data_len bytes of data are copied, and the task gets the copy, which stands on 16 bytes; data may be null
    /// where data_len is 0.
    pub task: unsafe extern "C" fn(encoder: *mut CEncoder, task: CTask, data: *const c_void, data_len: usize) -> i32,
    /// Adds a launch of a function. It keeps the function's code.
    pub launch: unsafe extern "C" fn(encoder: *mut CEncoder, launch: *const CLaunch) -> i32,
    /// Adds a copy of len bytes between slots, whose ranges may overlap.
    pub copy: unsafe extern "C" fn(encoder: *mut CEncoder, from: *const c_void, to: *mut c_void, len: u64) -> i32,
    /// Adds a memset: sets len bytes of a slot to byte.
    pub set: unsafe extern "C" fn(encoder: *mut CEncoder, to: *mut c_void, byte: u8, len: u64) -> i32,
    /// Where a fill that answers an error leaves its reason: text with a zero byte, at most why_bytes bytes with it. A function
    /// of the encoder that answers an error has left its own there.
    pub why: *mut c_char,
    /// The bytes of why.
    pub why_bytes: usize,
}

/// A fill in C. user is what c_fill was given. It runs inside the submit, and must not touch the slots' memory itself, since
/// earlier work may still use it. Answers 0, or another number to fail the submit, which loses the device.
pub type CFill =
    unsafe extern "C" fn(encoder: *mut CEncoder, slots: *const CSlot, slot_count: usize, user: *mut c_void) -> i32;

/// The longest reason that compiled code gives, with its zero byte.
const WHY_BYTES: usize = 1024;

/// A task's data: lines of 16 bytes, for its alignment.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Line([u8; 16]);

/// A fill of a function in compiled code, and of a pointer that it gets at each call.
///
/// # Safety
///
/// The function does what a fill may, from any thread, one call at a time for each device; `user` is what it expects, for as
/// long as the submission lives. Its tasks, launches, copies and memsets touch no memory but that of the fill's slots, and read
/// and write it as the fill's refs say.
///
/// # Examples
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::Host;
/// use rig_host::abi::{CEncoder, CSlot, c_fill};
/// use std::ffi::c_void;
///
/// /// In C: `int32_t clear(rig_host_encoder *encoder, const rig_host_slot *slots, size_t slot_count, void *user)`.
/// unsafe extern "C" fn clear(encoder: *mut CEncoder, slots: *const CSlot, _: usize, _: *mut c_void) -> i32 {
///     // SAFETY: the fill has a slot.
///     let slot = unsafe { &*slots };
///     // SAFETY: rig gives an encoder, and the slot has these bytes.
///     unsafe { ((*encoder).set)(encoder, slot.host, 0, slot.len) }
/// }
///
/// // SAFETY: `clear` does what a fill may, and expects no pointer.
/// let fill = unsafe { c_fill(clear, std::ptr::null_mut()) };
/// let step = device.submission().fill::<Host>([rig::write(0)], fill).make()?;
/// # let x = device.from_slice(&[1_u8, 2, 3, 4])?;
/// # // SAFETY: the fill's tasks touch the 4 bytes of slot 0, and nothing else.
/// # unsafe { step.take().launch(&[&x])?.wait()? };
/// assert_eq!(x.to_vec()?, [0; 4]);
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
        let slots: Vec<CSlot> = slots.iter().map(|slot| CSlot { host: slot.host.cast(), len: slot.len }).collect();
        let mut why = [0_u8; WHY_BYTES];
        let mut given = CEncoder {
            version: RIG_HOST_VERSION,
            reserved: 0,
            context: std::ptr::from_mut(encoder).cast(),
            task,
            launch,
            copy,
            set,
            why: why.as_mut_ptr().cast(),
            why_bytes: WHY_BYTES,
        };
        let user = std::ptr::with_exposed_provenance_mut(user);
        // SAFETY: the maker's promise; the encoder and the slots last for the call.
        let answer = unsafe { fill(&raw mut given, slots.as_ptr(), slots.len(), user) };
        outcome("the fill", answer, &why)
    }
}

/// A function's entry for compiled code, a `rig_host_entry`: lent for as long as `entry` is.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// use rig_host::abi::{self, CLaunch};
///
/// let kernels = rig_host::Kernels::new().group("nothing", 0, |_, _| {});
/// let nothing = device.load(&kernels.image())?.function("nothing")?;
/// // What a fill in C is handed by its pointer, and hands on to the encoder's launch.
/// let launch = CLaunch {
///     entry: abi::entry(nothing.entry::<rig_host::Host>().expect("a function of the host's")),
///     params: std::ptr::null(),
///     params_len: 0,
///     groups: [1, 1, 1],
///     threads: [1, 1, 1],
///     group_bytes: 0,
///     reserved: 0,
/// };
/// assert!(!launch.entry.is_null());
/// # Ok(())
/// # }
/// ```
pub fn entry(entry: &Entry) -> *const CEntry {
    std::ptr::from_ref(entry).cast()
}

/// What compiled code answered, with the reason that it left.
fn outcome(what: &str, answer: i32, why: &[u8]) -> Result<(), String> {
    if answer == 0 {
        return Ok(());
    }
    let text = CStr::from_bytes_until_nul(why).map(|why| why.to_string_lossy().into_owned());
    Err(text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| format!("{what} answered {answer}")))
}

/// Calls a method of the encoder for compiled code, which gets 1 for an error, and the reason.
#[expect(unsafe_code, reason = "compiled code gives addresses")]
fn with(given: *mut CEncoder, call: impl FnOnce(&mut Encoder<'_>) -> Result<(), String>) -> i32 {
    // SAFETY: compiled code gives the encoder that it was given, during its fill, on the fill's thread.
    let given = unsafe { &mut *given };
    // SAFETY: `c_fill` put its encoder there, which nothing else uses while the fill runs.
    let encoder = unsafe { &mut *given.context.cast::<Encoder<'_>>() };
    // A panic must not cross compiled code that knows of none.
    let Err(why) = caught("the encoder", || call(encoder)) else { return 0 };
    if given.why_bytes > 0 && !given.why.is_null() {
        let mut cut = why.len().min(given.why_bytes - 1);
        while !why.is_char_boundary(cut) {
            cut -= 1;
        }
        let to = given.why.cast::<u8>();
        // SAFETY: so many bytes are there to be written: the encoder says it, and compiled code may only lower it.
        unsafe { to.copy_from_nonoverlapping(why.as_ptr(), cut) };
        // SAFETY: as above, and `cut` is below their number.
        let end = unsafe { to.add(cut) };
        // SAFETY: as above.
        unsafe { end.write(0) };
    }
    1
}

/// Bytes that compiled code gives: none where there are 0, whatever the address.
///
/// # Safety
///
/// So many bytes lie there for as long as the slice is used.
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), len) }
}

/// Adds code of the fill's as a task.
///
/// # Safety
///
/// As the header says: `data` is `data_len` bytes, and the task does what one may.
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe extern "C" fn task(given: *mut CEncoder, code: CTask, data: *const c_void, data_len: usize) -> i32 {
    with(given, |encoder| {
        // SAFETY: the caller's promise.
        let data = unsafe { bytes(data, data_len) };
        let mut lines: Vec<Line> = data
            .chunks(16)
            .map(|bytes| {
                let mut line = Line([0; 16]);
                line.0[..bytes.len()].copy_from_slice(bytes);
                line
            })
            .collect();
        encoder.task(move || {
            let mut why = [0_u8; WHY_BYTES];
            // SAFETY: the code does what a task may: the caller's promise. Its data and the bytes for its reason last for the call.
            let answer = unsafe { code(lines.as_mut_ptr().cast(), why.as_mut_ptr().cast(), WHY_BYTES) };
            outcome("a task of a fill", answer, &why)
        });
        Ok(())
    })
}

/// Adds a launch.
///
/// # Safety
///
/// As the header says: the launch's entry is alive, and its parameters are as many bytes as it says, of the form that the kernel
/// expects.
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe extern "C" fn launch(given: *mut CEncoder, launch: *const CLaunch) -> i32 {
    with(given, |encoder| {
        // SAFETY: the caller's promise.
        let launch = unsafe { &*launch };
        // SAFETY: the caller's promise: `entry` gave it, and it is alive.
        let entry = unsafe { &*launch.entry.cast::<Entry>() };
        // SAFETY: the caller's promise.
        let params = unsafe { bytes(launch.params, launch.params_len as usize) };
        let &CLaunch { groups, threads, group_bytes, .. } = launch;
        let launch = FillLaunch { entry, params, groups, threads, group_bytes };
        // SAFETY: the promise of who made the fill: its launches keep to the fill's slots and refs.
        unsafe { encoder.launch(&launch) }
    })
}

/// Adds a copy.
///
/// # Safety
///
/// As for [`Encoder::copy`].
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe extern "C" fn copy(given: *mut CEncoder, from: *const c_void, to: *mut c_void, len: u64) -> i32 {
    with(given, |encoder| {
        // SAFETY: the caller's promise.
        unsafe { encoder.copy(from.cast(), to.cast(), len as usize) };
        Ok(())
    })
}

/// Adds a memset.
///
/// # Safety
///
/// As for [`Encoder::memset`].
#[expect(unsafe_code, reason = "compiled code gives addresses")]
unsafe extern "C" fn set(given: *mut CEncoder, to: *mut c_void, byte: u8, len: u64) -> i32 {
    with(given, |encoder| {
        // SAFETY: the caller's promise.
        unsafe { encoder.memset(to.cast(), byte, len as usize) };
        Ok(())
    })
}

#[cfg(test)]
#[path = "abi_tests.rs"]
mod tests;
