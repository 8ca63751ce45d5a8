//! What can go wrong, in four kinds.

use std::sync::Arc;

/// The answer of a call of rig's.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// // A program's own calls of rig answer it too.
/// fn cleared(device: &rig::Device, len: usize) -> rig::Result<rig::Buffer> {
///     let buffer = device.buffer(len)?;
///     buffer.memset(0)?;
///     Ok(buffer)
/// }
/// assert_eq!(cleared(&device, 64)?.len(), 64);
/// # Ok(())
/// # }
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call did not do what it was asked.
///
/// Whatever the kind, nothing is leaked or left locked, and the message says what to do.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// # let device = rig::open(rig_host::cores())?;
/// match device.buffer(usize::MAX) {
///     Err(rig::Error::OutOfMemory { bytes }) => println!("{bytes} bytes are not to be had"),
///     Err(rig::Error::Lost { device, why }) => println!("{device} is lost: {why}"),
///     other => println!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller's mistake, with the argument, its value and the bound. Nothing has changed.
    #[error("{0}")]
    Invalid(String),
    /// The device has no memory for the bytes, after everything that can come back has come back. Every earlier point
    /// is still reached.
    #[error("no memory for {bytes} bytes: drop buffers, raise the budget, or use smaller ones")]
    OutOfMemory {
        /// The bytes that were asked for.
        bytes: u64,
    },
    /// The device faulted, hung or was closed: its later calls all answer this, with the first reason.
    #[error("{device} is lost: {why}; open it again to go on")]
    Lost {
        /// The device's name.
        device: String,
        /// The first reason.
        why: Arc<str>,
    },
    /// What is asked cannot be had as things stand, with the reason and what changes it. The driver refuses: a binary, an opening,
    /// what runs together. Or a wait, or a submit without room, stands behind work that waits for a lost device which nobody
    /// closes: close that device, or open it again, and ask again. Nothing has changed.
    #[error("{0}")]
    Refused(String),
}

/// `Err(Error::Invalid)` with a formatted sentence.
macro_rules! invalid {
    ($($arg:tt)*) => { Err($crate::Error::Invalid(format!($($arg)*))) };
}

pub(crate) use invalid;
