"""What the kernels of real.cu must give, by PyTorch in double precision: real.py FOLDER."""

import sys

import torch

folder = sys.argv[1]
torch.manual_seed(20261130)
n = 1024
x = torch.randn(n, n)
b = torch.randn(n, n)
wide, other = x.double(), b.double()
bins = ((x + 4) * 8).floor().clamp(0, 63).long().flatten()
answers = {
    "x": x,
    "b": b,
    "reduce": wide.sum().reshape(1),
    "scan": wide.cumsum(1),
    "transpose": wide.T,
    "softmax": wide.softmax(1),
    "matmul": wide @ other,
    "histogram": torch.bincount(bins, minlength=64),
}
for name, values in answers.items():
    values.float().contiguous().numpy().tofile(f"{folder}/{name}.bin")
