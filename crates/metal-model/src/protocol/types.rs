//! Metal's numbers: enumerations, option sets and plain structs.

use objc2_foundation::{NSErrorDomain, NSInteger, NSUInteger};

use super::{Encode, Encoding, RefEncode};

/// An address of the GPU's.
pub type MTLGPUAddress = u64;

/// A time in seconds. objc2-core-foundation has it on Apple's systems.
pub type CFTimeInterval = f64;

unsafe extern "C" {
    pub static MTLCommandBufferErrorDomain: &'static NSErrorDomain;
    pub static MTLLibraryErrorDomain: &'static NSErrorDomain;
}

enumeration!(MTLGPUFamily(NSInteger) {
    Apple1 = 1001;
    Apple2 = 1002;
    Apple3 = 1003;
    Apple4 = 1004;
    Apple5 = 1005;
    Apple6 = 1006;
    Apple7 = 1007;
    Apple8 = 1008;
    Apple9 = 1009;
    Apple10 = 1010;
    Mac1 = 2001;
    Mac2 = 2002;
    Common1 = 3001;
    Common2 = 3002;
    Common3 = 3003;
    MacCatalyst1 = 4001;
    MacCatalyst2 = 4002;
    Metal3 = 5001;
    Metal4 = 5002;
});

enumeration!(MTLCPUCacheMode(NSUInteger) {
    DefaultCache = 0;
    WriteCombined = 1;
});

enumeration!(MTLStorageMode(NSUInteger) {
    Shared = 0;
    Managed = 1;
    Private = 2;
    Memoryless = 3;
});

enumeration!(MTLHazardTrackingMode(NSUInteger) {
    Default = 0;
    Untracked = 1;
    Tracked = 2;
});

enumeration!(MTLPurgeableState(NSUInteger) {
    KeepCurrent = 1;
    NonVolatile = 2;
    Volatile = 3;
    Empty = 4;
});

pub const MTLResourceCPUCacheModeShift: NSUInteger = 0;
pub const MTLResourceCPUCacheModeMask: NSUInteger = 0xf << MTLResourceCPUCacheModeShift;
pub const MTLResourceStorageModeShift: NSUInteger = 4;
pub const MTLResourceStorageModeMask: NSUInteger = 0xf << MTLResourceStorageModeShift;
pub const MTLResourceHazardTrackingModeShift: NSUInteger = 8;
pub const MTLResourceHazardTrackingModeMask: NSUInteger = 0x3 << MTLResourceHazardTrackingModeShift;

options!(MTLResourceOptions {
    CPUCacheModeDefaultCache = MTLCPUCacheMode::DefaultCache.0 << MTLResourceCPUCacheModeShift;
    CPUCacheModeWriteCombined = MTLCPUCacheMode::WriteCombined.0 << MTLResourceCPUCacheModeShift;
    StorageModeShared = MTLStorageMode::Shared.0 << MTLResourceStorageModeShift;
    StorageModeManaged = MTLStorageMode::Managed.0 << MTLResourceStorageModeShift;
    StorageModePrivate = MTLStorageMode::Private.0 << MTLResourceStorageModeShift;
    StorageModeMemoryless = MTLStorageMode::Memoryless.0 << MTLResourceStorageModeShift;
    HazardTrackingModeDefault = MTLHazardTrackingMode::Default.0 << MTLResourceHazardTrackingModeShift;
    HazardTrackingModeUntracked = MTLHazardTrackingMode::Untracked.0 << MTLResourceHazardTrackingModeShift;
    HazardTrackingModeTracked = MTLHazardTrackingMode::Tracked.0 << MTLResourceHazardTrackingModeShift;
});

enumeration!(MTLDispatchType(NSUInteger) {
    Serial = 0;
    Concurrent = 1;
});

enumeration!(MTLCommandBufferStatus(NSUInteger) {
    NotEnqueued = 0;
    Enqueued = 1;
    Committed = 2;
    Scheduled = 3;
    Completed = 4;
    Error = 5;
});

enumeration!(MTLCommandBufferError(NSUInteger) {
    None = 0;
    Internal = 1;
    Timeout = 2;
    PageFault = 3;
    AccessRevoked = 4;
    NotPermitted = 7;
    OutOfMemory = 8;
    InvalidResource = 9;
    Memoryless = 10;
    DeviceRemoved = 11;
    StackOverflow = 12;
});

