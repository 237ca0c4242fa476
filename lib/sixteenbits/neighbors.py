"""The values next to a number: gaps, neighbors, and the table of all codes of a small format."""

from __future__ import annotations

import numpy as np

from sixteenbits import arrays
from sixteenbits.exact import decode_array
from sixteenbits.formats import Format, as_format
from sixteenbits.rounding import how_to_round, round_values


def ulp(x, format):
    """The gap between the values of the format around each x: the *unit in the last place*, in float64.

    At a power of two it is the gap above; at zero, the smallest number. Beyond the largest value it is the gap just
    below that; NaN and infinity give NaN. Positive for negative x too, unlike `numpy.spacing`.
    """
    format = as_format(format)

    def gap(x):
        exponent = np.clip(np.frexp(x)[1] - 1, format.emin, format.emax) - format.mantissa_bits
        if not format.subnormals and format.zero:
            exponent = np.where(np.abs(x) < format.smallest_normal, format.emin, exponent)
        else:
            exponent = np.where(x == 0, format.emin - format.mantissa_bits, exponent)
        return np.where(np.isfinite(x), np.ldexp(1.0, exponent), np.nan)

    return arrays.through_numpy(x, gap)


def next_up(x, format):
    """The smallest value of the format above each x, in float64 (IEEE 754-2019, 5.3.1: nextUp).

    x need not be a value of the format. Above the largest value comes infinity where the format has one, else NaN, as
    there is nothing. Below the smallest positive value comes zero; above -smallest comes -0.0, if there is one.
    """
    return arrays.through_numpy(x, lambda x: _neighbor(x, as_format(format), +1))


def next_down(x, format):
    """The largest value of the format below each x, in float64 (IEEE 754-2019, 5.3.1: nextDown). See `next_up`."""
    return arrays.through_numpy(x, lambda x: _neighbor(x, as_format(format), -1))


def _neighbor(x: np.ndarray, format: Format, step: int) -> np.ndarray:
    if not format.signed and (x < 0).any():
        first = 0.0 if format.zero else format.smallest_normal
        return np.where(x < 0, first if step > 0 else np.nan, _neighbor(np.where(x < 0, np.nan, x), format, step))
    if not format.infinities:
        x = np.clip(x, -np.finfo(np.float64).max, np.finfo(np.float64).max)
    # Looking down from x is looking up from -x: below, everything looks up.
    mode = "toward_positive" if step > 0 else "toward_negative"
    nearest = step * round_values(np.where(np.isnan(x), 1.0, x), how_to_round(format, mode))
    x = step * x
    result = np.where(nearest == x, _above(x, format), np.where(nearest > x, nearest, np.nan))
    if not format.zero:  # between the two smallest values lies nothing
        result = np.where(np.abs(x) < format.smallest_normal, format.smallest_normal, result)
    return step * np.where((step * result < 0) & (not format.signed), np.nan, result)


def _above(v: np.ndarray, format: Format) -> np.ndarray:
    """The value above each v, a value of the format or its negative."""
    size = np.abs(v)
    with np.errstate(over="ignore"):  # above the largest number of FP64
        away = size + ulp(size, format)
    away = np.where(away > format.max, np.inf if format.infinities else np.nan, away)
    toward = size - ulp(np.nextafter(size, 0.0), format)
    toward = np.where(np.isinf(size), format.max, toward)
    if not format.zero:
        toward = np.where(size == format.smallest_normal, -size, toward)
    result = np.where(v < 0, -toward, np.where(np.isinf(v), v, away))
    return result if format.has_minus_zero else result + 0.0


def table(format) -> dict[str, np.ndarray]:
    """Every code of a format of at most 16 bits, in the order of the codes, as columns.

    Returns:
        `code`, its fields `sign`, `exponent`, `mantissa`; `value` (float64); `kind` (zero, subnormal, normal, infinity,
        nan); `below` and `above`, the neighboring values; `ulp`, the gap.

    Raises:
        ValueError: the format has more than 16 bits.
    """
    format = as_format(format)
    if format.bits > 16:
        raise ValueError(f"{format} has 2**{format.bits} codes; a table is made of formats of at most 16 bits")
    code = np.arange(2**format.bits)
    magnitude, value = code % 2**format.magnitude_bits, decode_array(code, format)
    exponent = magnitude >> format.mantissa_bits
    kind = np.where((exponent == 0) & format.subnormals, "subnormal", "normal")
    for name, where in {"zero": value == 0, "infinity": np.isinf(value), "nan": np.isnan(value)}.items():
        kind = np.where(where, name, kind)
    return {"code": code, "sign": code >> format.magnitude_bits, "exponent": exponent,
            "mantissa": magnitude % 2**format.mantissa_bits, "value": value, "kind": kind,
            "below": next_down(value, format), "above": next_up(value, format), "ulp": ulp(value, format)}
