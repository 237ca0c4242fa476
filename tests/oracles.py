"""Inputs that decide everything, comparison bit for bit, and the slow exact reference for rounding."""

from __future__ import annotations

import bisect
import math
from fractions import Fraction

import numpy as np

from sixteenbits.exact import exact_value


def assert_same_bits(got, wanted, inputs=None):
    """Equal values, equal signs of zero, NaN where NaN is wanted."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    same = (got == wanted) & (np.signbit(got) == np.signbit(wanted)) | (np.isnan(got) & np.isnan(wanted))
    if not same.all():
        where = np.flatnonzero(~same.reshape(-1))
        first = where[:5]
        at = "" if inputs is None else f" for inputs {np.asarray(inputs).reshape(-1)[first].tolist()}"
        raise AssertionError(f"{where.size} of {same.size} differ{at}: got {got.reshape(-1)[first].tolist()}, "
                             f"wanted {wanted.reshape(-1)[first].tolist()}")


def decision_complete(dtype, kept_bits):
    """Every pattern of the top `kept_bits` bits of a float dtype, with the low bits that decide a rounding.

    Low bits: nothing, one unit, just below the tie, the tie, just above it, everything.
    """
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.dtype(f"u{bits // 8}")
    half = 1 << (bits - kept_bits - 1)
    low = np.array([0, 1, half - 1, half, half + 1, 2 * half - 1], unsigned)
    top = np.arange(1 << kept_bits, dtype=unsigned) << unsigned.type(bits - kept_bits)
    return (top[:, None] | low).reshape(-1).view(dtype)


def codes_ties_and_neighbors(values, dtype):
    """Every finite value, every midpoint of two neighboring ones, and both float neighbors of each."""
    values = np.unique(values[np.isfinite(values)])
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(dtype)
    with np.errstate(over="ignore"):
        return np.concatenate([points, np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf)),
                               np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])


class ExactRounding:
    """Rounding by looking at the two neighbors of an exact fraction, for formats of at most 16 bits."""

    def __init__(self, format):
        self.format = format
        first = 0 if format.subnormals or not format.zero else 2**format.mantissa_bits
        codes = list(range(first, format.max_code + 1))
        if first:
            codes.insert(0, 0)
        self.codes, self.values = codes, [Fraction(exact_value(c, format)) for c in codes]
        field, fraction = divmod(format.max_code + 1, 2**format.mantissa_bits)
        hidden = 2**format.mantissa_bits if field or not format.zero else 0
        # The grid goes on above the largest value: the next point is where overflow begins.
        self.codes.append(format.max_code + 1)
        self.values.append((hidden + fraction) * Fraction(2) ** (max(field, 1 if format.zero else 0) - format.bias
                                                                - format.mantissa_bits))

    def __call__(self, x: float, mode: str, overflow: str) -> float:
        """The value that x rounds to; NaN where the format says so."""
        format = self.format
        if math.isnan(x) or (x < 0 and not format.signed):
            return math.nan
        negative = math.copysign(1, x) < 0 and format.signed
        away = {"toward_positive": not negative, "toward_negative": negative}.get(mode)
        code = self._magnitude(abs(x), mode, away)
        if code > format.max_code:
            stops = not math.isinf(x) and (mode == "toward_zero" or away is False)
            if overflow == "saturate" or stops or not (format.infinities or format.has_nan):
                code = format.max_code
            else:
                return (-math.inf if negative else math.inf) if format.infinities else math.nan
        value = float(exact_value(code, format))
        return -value if negative and (value or format.has_minus_zero) else value

    def _magnitude(self, size: float, mode: str, away: bool | None) -> int:
        if math.isinf(size) or Fraction(size) >= self.values[-1]:
            return self.codes[-1]
        size = Fraction(size)
        if size < self.values[0]:
            return self.codes[0]
        i = bisect.bisect_right(self.values, size) - 1
        low, high = self.values[i], self.values[i + 1]
        if size == low:
            return self.codes[i]
        if mode.startswith("toward"):
            return self.codes[i + 1 if away else i]
        middle = (low + high) / 2
        if size != middle:
            return self.codes[i if size < middle else i + 1]
        return self.codes[i + 1 if mode == "nearest_away" or self.codes[i] % 2 else i]
