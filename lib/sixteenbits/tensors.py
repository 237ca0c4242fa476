"""What a format does to a tensor: how many of its values overflow, underflow, or are rounded, and by how much.

`survey` rounds every value and says what became of it. `histogram` shows where the values lie before that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sixteenbits.arrays import floats
from sixteenbits.codec import round_to, ulp
from sixteenbits.formats import Format, as_format

#: What can become of a number that is neither zero, infinite nor NaN. Each number has exactly one fate.
FATES = {
    "exact": "stored as it is",
    "rounded": "changed to a neighboring normal number",
    "subnormal": "changed to a subnormal number, with fewer bits than a normal one has",
    "zero": "too small: becomes zero",
    "overflow": "too large: becomes infinity, NaN or the largest number, as the format has it",
}


@dataclass(frozen=True)
class Survey:
    """What a format does to a tensor.

    Attributes:
        format: the format.
        size: values in the tensor.
        zeros, infinite, nan: how many of them were that to begin with. They have no fate.
        counts: fate (a key of `FATES`) -> how many of the other values have it.
        median_error, largest_error: of the relative error |rounded - x| / |x| over those other values. A value that
            becomes zero has error 1, one that overflows has error infinity. NaN where there are no such values.
    """

    format: Format
    size: int
    zeros: int
    infinite: int
    nan: int
    counts: dict[str, int]
    median_error: float
    largest_error: float

    @property
    def nonzero(self) -> int:
        """How many values are finite and not zero."""
        return sum(self.counts.values())

    def share(self, fate: str) -> float:
        """The part of the finite values other than zero that has this fate, 0 to 1; NaN where there are none."""
        return self.counts[fate] / self.nonzero if self.nonzero else float("nan")


def values(x: Any, name: str = "the tensor") -> np.ndarray:
    """The values of a tensor as one flat float32 or float64 array, unchanged.

    Takes NumPy arrays, torch tensors on any device (dense ones, quantized ones excepted), numbers and lists.

    Raises:
        TypeError: not real numbers (text, objects, complex numbers, booleans), or a tensor without readable values.
        ValueError: empty, nothing but NaN, or integers that float64 cannot hold.
    """
    if hasattr(x, "is_meta"):
        x = _dense(x, name)
    elif getattr(getattr(x, "dtype", None), "names", None):
        raise TypeError(f"{name} has the fields {', '.join(x.dtype.names)}: give one of them, x[{x.dtype.names[0]!r}]")
    elif str(getattr(x, "dtype", "")).startswith("|V"):
        raise TypeError(f"{name} holds raw bytes ({x.dtype}), not numbers. NumPy saves bfloat16 and FP8 that way: "
                        "view it as its dtype first, for example x.view(ml_dtypes.bfloat16)")
    array = np.asarray(floats(x, name).values).reshape(-1)
    if array.size == 0:
        raise ValueError(f"{name} is empty (shape {tuple(np.shape(x))}): there is no value to look at")
    if np.isnan(array).all():
        raise ValueError(f"{name} holds nothing but NaN: there is no value to look at")
    return array


def _dense(x: Any, name: str) -> Any:
    """A torch tensor in main memory, detached, whose values NumPy can take."""
    import torch

    if x.is_meta:
        raise TypeError(f"{name} is on the meta device: it has a shape and no values")
    if x.layout is not torch.strided:
        raise TypeError(f"{name} is sparse ({x.layout}): give {name}.to_dense() or {name}.values()")
    if x.is_quantized:
        raise TypeError(f"{name} is quantized ({x.dtype}): give x.dequantize() or x.int_repr()")
    return x.detach().cpu()


def survey(x: Any, format: Format | str) -> Survey:
    """Round every value of x to the format, to nearest, and count what becomes of them.

    Args:
        x: anything that `values` takes, of any shape. Zeros, infinities and NaN are counted apart.
        format: a signed Format, or the name of one.

    Raises:
        TypeError, ValueError: as in `values`; or the format is unsigned.
    """
    format = as_format(format)
    if not format.signed:
        raise ValueError(f"{format} has no sign, so that half of an ordinary tensor is out of its reach; "
                         "survey takes signed formats")
    array = values(x)
    finite = array[np.isfinite(array)]
    numbers = finite[finite != 0]
    rounded = round_to(numbers, format, overflow="saturate")
    fates = fate(numbers, rounded, format)
    error = np.abs(rounded - numbers, dtype=np.float64) / np.abs(numbers, dtype=np.float64)
    error[fates["overflow"]] = np.inf
    return Survey(
        format, array.size, finite.size - numbers.size, int(np.isinf(array).sum()), int(np.isnan(array).sum()),
        {name: int(has.sum()) for name, has in fates.items()},
        float(np.quantile(error, 0.5, method="higher")) if error.size else float("nan"),
        float(error.max(initial=-np.inf)) if error.size else float("nan"),
    )


def fate(x: np.ndarray, rounded: np.ndarray, format: Format) -> dict[str, np.ndarray]:
    """Fate -> which of the numbers have it.

    Args:
        x: finite numbers other than zero.
        rounded: the same, rounded to the format with `overflow="saturate"`.
        format: the format.
    """
    size, overflow = np.abs(rounded), overflows(x, format)
    fates = {"exact": (rounded == x), "zero": size == 0, "subnormal": size < format.smallest_normal,
             "overflow": overflow}
    taken = np.zeros(x.shape, dtype=bool)
    for name, has in fates.items():
        fates[name] = has & ~taken
        taken |= has
    return {name: fates.get(name, ~taken) for name in FATES}


def overflows(x: np.ndarray, format: Format) -> np.ndarray:
    """Whether x, rounded to nearest, lies beyond the largest number of the format.

    IEEE 754-2019, 4.3.1: half a gap beyond the largest number, as if the exponent had no limit. A number exactly
    half a gap beyond goes to the even code, which may be either.
    """
    limit = overflow_limit(format)
    size = np.abs(x).astype(np.float64)
    return size >= limit if format.max_code % 2 else size > limit


def overflow_limit(format: Format) -> float:
    """The largest number plus half a gap: what lies beyond it overflows."""
    return format.max + 2.0**format.emax * format.unit_roundoff


def binade(x: np.ndarray) -> np.ndarray:
    """floor(log2 |x|), exactly; x is finite and not zero."""
    return np.frexp(x)[1] - 1


def histogram(x: Any, parts: Iterable[float] = (1.0,)) -> list[dict]:
    """How many values lie in each binade, by magnitude.

    Args:
        x: anything that `values` takes. Zeros, infinities and NaN are left out.
        parts: where a binade is cut into parts: significands from 1 up to 2, the first one 1.

    Returns:
        One row for each part that is not empty: `exponent` (floor(log2 |x|)), `part` (the significand at which it
        starts) and `count`.
    """
    array = values(x)
    numbers = array[np.isfinite(array) & (array != 0)].astype(np.float64)
    fraction, exponent = np.frexp(np.abs(numbers))
    edges = np.asarray(list(parts), dtype=np.float64)
    part = np.searchsorted(edges, 2 * fraction, side="right") - 1
    pairs, counts = np.unique(np.stack([exponent - 1, part]), axis=1, return_counts=True)
    return [{"exponent": int(e), "part": float(edges[p]), "count": int(n)}
            for (e, p), n in zip(pairs.T, counts, strict=True)]


def error_by_binade(format: Format | str, low: int, high: int, points: int = 4096) -> list[dict]:
    """The relative error of rounding to nearest, binade by binade.

    Args:
        format: a Format or the name of one.
        low, high: the binades from 2**low up to, not including, 2**high.
        points: numbers looked at in each binade, evenly spaced. The middle of its first gap, where the error is
            largest, is looked at as well.

    Returns:
        One row a binade that holds no overflow: `exponent`, `largest` and `mean` of |rounded - x| / x.
    """
    format = as_format(format)
    significands = 1 + np.arange(points) / points
    rows = []
    for exponent in range(low, min(high, format.emax + 1)):
        x = np.append(np.ldexp(significands, exponent), 2.0**exponent + ulp(2.0**exponent, format) / 2)
        x = x[(x < 2.0 ** (exponent + 1)) & ~overflows(x, format)]
        error = np.abs(round_to(x, format, overflow="saturate") - x) / x
        rows.append({"exponent": exponent, "largest": float(error.max()), "mean": float(error.mean())})
    return rows
