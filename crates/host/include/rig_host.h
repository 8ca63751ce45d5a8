/* The kernels of rig's host devices, and fills, in C.
 *
 * Made by `cargo xtask headers` of the definitions in Rust: change those, and this by it.
 *
 * A kernel is a global function of a relocatable ELF object (cc -c) for the machine that rig runs on:
 *
 *     void NAME(const void *params, const rig_group *at);
 *
 * params holds at each ref the 8-byte address of that ref's memory, and elsewhere what the run stored; it stands on 8 bytes.
 * Both pointers are good until the call returns.
 *
 * A kernel is a group kernel unless the object says otherwise: it is called once a group and loops over the group's threads
 * itself. A thread kernel is called once a thread, and may call at->barrier. RIG_GROUP_KERNEL and RIG_THREAD_KERNEL declare
 * a kernel, and so let rig check the size of its parameters:
 *
 *     struct add { const float *x; float *y; uint64_t n; };
 *     RIG_GROUP_KERNEL(add, sizeof(struct add), 0)
 *     { ... params, at ... }
 *
 * An object may import memcpy, memmove, memset, memcmp, and of <math.h> (float and double): exp, exp2, expm1, log, log2,
 * log10, log1p, pow, sqrt, cbrt, hypot, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, fabs, floor, ceil, round,
 * trunc, rint, nearbyint, fma, fmax, fmin, fmod, copysign, erf, erfc. Any other undefined symbol is refused by its name.
 * Thread-local variables are refused too. Variables of an object are shared by all groups and all launches.
 *
 * A fill is host code that rig calls in each submit, in the place of a submission's part, and that says what runs there: tasks of
 * its own, launches, copies and memsets. In C or C++ it is a function of the type rig_host_fill, in the program or in a shared
 * library (not in an object as above); rig_host::abi::c_fill makes a part of it. Functions answer 0, or another number for an
 * error, whose text they leave in why. In a fill and its tasks no function of rig's may be called but those of the fill's
 * encoder: rig answers Invalid.
 */
#ifndef RIG_HOST_H
#define RIG_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The version of the structs of fills.
#define RIG_HOST_VERSION 1

// A function that rig resolved: rig_host::abi::entry gives it. Valid as long as rig's handle to the function is.
typedef struct rig_host_entry rig_host_entry;

// A group's place in the grid, its memory and its barrier.
typedef struct rig_group {
  // This group's place in the grid, below `groups` on each axis.
  uint32_t group[3];
  // The grid, in groups.
  uint32_t groups[3];
  // The threads of a group.
  uint32_t threads[3];
  // This thread's place in the group; zeros in a group kernel.
  uint32_t thread[3];
  // The bytes of group memory.
  uint32_t group_bytes;
  uint32_t reserved;
  // Memory that the threads of the group share, on 64 bytes. What it holds at the group's start is unspecified.
  void *group_memory;
  // Returns once every thread of the group has called it or has returned. For thread kernels.
  void (*barrier)(const struct rig_group *group);
} rig_group;

// What an object says of the kernel NAME, in a variable rig_kernel_NAME.
typedef struct rig_kernel {
  // 1.
  uint32_t version;
  // 0: group kernel, 1: thread kernel.
  uint32_t kind;
  // The bytes of its parameters; UINT32_MAX: unknown.
  uint32_t params;
  // The bytes of group memory that it needs beside what a launch asks for.
  uint32_t group_bytes;
} rig_kernel;

// The memory that fills a slot. Only tasks may touch it.
typedef struct rig_host_slot {
  // The address of the first byte.
  void *host;
  // Bytes.
  uint64_t len;
} rig_host_slot;

// One launch of a fill. Its parameters are read by the kernel as they stand: addresses in them are of the fill's slots.
typedef struct rig_host_launch {
  // The function.
  const struct rig_host_entry *entry;
  // Its parameters, which are copied; they may be null where params_len is 0.
  const void *params;
  // Their bytes.
  uint64_t params_len;
  // Groups along x, y, z.
  uint32_t groups[3];
  // Threads of a group along x, y, z.
  uint32_t threads[3];
  // The bytes of group memory beside what the function declares.
  uint32_t group_bytes;
  // 0.
  uint32_t reserved;
} rig_host_launch;

// A task in C. data is the copy of what was handed to the encoder with it. Answers 0, or another number to fail, which loses
// the device: the reason is what the task leaves in why, text with a zero byte, at most why_bytes bytes with it.
typedef int32_t (*rig_host_task)(void *data, char *why, size_t why_bytes);

// What a fill encodes with, during the fill and on its thread. The functions add tasks, which run one after the other in the
// place of the fill's part in the order of the work, on one thread, whichever it is.
typedef struct rig_host_encoder {
  // RIG_HOST_VERSION.
  uint32_t version;
  uint32_t reserved;
  void *context;
  // Adds code. data_len bytes of data are copied, and the task gets the copy, which stands on 16 bytes; data may be null
  // where data_len is 0.
  int32_t (*task)(struct rig_host_encoder *encoder,
                  rig_host_task task,
                  const void *data,
                  size_t data_len);
  // Adds a launch of a function. It keeps the function's code.
  int32_t (*launch)(struct rig_host_encoder *encoder, const struct rig_host_launch *launch);
  // Adds a copy of len bytes between slots, whose ranges may overlap.
  int32_t (*copy)(struct rig_host_encoder *encoder, const void *from, void *to, uint64_t len);
  // Adds a memset: sets len bytes of a slot to byte.
  int32_t (*set)(struct rig_host_encoder *encoder, void *to, uint8_t byte, uint64_t len);
  // Where a fill that answers an error leaves its reason: text with a zero byte, at most why_bytes bytes with it. A function
  // of the encoder that answers an error has left its own there.
  char *why;
  // The bytes of why.
  size_t why_bytes;
} rig_host_encoder;

// A fill in C. user is what c_fill was given. It runs inside the submit, and must not touch the slots' memory itself, since
// earlier work may still use it. Answers 0, or another number to fail the submit, which loses the device.
typedef int32_t (*rig_host_fill)(struct rig_host_encoder *encoder,
                                 const struct rig_host_slot *slots,
                                 size_t slot_count,
                                 void *user);

#ifdef __cplusplus
}
#define RIG_EXTERN extern "C"
#else
#define RIG_EXTERN
#endif

#define RIG_KERNEL_(name, kind, params_bytes, group_bytes)                                                \
  RIG_EXTERN const struct rig_kernel rig_kernel_##name;                                                   \
  RIG_EXTERN const struct rig_kernel rig_kernel_##name = {1, kind, (uint32_t)(params_bytes), group_bytes}; \
  RIG_EXTERN void name(const void *params, const rig_group *at);                                          \
  RIG_EXTERN void name(const void *params, const rig_group *at)

// Defines a kernel: its name, the bytes of its parameters, the bytes of group memory that it needs beside what a launch asks
// for; then its body, which sees params and at.
#define RIG_GROUP_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 0, params_bytes, group_bytes)
#define RIG_THREAD_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 1, params_bytes, group_bytes)

#endif
