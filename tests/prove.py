"""Rounding to nearest even, and encoding, proved on every one of the 2**32 float32 inputs.

    python -m tests.prove [--formats fp16 bf16 ...] [--processes 2] [--again]

Each format is compared bit for bit with the casts of torch and of ml_dtypes, where they have it. Where their rules for
overflow and NaN depart from the format's own, ours are set to theirs, and the output says so. What is finished is kept
in _build/prove.json: a run that was stopped goes on where it was, unless the code or a version has changed since.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import multiprocessing
import platform
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numba
import numpy as np
import torch

from sixteenbits.codec import encode, round_to
from sixteenbits.formats import FORMATS

ROOT = Path(__file__).resolve().parents[1]
STATE = ROOT / "_build" / "prove.json"
PROVED = ["fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1fn"]
SLICES, SLICE, BLOCK = 256, 1 << 24, 1 << 18  # 256 * 2**24 = 2**32 inputs, in blocks that fit into the cache
VERSIONS = {"torch": torch.__version__, "ml_dtypes": ml_dtypes.__version__, "numpy": np.__version__,
            "numba": numba.__version__}


@dataclass(frozen=True)
class Proof:
    """One format against the cast of one library."""

    format: str
    peer: str

    @property
    def name(self) -> str:
        return f"{FORMATS[self.format].title} against {self.peer}"

    def cast(self, x: np.ndarray) -> np.ndarray:
        """The codes that the library gives for float32 inputs."""
        unsigned, dtype = f"u{max(FORMATS[self.format].bits // 8, 1)}", FORMATS[self.format].dtype
        if self.peer == "torch":
            return torch.from_numpy(x).to(getattr(torch, dtype)).view(torch.uint8).numpy().view(unsigned)
        with np.errstate(all="ignore"):
            return x.astype(getattr(ml_dtypes, dtype)).view(unsigned)

    def values(self) -> np.ndarray:
        """What the library says that each code is worth, in float32."""
        format = FORMATS[self.format]
        codes = np.arange(2**format.bits).astype(f"u{max(format.bits // 8, 1)}")
        if self.peer == "torch":
            return torch.from_numpy(codes).view(getattr(torch, format.dtype)).float().numpy()
        with np.errstate(invalid="ignore"):  # signaling NaNs
            return codes.view(getattr(ml_dtypes, format.dtype)).astype(np.float32)

    @functools.cached_property
    def overflow(self) -> str:
        """The library's rule for what is too large, found by asking it what becomes of infinity."""
        worth = self.values()[self.cast(np.array([np.inf], np.float32))[0]]
        return "saturate" if worth == FORMATS[self.format].max else "ieee"

    @property
    def rules(self) -> str:
        format = FORMATS[self.format]
        if not format.has_nan:
            return "the format has neither infinity nor NaN: overflow gives the largest value; inputs of NaN left out"
        if self.overflow == "saturate":
            return f"{self.peer} saturates overflow and infinity, so overflow=\"saturate\" here; NaN stays NaN"
        return f"same rules: overflow gives {'infinity' if format.infinities else 'NaN'}, NaN stays NaN"


PROOFS = [Proof(name, peer) for name in PROVED for peer, module in (("torch", torch), ("ml_dtypes", ml_dtypes))
          if hasattr(module, FORMATS[name].dtype) and (name, peer) != ("fp4_e2m1fn", "torch")]


def compare(task: tuple[Proof, int]) -> tuple[Proof, int, dict]:
    """Counts over one slice of the inputs, and the first that differ."""
    proof, number = task
    torch.set_num_threads(1)
    peer_values, total, first, started = proof.values(), Counter(), [], time.process_time()
    for start in range(number * SLICE, (number + 1) * SLICE, BLOCK):
        bits = np.arange(start, start + BLOCK, dtype=np.uint32)
        counts, wrong = compare_block(proof, bits, peer_values)
        total.update(counts)
        first += [hex(b) for b in bits[wrong][:3].tolist()]
    return proof, number, dict(total) | {"first": first[:3], "seconds": time.process_time() - started}


def compare_block(proof: Proof, bits: np.ndarray, peer_values: np.ndarray) -> tuple[dict, np.ndarray]:
    x, format = bits.view(np.float32), FORMATS[proof.format]
    nan, codes, got = np.isnan(x), proof.cast(x), round_to(x, format, overflow=proof.overflow, nan=0.0)
    wanted = peer_values[codes]
    any_nan = np.isnan(got) & np.isnan(wanted) if format.has_nan else nan  # sign and payload of a NaN are free
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | any_nan
    same_code = (encode(x, format, overflow=proof.overflow, nan=0.0) == codes) | any_nan
    size, finite = np.abs(x), np.isfinite(x)
    where = {
        "NaN": nan, "infinite": np.isinf(x), "already exact": (got == x) & finite, "rounded": (got != x) & finite,
        "beyond the largest value": finite & (size > format.max),
        "below the smallest normal": (size < format.smallest_normal) & (size > 0), "to zero": (got == 0) & (size > 0),
        "values that differ": ~same, "codes that differ": ~same_code,
    }
    counts = {name: int(np.count_nonzero(chosen)) for name, chosen in where.items()}
    return {"inputs": bits.size} | counts, ~(same & same_code)