options!(MTLCommandBufferErrorOption {
    None = 0;
    EncoderExecutionStatus = 1 << 0;
});

options!(MTLPipelineOption {
    None = 0;
    ArgumentInfo = 1 << 0;
    BindingInfo = 1 << 0;
    BufferTypeInfo = 1 << 1;
    FailOnBinaryArchiveMiss = 1 << 2;
});

options!(MTLResourceUsage {
    Read = 1 << 0;
    Write = 1 << 1;
    Sample = 1 << 2;
});

options!(MTLBarrierScope {
    Buffers = 1 << 0;
    Textures = 1 << 1;
    RenderTargets = 1 << 2;
});

options!(MTLIndirectCommandType {
    Draw = 1 << 0;
    DrawIndexed = 1 << 1;
    DrawPatches = 1 << 2;
    DrawIndexedPatches = 1 << 3;
    ConcurrentDispatch = 1 << 5;
    ConcurrentDispatchThreads = 1 << 6;
    DrawMeshThreadgroups = 1 << 7;
    DrawMeshThreads = 1 << 8;
});

enumeration!(MTLFunctionType(NSUInteger) {
    Vertex = 1;
    Fragment = 2;
    Kernel = 3;
    Visible = 5;
    Intersection = 6;
    Mesh = 7;
    Object = 8;
});

enumeration!(MTLLibraryType(NSInteger) {
    Executable = 0;
    Dynamic = 1;
});

enumeration!(MTLLibraryError(NSUInteger) {
    Unsupported = 1;
    Internal = 2;
    CompileFailure = 3;
    CompileWarning = 4;
    FunctionNotFound = 5;
    FileNotFound = 6;
});

enumeration!(MTLBindingType(NSInteger) {
    Buffer = 0;
    ThreadgroupMemory = 1;
    Texture = 2;
    Sampler = 3;
    ImageblockData = 16;
    Imageblock = 17;
    VisibleFunctionTable = 24;
    PrimitiveAccelerationStructure = 25;
    InstanceAccelerationStructure = 26;
    IntersectionFunctionTable = 27;
    ObjectPayload = 34;
    Tensor = 37;
});

enumeration!(MTLBindingAccess(NSUInteger) {
    ReadOnly = 0;
    ReadWrite = 1;
    WriteOnly = 2;
});

enumeration!(MTLDataType(NSUInteger) {
    None = 0;
    Struct = 1;
    Array = 2;
    Float = 3;
    Float2 = 4;
    Float3 = 5;
    Float4 = 6;
    Half = 16;
    Half2 = 17;
    Half3 = 18;
    Half4 = 19;
    Int = 29;
    Int2 = 30;
    Int3 = 31;
    Int4 = 32;
    UInt = 33;
    UInt2 = 34;
    UInt3 = 35;
    UInt4 = 36;
    Short = 37;
    Short2 = 38;
    Short3 = 39;
    Short4 = 40;
    UShort = 41;
    UShort2 = 42;
    UShort3 = 43;
    UShort4 = 44;
    Char = 45;
    Char2 = 46;
    Char3 = 47;
    Char4 = 48;
    UChar = 49;
    UChar2 = 50;
    UChar3 = 51;
    UChar4 = 52;
    Bool = 53;
    Bool2 = 54;
    Bool3 = 55;
    Bool4 = 56;
    Texture = 58;
    Sampler = 59;
    Pointer = 60;
    ComputePipeline = 79;
    IndirectCommandBuffer = 80;
    Long = 81;
    Long2 = 82;
    Long3 = 83;
    Long4 = 84;
    ULong = 85;
    ULong2 = 86;
    ULong3 = 87;
    ULong4 = 88;
    BFloat = 121;
    BFloat2 = 122;
    BFloat3 = 123;
    BFloat4 = 124;
});

structure!(MTLOrigin "?" {
    x: NSUInteger,
    y: NSUInteger,
    z: NSUInteger,
});

structure!(MTLSize "?" {
    width: NSUInteger,
    height: NSUInteger,
    depth: NSUInteger,
});

structure!(MTLRegion "?" {
    origin: MTLOrigin,
    size: MTLSize,
});

structure!(MTLIndirectCommandBufferExecutionRange "?" {
    location: u32,
    length: u32,
});

structure!(MTLDispatchThreadgroupsIndirectArguments "?" {
    threadgroupsPerGrid: [u32; 3],
});
