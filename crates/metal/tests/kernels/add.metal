// The kernel of the first program: adds x to y.
#include <metal_stdlib>
using namespace metal;

struct args { device const float *x; device float *y; };
kernel void add(constant args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) { a.y[i] += a.x[i]; }
