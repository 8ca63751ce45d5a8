// A library with a function that is no compute kernel.
#include <metal_stdlib>
using namespace metal;

vertex float4 corner() { return float4(0); }
