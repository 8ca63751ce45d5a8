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
