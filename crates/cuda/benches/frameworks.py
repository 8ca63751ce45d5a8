"""What PyTorch and CuPy take for what benches/cuda.rs measures: medians, in microseconds."""

import statistics
import time

import torch


def median(runs, f):
    return statistics.median(f() for _ in range(runs))


def cpu(each, count=200):
    def once():
        start = time.perf_counter()
        for _ in range(count):
            each()
        took = time.perf_counter() - start
        torch.cuda.synchronize()
        return took / count * 1e6

    return median(31, once)


def through(each, count=200):
    def once():
        start = time.perf_counter()
        for _ in range(count):
            each()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / count * 1e6

    return median(31, once)


def round_trip(each):
    return through(each, 1)


def row(launches, how, each, count=200):
    each()
    torch.cuda.synchronize()
    print(f"| {launches} | {how} | {cpu(each, count):.2f} | {through(each, count):.2f} | {round_trip(each):.2f} |")


x, y = (torch.zeros(1024, device="cuda") for _ in range(2))
row(1, f"PyTorch {torch.__version__} add_", lambda: y.add_(x))


def hundred():
    for _ in range(100):
        y.add_(x)


row(100, "PyTorch add_, a hundred times", hundred, 10)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    hundred()
row(100, "PyTorch's graph of a hundred, fixed buffers", graph.replay, 20)
print(f"PyTorch's cached empty of 4 KiB: {cpu(lambda: torch.empty(1024, device='cuda')):.2f} µs")
try:
    import cupy

    add = cupy.RawKernel(
        'extern "C" __global__ void add(const float *x, float *y, unsigned n)'
        "{ unsigned i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += x[i]; }",
        "add",
    )
    a, b = cupy.zeros(1024, "f4"), cupy.zeros(1024, "f4")
    n = cupy.uint32(1024)
    row(1, f"CuPy {cupy.__version__} RawKernel", lambda: add((4,), (256,), (a, b, n)))
except ImportError as why:
    print(f"no CuPy: {why}")
