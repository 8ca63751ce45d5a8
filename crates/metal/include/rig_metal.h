/* What compiled code sees of a Metal device of rig: fills, and indirect command buffers.
 *
 * Made by `cargo xtask headers` of the definitions in Rust: change those, and this by it.
 *
 * A fill is host code that encodes Metal commands of its own, in the place of a submission's part. In C, C++ or Objective-C it
 * is a function of the type rig_metal_fill; rig_metal::abi::c_fill makes a part of it.
 *
 * Objects of Metal are given as pointers without a reference (+0): code that keeps one retains it, and in Objective-C with
 * ARC it casts with __bridge. Command buffers retain nothing: objects of a fill's own are kept by the submission
 * (Builder::keep of rig). Functions answer 0, or another number for an error, whose text they leave in why.
 *
 * In a fill no function of rig's may be called but those of its encoder: rig answers Invalid.
 */
#ifndef RIG_METAL_H
#define RIG_METAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of the structs.
#define RIG_METAL_VERSION 1

// A function that rig resolved: rig_metal::abi::entry gives it.
typedef struct rig_metal_entry rig_metal_entry;

// An indirect command buffer: a record's icb makes one, and rig_metal::abi::icb lends one that was made in Rust.
typedef struct rig_metal_icb rig_metal_icb;

// What a launch of a function reads (rig_metal::Entry::launch): its pipeline and its limits. Valid as the entry is.
typedef struct rig_metal_launch {
  // `id<MTLComputePipelineState>`
  const void *pipeline;
  // The most threads of a group.
  uint32_t threads;
  // The bytes of threadgroup memory that the function declares itself.
  uint32_t group_bytes;
} rig_metal_launch;

// The memory that fills a slot.
typedef struct rig_metal_slot {
  // The GPU address of the first byte.
  uint64_t gpu;
  // The host address of the first byte; the memory is shared.
  void *host;
  // Bytes.
  uint64_t len;
  // `id<MTLBuffer>` that holds it.
  const void *buffer;
  // Where in the buffer it starts.
  uint64_t offset;
} rig_metal_slot;

// What a fill encodes with, during the fill and on its thread.
typedef struct rig_metal_encoder {
  // RIG_METAL_VERSION.
  uint32_t version;
  uint32_t reserved;
  void *context;
  // `id<MTLDevice>`
  const void *device;
  // The open compute encoder, an `id<MTLComputeCommandEncoder>` of the serial kind, which rig ends; a new one after end. Null
  // for an error.
  const void *(*compute)(struct rig_metal_encoder *encoder);
  // The open command buffer, an `id<MTLCommandBuffer>`, which rig commits. Null for an error.
  const void *(*command_buffer)(struct rig_metal_encoder *encoder);
  // The fence, an `id<MTLFence>`, that encoders of the fill's own wait for first and update last. Null for an error.
  const void *(*fence)(struct rig_metal_encoder *encoder);
  // Ends the compute encoder, so that the fill may make encoders of its own in the command buffer, which it ends itself.
  int32_t (*end)(struct rig_metal_encoder *encoder);
  // Commits the command buffer and opens the next one. May block while the device has 1,024 of them.
  int32_t (*next)(struct rig_metal_encoder *encoder);
  // Runs all launches of an indirect command buffer of this device.
  int32_t (*execute)(struct rig_metal_encoder *encoder, const struct rig_metal_icb *icb);
  // Where a fill that answers an error leaves its reason: text with a zero byte, at most why_bytes bytes with it. A function
  // of the encoder that answers an error has left its own there.
  char *why;
  // The bytes of why.
  size_t why_bytes;
} rig_metal_encoder;

// A fill. user is what c_fill was given. Answers 0, or another number to fail the submit, which loses the device.
typedef int32_t (*rig_metal_fill)(struct rig_metal_encoder *encoder,
                                  const struct rig_metal_slot *slots,
                                  size_t slot_count,
                                  void *user);

// One launch of an indirect command buffer. Its parameters are read by the kernel as they stand: GPU addresses in them are of
// memory that is a slot of each fill that runs the launch.
typedef struct rig_metal_indirect {
  // The function.
  const struct rig_metal_entry *entry;
  // Kernel buffer 0; unless params_len is 0.
  const void *params;
  // The bytes of params.
  uint64_t params_len;
  // Groups along x, y, z.
  uint32_t groups[3];
  // Threads of a group along x, y, z.
  uint32_t threads[3];
  // The bytes of threadgroup memory 0.
  uint32_t group_bytes;
  // 0.
  uint32_t reserved;
} rig_metal_indirect;

// A device's record (rig_metal::Capability::record).
typedef struct rig_metal {
  // RIG_METAL_VERSION.
  uint32_t version;
  // The least alignment of a constant buffer's offset: 4 on GPUs of an Apple family, 256 on others.
  uint32_t align;
  const void *context;
  // `id<MTLDevice>`
  const void *device;
  // Records launches; not in a fill. Null for an error, with its text in why, cut to why_bytes bytes. Runs one launch after
  // the other, and keeps their pipelines.
  struct rig_metal_icb *(*icb)(const struct rig_metal *record,
                               const struct rig_metal_indirect *launches,
                               size_t count,
                               char *why,
                               size_t why_bytes);
  // Releases one; work that runs it may still be in flight.
  void (*icb_release)(struct rig_metal_icb *icb);
} rig_metal;

#ifdef __cplusplus
}
#endif

#endif
