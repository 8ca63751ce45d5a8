"""What PyTorch takes for what examples/all_reduce.rs measures: one process a GPU, medians."""

import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SIZES = [(1 << 30, 10), (64 << 20, 50), (1 << 20, 200), (4096, 500)]
TIMES = 7


def rank(number, ranks):
    torch.cuda.set_device(number)
    dist.init_process_group("nccl", rank=number, world_size=ranks, device_id=torch.device("cuda", number))
    for size, many in SIZES:
        x = torch.full((size // 4,), number + 1.0, device="cuda")
        times = []
        for _ in range(TIMES + 1):
            dist.barrier()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(many):
                dist.all_reduce(x, op=dist.ReduceOp.MAX)
            torch.cuda.synchronize()
            times.append((time.perf_counter() - start) / many)
        assert bool((x == ranks).all())
        took = statistics.median(times[1:])
        bus = 2 * (ranks - 1) / ranks * size / took / 1e9
        if number == 0:
            print(
                f"PyTorch: all-reduce of {size >> 10} KiB over {ranks} ranks: {took * 1e6:.1f} us "
                f"(least {min(times[1:]) * 1e6:.1f}, most {max(times[1:]) * 1e6:.1f}), bus bandwidth {bus:.1f} GB/s",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    ranks = torch.cuda.device_count()
    print(f"torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {ranks} GPUs", flush=True)
    mp.spawn(rank, args=(ranks,), nprocs=ranks)
