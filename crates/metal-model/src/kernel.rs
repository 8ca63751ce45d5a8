//! Kernels: a function of a library compiled for this processor, and its dispatches.

#[expect(unsafe_code, reason = "enters machine code")]
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::container::Library;
use crate::jit::compile;
use crate::metadata::Reflection;
use crate::workers::Workers;

/// A value of a function constant. A vector's values are those of its elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConstantValue {
    /// `bool`.
    Bool(bool),
    /// `char`.
    I8(i8),
    /// `uchar`.
    U8(u8),
    /// `short`.
    I16(i16),
    /// `ushort`.
    U16(u16),
    /// `int`.
    I32(i32),
    /// `uint`.
    U32(u32),
    /// `long`.
    I64(i64),
    /// `ulong`.
    U64(u64),
    /// `half`, its bits.
    F16(u16),
    /// `bfloat`, its bits.
    BF16(u16),
    /// `float`.
    F32(f32),
    /// A vector of two to four.
    Vector(Vec<Self>),
}

/// Values of function constants.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constants {
    /// By `[[function_constant(index)]]`.
    pub by_index: BTreeMap<u32, ConstantValue>,
    /// By name; a name goes before an index.
    pub by_name: BTreeMap<String, ConstantValue>,
}

/// Whether a kernel's accesses are compared with what it may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Checks {
    /// Each access is.
    #[default]
    Instrumented,
    /// None is: an access outside of mapped memory ends the process.
    None,
}

/// How much the compiler does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// The light passes: quick to compile.
    Fast,
    /// All of them: quick to run.
    #[default]
    Full,
}

/// How kernels are compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileOptions {
    /// Whether accesses are checked.
    pub checks: Checks,
    /// How much the compiler does.
    pub effort: Effort,
    /// The folder that keeps compiled objects, which other processes may share.
    pub cache: Option<PathBuf>,
}

/// Why a function makes no kernel.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The library has no function of this name.
    #[error("the library has no function {0}")]
    Absent(String),
    /// The function is a vertex function, or another that does not compute.
    #[error("{name} is no compute kernel but a function of the kind {kind:?}")]
    NotKernel {
        /// The function.
        name: String,
        /// What it is.
        kind: crate::container::FunctionKind,
    },
    /// Its code is not what the library's hash says, or LLVM cannot read it.
    #[error("the code of {name} is damaged: {why}")]
    Damaged {
        /// The function.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// It needs what software Metal does not have.
    #[error("software Metal cannot run {name}: {what}")]
    Unsupported {
        /// The function.
        name: String,
        /// What it needs.
        what: String,
    },
    /// A function constant that it requires has no value.
    #[error("{name} needs a value for the function constant {constant}, index {index}")]
    MissingConstant {
        /// The function.
        name: String,
        /// The constant.
        constant: String,
        /// Its index.
        index: u32,
    },
    /// A value of a function constant has another type.
    #[error("{name}: the function constant {constant} is of the type {expected}")]
    ConstantType {
        /// The function.
        name: String,
        /// The constant.
        constant: String,
        /// What it is in the source.
        expected: String,
    },
    /// LLVM failed.
    #[error("LLVM cannot compile {name}: {why}")]
    Compiler {
        /// The function.
        name: String,
        /// LLVM's reason.
        why: String,
    },
}

/// What a kernel says of itself, without compiling it.
///
/// # Errors
///
/// The function is absent, is no kernel, or its code is damaged.
pub fn reflect(library: &Library, name: &str) -> Result<Reflection, CompileError> {
    compile::reflect(library, name)
}

/// A compiled function. A clone is another handle to the same code.
#[derive(Clone, Debug)]
pub struct Kernel(Arc<run::Inner>);

/// A dispatch: what a kernel runs over.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// The grid in groups.
    pub groups: [u32; 3],
    /// Threads of a group.
    pub threads: [u32; 3],
    /// The grid in threads, where groups at its edges may be smaller (`dispatchThreads`); `groups` covers it.
    pub grid: Option<[u32; 3]>,
    /// What is bound at each index.
    pub buffers: &'a [Option<Bound>; 31],
    /// Bytes of threadgroup memory set at each index.
    pub threadgroup: &'a [u32; 31],
    /// What a pointer may reach.
    pub resident: &'a Residency,
}

/// A bound buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// GPU address of the first byte that the kernel sees.
    pub address: u64,
    /// Bytes from there to the end of the allocation.
    pub len: u64,
}

/// What pointers may reach: ranges of GPU addresses, sorted. A clone shares them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Residency(Arc<[(u64, u64)]>);

impl Residency {
    /// Of ranges: GPU address and bytes, in any order, not overlapping.
    pub fn new(ranges: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().collect();
        ranges.sort_unstable();
        Self(ranges.into())
    }

    /// Whether one range holds all of the bytes.
    #[must_use]
    pub fn contains(&self, address: u64, len: u64) -> bool {
        self.range(address).is_some_and(|(start, held)| len <= held - (address - start))
    }

    /// The range that holds the byte at an address.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|&(start, _)| start <= address);
        let (start, len) = *self.0.get(after.checked_sub(1)?)?;
        (address - start < len).then_some((start, len))
    }

    /// The last range that starts at or before an address.
    pub(crate) fn before(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.0.partition_point(|&(start, _)| start <= address);
        self.0.get(after.checked_sub(1)?).copied()
    }
}

