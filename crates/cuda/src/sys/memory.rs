//! Calls on memory. The unsafe ones owe that nothing uses what they take away, and that addresses are of memory that stays.

use std::ffi::c_void;

use super::abi::{HOST_PORTABLE_MAPPED, RANGE_DMA_BUF};
use super::{Api, Result, ok};

impl Api {
    /// Memory of the current context's GPU: an address on 256 bytes.
    pub fn memory_alloc(&self, len: usize) -> Result<u64> {
        let mut address = 0;
        // SAFETY: the call writes one address.
        ok("cuMemAlloc", unsafe { (self.table.memory_alloc)(&raw mut address, len) })?;
        Ok(address)
    }

    /// Gives memory back, after all work of the context.
    pub unsafe fn memory_free(&self, address: u64) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuMemFree", unsafe { (self.table.memory_free)(address) })
    }

    /// Host memory of whole pages that stays in place, which every context reaches.
    pub fn host_alloc(&self, len: usize) -> Result<*mut u8> {
        let mut address = std::ptr::null_mut();
        // SAFETY: the call writes one address.
        ok("cuMemHostAlloc", unsafe { (self.table.host_alloc)(&raw mut address, len, HOST_PORTABLE_MAPPED) })?;
        Ok(address.cast())
    }

    /// Gives host memory back.
    pub unsafe fn host_free(&self, address: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuMemFreeHost", unsafe { (self.table.host_free)(address.cast()) })
    }

    /// Keeps pages of the host in place, and lets every context reach them.
    pub unsafe fn host_register(&self, address: *mut u8, len: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.table.host_register)(address.cast(), len, HOST_PORTABLE_MAPPED) };
        ok("cuMemHostRegister", code)
    }

    /// Ends [`host_register`](Api::host_register).
    pub unsafe fn host_unregister(&self, address: *mut u8) -> Result<()> {
        // SAFETY: the caller's promise.
        ok("cuMemHostUnregister", unsafe { (self.table.host_unregister)(address.cast()) })
    }

    /// The address by which the current context's work reaches pinned or registered host memory.
    pub fn host_device(&self, address: *mut u8) -> Result<u64> {
        let mut device = 0;
        // SAFETY: the call writes one address, and only looks the other one up.
        ok("cuMemHostGetDevicePointer", unsafe { (self.table.host_device)(&raw mut device, address.cast(), 0) })?;
        Ok(device)
    }

    /// A dma-buf's descriptor of whole pages of memory.
    pub fn dma_buf(&self, address: u64, len: usize) -> Result<i32> {
        let mut descriptor: i32 = -1;
        let into: *mut c_void = (&raw mut descriptor).cast();
        // SAFETY: for this kind of handle the call writes one descriptor.
        let code = unsafe { (self.table.range_handle)(into, address, len, RANGE_DMA_BUF, 0) };
        ok("cuMemGetHandleForAddressRange", code)?;
        Ok(descriptor)
    }

    /// The 64 bits at `address`, after all work of the default stream.
    pub unsafe fn read_word(&self, address: u64) -> Result<u64> {
        let mut word = 0_u64;
        let into: *mut c_void = (&raw mut word).cast();
        // SAFETY: eight bytes are there to write; that they are there to read is the caller's promise.
        ok("cuMemcpyDtoH", unsafe { (self.table.copy_to_host)(into, address, size_of::<u64>()) })?;
        Ok(word)
    }
}
