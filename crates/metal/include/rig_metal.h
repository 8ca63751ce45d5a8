/* What compiled code sees of a Metal device of rig: fills, and indirect command buffers.
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

/* The version of the structs. */
#define RIG_METAL_VERSION 1

/* What a launch of a function reads (rig_metal::Entry::launch): its pipeline and its limits. Valid as the entry is. */
typedef struct rig_metal_launch {
  const void *pipeline; /* id<MTLComputePipelineState> */
  uint32_t threads;     /* the most threads of a group */
  uint32_t group_bytes; /* threadgroup memory that the function declares itself */
} rig_metal_launch;

/* The memory that fills a slot. */
typedef struct rig_metal_slot {
  uint64_t gpu;       /* the GPU address of the first byte */
  void *host;         /* the host address; the memory is shared */
  uint64_t len;       /* bytes */
  const void *buffer; /* id<MTLBuffer> that holds it */
  uint64_t offset;    /* where in the buffer it starts */
} rig_metal_slot;

/* An entry (rig_metal::abi::entry) and an indirect command buffer. */
typedef struct rig_metal_entry rig_metal_entry;
typedef struct rig_metal_icb rig_metal_icb;

/* What a fill encodes with, during the fill and on its thread. */
typedef struct rig_metal_encoder {
  uint32_t version; /* RIG_METAL_VERSION */
  uint32_t reserved;
  void *context;
  const void *device; /* id<MTLDevice> */

  /* The open compute encoder, an id<MTLComputeCommandEncoder> of the serial kind, which rig ends; a new one after end. Null
     for an error. */
  const void *(*compute)(struct rig_metal_encoder *);
  /* The open command buffer, an id<MTLCommandBuffer>, which rig commits. Null for an error. */
  const void *(*command_buffer)(struct rig_metal_encoder *);
  /* The fence, an id<MTLFence>, that encoders of the fill's own wait for first and update last. Null for an error. */
  const void *(*fence)(struct rig_metal_encoder *);
  /* Ends the compute encoder, so that the fill may make encoders of its own in the command buffer, which it ends itself. */
  int32_t (*end)(struct rig_metal_encoder *);
  /* Commits the command buffer and opens the next one. May block while the device has 1,024 of them. */
  int32_t (*next)(struct rig_metal_encoder *);
  /* Runs all launches of an indirect command buffer of this device. */
  int32_t (*execute)(struct rig_metal_encoder *, const rig_metal_icb *);

  /* Where a fill that answers an error leaves its reason: text with a zero byte, at most why_bytes bytes with it. */
  char *why;
  size_t why_bytes;
} rig_metal_encoder;

/* A fill. user is what c_fill was given. Answers 0, or another number to fail the submit, which loses the device. */
typedef int32_t (*rig_metal_fill)(rig_metal_encoder *encoder, const rig_metal_slot *slots, size_t slot_count, void *user);

/* One launch of an indirect command buffer. Its parameters are read by the kernel as they stand: GPU addresses in them are of
   memory that is a slot of each fill that runs the launch. */
typedef struct rig_metal_indirect {
  const rig_metal_entry *entry;
  const void *params; /* kernel buffer 0; unless params_len is 0 */
  uint64_t params_len;
  uint32_t groups[3];
  uint32_t threads[3];
  uint32_t group_bytes; /* threadgroup memory 0 */
  uint32_t reserved;    /* 0 */
} rig_metal_indirect;

/* A device's record (rig_metal::Capability::record). */
typedef struct rig_metal {
  uint32_t version; /* RIG_METAL_VERSION */
  uint32_t align;   /* the least alignment of a constant buffer's offset: 4 on GPUs of an Apple family, 256 on others */
  void *context;
  const void *device; /* id<MTLDevice> */

  /* Records launches; not in a fill. Null for an error, with its text in why, cut to why_bytes bytes. Runs one launch after the
     other, and keeps their pipelines. */
  rig_metal_icb *(*icb)(const struct rig_metal *, const rig_metal_indirect *launches, size_t count, char *why, size_t why_bytes);
  /* Releases one; work that runs it may still be in flight. */
  void (*icb_release)(rig_metal_icb *);
} rig_metal;

#ifdef __cplusplus
}
#endif

#endif
