//! What can go wrong.

/// The answer of a call.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no communicator.
///
/// Once there is one, a failure is its devices': their points and calls answer rig's `Lost`, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// NCCL's library is missing, too old, or set so that its calls would block; the text says what to do.
    #[error("{0}")]
    Library(String),
    /// The variables that say who takes part, or where to meet, are missing or wrong.
    #[error("{0}")]
    World(String),
    /// The processes did not come together: one did not come in time, came twice, or does not fit the others.
    #[error("the processes did not meet: {0}")]
    Meeting(String),
    /// The ranks met and were not connected: NCCL's words, or which process failed meanwhile.
    #[error("the ranks were not connected: {0}")]
    Connect(String),
    /// A device cannot be a rank's, or answered an error of rig's.
    #[error("{0}")]
    Device(String),
}

impl From<rig::Error> for Error {
    fn from(error: rig::Error) -> Error {
        Error::Device(error.to_string())
    }
}
