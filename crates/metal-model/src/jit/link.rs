//! Objects linked into this process, once for each worker: so each has threadgroup variables of its own.

use std::ffi::{CString, c_char, c_void};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use llvm_sys::error::LLVMErrorRef;
use llvm_sys::orc2::lljit::*;
use llvm_sys::orc2::*;

use super::host;
use super::llvm::{c_string, initialize, take_error};

/// LLVM's linker of this process.
struct Session {
    jit: LLVMOrcLLJITRef,
    /// Libraries that hold nothing any more: LLVM's C API cannot remove a library, so they are used again.
    empty: Mutex<Vec<LLVMOrcJITDylibRef>>,
}

// SAFETY: ORC's session, and LLJIT's methods that are used here, take LLVM's own locks.
unsafe impl Send for Session {}
// SAFETY: as above.
unsafe impl Sync for Session {}

/// Code of one object that is linked. It is unlinked with the last handle.
pub(crate) struct Linked {
    session: &'static Session,
    dylib: LLVMOrcJITDylibRef,
}

// SAFETY: the library is reached through the session, which takes LLVM's own locks.
unsafe impl Send for Linked {}
// SAFETY: as above.
unsafe impl Sync for Linked {}

impl fmt::Debug for Linked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Linked").finish_non_exhaustive()
    }
}

extern "C" fn ignore_report(_: *mut c_void, error: LLVMErrorRef) {
    // A lookup that fails answers the same error to its caller.
    let _ = take_error(error);
}

fn session() -> Result<&'static Session, String> {
    static SESSION: OnceLock<Result<Session, String>> = OnceLock::new();
    let session = SESSION.get_or_init(|| {
        initialize();
        let mut jit = ptr::null_mut();
        // SAFETY: no builder asks for the defaults; `jit` is written on success.
        take_error(unsafe { LLVMOrcCreateLLJIT(&raw mut jit, ptr::null_mut()) })?;
        // SAFETY: the JIT was just made.
        let execution = unsafe { LLVMOrcLLJITGetExecutionSession(jit) };
        // SAFETY: the session lives as long as the process, and the reporter needs nothing.
        unsafe { LLVMOrcExecutionSessionSetErrorReporter(execution, ignore_report, ptr::null_mut()) };
        Ok(Session { jit, empty: Mutex::default() })
    });
    session.as_ref().map_err(Clone::clone)
}

impl Session {
    fn execution(&self) -> LLVMOrcExecutionSessionRef {
        // SAFETY: the JIT lives as long as the process.
        unsafe { LLVMOrcLLJITGetExecutionSession(self.jit) }
    }

    /// A library that holds nothing. What it does not hold it looks up in the process.
    fn library(&self) -> Result<LLVMOrcJITDylibRef, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        if let Some(library) = self.empty.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(library);
        }
        let name = c_string(&format!("kernel-{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        // SAFETY: the name is new, and ends with a zero byte.
        let library = unsafe { LLVMOrcExecutionSessionCreateBareJITDylib(self.execution(), name.as_ptr()) };
        let mut generator = ptr::null_mut();
        let to = &raw mut generator;
        // SAFETY: no filter; an x86-64 ELF process has no prefix.
        take_error(unsafe { LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(to, 0, None, ptr::null_mut()) })?;
        // SAFETY: the generator was just made, and is taken over.
        unsafe { LLVMOrcJITDylibAddGenerator(library, generator) };
        Ok(library)
    }

    /// Defines the host's functions in a library.
    fn define_host(&self, library: LLVMOrcJITDylibRef) -> Result<(), String> {
        let mut pairs: Vec<_> = host_names()
            .iter()
            .map(|(name, address)| {
                // SAFETY: the name ends with a zero byte; the answer is a reference that the unit takes over.
                let name = unsafe { LLVMOrcExecutionSessionIntern(self.execution(), name.as_ptr()) };
                let flags = LLVMJITSymbolFlags { GenericFlags: EXPORTED | CALLABLE, TargetFlags: 0 };
                let symbol = LLVMJITEvaluatedSymbol { Address: *address as u64, Flags: flags };
                LLVMOrcCSymbolMapPair { Name: name, Sym: symbol }
            })
            .collect();
        // SAFETY: the pairs are as many as said, and their names are taken over.
        let unit = unsafe { LLVMOrcAbsoluteSymbols(pairs.as_mut_ptr(), pairs.len()) };
        // SAFETY: the unit was just made, and is taken over.
        take_error(unsafe { LLVMOrcJITDylibDefine(library, unit) })
    }
}

