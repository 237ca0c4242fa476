"""What emulation costs: a training step of a small Transformer, against the same step in float32.

    python tests/benchmarks/bench_emulation.py

One thread. Milliseconds of processor time, the best of several rounds in turn, so that other processes disturb all
rows alike. The optimizer is not part of the step. `fast_half` stands beside PyTorch's own products of 16-bit matrices.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import torch
from torch.nn import functional as F

from sixteenbits.emulation import emulate
from sixteenbits.fast_half import fast_half, slow_dtypes
from sixteenbits.model import Transformer

SIZES = {"width 64, 2 layers": {"width": 64, "layers": 2, "heads": 4},
         "width 128, 4 layers": {"width": 128, "layers": 4, "heads": 4}}
ROUNDS = 4


def step(size: dict) -> Callable[[], None]:
    """Forward and backward pass over 16 pieces of 64 bytes."""
    generator = torch.Generator().manual_seed(0)
    model = Transformer(107, generator=generator, **size)
    ids = torch.randint(0, 107, (16, 65), generator=generator)

    def run():
        model.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten()).backward()

    return run


def contexts() -> dict[str, Callable]:
    """Name -> what to run the step in. FP16 with PyTorch's own products would take minutes."""
    return {
        "float32": contextlib.nullcontext,
        "emulate fp16": lambda: emulate("fp16"),
        "emulate bf16": lambda: emulate("bf16"),
        "emulate bf16, stochastic": lambda: emulate("bf16", rounding="stochastic", rng=0),
        "emulate fp8_e4m3fn, saturating": lambda: emulate("fp8_e4m3fn", overflow="saturate"),
        "emulate bf16 in products only": lambda: emulate("bf16", only="matmul"),
        "factors of products in fp8": lambda: emulate(matmul_inputs="fp8_e4m3fn", matmul_gradients="fp8_e5m2"),
        "factors of products in mxfp8": lambda: emulate(matmul_inputs="mxfp8_e4m3", matmul_gradients="mxfp8_e5m2"),
        "factors of products in nvfp4": lambda: emulate(matmul_inputs="nvfp4"),
        "bf16, autocast, PyTorch's products": lambda: torch.autocast("cpu", torch.bfloat16),
        "bf16, autocast, fast_half": lambda: both(fast_half(), torch.autocast("cpu", torch.bfloat16)),
        "fp16, autocast, fast_half": lambda: both(fast_half(), torch.autocast("cpu", torch.float16)),
    }


@contextlib.contextmanager
def both(outer, inner):
    with outer, inner:
        yield


def measure(size: dict) -> dict[str, float]:
    """Name -> milliseconds a step."""
    run, best = step(size), {}
    for _ in range(ROUNDS):
        for name, context in contexts().items():
            with context():
                run()  # compiles what is to be compiled
                start = time.process_time()
                run()
                best[name] = min(best.get(name, float("inf")), 1000 * (time.process_time() - start))
    return best


def main() -> None:
    torch.set_num_threads(1)
    slow = ", ".join(str(dtype).removeprefix("torch.") for dtype in slow_dtypes()) or "none"
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}; "
          f"dtypes without instructions for matrix products: {slow}")
    for title, size in SIZES.items():
        best = measure(size)
        print(f"\n{title:<40} {'ms':>8} {'ratio':>7}")
        for name, ms in best.items():
            print(f"  {name:<38} {ms:8.1f} {ms / best['float32']:7.2f}")


if __name__ == "__main__":
    main()
