//! NCCL's library: the one place that calls it.
//!
//! Three layers: `abi` holds NCCL's types, `table` finds the library and its functions, and the calls here answer with a
//! [`Result`]. Calls that take a communicator or addresses are unsafe, and owe that they are alive; all else is safe.
//!
//! # Threads
//!
//! NCCL's calls may come from any thread. Those that begin and end a group are the calling thread's own. [`Api::init`] acts on
//! the GPU whose context is current on the calling thread.

pub(crate) mod abi;
mod table;

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use abi::{Code, Comm, ID_BYTES, Stream, UniqueId};
use table::Table;

/// The oldest version: the one with `ncclCommFinalize` and buffers of 64-bit sizes in all collectives.
const VERSION_LEAST: i32 = 21_800;

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

/// NCCL's library, open.
pub(crate) struct Api {
    table: Table,
    version: i32,
}

/// Where an operation's bytes are: addresses of the device whose stream is given, and elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub from: u64,
    pub to: u64,
    pub count: usize,
    /// `ncclDataType_t`.
    pub kind: c_int,
}

/// `Ok` where the call succeeded.
fn ok(call: &'static str, code: Code) -> Result<()> {
    if code == Code::SUCCESS { Ok(()) } else { Err(Failure { call, code }) }
}

/// NCCL's library, which the first call opens; or why there is none.
pub(crate) fn api() -> std::result::Result<&'static Api, String> {
    static API: OnceLock<std::result::Result<Api, String>> = OnceLock::new();
    API.get_or_init(Api::open).as_ref().map_err(Clone::clone)
}

/// An address as NCCL takes it.
fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

impl Api {
    fn open() -> std::result::Result<Api, String> {
        let mut api = Api { table: Table::open()?, version: 0 };
        // SAFETY: the call writes one number.
        let asked = ok("ncclGetVersion", unsafe { (api.table.version)(&raw mut api.version) });
        asked.map_err(|failure| api.describe(failure, Comm::NULL))?;
        if api.version < VERSION_LEAST {
            return Err(format!("this is NCCL {}: install NCCL 2.18 or later", dotted(api.version)));
        }
        Ok(api)
    }

    /// The library's version as NCCL counts it: 22703 is 2.27.3.
    pub fn version(&self) -> i32 {
        self.version
    }

    /// A failure in NCCL's words, with the call and the number, and what NCCL noted last.
    pub fn describe(&self, Failure { call, code }: Failure, comm: Comm) -> String {
        // SAFETY: the call only looks a number up.
        let what = unsafe { (self.table.error_string)(code) };
        // SAFETY: NCCL's texts last as long as the library and end with a zero byte.
        let what = unsafe { text(what) };
        // SAFETY: the communicator may be null; NCCL does not look at it.
        let last = unsafe { (self.table.last_error)(comm) };
        // SAFETY: the text stays until this thread's next call that fails.
        let last = unsafe { text(last) };
        let last = if last.is_empty() { String::new() } else { format!(": {last}") };
        format!("NCCL: {what} ({}, answered by {call}){last}", code.0)
    }

