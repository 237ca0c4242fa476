"""Rounding to any format: the kernel's few numbers worked out, and what is out of the ordinary led around it.

Most formats and numbers go straight to `kernel`. The rest, own formats that reach beyond float64, have no zero, no
subnormals, no mantissa or no sign, is settled here before or after, so that the kernel stays one short text.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sixteenbits.arrays import keep_value, widen
from sixteenbits.formats import Format, as_format
from sixteenbits.kernel import SPLITMIX64, TO_INTEGER, Grid, Lacks, Layout, as_int64, code_array, round_array

PIECE = 1 << 18  # elements
ROUNDINGS = tuple(TO_INTEGER)
OVERFLOWS = ("ieee", "saturate")


@dataclass(frozen=True)
class How:
    """A format and the answers to every question that rounding to it asks.

    Two that differ in `key` or `nan` alone count as equal, so that the caches below do not grow with every seed.
    """

    format: Format
    rounding: str
    overflow: str
    key: int = field(compare=False)
    flush_input: bool
    flush_output: bool
    nan: float | None = field(compare=False)


def how_to_round(format, rounding="nearest_even", overflow="ieee", rng=None, flush_input=False, flush_output=False,
                 nan=None) -> How:
    """The arguments of `codec.round_to`, checked."""
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding is {rounding!r}; choose one of {', '.join(ROUNDINGS)}")
    if overflow not in OVERFLOWS:
        raise ValueError(f"overflow is {overflow!r}; choose one of {', '.join(OVERFLOWS)}")
    if rounding == "stochastic" and rng is None:
        raise ValueError("stochastic rounding needs rng: an int seed, a NumPy Generator or a torch Generator")
    if nan is not None and nan != nan:
        raise ValueError("nan is NaN; expected the number that NaN becomes in a format without NaN, for example 0.0")
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
    if _changes_nothing(how, str(x.dtype).removeprefix("torch.")):
        return _into(out, x.copy() if isinstance(x, np.ndarray) else x.clone())
    rare = _jumps(how.format) or not _fits(how.format, "float64")
    if rare and isinstance(x, np.ndarray) and x.size > PIECE:
        return _into(out, _in_pieces(round_values, x, how, np.empty(x.shape)))
    x, back = _ready(x, how)
    if _fits(how.format, "float64"):
        return back(_round_plain(x, how, out))
    parts = [(chosen, _unscale(_round_plain(moved, part), part, shift, chosen))
             for chosen, moved, part, shift in _frames(x, how)]
    return back(_into(out, np.select(*zip(*parts, strict=True))))


def encode_values(x, how: How):
    """Codes of the rounded values of x, unsigned integers in an array of the same kind."""
    dtype = _code_dtype(how.format)
    if isinstance(x, np.ndarray) and x.size > PIECE:
        return _in_pieces(encode_values, x, how, np.empty(x.shape, dtype))
    x, back = _ready(x, how)
    frames = [(True, x, how, 0)] if _fits(how.format, "float64") else _frames(x, how)
    parts = []
    for chosen, moved, part, _ in frames:
        source = _compute_dtype(part.format, moved)
        target = np.empty(moved.shape, source) if isinstance(moved, np.ndarray) else None
        grid, layout = _grid(part, source), _layout(part, source)
        parts.append((chosen, code_array(_round_plain(moved, part, target), grid, layout, dtype)))
    return back(parts[0][1] if len(parts) == 1 else np.select(*zip(*parts, strict=True)))


def _in_pieces(function, x: np.ndarray, how: How, out: np.ndarray) -> np.ndarray:
    """function(x, how), written to `out` a piece at a time: what is computed on the way stays small."""
    given, written = np.ascontiguousarray(x).reshape(-1), out.reshape(-1)
    for start in range(0, given.size, PIECE):
        piece = slice(start, start + PIECE)
        moved = replace(how, key=(how.key + start * SPLITMIX64[0]) % 2**64)  # element `start` draws as it would have
        written[piece] = function(given[piece], moved)
    return out


def _code_dtype(format: Format) -> str:
    if format.bits > 64:
        raise ValueError(f"{format} has {format.bits} bits, and codes are integers of at most 64; round_to works")
    return next(f"uint{bits}" for bits in (8, 16, 32, 64) if format.bits <= bits)


def _round_plain(x, how: How, out=None):
    format = how.format
    if not _jumps(format):
        return _run(x, how, out)
    # Between zero and the smallest normal number lies nothing: one grid step, as in a format without mantissa.
    nan = "fnuz" if format.nan == "fnuz" else "none"  # has to do with minus zero
    bare = replace(how, format=replace(format, mantissa_bits=0, nan=nan, infinities=False, subnormals=True))
    full = replace(how, format=replace(format, subnormals=True))
    x = widen(x, np.float64)
    small = np.abs(x) < 2.0**format.emin  # 0 where that lies below float64
    return _into(out, np.where(small, _run(x, bare), _run(x, full)))


def _run(x, how: How, out=None):
    """The kernel, on numbers and a format that it can deal with."""
    format, source = how.format, _compute_dtype(how.format, x)
    even = format.bias % 2 == 0 and not format.mantissa_bits
    lacks = Lacks(not format.signed, not format.zero, not format.mantissa_bits, even)
    arguments = x, how.rounding, _grid(how, source), how.key
    if not isinstance(x, np.ndarray):
        return round_array(*arguments, lacks=lacks)
    result = x.dtype if _is_held(how, x.dtype.name) else np.dtype(source)
    if out is not None and out.dtype.itemsize < result.itemsize:
        return _into(out, round_array(*arguments, dtype=source, lacks=lacks))
    return round_array(*arguments, np.empty(x.shape, result) if out is None else out, source, lacks)


def _into(out, result):
    if out is None:
        return result
    out[...] = keep_value(result, lambda y: y.astype(out.dtype, copy=False))
    return out


# -- what is out of the ordinary ---------------------------------------------------------------------------------------

#: mantissa bits, exponents of the smallest normal, smallest subnormal and largest number
_WINDOWS = {"float32": (23, -126, -149, 127), "float64": (52, -1022, -1074, 1023)}


def _fits(format: Format, dtype: str) -> bool:
    """Whether the kernel can compute in this dtype: it holds the format, and no number vanishes against its grid."""
    highest = 1 if format.mantissa_bits and not _jumps(format) else 0  # above, the tiniest x would be halved to nothing
    return _holds(dtype, format) and _WINDOWS[dtype][1] <= format.emin <= highest


def _holds(dtype: str, format: Format) -> bool:
    mantissa_bits, _, tiny, emax = _WINDOWS[dtype]
    return (format.mantissa_bits <= mantissa_bits and tiny <= format.emin - format.mantissa_bits
            and format.emax <= emax)


def _is_held(how: How, dtype: str) -> bool:
    """Whether whatever a number of this dtype is rounded to is a number of this dtype again."""
    return _holds(dtype, how.format) or _has_all(how, dtype)


def _has_all(how: How, dtype: str) -> bool:
    """Whether every number of this dtype is a value of the format, infinities included."""
    format, (mantissa_bits, emin, _, emax) = how.format, _WINDOWS[dtype]
    wider = format.mantissa_bits >= mantissa_bits and format.emin <= emin and format.emax >= emax
    return wider and format.zero and format.subnormals and _infinite_stays(how)


def _changes_nothing(how: How, dtype: str) -> bool:
    """Whether there is nothing to round: FP32 from float32, say."""
    format = how.format
    return (_has_all(how, dtype) and format.signed and format.has_minus_zero and format.has_nan
            and not (how.flush_input or how.flush_output))


def _compute_dtype(format: Format, x) -> str:
    dtype = str(x.dtype).removeprefix("torch.")
    return dtype if _fits(format, dtype) else "float64"


def _jumps(format: Format) -> bool:
    """Whether the grid of the format jumps from zero to the smallest normal number."""
    return format.zero and not format.subnormals


def _ready(x, how: How):
    """x with NaN dealt with, where the kernel can compute on it, and the way back to the kind of x."""
    format = how.format
    back = lambda y: y  # noqa: E731
    if not isinstance(x, np.ndarray):
        import torch

        if _jumps(format) or not _fits(format, "float64"):  # rare: by way of main memory
            device = x.device
            x, back = x.cpu().numpy(), lambda y: torch.from_numpy(np.asarray(y)).to(device)
        elif _compute_dtype(format, x) == "float64":
            x = x.double()
    if not format.has_nan:
        x = _replace_nan(x, how)
    return (x if _fits(format, "float64") else widen(x, np.float64)), back


def _replace_nan(x, how: How):
    tensor, unsigned = not isinstance(x, np.ndarray), not how.format.signed
    if (x.numel() if tensor else x.size) == 0:
        return x
    with np.errstate(invalid="ignore"):
        least = x.min()  # NaN if there is one
    if not (least != least or (unsigned and least < 0)):
        return x
    if how.nan is None:
        reason = " (negative numbers count as NaN in an unsigned format)" if unsigned else ""
        raise ValueError(f"x holds NaN, and {how.format} has no code for it{reason}; "
                         "say what to put there, for example nan=0.0")
    wrong = (x != x) | (x < 0) if unsigned else x != x
    return x.masked_fill(wrong, how.nan) if tensor else np.where(wrong, x.dtype.type(how.nan), x)


def _frames(x: np.ndarray, how: How) -> list:
    """(where it holds, x moved by a power of two, the format moved alike, the shift) for formats beyond float64.

    Moving both by 2**shift changes no rounding. What cannot matter is kept inside the range: numbers far below the
    smallest value stay tiny, finite ones far above the largest stay finite.
    """
    format, size = how.format, np.abs(x)
    if format.emin > 0:
        cases = [(np.ones(x.shape, bool), -format.emin)]
    elif format.emax < -900:
        cases = [(np.ones(x.shape, bool), -format.emax)]
    else:
        cases = [(size < 2.0**-900, 128), (size > 2.0**900, -128), (np.ones(x.shape, bool), 0)]
    if not format.zero:
        cases.insert(0, (size == 0, -format.emin))  # zero becomes the smallest value, however small that is
    frames = []
    for chosen, shift in cases:
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            moved = np.ldexp(x, shift)
        moved = np.where((size > 0) & (np.abs(moved) < 2.0**-960), np.copysign(2.0**-960, x), moved)
        moved = np.where(np.isinf(moved) & np.isfinite(x), np.copysign(np.finfo(np.float64).max, x), moved)
        part = replace(how, format=replace(format, bias=format.bias - shift))
        frames.append((chosen, moved if shift else x, part, shift))
    return frames


def _unscale(y: np.ndarray, how: How, shift: int, chosen: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(y, -shift)
        lost = np.isfinite(y) & (np.ldexp(values, shift) != y) | (np.isinf(y) & (not _infinite_stays(how)))
    if (lost & chosen).any():
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