/// Flags of symbols that other code may call.
const EXPORTED: u8 = 1;
const CALLABLE: u8 = 4;

fn host_names() -> &'static [(CString, usize)] {
    static NAMES: OnceLock<Vec<(CString, usize)>> = OnceLock::new();
    NAMES.get_or_init(|| host::symbols().into_iter().map(|(name, address)| (c_string(name), address)).collect())
}

impl Linked {
    /// Links an object.
    pub(crate) fn new(object: &[u8]) -> Result<Arc<Self>, String> {
        let session = session()?;
        let linked = Arc::new(Self { session, dylib: session.library()? });
        session.define_host(linked.dylib)?;
        let name = c"kernel";
        let start = object.as_ptr().cast::<c_char>();
        // SAFETY: the range is the slice's, and is copied.
        let buffer = unsafe { LLVMCreateMemoryBufferWithMemoryRangeCopy(start, object.len(), name.as_ptr()) };
        // SAFETY: the buffer is taken over, whether the object is good or not.
        take_error(unsafe { LLVMOrcLLJITAddObjectFile(session.jit, linked.dylib, buffer) })?;
        Ok(linked)
    }

    /// The address of a symbol.
    pub(crate) fn address(&self, name: &str) -> Result<usize, String> {
        let name = c_string(name);
        let execution = self.session.execution();
        // SAFETY: the name ends with a zero byte; its reference is taken over by the lookup.
        let symbol = unsafe { LLVMOrcExecutionSessionIntern(execution, name.as_ptr()) };
        let mut order = [LLVMOrcCJITDylibSearchOrderElement {
            JD: self.dylib,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchAllSymbols,
        }];
        let mut symbols = [LLVMOrcCLookupSetElement {
            Name: symbol,
            LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
        }];
        let answer = Arc::new(Answer::default());
        let to = Arc::into_raw(Arc::clone(&answer)).cast_mut().cast();
        let (kind, order, symbols) =
            (LLVMOrcLookupKind::LLVMOrcLookupKindStatic, order.as_mut_ptr(), symbols.as_mut_ptr());
        // SAFETY: one element each, which the call copies; the callback takes over its reference to the answer.
        unsafe { LLVMOrcExecutionSessionLookup(execution, kind, order, 1, symbols, 1, keep_address, to) };
        answer.wait()
    }
}

/// What came of a lookup. Where another thread links at the same time, that thread may tell it, also after the lookup's call has
/// returned: so it is waited for, and lives as long as either needs it.
#[derive(Default)]
struct Answer {
    found: Mutex<Option<Result<usize, String>>>,
    told: Condvar,
}

impl Answer {
    fn tell(&self, found: Result<usize, String>) {
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        self.told.notify_all();
    }

    fn wait(&self) -> Result<usize, String> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match found.take() {
                Some(found) => return found,
                None => found = self.told.wait(found).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Drop for Linked {
    fn drop(&mut self) {
        // SAFETY: nothing runs the code: the kernel that it belongs to is gone.
        if take_error(unsafe { LLVMOrcJITDylibClear(self.dylib) }).is_ok() {
            self.session.empty.lock().unwrap_or_else(PoisonError::into_inner).push(self.dylib);
        }
    }
}

extern "C" fn keep_address(error: LLVMErrorRef, pairs: LLVMOrcCSymbolMapPairs, count: usize, to: *mut c_void) {
    // SAFETY: `address` gave the callback this reference, and LLVM calls it once.
    let answer = unsafe { Arc::from_raw(to.cast::<Answer>().cast_const()) };
    let found = match take_error(error) {
        Err(why) => Err(why),
        Ok(()) if count == 0 => Err("LLVM found no symbol".to_owned()),
        // SAFETY: there is a pair, by the count.
        Ok(()) => Ok(unsafe { (*pairs).Sym.Address } as usize),
    };
    answer.tell(found);
}
