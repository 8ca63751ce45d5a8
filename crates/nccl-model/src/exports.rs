//! The functions, as `nccl.h` declares them.
//!
//! Each owes what NCCL's owes: communicators are alive, and addresses are of memory of the lengths that are said. Here that
//! memory is the host's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::client::{Client, INTERNAL_ERROR, SUCCESS, SYSTEM_ERROR};
use crate::math;
use crate::server;
use crate::wire::{Kind, Op};

/// The version that it says it is: the first that connects ranks at first use unless it is told not to.
const VERSION: c_int = 22_703;
const INVALID_ARGUMENT: c_int = 4;
const INVALID_USAGE: c_int = 5;
/// What an id begins with.
const MAGIC: [u8; 8] = *b"rigmodel";

/// `ncclUniqueId`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId([u8; 128]);

/// `ncclComm_t`.
type Comm = *mut c_void;

/// A communicator that a group is to make.
struct Init {
    into: usize,
    id: UniqueId,
    rank: c_int,
    ranks: c_int,
}

/// What the thread's group has been asked for.
#[derive(Default)]
struct Group {
    depth: u32,
    inits: Vec<Init>,
    /// By communicator: the operations, and where each one's result goes.
    ops: HashMap<usize, Vec<(Op, usize)>>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Every client of the process. They are never given back, so that one which was ended can say so.
static CLIENTS: Mutex<Vec<&'static Client>> = Mutex::new(Vec::new());

/// The client behind a communicator.
fn client(comm: usize) -> Option<&'static Client> {
    let comm = std::ptr::with_exposed_provenance::<Client>(comm);
    // SAFETY: null, or made by `make` below, which leaks it: the caller owes that it is one.
    unsafe { comm.as_ref() }
}

/// `ncclGetVersion`.
///
/// # Safety
///
/// `version` is a number's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { version.write(VERSION) };
    SUCCESS
}

/// `ncclGetUniqueId`.
///
/// # Safety
///
/// `id` is an id's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as u64);
    let nonce = now ^ (u64::from(std::process::id()) << 32) ^ MADE.fetch_add(1, Ordering::Relaxed);
    let Ok(port) = server::begin(nonce) else { return SYSTEM_ERROR };
    let mut bytes = [0; 128];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&nonce.to_le_bytes());
    bytes[16..18].copy_from_slice(&port.to_le_bytes());
    // SAFETY: the caller's promise.
    unsafe { id.write(UniqueId(bytes)) };
    SUCCESS
}

fn make(init: &Init) -> c_int {
    let id = &init.id.0;
    // PANIC: the ranges have these lengths.
    let nonce = u64::from_le_bytes(id[8..16].try_into().expect("8 bytes"));
    let port = u16::from_le_bytes([id[16], id[17]]);
    if id[..8] != MAGIC || init.rank < 0 || init.rank >= init.ranks {
        return INVALID_ARGUMENT;
    }
    let Ok(client) = Client::join(port, nonce, init.rank, init.ranks) else { return SYSTEM_ERROR };
    let client: &'static Client = Box::leak(Box::new(client));
    CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    let made = std::ptr::from_ref(client).expose_provenance();
    let into = std::ptr::with_exposed_provenance_mut::<usize>(init.into);
    // SAFETY: the caller of ncclCommInitRank promises the handle's place until its group has ended.
    unsafe { into.write(made) };
    SUCCESS
}

/// `ncclCommInitRank`.
///
/// # Safety
///
/// `comm` is a handle's address until the group has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(comm: *mut Comm, ranks: c_int, id: UniqueId, rank: c_int) -> c_int {
    let init = Init { into: comm.expose_provenance(), id, rank, ranks };
    let alone = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(init);
        }
        group.inits.push(init);
        None
    });
    alone.map_or(SUCCESS, |init| make(&init))
}

/// `ncclGroupStart`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    SUCCESS
}

/// `ncclGroupEnd`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    let group = GROUP.with_borrow_mut(|group| match group.depth {
        0 => None,
        1 => Some(std::mem::take(group)),
        _ => {
            group.depth -= 1;
            Some(Group::default())
        }
    });
    let Some(group) = group else { return INVALID_USAGE };
    thread::scope(|scope| {
        let inits: Vec<_> = group.inits.iter().map(|init| scope.spawn(|| make(init))).collect();
        let runs: Vec<_> = group.ops.into_iter().map(|(comm, ops)| scope.spawn(move || run(comm, ops))).collect();
        let answers = inits.into_iter().map(|thread| thread.join().unwrap_or(INTERNAL_ERROR)).collect::<Vec<_>>();
        let answers = answers.into_iter().chain(runs.into_iter().map(|run| run.join().unwrap_or(INTERNAL_ERROR)));
        answers.fold(SUCCESS, |first, answer| if first == SUCCESS { answer } else { first })
    })
}

