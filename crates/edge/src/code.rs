//! Code as a driver takes it: images and the entries of their functions.

use crate::{Fault, Location, Memory};

/// What came of an image's bytes (E05).
///
/// ```
/// use rig_edge::{Code, ImageError};
///
/// /// An interpreter runs an image where it lies, so it places no code in memory of the device's.
/// fn image(binary: &[u8]) -> Result<Code<String>, ImageError> {
///     let text = str::from_utf8(binary).map_err(|error| ImageError::Refused(format!("not a program: {error}")))?;
///     Ok(Code::Loaded(text.into()))
/// }
/// assert!(matches!(image(b"add 1"), Ok(Code::Loaded(program)) if program == "add 1"));
/// assert!(matches!(image(&[0xff]), Err(ImageError::Refused(_))));
/// ```
pub enum Code<I> {
    /// The image is loaded.
    Loaded(I),
    /// The code must lie in memory that rig allocates.
    Place(Place<I>),
}

/// Makes the bytes and the image of code whose place is known.
pub type Finish<I> = Box<dyn FnOnce(Location) -> Result<(Vec<u8>, I), ImageError> + Send>;

/// Code that rig puts in device memory. rig frees the region after it has unloaded the image.
///
/// ```
/// use rig_edge::{Location, Memory, Place};
///
/// let mut code = vec![0_u8; 256];
/// let place = Place {
///     memory: Memory::Device,
///     len: code.len(),
///     finish: Box::new(move |at: Location| {
///         // A relocation: the code's first word holds the address of what stands 64 bytes behind it.
///         code[..8].copy_from_slice(&(at.device + 64).to_le_bytes());
///         Ok((code, at.device))
///     }),
/// };
/// // rig allocates the bytes, says where they lie, and copies the code there.
/// let at = Location { device: 0x7000, host: std::ptr::null_mut(), handle: std::ptr::null() };
/// let (code, image) = (place.finish)(at)?;
/// assert_eq!((&code[..2], image), (&[0x40, 0x70][..], 0x7000));
/// # Ok::<(), rig_edge::ImageError>(())
/// ```
pub struct Place<I> {
    /// The kind of memory to put it in.
    pub memory: Memory,
    /// The bytes to allocate: positive.
    pub len: usize,
    /// Given where the region lies, makes the bytes to store at its start, at most `len`, and the image.
    pub finish: Finish<I>,
}

/// Why an image was not loaded.
///
/// ```
/// use rig_edge::{Fault, ImageError};
///
/// fn check(binary: &[u8]) -> Result<(), ImageError> {
///     if !binary.starts_with(b"\x7fELF") {
///         return Err(ImageError::Refused("this is no ELF file: compile with -c".into()));
///     }
///     upload(binary)?; // a fault passes on
///     Ok(())
/// }
/// # fn upload(_: &[u8]) -> Result<(), Fault> { Err(Fault::new("the device fell off the bus")) }
/// assert!(matches!(check(b"text"), Err(ImageError::Refused(why)) if why.contains("-c")));
/// assert_eq!(check(b"\x7fELF"), Err(ImageError::Fault(Fault::new("the device fell off the bus"))));
/// ```
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
///
/// ```
/// use rig_edge::{EntryAnswer, EntryFacts};
///
/// fn entry(functions: &[&str], name: &str) -> EntryAnswer<usize> {
///     match functions.iter().position(|function| *function == name) {
///         Some(at) => EntryAnswer::Entry(at, EntryFacts::default()),
///         // rig's error lists the names, so that a user sees what was meant.
///         None => EntryAnswer::Absent { names: functions.iter().map(|name| name.to_string()).collect() },
///     }
/// }
/// assert!(matches!(entry(&["add", "scale"], "scale"), EntryAnswer::Entry(1, _)));
/// assert!(matches!(entry(&["add", "scale"], "scal"), EntryAnswer::Absent { names } if names.len() == 2));
/// ```
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
///
/// ```
/// use rig_edge::EntryFacts;
///
/// /// What an object's table says of a function: bytes of parameters, and the most threads of a group, where 0 is no bound.
/// fn known(row: [u32; 2]) -> EntryFacts {
///     EntryFacts { params: Some(row[0] as usize), threads: (row[1] > 0).then_some(row[1]) }
/// }
/// assert_eq!(known([24, 256]).threads, Some(256));
/// assert_eq!(known([24, 0]), EntryFacts { params: Some(24), ..EntryFacts::default() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EntryFacts {
    /// The bytes of its parameters; `None` where the function does not state it.
    pub params: Option<usize>,
    /// The most threads that a group may hold; `None` where there is no bound known before a launch.
    pub threads: Option<u32>,
}
