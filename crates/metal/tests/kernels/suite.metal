// The kernels of the conformance suite (the crate rig-conformance). Each thread looks whether its number is below n.
#include <metal_stdlib>
using namespace metal;

struct add_args { device const float *x; device float *y; uint n; };
kernel void add(constant add_args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i < a.n) a.y[i] += a.x[i];
}

struct scale_args { device float *y; uint n; float a; };
kernel void scale(constant scale_args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i < a.n) a.y[i] *= a.a;
}

struct iota_args { device uint *y; uint n; uint start; };
kernel void iota(constant iota_args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i < a.n) a.y[i] = a.start + i;
}

struct spin_args { device uint *y; uint n; uint rounds; };
kernel void spin(constant spin_args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    if (i >= a.n) return;
    uint number = a.y[i];
    for (uint round = 0; round < a.rounds; round++) number = number * 1664525 + 1013904223;
    a.y[i] = number;
}
