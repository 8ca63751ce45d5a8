//! Metal libraries: the MTLB container, read and written.
//!
//! A library is read where it lies: opening it lists its functions and touches nothing of their code, so a mapped file
//! of any size opens in the time its list takes.
//!
//! # Invariants
//!
//! 1. Bytes are foreign: every offset and size is compared with what is there before it is used, and what does not fit
//!    is an error. Nothing here panics.
//! 2. The ranges that a [`Library`] keeps lie within its bytes.

use std::sync::Arc;

use thiserror::Error;

/// The bytes of a library, shared: a vector, a mapped file.
pub type Bytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// What a function of a library is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionKind {
    /// Runs for each vertex.
    Vertex,
    /// Runs for each fragment.
    Fragment,
    /// Computes.
    Kernel,
    /// Is called through a table.
    Visible,
    /// Intersects a ray.
    Intersection,
    /// Makes a mesh.
    Mesh,
    /// Makes work for mesh functions.
    Object,
    /// A kind that this reader has no name for.
    Other(u8),
}

/// A library of compiled functions. A clone is another handle to the same bytes.
#[derive(Clone)]
pub struct Library(Arc<Shared>);

struct Shared {
    #[expect(dead_code, reason = "read once the container is")]
    bytes: Bytes,
}

/// Why bytes are no library.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The bytes do not start as a Metal library does.
    #[error("not a Metal library: it does not start with MTLB")]
    Foreign,
    /// Something lies outside the bytes.
    #[error("the Metal library is damaged: {what} lies past its {len} bytes")]
    Truncated {
        /// What lies there.
        what: &'static str,
        /// Bytes that there are.
        len: usize,
    },
    /// Something is not as the format wants it.
    #[error("the Metal library is damaged: {0}")]
    Damaged(String),
}

/// Why modules make no library.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot pack {name}: {why}")]
pub struct PackError {
    /// The function.
    pub name: String,
    /// LLVM's reason, or ours.
    pub why: String,
}

impl Library {
    /// Lists the functions of a library. Their code is neither read nor parsed.
    ///
    /// # Errors
    ///
    /// The bytes are no Metal library, or a damaged one.
    pub fn open(bytes: Bytes) -> Result<Self, ContainerError> {
        let _ = Shared { bytes };
        Err(ContainerError::Foreign)
    }

    /// The names of its functions, in the library's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let _ = &self.0;
        std::iter::empty()
    }

    /// What the function `name` is.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<FunctionKind> {
        let _ = name;
        None
    }

    /// The bitcode of the function `name`, as it lies in the library.
    #[must_use]
    pub fn bitcode(&self, name: &str) -> Option<&[u8]> {
        let _ = name;
        None
    }

    /// The SHA-256 of the bitcode of the function `name`, as the library states it.
    #[must_use]
    pub fn hash(&self, name: &str) -> Option<[u8; 32]> {
        let _ = name;
        None
    }
}

/// Makes a library of modules in LLVM's text form: of each, a name and the IR of one function of that name with its
/// metadata (`!air.kernel` and the rest). Tests and fixtures need no compiler of Apple's.
///
/// # Errors
///
/// LLVM refuses a text, or a module lacks the function.
pub fn pack(modules: &[(&str, &str)]) -> Result<Vec<u8>, PackError> {
    let name = modules.first().map_or_else(String::new, |(name, _)| (*name).to_owned());
    Err(PackError { name, why: "not written yet".to_owned() })
}
