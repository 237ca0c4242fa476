"""Rounding to any format: the kernel's few numbers worked out, and what is out of the ordinary led around it.

Most formats and numbers go straight to `kernel`. The rest, own formats that reach beyond float64, have no zero, no
subnormals, no mantissa or no sign, is settled here before or after, so that the kernel stays one short text.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sixteenbits.formats import Format, as_format
from sixteenbits.kernel import TO_INTEGER, Grid, Layout, as_int64, code_array, round_array

ROUNDINGS = tuple(TO_INTEGER)
OVERFLOWS = ("ieee", "saturate")


@dataclass(frozen=True)
class How:
    """A format and the answers to every question that rounding to it asks."""

    format: Format
    rounding: str
    overflow: str
    key: int
    flush_input: bool
    flush_output: bool
    nan: float | None


def how_to_round(format, rounding="nearest_even", overflow="ieee", rng=None, flush_input=False, flush_output=False,
                 nan=None) -> How:
    """The arguments of `codec.round_to`, checked."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding is {rounding!r}; choose one of {', '.join(ROUNDINGS)}")
    if overflow not in OVERFLOWS:
        raise ValueError(f"overflow is {overflow!r}; choose one of {', '.join(OVERFLOWS)}")
    if rounding == "stochastic" and rng is None:
        raise ValueError("stochastic rounding needs rng: an int seed, a NumPy Generator or a torch Generator")
    key = _key(rng) if rounding == "stochastic" else 0
    return How(as_format(format), rounding, overflow, key, bool(flush_input), bool(flush_output), nan)


def _key(rng: Any) -> int:
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        return int(rng) % 2**64
    if isinstance(rng, np.random.Generator):
        return int(rng.integers(2**64, dtype=np.uint64))
    if type(rng).__module__.startswith("torch") and hasattr(rng, "initial_seed"):
        import torch

        halves = torch.randint(2**32, (2,), generator=rng, device=rng.device).tolist()
        return halves[0] << 32 | halves[1]
    raise TypeError(f"rng is {rng!r}; expected an int seed, a NumPy Generator or a torch Generator")


def round_values(x, how: How, out=None):
    """Rounded values of x (float32 or float64, NumPy or torch) as an array of the same kind."""
    x, back = _ready(x, how)
    if _fits(how.format, x.dtype):
        return back(_round_plain(x, how, out))
    parts = [(chosen, _unscale(_round_plain(moved, part), part, shift))
             for chosen, moved, part, shift in _frames(x, how)]
    return back(_into(out, np.select(*zip(*parts, strict=True))))


def encode_values(x, how: How):
    x, _ = _ready(x, how)
    dtype = _code_dtype(how.format)
    frames = [(True, x, how, 0)] if _fits(how.format, x.dtype) else _frames(x, how)
    parts = []
    for chosen, moved, part, _ in frames:
        source = str(moved.dtype).removeprefix("torch.")
        grid, layout = _grid(part, source), _layout(part, source)
        parts.append((chosen, code_array(_round_plain(moved, part), grid, layout, dtype)))
    return parts[0][1] if len(parts) == 1 else np.select(*zip(*parts, strict=True))


def _code_dtype(format: Format) -> str:
    if format.bits > 64:
        raise ValueError(f"{format} has {format.bits} bits, and codes are integers of at most 64; round_to works")
    return next(f"uint{bits}" for bits in (8, 16, 32, 64) if format.bits <= bits)


def _round_plain(x, how: How, out=None):
    format, source = how.format, str(x.dtype).removeprefix("torch.")
    if format.subnormals or not format.zero:
        if out is not None and out.dtype != x.dtype:
            return _into(out, round_array(x, how.rounding, _grid(how, source), how.key))
        return round_array(x, how.rounding, _grid(how, source), how.key, out)
    # Between zero and the smallest normal number lies nothing: one grid step, as in a format without mantissa.
    bare = replace(how, format=replace(format, mantissa_bits=0, nan="none", infinities=False, subnormals=True))
    full = replace(how, format=replace(format, subnormals=True))
    small = np.abs(x) < format.smallest_normal
    return _into(out, np.where(small, _round_plain(x, bare), _round_plain(x, full)))


def _into(out, result):
    if out is None:
        return result
    out[...] = result
    return out


# -- what is out of the ordinary ---------------------------------------------------------------------------------------

#: mantissa bits, exponents of the smallest normal, smallest subnormal and largest number
_WINDOWS = {"float32": (23, -126, -149, 127), "float64": (52, -1022, -1074, 1023)}


def _fits(format: Format, dtype) -> bool:
    """Whether the kernel can compute in this dtype: it holds the format, and no number vanishes against its grid."""
    mantissa_bits, emin, tiny, emax = _WINDOWS[str(dtype).removeprefix("torch.")]
    return (format.mantissa_bits <= mantissa_bits and emin <= format.emin <= 1
            and tiny <= format.emin - format.mantissa_bits and format.emax <= emax)


