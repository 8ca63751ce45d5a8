// A kernel that declares more threadgroup memory than any GPU family has, so that no pipeline can be made of it.
#include <metal_stdlib>
using namespace metal;

struct args { device uint *y; };
kernel void large(constant args &a [[buffer(0)]], uint t [[thread_index_in_threadgroup]],
                  uint i [[thread_position_in_grid]]) {
    threadgroup uint kept[16384];
    kept[t] = i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    a.y[i] = kept[t];
}
