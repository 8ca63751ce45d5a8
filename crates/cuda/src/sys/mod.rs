//! CUDA's library: the one place that calls it.
//!
//! Three layers: `abi` holds CUDA's types, `table` finds its functions, and the calls here and in `code` and `graph` answer
//! with a [`Result`]. Calls that take a handle or an address are unsafe, and owe that it is alive; all else is safe.
//!
//! # Threads
//!
//! CUDA's calls may come from any thread. Most act in the context that is current on the calling thread: [`Current`] makes
//! one current, and leaves the thread's own as it was.

pub(crate) mod abi;
mod code;
mod graph;
mod memory;
pub(crate) mod stream;
mod table;

use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

use abi::{Code, Context};
use table::Table;

use crate::check::Obstacle;

/// The oldest version of CUDA's library: the one that states the parameters of functions.
const VERSION_LEAST: i32 = 12_040;

/// A call that did not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The function's name.
    pub call: &'static str,
    /// Its answer.
    pub code: Code,
}

/// The answer of a call.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// CUDA's library, open.
pub(crate) struct Api {
    table: Table,
}

/// `Ok` where the call succeeded.
#[inline]
fn ok(call: &'static str, code: Code) -> Result<()> {
    if code == Code::SUCCESS { Ok(()) } else { Err(Failure { call, code }) }
}

/// CUDA's library, which the first call opens; or why there is none.
pub(crate) fn api() -> std::result::Result<&'static Api, Obstacle> {
    static API: OnceLock<std::result::Result<Api, Obstacle>> = OnceLock::new();
    API.get_or_init(Api::open).as_ref().map_err(Clone::clone)
}

impl Api {
    fn open() -> std::result::Result<Api, Obstacle> {
        let api = Api { table: Table::open()? };
        let mut version = 0;
        // SAFETY: the call writes one number.
        let asked = ok("cuDriverGetVersion", unsafe { (api.table.version)(&raw mut version) });
        let refused = |failure: Failure| Obstacle::Refused { code: failure.code.0, why: api.describe(failure) };
        asked.map_err(refused)?;
        if version < VERSION_LEAST {
            let dotted = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
            let (is, least) = (dotted(version), dotted(VERSION_LEAST));
            let why = format!("NVIDIA's driver is for CUDA {is}: install one for CUDA {least} or later");
            return Err(Obstacle::OldDriver(why));
        }
        // SAFETY: the only flag that there is, is none.
        ok("cuInit", unsafe { (api.table.init)(0) }).map_err(refused)?;
        Ok(api)
    }

    /// A failure in CUDA's words, with the call and the number.
    pub fn describe(&self, Failure { call, code }: Failure) -> String {
        let text = |ask: unsafe extern "system" fn(Code, *mut *const c_char) -> Code| {
            let mut text = std::ptr::null();
            // SAFETY: the call writes one pointer.
            let found = unsafe { ask(code, &raw mut text) };
            if found != Code::SUCCESS || text.is_null() {
                return None;
            }
            // SAFETY: CUDA gives texts that last as long as the library, ended by a zero byte.
            Some(unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        let name = text(self.table.error_name).unwrap_or("a code that has no name".into());
        let what = text(self.table.error_string).unwrap_or("unknown to CUDA's library".into());
        format!("{what} ({name}, {}, answered by {call})", code.0)
    }

    // ---- GPUs ----

    /// How many GPUs there are.
    pub fn device_count(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: the call writes one number.
        ok("cuDeviceGetCount", unsafe { (self.table.device_count)(&raw mut count) })?;
        Ok(count)
    }

    /// The GPU of an ordinal, by CUDA's number.
    pub fn device(&self, ordinal: i32) -> Result<i32> {
        let mut device = 0;
        // SAFETY: the call writes one number.
        ok("cuDeviceGet", unsafe { (self.table.device_get)(&raw mut device, ordinal) })?;
        Ok(device)
    }

    /// What the GPU has of one of [`abi::device_attribute`].
    pub fn device_attribute(&self, device: i32, attribute: i32) -> Result<i32> {
        let mut value = 0;
        // SAFETY: the call writes one number.
        ok("cuDeviceGetAttribute", unsafe { (self.table.device_attribute)(&raw mut value, attribute, device) })?;
        Ok(value)
    }

    /// The bytes of the GPU's memory.
    pub fn device_bytes(&self, device: i32) -> Result<usize> {
        let mut bytes = 0;
        // SAFETY: the call writes one number.
        ok("cuDeviceTotalMem", unsafe { (self.table.device_bytes)(&raw mut bytes, device) })?;
        Ok(bytes)
    }

    /// The GPU's bus address, in CUDA's capitals.
    pub fn device_bus(&self, device: i32) -> Result<String> {
        let mut text = [0_u8; 64];
        // SAFETY: the call writes at most as many bytes as it is told that there are.
        let code = unsafe { (self.table.device_bus)(text.as_mut_ptr().cast(), text.len() as i32, device) };
        ok("cuDeviceGetPCIBusId", code)?;
        let text = CStr::from_bytes_until_nul(&text).unwrap_or_default();
        Ok(text.to_string_lossy().into_owned())
    }

    /// Whether the work of one GPU may reach another's memory.
    pub fn device_peer(&self, device: i32, other: i32) -> Result<bool> {
        let mut can = 0;
        // SAFETY: the call writes one number.
        ok("cuDeviceCanAccessPeer", unsafe { (self.table.device_peer)(&raw mut can, device, other) })?;
        Ok(can != 0)
    }

    // ---- contexts ----

    /// The GPU's primary context, which everything in the process shares. It is never released, so that it lasts as long as
    /// the process.
    pub fn context_retain(&self, device: i32) -> Result<Context> {
        let mut context = Context::NULL;
        // SAFETY: the call writes one handle.
        ok("cuDevicePrimaryCtxRetain", unsafe { (self.table.context_retain)(&raw mut context, device) })?;
        Ok(context)
    }

    /// Makes `context` current on this thread, until the answer is dropped. A thread that had none keeps it.
    #[inline]
    pub fn enter(&'static self, context: Context) -> Result<Current> {
        let mut now = Context::NULL;
        // SAFETY: the call writes one handle.
        ok("cuCtxGetCurrent", unsafe { (self.table.context_current)(&raw mut now) })?;
        if now == context {
            return Ok(Current { pushed: None });
        }
        if now == Context::NULL {
            // SAFETY: contexts are retained for as long as the process lives.
            ok("cuCtxSetCurrent", unsafe { (self.table.context_set)(context) })?;
            return Ok(Current { pushed: None });
        }
        // SAFETY: as above.
        ok("cuCtxPushCurrent", unsafe { (self.table.context_push)(context) })?;
        Ok(Current { pushed: Some(self) })
    }

    /// Lets the current context's work reach the memory of `other`.
    pub fn context_peer(&self, other: Context) -> Result<()> {
        // SAFETY: contexts are retained for as long as the process lives.
        ok("cuCtxEnablePeerAccess", unsafe { (self.table.context_peer)(other, 0) })
    }
}

/// A context that is current on this thread until this is dropped.
pub(crate) struct Current {
    /// Where the thread's own must come back.
    pushed: Option<&'static Api>,
}

impl Drop for Current {
    #[inline]
    fn drop(&mut self) {
        if let Some(api) = self.pushed {
            let mut popped = Context::NULL;
            // SAFETY: the call writes one handle. It takes off what `enter` pushed on this thread.
            let _ = unsafe { (api.table.context_pop)(&raw mut popped) };
        }
    }
}