def _ready(x, how: How):
    """x with NaN dealt with, in a dtype that the kernel can compute in, and the way back to the kind of x."""
    format = how.format
    unusual = not (format.signed and format.zero and format.mantissa_bits and format.subnormals)
    tensor = not isinstance(x, np.ndarray)
    if tensor and (unusual or not _fits(format, "float64")):  # rare: by way of main memory
        import torch

        device = x.device
        x, back = x.cpu().numpy(), lambda y: torch.from_numpy(np.asarray(y)).to(device)
    else:
        back = lambda y: y  # noqa: E731
    if unusual:
        x = _settle(x.astype(np.float64), how)
    if not format.has_nan:
        x = _replace_nan(x, how)
    if not _fits(format, x.dtype):
        x = x.astype(np.float64) if isinstance(x, np.ndarray) else x.double()
    return x, back


def _settle(x: np.ndarray, how: How) -> np.ndarray:
    """x where the kernel's grid of integers would not say it: signs, zeros and ties that a format does not have."""
    format = how.format
    if not format.signed:
        x = np.where(x < 0, np.nan, np.abs(x))
    if not format.zero:
        x = np.where(np.abs(x) < format.smallest_normal, np.copysign(format.smallest_normal, x), x)
    if format.mantissa_bits == 0 and how.rounding == "nearest_even":
        # Both neighbors of a tie are powers of two, 1 and 2 grid steps: the parity is that of the exponent field.
        fraction, exponent = np.frexp(x)
        tie_down = (np.abs(fraction) == 0.75) & ((exponent - 1 + format.bias) % 2 == 0) & (exponent > format.emin)
        x = np.where(tie_down, np.copysign(np.ldexp(0.5, exponent), x), x)
    return x


def _replace_nan(x, how: How):
    tensor = not isinstance(x, np.ndarray)
    if (x.numel() if tensor else x.size) == 0 or not bool((x.min() != x.min()) if not tensor else (x != x).any()):
        return x
    if how.nan is None:
        reason = "" if how.format.signed else " (negative numbers count as NaN in an unsigned format)"
        raise ValueError(f"x holds NaN, and {how.format} has no code for it{reason}; "
                         "say what to put there, for example nan=0.0")
    if tensor:
        return x.masked_fill(x != x, how.nan)
    return np.where(np.isnan(x), x.dtype.type(how.nan), x)


def _frames(x: np.ndarray, how: How) -> list:
    """(where it holds, x moved by a power of two, the format moved alike, the shift) for formats beyond float64.

    Moving both by 2**shift changes no rounding. What cannot matter is kept inside the range: numbers far below the
    smallest value stay tiny, finite ones far above the largest stay finite.
    """
    format, size = how.format, np.abs(x)
    if format.emin > 1:
        cases = [(np.ones(x.shape, bool), -format.emin)]
    elif format.emax < -900:
        cases = [(np.ones(x.shape, bool), -format.emax)]
    else:
        cases = [(size < 2.0**-900, 128), (size > 2.0**900, -128), (np.ones(x.shape, bool), 0)]
    frames = []
    for chosen, shift in cases:
        with np.errstate(over="ignore", under="ignore"):
            moved = np.ldexp(x, shift)
        moved = np.where((size > 0) & (np.abs(moved) < 2.0**-960), np.copysign(2.0**-960, x), moved)
        moved = np.where(np.isinf(moved) & np.isfinite(x), np.copysign(np.finfo(np.float64).max, x), moved)
        part = replace(how, format=replace(format, bias=format.bias - shift))
        frames.append((chosen, moved if shift else x, part, shift))
    return frames


def _unscale(y: np.ndarray, how: How, shift: int) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(y, -shift)
        lost = np.isfinite(y) & (np.ldexp(values, shift) != y)
    if lost.any() or (not _infinite_stays(how) and np.isinf(y).any()):
        raise OverflowError(f"a value of {how.format} that x rounds to does not fit float64; encode gives its code")
    return values


def _infinite_stays(how: How) -> bool:
    return how.format.infinities and how.overflow == "ieee"


@functools.cache
def _grid(how: How, source: str) -> Grid:
    format = how.format
    _, emin, _, emax = _WINDOWS[source]
    try:
        largest = min(format.max, float(np.finfo(source).max))
    except OverflowError:  # beyond float64: infinity stands for the largest value, see _frames
        largest = float(np.finfo(source).max)
        beyond = np.inf
    else:
        beyond = format.max
    limit = beyond
    if how.overflow == "ieee" and format.has_nan | format.infinities:
        limit = np.inf if format.infinities else np.nan
    toward = how.rounding
    return Grid(
        lowest=2.0 ** max(format.emin, emin), highest=2.0 ** min(format.emax, emax),
        half_steps=2.0 ** (format.mantissa_bits - 1), eps=format.eps, max=largest, infinite=limit,
        above=beyond if toward in ("toward_zero", "toward_negative") else limit,
        below=-(beyond if toward in ("toward_zero", "toward_positive") else limit),
        zero=-0.0 if format.has_minus_zero else 0.0,
        flush_input=2.0**format.emin if how.flush_input else 0.0,
        flush_output=2.0**format.emin if how.flush_output else 0.0,
        huge=float(np.finfo(source).max),
    )


@functools.cache
def _layout(how: How, source: str) -> Layout:
    format, (mantissa_bits, emin, _, _) = how.format, _WINDOWS[source]
    return Layout(
        drop=mantissa_bits - format.mantissa_bits,
        offset=(1 - emin - format.bias) << format.mantissa_bits,
        sign=as_int64(2**format.magnitude_bits) if format.signed else 0,
        infinity=format.infinity_code if _infinite_stays(how) else format.max_code,
        nan=as_int64(format.nan_code) if format.has_nan else 0,
    )
