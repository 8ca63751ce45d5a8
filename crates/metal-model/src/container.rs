//! Metal libraries: the MTLB container, read and written.
//!
//! A library is read where it lies: opening it lists its functions and touches nothing of their code, so a mapped file
//! of any size opens in the time its list takes.
//!
//! # Invariants
//!
//! 1. Bytes are foreign: every offset and size is compared with what is there before it is used, and what does not fit
//!    is an error. Nothing here panics.
//! 2. The ranges that a [`Library`] keeps lay within its bytes when it was opened; they are looked up again at each use,
//!    for the bytes are another's.
//!
//! A handle may be used from any thread.

mod read;
mod write;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use thiserror::Error;

use crate::jit::bitcode;

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

impl FunctionKind {
    pub(crate) const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::Vertex,
            1 => Self::Fragment,
            2 => Self::Kernel,
            4 => Self::Visible,
            6 => Self::Intersection,
            7 => Self::Mesh,
            8 => Self::Object,
            other => Self::Other(other),
        }
    }

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Vertex => 0,
            Self::Fragment => 1,
            Self::Kernel => 2,
            Self::Visible => 4,
            Self::Intersection => 6,
            Self::Mesh => 7,
            Self::Object => 8,
            Self::Other(code) => code,
        }
    }
}

/// A library of compiled functions. A clone is another handle to the same bytes.
#[derive(Clone)]
pub struct Library(Arc<Shared>);

struct Shared {
    bytes: Bytes,
    functions: Box<[Entry]>,
    /// Places in `functions`, sorted by name; of equal names the first alone.
    by_name: Box<[u32]>,
}

/// One function of the list.
struct Entry {
    name: Range<usize>,
    kind: FunctionKind,
    hash: Option<[u8; 32]>,
    bitcode: Range<usize>,
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
        let functions = read::functions((*bytes).as_ref())?;
        let name = |at: &u32| (*bytes).as_ref().get(functions[*at as usize].name.clone()).unwrap_or_default();
        let count = u32::try_from(functions.len()).map_err(|_| ContainerError::Damaged("too many functions".into()))?;
        let mut by_name: Vec<u32> = (0..count).collect();
        by_name.sort_by(|one, other| name(one).cmp(name(other)));
        by_name.dedup_by(|later, first| name(later) == name(first));
        let by_name = by_name.into();
        Ok(Self(Arc::new(Shared { bytes, functions, by_name })))
    }

    /// The names of its functions, in the library's order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.functions.iter().map(|entry| self.name(entry))
    }

    /// What the function `name` is.
    #[must_use]
    pub fn kind(&self, name: &str) -> Option<FunctionKind> {
        self.find(name).map(|entry| entry.kind)
    }

    /// The bitcode of the function `name`, as it lies in the library.
    #[must_use]
    pub fn bitcode(&self, name: &str) -> Option<&[u8]> {
        self.bytes().get(self.find(name)?.bitcode.clone())
    }

    /// The SHA-256 of the bitcode of the function `name`, as the library states it.
    #[must_use]
    pub fn hash(&self, name: &str) -> Option<[u8; 32]> {
        self.find(name)?.hash
    }

    fn bytes(&self) -> &[u8] {
        (*self.0.bytes).as_ref()
    }

    fn name(&self, entry: &Entry) -> &str {
        // The list's reader has seen that it is UTF-8.
        self.bytes().get(entry.name.clone()).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }

    fn find(&self, name: &str) -> Option<&Entry> {
        let shared = &self.0;
        let entry = |at: u32| &shared.functions[at as usize];
        let place = shared.by_name.binary_search_by(|&at| self.name(entry(at)).cmp(name)).ok()?;
        Some(entry(shared.by_name[place]))
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Library").field("functions", &self.0.functions.len()).finish_non_exhaustive()
    }
}

/// Makes a library of modules in LLVM's text form: of each, a name and the IR of one function of that name with its
/// metadata (`!air.kernel` and the rest). Tests and fixtures need no compiler of Apple's.
///
/// # Errors
///
/// LLVM refuses a text, or a module lacks the function.
pub fn pack(modules: &[(&str, &str)]) -> Result<Vec<u8>, PackError> {
    let mut functions = Vec::with_capacity(modules.len());
    for &(name, text) in modules {
        let (kind, bitcode) = bitcode::assemble(name, text).map_err(|why| PackError { name: name.to_owned(), why })?;
        functions.push(write::Function { name, kind, bitcode });
    }
    write::library(&functions)
}

#[cfg(test)]
mod tests;
