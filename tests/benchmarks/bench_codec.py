"""How fast numbers are rounded, beside a plain copy and beside other libraries, on one thread.

    python tests/benchmarks/bench_codec.py [--sizes 1 16] [--rounds 7]

Everything that is compared takes turns in one process, round after round, and the best round counts, in processor
time of the thread: other work on the machine disturbs that least. Speeds are in million float32 elements a second, from
float32 to rounded float32, a fresh result each time unless it says "out=". pychop, qtorch and torchao are measured
where they are installed; qtorch compiles itself on first use, which takes minutes and a C++ compiler.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import platform
import time
import tracemalloc
from collections.abc import Callable

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import torch

from sixteenbits.codec import ROUNDINGS, encode, round_to
from sixteenbits.formats import FORMATS
from sixteenbits.peers import load

COPY, OURS, OURS_OUT = "copy to out=", "sixteenbits", "sixteenbits, out="
COMPARED = ["fp16", "bf16", "fp8_e4m3fn", "fp4_e2m1fn"]
SLOW = 1 << 20  # slow libraries are measured on this many elements of a larger array
GFLOAT = {"fp16": "binary16", "bf16": "bfloat16", "fp8_e4m3fn": "ocp_e4m3", "fp4_e2m1fn": "ocp_e2m1"}
Contender = Callable[[], object]


def optional(module: str):
    """The module, or None where it is not installed or does not work."""
    with contextlib.suppress(Exception):
        load(module.split(".")[0])  # without what it prints
        return importlib.import_module(module)
    return None


# -- who is compared ---------------------------------------------------------------------------------------------------


def contenders(x: np.ndarray, name: str) -> dict[str, Contender]:
    """Rounding to nearest even; a name that ends in "*" is measured on the first `SLOW` elements."""
    format, out, tensor = FORMATS[name], np.empty_like(x), torch.from_numpy(x)
    part, dtype = x[:SLOW], getattr(torch, FORMATS[name].dtype, None)
    native = np.float16 if name == "fp16" else getattr(ml_dtypes, format.dtype)
    found = {
        COPY: lambda: np.copyto(out, x),
        "copy": x.copy,
        OURS: lambda: round_to(x, name),
        OURS_OUT: lambda: round_to(x, name, out=out),
        "NumPy, there and back" if name == "fp16" else "ml_dtypes, there and back":
            lambda: x.astype(native).astype(np.float32),
        "gfloat*": lambda: gfloat.round_ndarray(info, part, sat=not format.has_nan),
    }
    info = getattr(gfloat.formats, f"format_info_{GFLOAT[name]}")
    if dtype is not None:
        found["torch .to and back"] = lambda: tensor.to(dtype).float()
    if pychop := optional("pychop"):
        chop = pychop.Chop(format.exponent_bits, format.mantissa_bits, rmode=1)
        found["pychop*"] = lambda: chop(part)
    if qtorch := optional("qtorch.quant"):
        found["qtorch"] = lambda: qtorch.float_quantize(tensor, exp=format.exponent_bits, man=format.mantissa_bits,
                                                        rounding="nearest")
    if name.startswith("fp4") and (ao := optional("torchao.prototype.custom_fp_utils")):
        found["torchao, there and back"] = lambda: ao._floatx_unpacked_to_f32(
            ao._f32_to_floatx_unpacked(tensor, format.exponent_bits, format.mantissa_bits),
            format.exponent_bits, format.mantissa_bits)
    return found


def stochastic_contenders(x: np.ndarray) -> dict[str, Contender]:
    """Stochastic rounding to BF16, making the random numbers included."""
    out, tensor, part = np.empty_like(x), torch.from_numpy(x), x[:SLOW]
    rng, info = np.random.default_rng(0), gfloat.formats.format_info_bfloat16
    found = {
        COPY: lambda: np.copyto(out, x),
        OURS: lambda: round_to(x, "bf16", "stochastic", rng=1),
        OURS_OUT: lambda: round_to(x, "bf16", "stochastic", rng=1, out=out),
        "gfloat*": lambda: gfloat.round_ndarray(info, part, gfloat.RoundMode.Stochastic,
                                                srbits=rng.integers(2**32, size=part.shape), srnumbits=32),
    }
    if pychop := optional("pychop"):
        chop = pychop.Chop(8, 7, rmode=5)
        found["pychop*"] = lambda: chop(part)
    if qtorch := optional("qtorch.quant"):
        found["qtorch"] = lambda: qtorch.float_quantize(tensor, exp=8, man=7, rounding="stochastic")
    if (ao := optional("torchao.optim.quant_utils")) and hasattr(ao, "_fp32_to_bf16_sr"):
        found["torchao"] = lambda: ao._fp32_to_bf16_sr(tensor).float()
    return found


# -- measuring ---------------------------------------------------------------------------------------------------------


def speeds(x: np.ndarray, found: dict[str, Contender], rounds: int) -> dict[str, float]:
    """Million elements a second of each, the best of the rounds."""
    best = dict.fromkeys(found, float("inf"))
    for function in found.values():
        function()  # compile, fill caches
    for turn in range(rounds):
        for name, function in found.items():
            if name.endswith("*") and turn >= 2:
                continue
            start = time.thread_time()
            function()
            best[name] = min(best[name], time.thread_time() - start)
    return {name: (SLOW if name.endswith("*") else x.size) / seconds / 1e6 for name, seconds in best.items()}


def show(title: str, measured: dict[str, float]) -> None:
    print(f"\n{title:<34}{'million/s':>10}{'of the copy':>13}{'we are faster by':>18}")
    for name, speed in sorted(measured.items(), key=lambda item: -item[1]):
        print(f"  {name:<32}{speed:>10,.0f}{speed / measured[COPY]:>13.2f}{measured[OURS] / speed:>18.2f}")


def every_format_and_mode(x: np.ndarray, rounds: int) -> dict[tuple[str, str], float]:
    """The speed of each format and mode but stochastic, as a share of the copy's speed."""
    out, shares = np.empty_like(x), {}
    positive = np.abs(x)
    for name, format in FORMATS.items():
        source = x if format.signed else positive
        found = {mode: lambda mode=mode, source=source, name=name: round_to(source, name, mode, out=out)
                 for mode in ROUNDINGS if mode != "stochastic"}
        measured = speeds(x, {COPY: lambda: np.copyto(out, x)} | found, rounds)
        shares |= {(name, mode): measured[mode] / measured[COPY] for mode in found}
        print(f"  {name:<14}" + "".join(f"{shares[name, mode]:>17.2f}" for mode in found))
    return shares


