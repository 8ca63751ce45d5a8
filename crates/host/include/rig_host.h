/* The kernels of rig's host devices, in C.
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
 */
#ifndef RIG_HOST_H
#define RIG_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rig_group {
  uint32_t group[3];   /* this group's place in the grid */
  uint32_t groups[3];  /* the grid, in groups */
  uint32_t threads[3]; /* the threads of a group */
  uint32_t thread[3];  /* this thread's place in the group; zeros in a group kernel */
  uint32_t group_bytes; /* the bytes of group memory */
  uint32_t reserved;
  void *group_memory; /* shared by the threads of the group, on 64 bytes; what it holds at the start is unspecified */
  void (*barrier)(const struct rig_group *); /* returns once every thread of the group has called it or has returned */
} rig_group;

/* What an object says of the kernel NAME, in a variable rig_kernel_NAME. */
struct rig_kernel {
  uint32_t version;     /* 1 */
  uint32_t kind;        /* 0: group kernel, 1: thread kernel */
  uint32_t params;      /* the bytes of its parameters; UINT32_MAX: unknown */
  uint32_t group_bytes; /* the bytes of group memory that it needs beside what a launch asks for */
};

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

#define RIG_GROUP_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 0, params_bytes, group_bytes)
#define RIG_THREAD_KERNEL(name, params_bytes, group_bytes) RIG_KERNEL_(name, 1, params_bytes, group_bytes)

#endif
