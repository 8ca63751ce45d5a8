// The kernel of `rig bench` for Metal: each thread of the one group counts its number up.
//
// Beside it stand metal.ll, as Apple's compiler lowers it, and metal.metallib, which software Metal's packer makes of that.
// With Apple's compiler: xcrun -sdk macosx metal -o metal.metallib metal.metal
#include <metal_stdlib>
using namespace metal;

struct args { device uint *numbers; };
kernel void rig_count(constant args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) { a.numbers[i] += 1; }