/// What a kernel did to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryAccess {
    /// It read.
    Read,
    /// It wrote.
    Write,
    /// It read and wrote at once.
    Atomic,
}

/// Why a dispatch ended early.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// It reached for what is not resident.
    #[error("{kernel}: {access} of {size} bytes at {address:#x}, which no resident allocation holds")]
    NotResident {
        /// The kernel.
        kernel: String,
        /// GPU address.
        address: u64,
        /// Bytes.
        size: u64,
        /// What it did.
        access: MemoryAccess,
    },
    /// It reached past the end of an allocation.
    #[error(
        "{kernel}: {access} of {size} bytes at {address:#x}, past the end of the allocation at {start:#x} of {len} bytes"
    )]
    OutOfBounds {
        /// The kernel.
        kernel: String,
        /// GPU address.
        address: u64,
        /// Bytes.
        size: u64,
        /// GPU address of the allocation's or binding's start.
        start: u64,
        /// Its bytes.
        len: u64,
        /// What it did.
        access: MemoryAccess,
    },
    /// It used an address that the type's alignment forbids.
    #[error("{kernel}: misaligned access of {size} bytes at {address:#x}")]
    MisalignedAccess {
        /// The kernel.
        kernel: String,
        /// GPU address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// An index that the kernel uses has no buffer.
    #[error("{kernel}: no buffer is bound at index {index}, which it uses as {argument}")]
    UnboundBuffer {
        /// The kernel.
        kernel: String,
        /// The buffer index.
        index: u32,
        /// The argument's name.
        argument: String,
    },
    /// A bound buffer holds less than what the argument refers to.
    #[error("{kernel}: the buffer at index {index} ({argument}) needs {needs} bytes, and {len} are bound")]
    ShortBuffer {
        /// The kernel.
        kernel: String,
        /// The buffer index.
        index: u32,
        /// The argument's name.
        argument: String,
        /// Bytes of the type.
        needs: u64,
        /// Bytes there are.
        len: u64,
    },
    /// A threadgroup argument has no length.
    #[error("{kernel}: no threadgroup memory is set at index {index}, which it uses as {argument}")]
    UnboundThreadgroup {
        /// The kernel.
        kernel: String,
        /// The threadgroup index.
        index: u32,
        /// The argument's name.
        argument: String,
    },
    /// It reached past a threadgroup variable or argument.
    #[error("{kernel}: access of {size} bytes past threadgroup memory at {address:#x}")]
    ThreadgroupBounds {
        /// The kernel.
        kernel: String,
        /// Host address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// It reached past a thread's own variable.
    #[error("{kernel}: access of {size} bytes past a variable of the thread at {address:#x}")]
    PrivateBounds {
        /// The kernel.
        kernel: String,
        /// Host address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// Threads of a group wait at different barriers.
    #[error("{kernel}: threads of group {group:?} wait at different barriers")]
    BarrierMismatch {
        /// The kernel.
        kernel: String,
        /// The group's place.
        group: [u32; 3],
    },
    /// The group has too many threads, or an axis is zero.
    #[error("{kernel}: {threads:?} threads a group, of which it allows {limit}")]
    GroupSize {
        /// The kernel.
        kernel: String,
        /// Threads asked for.
        threads: [u32; 3],
        /// The most there may be.
        limit: u32,
    },
    /// The kernel trapped.
    #[error("{kernel}: trapped")]
    Trap {
        /// The kernel.
        kernel: String,
    },
    /// It was abandoned because it took too long.
    #[error("{kernel}: timed out")]
    Timeout {
        /// The kernel.
        kernel: String,
    },
    /// The host could not run it.
    #[error("{kernel}: {why}")]
    Host {
        /// The kernel.
        kernel: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for MemoryAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic access",
        })
    }
}

impl Kernel {
    /// Compiles a function for this processor, or takes its code from the cache.
    ///
    /// # Errors
    ///
    /// The function is absent, no kernel, damaged, or needs what software Metal does not have; a constant is missing.
    pub fn compile(
        library: &Library,
        name: &str,
        constants: &Constants,
        options: &CompileOptions,
    ) -> Result<Self, CompileError> {
        let compiled = compile::compile(library, name, constants, options)?;
        Ok(Self(Arc::new(run::Inner::new(name, compiled))))
    }

    /// The most threads of a group that it allows.
    #[must_use]
    pub fn threads_max(&self) -> u32 {
        self.0.threads_max()
    }

    /// What the kernel says of itself.
    #[must_use]
    pub fn reflection(&self) -> &Reflection {
        &self.0.compiled.reflection
    }

    /// Runs a dispatch to its end on the workers' threads, and blocks until then.
    ///
    /// # Errors
    ///
    /// What the kernel, or the dispatch, did wrong. Some groups have run then, some in part.
    pub fn dispatch(&self, dispatch: &Dispatch<'_>, workers: &Workers) -> Result<(), Violation> {
        run::dispatch(&self.0, dispatch, workers)
    }
}

#[cfg(test)]
mod tests;
