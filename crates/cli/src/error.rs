//! What can go wrong in the program, each in one sentence that says what to do.

use std::io;
use std::path::PathBuf;

use crate::element::Element;

/// The answer of whatever may go wrong.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that could not be read or written.
    #[error("cannot {what} {}: {why}", path.display())]
    File {
        /// What was tried, such as `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// An input that is no whole number of elements.
    #[error(
        "{} has {bytes} bytes, no whole number of {element} values of {} bytes: name the type that it holds",
        path.display(),
        element.size()
    )]
    NotWhole {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The type that the command line names.
        element: Element,
    },
    /// An input that is not the .npy file that its name says.
    #[error("cannot use {} as a .npy file: {why}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A buffer that is larger than this machine can address.
    #[error("a buffer of {count} {element} values is larger than this machine can address: use a smaller one")]
    TooLarge {
        /// The elements.
        count: u64,
        /// Their type.
        element: Element,
    },
    /// A device's name that none has.
    #[error("there is no device {name}; there are {there}: see `rig devices`")]
    NoDevice {
        /// The name.
        name: String,
        /// The names there are.
        there: String,
    },
    /// An image of no kind that a driver takes.
    #[error(
        "{} is no image that rig knows (an ELF object, PTX, a cubin, a fatbin, a metallib, a code object): if a device takes it \
         all the same, name that by --device",
        path.display()
    )]
    NoImage {
        /// The file.
        path: PathBuf,
    },
    /// No device opens that the image is for.
    #[error("{} is {kind}, for the driver {driver}, and no device of that opens: {why}; see `rig doctor {driver}`", path.display())]
    NoneFor {
        /// The file.
        path: PathBuf,
        /// What kind of image it is.
        kind: &'static str,
        /// The driver.
        driver: &'static str,
        /// Why none opens.
        why: String,
    },
    /// A driver's name that none has.
    #[error("rig has no driver {name}; there are {there}")]
    NoDriver {
        /// The name.
        name: String,
        /// The names there are.
        there: String,
    },
    /// A program that `rig trace` cannot start.
    #[error("cannot start {program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// The system's reason.
        why: io::Error,
    },
    /// A name that cannot stand in the variable that asks for traces.
    #[error("the name of a trace cannot hold what parts the names of a list, which {} does: choose another name", path.display())]
    TraceName {
        /// The file.
        path: PathBuf,
    },
    /// A program that wrote no trace.
    #[error(
        "{program} ended without a trace: it opened no device of rig (or one of a rig before traces), or a signal or an abort \
         ended it"
    )]
    NoTrace {
        /// The program.
        program: String,
    },
    /// `rig man` of a command that there is not.
    #[error("rig has no command {name}, so there is no page of it; the commands are {there}")]
    NoCommand {
        /// The name.
        name: String,
        /// The commands.
        there: String,
    },
    /// `--out` names a slot that the command line fills with no buffer.
    #[error("--out {slot}:{} names a slot that no buffer fills: there are {buffers} buffers, from slot 0", path.display())]
    NoSlot {
        /// The slot.
        slot: usize,
        /// The file.
        path: PathBuf,
        /// How many buffers there are.
        buffers: usize,
    },
    /// `--out FILE` and nothing that the function writes.
    #[error("--out {} has no buffer to take, since the function writes none: give one by --inout, --zeros or --iota, or name a slot (--out 0:FILE)", path.display())]
    NothingWritten {
        /// The file.
        path: PathBuf,
    },
    /// The core or a driver.
    #[error("{0}")]
    Rig(#[from] rig::Error),
    /// Standard output.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
    /// A value that JSON could not be made of.
    #[error("cannot print as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Error {
    /// 2: the command line asks for what cannot be (clap's own code for bad arguments). 3: the device was lost. 4: no
    /// memory. 1: anything else, such as a file or an image that cannot be used.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::NoDevice { .. } | Error::NoDriver { .. } | Error::NoCommand { .. } | Error::NoSlot { .. } => 2,
            Error::NothingWritten { .. } | Error::TooLarge { .. } | Error::TraceName { .. } => 2,
            Error::Rig(rig::Error::Invalid(_)) => 2,
            Error::Rig(rig::Error::Lost { .. }) => 3,
            Error::Rig(rig::Error::OutOfMemory { .. }) => 4,
            _ => 1,
        }
    }
}
