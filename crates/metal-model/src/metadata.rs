//! What a function's metadata says: its arguments, its function constants, its limits.
//!
//! The metadata is that of the bitcode (`!air.kernel`, `!air.function_constants`), read through LLVM by `jit::metadata`.

/// What a driver asks about a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reflection {
    /// Its arguments in the order of its parameters, those that a function constant turns off included.
    pub arguments: Vec<Argument>,
    /// The most threads of a group, where the kernel states it.
    pub max_total_threads: Option<u32>,
    /// Bytes of its threadgroup variables.
    pub static_threadgroup_bytes: u32,
    /// The function constants that its code names.
    pub constants: Vec<FunctionConstant>,
}

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the source.
    pub name: String,
    /// Whether the kernel uses it.
    pub used: bool,
    /// The function constant, by name, that decides whether the argument exists.
    pub predicate: Option<String>,
    /// What it is.
    pub kind: ArgumentKind,
}

/// An address space that buffers lie in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// `device`.
    Device,
    /// `constant`.
    Constant,
}

/// What a kernel does to a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It reads.
    Read,
    /// It reads and writes.
    ReadWrite,
    /// It writes.
    Write,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A buffer.
    Buffer {
        /// `[[buffer(index)]]`.
        index: u32,
        /// Where it lies.
        space: Space,
        /// What the kernel does to it.
        access: Access,
        /// Bytes of what it points to, trailing padding included.
        data_size: u64,
        /// The alignment of what it points to.
        alignment: u32,
        /// Whether it points to a struct.
        is_struct: bool,
        /// Whether the source declares a reference, which refers to one object.
        reference: bool,
        /// The type's name in the source.
        type_name: String,
    },
    /// Threadgroup memory whose length the encoder sets.
    Threadgroup {
        /// `[[threadgroup(index)]]`.
        index: u32,
        /// Bytes of what it points to.
        data_size: u64,
        /// The alignment of what it points to.
        alignment: u32,
    },
    /// A thread's place and the like.
    Builtin(Builtin),
    /// What software Metal does not run, such as textures. Its metadata's name.
    Unsupported(String),
}

/// Values that a thread is handed about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Builtin {
    /// `thread_position_in_grid`.
    ThreadPositionInGrid,
    /// `threadgroup_position_in_grid`.
    ThreadgroupPositionInGrid,
    /// `thread_position_in_threadgroup`.
    ThreadPositionInThreadgroup,
    /// `threads_per_grid`.
    ThreadsPerGrid,
    /// `threadgroups_per_grid`.
    ThreadgroupsPerGrid,
    /// `threads_per_threadgroup`.
    ThreadsPerThreadgroup,
    /// `dispatch_threads_per_threadgroup`.
    DispatchThreadsPerThreadgroup,
    /// `thread_index_in_threadgroup`.
    ThreadIndexInThreadgroup,
    /// `thread_index_in_simdgroup`.
    ThreadIndexInSimdgroup,
    /// `simdgroup_index_in_threadgroup`.
    SimdgroupIndexInThreadgroup,
    /// `simdgroups_per_threadgroup`.
    SimdgroupsPerThreadgroup,
    /// `dispatch_simdgroups_per_threadgroup`.
    DispatchSimdgroupsPerThreadgroup,
    /// `threads_per_simdgroup`, also `thread_execution_width`.
    ThreadsPerSimdgroup,
    /// `thread_index_in_quadgroup`.
    ThreadIndexInQuadgroup,
    /// `quadgroup_index_in_threadgroup`.
    QuadgroupIndexInThreadgroup,
    /// `quadgroups_per_threadgroup`.
    QuadgroupsPerThreadgroup,
    /// `grid_origin`.
    GridOrigin,
    /// `grid_size`.
    GridSize,
}

impl Builtin {
    /// The built-in that a node of metadata names.
    pub(crate) fn from_metadata(kind: &str) -> Option<Self> {
        Some(match kind {
            "air.thread_position_in_grid" => Self::ThreadPositionInGrid,
            "air.threadgroup_position_in_grid" => Self::ThreadgroupPositionInGrid,
            "air.thread_position_in_threadgroup" => Self::ThreadPositionInThreadgroup,
            "air.threads_per_grid" => Self::ThreadsPerGrid,
            "air.threadgroups_per_grid" => Self::ThreadgroupsPerGrid,
            "air.threads_per_threadgroup" => Self::ThreadsPerThreadgroup,
            "air.dispatch_threads_per_threadgroup" => Self::DispatchThreadsPerThreadgroup,
            "air.thread_index_in_threadgroup" => Self::ThreadIndexInThreadgroup,
            "air.thread_index_in_simdgroup" => Self::ThreadIndexInSimdgroup,
            "air.simdgroup_index_in_threadgroup" => Self::SimdgroupIndexInThreadgroup,
            "air.simdgroups_per_threadgroup" => Self::SimdgroupsPerThreadgroup,
            "air.dispatch_simdgroups_per_threadgroup" => Self::DispatchSimdgroupsPerThreadgroup,
            "air.threads_per_simdgroup" | "air.thread_execution_width" => Self::ThreadsPerSimdgroup,
            "air.thread_index_in_quadgroup" => Self::ThreadIndexInQuadgroup,
            "air.quadgroup_index_in_threadgroup" => Self::QuadgroupIndexInThreadgroup,
            "air.quadgroups_per_threadgroup" => Self::QuadgroupsPerThreadgroup,
            "air.grid_origin" => Self::GridOrigin,
            "air.grid_size" => Self::GridSize,
            _ => return None,
        })
    }
}

/// A function constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionConstant {
    /// Its name in the source.
    pub name: String,
    /// `[[function_constant(index)]]`.
    pub index: u32,
    /// The type's name in the source: `bool`, `int`, `float4`.
    pub type_name: String,
    /// Whether a function cannot be made without a value for it.
    pub required: bool,
}