    /// A new id for a communicator. Its maker must live until all ranks are connected.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; ID_BYTES]);
        // SAFETY: the call writes one id.
        ok("ncclGetUniqueId", unsafe { (self.table.unique_id)(&raw mut id) })?;
        Ok(id)
    }

    /// Begins a group on this thread.
    pub fn group_start(&self) -> Result<()> {
        // SAFETY: the call takes nothing.
        ok("ncclGroupStart", unsafe { (self.table.group_start)() })
    }

    /// Ends the thread's group: what was called in it happens.
    pub fn group_end(&self) -> Result<()> {
        // SAFETY: what the group's calls owe, they owed when they were made.
        ok("ncclGroupEnd", unsafe { (self.table.group_end)() })
    }

    /// Makes this rank's communicator, on the GPU whose context is current. In a group, it is made once the group ends, and
    /// `comm` must stay where it is until then.
    pub unsafe fn init(&self, comm: *mut Comm, ranks: i32, id: UniqueId, rank: i32) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("ncclCommInitRank", unsafe { (self.table.init)(comm, ranks, id, rank) })
    }

    /// Waits until all that the communicator was asked for is done, and gives it back.
    pub unsafe fn destroy(&self, comm: Comm) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("ncclCommFinalize", unsafe { (self.table.finalize)(comm) })?;
        // SAFETY: the caller's promise.
        ok("ncclCommDestroy", unsafe { (self.table.destroy)(comm) })
    }

    /// Ends all work of the communicator, whatever it has written, and gives it back.
    pub unsafe fn abort(&self, comm: Comm) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("ncclCommAbort", unsafe { (self.table.abort)(comm) })
    }

    /// What has gone wrong since, beside calls.
    pub unsafe fn async_error(&self, comm: Comm) -> Result<()> {
        let mut code = Code::SUCCESS;
        // SAFETY: the call writes one number; the communicator is the caller's promise.
        ok("ncclCommGetAsyncError", unsafe { (self.table.async_error)(comm, &raw mut code) })?;
        if code == Code::IN_PROGRESS { Ok(()) } else { ok("ncclCommGetAsyncError", code) }
    }
}

/// Calls that put work on a stream. The unsafe ones owe that the communicator and the stream are alive, of one device, that no
/// other such call on the communicator runs, and that the addresses are of memory that stays until the work is done.
impl Api {
    pub unsafe fn all_reduce(&self, data: Data, op: c_int, comm: Comm, stream: Stream) -> Result<()> {
        let (from, to) = (pointer(data.from), pointer(data.to));
        // SAFETY: the caller's promise.
        ok("ncclAllReduce", unsafe { (self.table.all_reduce)(from, to, data.count, data.kind, op, comm, stream) })
    }

    pub unsafe fn broadcast(&self, data: Data, root: c_int, comm: Comm, stream: Stream) -> Result<()> {
        let (from, to) = (pointer(data.from), pointer(data.to));
        // SAFETY: the caller's promise.
        ok("ncclBroadcast", unsafe { (self.table.broadcast)(from, to, data.count, data.kind, root, comm, stream) })
    }

    pub unsafe fn all_gather(&self, data: Data, comm: Comm, stream: Stream) -> Result<()> {
        let (from, to) = (pointer(data.from), pointer(data.to));
        // SAFETY: the caller's promise.
        ok("ncclAllGather", unsafe { (self.table.all_gather)(from, to, data.count, data.kind, comm, stream) })
    }

    pub unsafe fn reduce_scatter(&self, data: Data, op: c_int, comm: Comm, stream: Stream) -> Result<()> {
        let (from, to) = (pointer(data.from), pointer(data.to));
        // SAFETY: the caller's promise.
        let code = unsafe { (self.table.reduce_scatter)(from, to, data.count, data.kind, op, comm, stream) };
        ok("ncclReduceScatter", code)
    }

    pub unsafe fn send(&self, data: Data, peer: c_int, comm: Comm, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("ncclSend", unsafe { (self.table.send)(pointer(data.from), data.count, data.kind, peer, comm, stream) })
    }

    pub unsafe fn receive(&self, data: Data, peer: c_int, comm: Comm, stream: Stream) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("ncclRecv", unsafe { (self.table.receive)(pointer(data.to), data.count, data.kind, peer, comm, stream) })
    }
}

/// NCCL's text, which may be absent.
///
/// # Safety
///
/// The text is null, or ends with a zero byte and stays as it is for the call.
unsafe fn text(text: *const std::ffi::c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().trim().to_owned()
}

/// A version as people write it.
pub(crate) fn dotted(version: i32) -> String {
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!(super::dotted(22_703), "2.27.3");
        assert_eq!(super::dotted(21_800), "2.18.0");
    }
}
