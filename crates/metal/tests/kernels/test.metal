// Kernels of the driver's tests.
#include <metal_stdlib>
using namespace metal;

// No parameters.
kernel void nothing() {}

// Parameters that are no struct: an address, the index of a word, and words.
kernel void words(constant uint *a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    device uint *y = *(device uint *constant *)a;
    y[i] = a[a[2]] + i;
}

// Writes where its parameters lie, which it takes from device memory.
kernel void place(device const ulong *a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    device ulong *y = *(device ulong *device *)a;
    y[i] = (ulong)a;
}

// Turns the order of each group's elements around, through threadgroup memory of the launch's.
struct args { device uint *y; };
kernel void turn(constant args &a [[buffer(0)]], threadgroup uint *group [[threadgroup(0)]],
                 uint t [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 uint i [[thread_position_in_grid]]) {
    group[t] = a.y[i];
    threadgroup_barrier(mem_flags::mem_threadgroup);
    a.y[i] = group[threads - t - 1];
}

// Declares 20 KiB of threadgroup memory itself.
kernel void holds(constant args &a [[buffer(0)]], uint t [[thread_index_in_threadgroup]],
                  uint i [[thread_position_in_grid]]) {
    threadgroup uint kept[5120];
    kept[t] = i;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    a.y[i] = kept[t];
}

// Runs in groups of at most 96 threads.
[[max_total_threads_per_threadgroup(96)]]
kernel void limited(constant args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) { a.y[i] = i; }

// Is made for values of function constants.
constant bool twice [[function_constant(0)]];
constant uint by [[function_constant(10)]];
constant float factor [[function_constant(11)]];
struct float_args { device float *y; };
kernel void chosen(constant float_args &a [[buffer(0)]], uint i [[thread_position_in_grid]]) {
    float product = float(by) * factor;
    a.y[i] = twice ? product + product : product;
}