# -- what was finished -------------------------------------------------------------------------------------------------


def digest() -> str:
    """A hash of all that the result depends on: another one, and the proof starts anew."""
    files = [Path(__file__), *(ROOT / "lib" / "sixteenbits" / f"{m}.py" for m in
                               ("arrays", "codec", "exact", "formats", "kernel", "rounding"))]
    text = b"".join(file.read_bytes() for file in files) + json.dumps(VERSIONS).encode()
    return hashlib.sha256(text).hexdigest()


class Record:
    """Counts per proof and slice, on disk."""

    def __init__(self, again: bool):
        self.digest, self.saved = digest(), time.monotonic()
        old = json.loads(STATE.read_text()) if STATE.exists() and not again else {}
        self.done = old.get("done", {}) if old.get("digest") == self.digest else {}
        self.seconds = old.get("seconds", 0.0) if self.done else 0.0

    def add(self, proof: Proof, number: int, counts: dict) -> None:
        self.done.setdefault(proof.name, {})[str(number)] = counts
        if time.monotonic() - self.saved > 2:
            self.save()

    def save(self) -> None:
        self.seconds += time.monotonic() - self.saved
        self.saved = time.monotonic()
        STATE.parent.mkdir(exist_ok=True)
        part = STATE.with_suffix(".part")
        part.write_text(json.dumps({"digest": self.digest, "seconds": self.seconds, "done": self.done}))
        part.replace(STATE)  # at once: a stop leaves the old file or the new one

    def missing(self, proofs: list[Proof]) -> list[tuple[Proof, int]]:
        return [(p, n) for p in proofs for n in range(SLICES) if str(n) not in self.done.get(p.name, {})]

    def total(self, proof: Proof) -> tuple[Counter, list[str], float]:
        slices = self.done[proof.name].values()
        counts, first = Counter(), [bits for s in slices for bits in s["first"]]
        for part in slices:
            counts.update({name: n for name, n in part.items() if name not in ("first", "seconds")})
        return counts, first[:5], sum(part["seconds"] for part in slices)


# -- what is printed ---------------------------------------------------------------------------------------------------


def bar(done: int, all_: int, started: float, new: int, what: str) -> str:
    left = (time.monotonic() - started) / max(new, 1) * (all_ - done)
    filled = "#" * (30 * done // all_)
    return f"[{filled:<30}] {100 * done / all_:5.1f} %  {left / 60:4.1f} min left  {what}"


def show(text: str, over: bool) -> None:
    """A line that the next one replaces on a terminal, and that a log shows only now and then."""
    if sys.stdout.isatty():
        print(f"\r\033[K{text}", end="" if over else "\n", flush=True)
    else:
        print(text, flush=True)


def verdict(record: Record, proof: Proof) -> bool:
    """Prints the counts of one proof; whether nothing differs."""
    counts, first, seconds = record.total(proof)
    wrong = counts["values that differ"] + counts["codes that differ"]
    print(f"\n{proof.name} {VERSIONS[proof.peer]}: {'DIFFERS' if wrong else 'proved'}"
          f" in {seconds:.0f} seconds of one core\n  {proof.rules}")
    for name, n in counts.items():
        print(f"  {n:13,}  {name}")
    if first:
        print(f"  first inputs that differ: {', '.join(first)}")
    return wrong == 0


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--formats", nargs="+", choices=PROVED, default=PROVED)
    options.add_argument("--processes", type=int, default=min(2, multiprocessing.cpu_count()))
    options.add_argument("--again", action="store_true", help="forget what was finished")
    arguments = options.parse_args()
    proofs = [proof for proof in PROOFS if proof.format in arguments.formats]
    record = Record(arguments.again)
    run(record, proofs, arguments.processes)
    print(f"\nPython {platform.python_version()}, " + ", ".join(f"{k} {v}" for k, v in VERSIONS.items()))
    verdicts = [verdict(record, proof) for proof in proofs]
    print(f"\n{sum(verdicts)} of {len(verdicts)} proved, {len(proofs) * SLICES * SLICE:,} comparisons, "
          f"{record.seconds / 60:.1f} minutes with {arguments.processes} process(es)")
    return 0 if all(verdicts) else 1


def run(record: Record, proofs: list[Proof], processes: int) -> None:
    tasks, all_ = record.missing(proofs), len(proofs) * SLICES
    if not tasks:
        return
    started = shown = record.saved = time.monotonic()
    before = all_ - len(tasks)
    show(f"{all_} slices of 2**24 inputs, {before} finished before", over=False)
    try:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            for new, (proof, number, counts) in enumerate(pool.imap_unordered(compare, tasks), 1):
                record.add(proof, number, counts)
                if sys.stdout.isatty() or time.monotonic() - shown > 15 or new == len(tasks):
                    shown = time.monotonic()
                    show(bar(before + new, all_, started, new, proof.name), over=new < len(tasks))
    finally:
        record.save()


if __name__ == "__main__":
    sys.exit(main())
