"""How long a step of our optimizers takes beside torch's, as ratios in one run.

    python tests/benchmarks/bench_optim.py

The contestants take turns, round after round, on equal parameters. What counts is processor time, on one thread, so
that a busy machine does not count against whoever was interrupted; each ratio is the median over the rounds. torchao
is measured where it is installed; it compiles its step, which takes minutes and a C++ compiler.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from sixteenbits.model import Transformer
from sixteenbits.optim import AdamW

REFERENCE = "torch foreach, FP32"
OURS = {
    "nearest": {"update": "nearest"},
    "Kahan": {"update": "kahan"},
    "FP32 master": {"update": "master", "moments": "fp32"},
    "stochastic weights": {"update": "stochastic"},
    "stochastic weights and moments": {"update": "stochastic", "moment_rounding": "stochastic"},
}


def contestants() -> dict[str, tuple[torch.dtype, object]]:
    """Name -> (dtype of the weights, function from parameters to optimizer)."""
    found = {
        REFERENCE: (torch.float32, lambda p: torch.optim.AdamW(p, foreach=True)),
        "torch fused, FP32": (torch.float32, lambda p: torch.optim.AdamW(p, fused=True)),
        "torch foreach, BF16": (torch.bfloat16, lambda p: torch.optim.AdamW(p, foreach=True)),
        "torch fused, BF16": (torch.bfloat16, lambda p: torch.optim.AdamW(p, fused=True)),
        "ours, FP32": (torch.float32, AdamW),
    }
    for name, options in OURS.items():
        found[f"ours, BF16, {name}"] = torch.bfloat16, lambda p, options=options: AdamW(p, **options)
    try:
        from torchao.optim import _AdamW
    except ImportError:
        print("torchao is not installed: left out")
    else:
        found["torchao compiled, BF16, stochastic"] = (
            torch.bfloat16, lambda p: _AdamW(p, bf16_stochastic_round=True))
    return found


def prepare(dtype: torch.dtype, make, shapes: list[torch.Size]):
    """An optimizer over parameters of these shapes, with gradients, its first steps (and compiling) done."""
    generator = torch.Generator().manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]
    for p in parameters:
        p.grad = torch.randn(p.shape, generator=generator).to(dtype)
    optimizer = make(parameters)
    for _ in range(3):
        optimizer.step()
    return optimizer


def seconds(function) -> float:
    start = time.thread_time()
    function()
    return time.thread_time() - start


def compare(shapes: list[torch.Size], rounds: int) -> None:
    """Print the median time of each contestant, and its ratio to torch's FP32 foreach."""
    ready = {name: prepare(dtype, make, shapes) for name, (dtype, make) in contestants().items()}
    times = {name: [] for name in ready}
    for _ in range(rounds):
        for name, optimizer in ready.items():
            times[name].append(seconds(optimizer.step))
    n, tensors = sum(shape.numel() for shape in shapes), f"{len(shapes)} tensor{'s' if len(shapes) > 1 else ''}"
    print(f"AdamW step, {n:,} parameters in {tensors}, 1 thread, torch {torch.__version__}")
    for name, own in times.items():
        ratio = statistics.median(a / b for a, b in zip(own, times[REFERENCE], strict=True))
        print(f"{name:42s} {1e3 * statistics.median(own):9.3f} ms {ratio:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    shapes = [p.shape for p in Transformer(107, width=options.width, layers=options.layers).parameters()]
    compare(shapes, options.rounds)
    compare([torch.Size([sum(shape.numel() for shape in shapes)])], options.rounds)


if __name__ == "__main__":
    main()