/// Does operations of one communicator.
fn run(comm: usize, ops: Vec<(Op, usize)>) -> c_int {
    let Some(client) = client(comm) else { return INVALID_ARGUMENT };
    let places: Vec<(usize, u64)> = ops.iter().map(|(op, into)| (*into, op.result)).collect();
    let (answer, results) = client.run(ops.into_iter().map(|(op, _)| op).collect());
    for ((into, len), result) in places.into_iter().zip(results) {
        let len = result.len().min(len as usize);
        let into = std::ptr::with_exposed_provenance_mut::<u8>(into);
        // SAFETY: the caller of the operation promises the memory of the result until it is done.
        unsafe { std::ptr::copy_nonoverlapping(result.as_ptr(), into, len) };
    }
    answer
}

/// What an operation is given: its elements, and where they come from and go.
struct Given {
    from: *const c_void,
    give: usize,
    into: *mut c_void,
    get: usize,
    of: c_int,
}

/// Does an operation, or leaves it to the thread's group.
///
/// # Safety
///
/// `give` bytes are at `from`, and `get` bytes at `into` until the group has ended.
unsafe fn operate(kind: Kind, given: &Given, with: c_int, comm: Comm) -> c_int {
    let Some(bytes) = math::bytes(given.of) else { return INVALID_ARGUMENT };
    let mut data = vec![0; given.give * bytes];
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(given.from.cast(), data.as_mut_ptr(), data.len()) };
    let op = Op { kind, of: given.of, with, result: (given.get * bytes) as u64, data };
    let (comm, into) = (comm.expose_provenance(), given.into.expose_provenance());
    let alone = GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            return Some(op);
        }
        group.ops.entry(comm).or_default().push((op, into));
        None
    });
    alone.map_or(SUCCESS, |op| run(comm, vec![(op, into)]))
}

/// `ncclAllReduce`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllReduce(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    of: c_int,
    op: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { operate(Kind::AllReduce, &Given { from, give: count, into, get: count, of }, op, comm) }
}

/// `ncclBroadcast`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclBroadcast(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    of: c_int,
    root: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { operate(Kind::Broadcast, &Given { from, give: count, into, get: count, of }, root, comm) }
}

/// `ncclAllGather`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclAllGather(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    of: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    let Some(ranks) = client(comm.expose_provenance()).map(Client::ranks) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's promise.
    unsafe { operate(Kind::AllGather, &Given { from, give: count, into, get: count * ranks as usize, of }, 0, comm) }
}

/// `ncclReduceScatter`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclReduceScatter(
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    of: c_int,
    op: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    let Some(ranks) = client(comm.expose_provenance()).map(Client::ranks) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's promise.
    unsafe {
        operate(Kind::ReduceScatter, &Given { from, give: count * ranks as usize, into, get: count, of }, op, comm)
    }
}

/// `ncclSend`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    of: c_int,
    peer: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    let given = Given { from, give: count, into: std::ptr::null_mut(), get: 0, of };
    // SAFETY: the caller's promise.
    unsafe { operate(Kind::Send, &given, peer, comm) }
}

/// `ncclRecv`.
///
/// # Safety
///
/// As NCCL's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclRecv(
    into: *mut c_void,
    count: usize,
    of: c_int,
    peer: c_int,
    comm: Comm,
    _: *mut c_void,
) -> c_int {
    let from = std::ptr::NonNull::<u8>::dangling().as_ptr().cast_const().cast();
    // SAFETY: the caller's promise.
    unsafe { operate(Kind::Receive, &Given { from, give: 0, into, get: count, of }, peer, comm) }
}

/// `ncclCommFinalize`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommFinalize(_: Comm) -> c_int {
    SUCCESS
}

/// `ncclCommDestroy`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(comm: Comm) -> c_int {
    let Some(client) = client(comm.expose_provenance()) else { return INVALID_ARGUMENT };
    // A second end is a use of what is gone.
    if client.aborted.swap(true, Ordering::AcqRel) {
        return INVALID_ARGUMENT;
    }
    client.leave();
    SUCCESS
}

/// `ncclCommAbort`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(comm: Comm) -> c_int {
    let Some(client) = client(comm.expose_provenance()) else { return INVALID_ARGUMENT };
    client.abort();
    SUCCESS
}

/// `ncclCommGetAsyncError`.
///
/// # Safety
///
/// `error` is a number's address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(comm: Comm, error: *mut c_int) -> c_int {
    let Some(client) = client(comm.expose_provenance()) else { return INVALID_ARGUMENT };
    // SAFETY: the caller's promise.
    unsafe { error.write(client.error.load(Ordering::Acquire)) };
    SUCCESS
}

/// `ncclGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    match code {
        SUCCESS => c"no error".as_ptr(),
        SYSTEM_ERROR => c"unhandled system error".as_ptr(),
        INTERNAL_ERROR => c"internal error".as_ptr(),
        INVALID_ARGUMENT => c"invalid argument".as_ptr(),
        INVALID_USAGE => c"invalid usage".as_ptr(),
        6 => c"remote process exited or there was a network error".as_ptr(),
        _ => c"unknown result code".as_ptr(),
    }
}

/// `ncclGetLastError`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetLastError(_: Comm) -> *const c_char {
    c"the stand-in has no log".as_ptr()
}
