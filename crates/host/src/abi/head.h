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
