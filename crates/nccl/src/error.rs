//! What can go wrong.

/// The answer of a call.
///
/// ```
/// # fn main() -> rig_nccl::Result<()> {
/// use rig_nccl::{Place, World};
/// /// Both of its calls answer it.
/// fn world(process: u32) -> rig_nccl::Result<World> {
///     let place: Place = "node1:29400".parse()?;
///     World::new(process, 2, place)
/// }
/// assert_eq!(world(1)?.process(), 1);
/// assert!(world(2).is_err());
/// # Ok(())
/// # }
/// ```
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no communicator.
///
/// Once there is one, a failure is its devices': their points and calls answer rig's `Lost`, with the reason.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use rig_nccl::{Error, World};
/// let why = World::new(2, 2, "node1:29400".parse()?).expect_err("they are counted from 0");
/// // The kind is for the program, and the text for its user.
/// assert!(matches!(why, Error::World(_)));
/// assert!(why.to_string().starts_with("there is no process 2 of 2"), "{why}");
/// # Ok(())
/// # }
/// ```
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
