//! Code as a driver takes it: images and the entries of their functions.

use crate::{Fault, Location, Memory};

/// What came of an image's bytes (E05).
pub enum Code<I> {
    /// The image is loaded.
    Loaded(I),
    /// The code must lie in memory that rig allocates.
    Place(Place<I>),
}

/// Makes the bytes and the image of code whose place is known.
pub type Finish<I> = Box<dyn FnOnce(Location) -> Result<(Vec<u8>, I), ImageError> + Send>;

/// Code that rig puts in device memory. rig frees the region after it has unloaded the image.
pub struct Place<I> {
    /// The kind of memory to put it in.
    pub memory: Memory,
    /// The bytes to allocate: positive.
    pub len: usize,
    /// Given where the region lies, makes the bytes to store at its start, at most `len`, and the image.
    pub finish: Finish<I>,
}

/// Why an image was not loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageError {
    /// The driver refuses the binary, and why.
    Refused(String),
    /// The device has no memory for this many bytes.
    NoMemory(u64),
    /// The device faulted.
    Fault(Fault),
}

impl From<Fault> for ImageError {
    fn from(fault: Fault) -> ImageError {
        ImageError::Fault(fault)
    }
}

/// What came of asking for a function's entry (E06).
#[derive(Debug)]
pub enum EntryAnswer<E> {
    /// What a launch needs, and what is known of the function.
    Entry(E, EntryFacts),
    /// The image has no function of that name. `names` lists some or all that there are, for the error.
    Absent {
        /// Functions that the image has.
        names: Vec<String>,
    },
    /// No memory for the bytes that launches need; nothing was made. rig reclaims and asks again (E30).
    NoMemory(u64),
    /// The function needs more than the device offers, or cannot be made, and why.
    Invalid(String),
}

/// What a driver knows of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EntryFacts {
    /// The bytes of its parameters; `None` where the function does not state it.
    pub params: Option<usize>,
    /// The most threads that a group may hold; `None` where there is no bound known before a launch.
    pub threads: Option<u32>,
}