def memory(x: np.ndarray) -> dict[str, float]:
    """Peak memory of rounding and encoding, input and output included, over that of input and output."""
    ratios = {}
    for name, format in FORMATS.items():
        source = x if format.signed else np.abs(x)
        for what, function in (("round_to", round_to), ("encode", encode)):
            tracemalloc.start()  # NumPy reports its arrays to it
            result = function(source, name)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            ratios[f"{what} {name}"] = (source.nbytes + peak) / (source.nbytes + result.nbytes)
    return ratios


# -- targets -----------------------------------------------------------------------------------------------------------


def verdict(reached: bool, text: str) -> None:
    print(f"  {'reached    ' if reached else 'NOT REACHED'}  {text}")


def targets(size: str, nearest: dict[str, dict[str, float]], stochastic: dict[str, float], shares: dict) -> None:
    print(f"\nTargets at {size} elements")
    for name in COMPARED:
        speed = nearest[name]
        peers = {peer: s for peer, s in speed.items() if peer not in (COPY, "copy", OURS, OURS_OUT)}
        native = peers.pop("torch .to and back", None) if name in ("fp16", "bf16", "fp8_e4m3fn") else None
        fastest = max(peers, key=peers.get)
        factor = speed[OURS] / peers[fastest]
        verdict(factor > 1, f"{name}: {factor:.1f} times the fastest peer, {fastest}")
        if native:
            verdict(speed[OURS] * 2 >= native, f"{name}: {speed[OURS] / native:.2f} of torch's own cast, at least 0.5")
    lowest = min(shares, key=shares.get)
    of_compared = min(share for (name, _), share in shares.items() if name in COMPARED)
    verdict(shares[lowest] >= 0.2, f"every format and mode: {shares[lowest]:.2f} of the copy or more, at least 0.2 "
                                   f"(lowest: {' '.join(lowest)}; of the four compared formats {of_compared:.2f})")
    for peer in ("qtorch", "pychop*"):
        if peer in stochastic:
            factor = stochastic[OURS] / stochastic[peer]
            verdict(factor >= 5, f"stochastic BF16: {factor:.1f} times {peer.strip('*')}, at least 5")
        else:
            print(f"  not measured {peer.strip('*')}: not installed")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sizes", type=int, nargs="+", default=[1, 16], help="in 2**20 elements")
    options.add_argument("--rounds", type=int, default=7)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    print(f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}, Python {platform.python_version()}, "
          f"NumPy {np.__version__}, torch {torch.__version__}; * on {SLOW:,} elements")
    for size in arguments.sizes:
        x = np.random.default_rng(0).standard_normal(size << 20, dtype=np.float32) * 2
        label = f"{size << 20:,}"
        nearest = {name: speeds(x, contenders(x, name), arguments.rounds) for name in COMPARED}
        for name in COMPARED:
            show(f"{FORMATS[name]}, {label}", nearest[name])
        stochastic = speeds(x, stochastic_contenders(x), arguments.rounds)
        show(f"stochastic BF16, {label}", stochastic)
        print(f"\nEvery format and mode at {label} elements, as a share of the copy's speed\n{'':<16}"
              + "".join(f"{mode:>17}" for mode in ROUNDINGS[:-1]))
        shares = every_format_and_mode(x, max(arguments.rounds // 2, 2))
        targets(label, nearest, stochastic, shares)
    ratios = memory(x)
    worst = max(ratios, key=ratios.get)
    print(f"\nMemory at {label} elements: peak over input and output")
    verdict(ratios[worst] <= 2, f"at most 2; highest {ratios[worst]:.2f}, {worst}")


if __name__ == "__main__":
    main()
