//! The page of an AQL queue, `amd_queue_t`: the GPU's packet processor and the host share it.
//!
//! Places in bytes, as ROCR-Runtime's `amd_hsa_queue.h` has them. The host writes all of it before the queue is made; after
//! that the write index is the host's, and the read index the GPU's.

/// The highest number of a compute unit, `max_cu_id`.
pub(crate) const MAX_CU_ID: usize = 0x48;
/// The highest number of a wave in a compute unit, `max_wave_id`.
pub(crate) const MAX_WAVE_ID: usize = 0x4c;
/// How many packets were written, `write_dispatch_id`.
pub(crate) const WRITE_INDEX: usize = 0x38;
/// How many packets were taken, `read_dispatch_id`.
pub(crate) const READ_INDEX: usize = 0x80;
/// Where the read index is from the page's start, `read_dispatch_id_field_base_byte_offset`.
pub(crate) const READ_INDEX_OFFSET: usize = 0x88;
/// `compute_tmpring_size`. Behind it stand, without a gap, the four words of `scratch_resource_descriptor`,
/// `scratch_backing_memory_location`, `scratch_backing_memory_byte_size` and `scratch_wave64_lane_byte_size`.
pub(crate) const SCRATCH: usize = 0x8c;
/// `queue_properties`.
pub(crate) const PROPERTIES: usize = 0xb4;
/// The bit of the properties that says that addresses have 64 bits.
pub(crate) const PROPERTY_IS_PTR64: u32 = 1 << 1;
