"""Inputs that decide everything, comparison bit for bit, and the exact references for rounding.

Three references, none of which shares a line with the library: `fraction_code` looks at the two neighbors among exact
fractions, `mpfr_value` asks MPFR, and `exact_rounding` shifts integers. The first two are slow and check the third on
a choice of inputs; the third then checks the library on all.
"""

from __future__ import annotations

import bisect
import functools
import math
from fractions import Fraction
from typing import NamedTuple

import gmpy2
import numba
import numpy as np

from sixteenbits.exact import exact_value

MODES = ["nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative"]


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


# -- inputs ------------------------------------------------------------------------------------------------------------


def decision_complete(dtype, kept_bits, start=0, stop=None):
    """Every pattern of the top `kept_bits` bits of a float dtype, with the low bits that decide a rounding.

    Low bits: nothing, one unit, just below the tie, the tie, just above it, everything. `start` and `stop` cut a piece
    out of the 2**kept_bits patterns.
    """
    bits = np.dtype(dtype).itemsize * 8
    unsigned = np.dtype(f"u{bits // 8}")
    top = np.arange(start, 1 << kept_bits if stop is None else stop, dtype=unsigned)
    return with_low_bits(top << unsigned.type(bits - kept_bits), bits - kept_bits).view(dtype)


def with_low_bits(top, low_bits):
    """Bit patterns whose low bits are free, each with the six that decide a rounding."""
    half = 1 << (low_bits - 1)
    low = np.array([0, 1, half - 1, half, half + 1, 2 * half - 1], top.dtype)
    return (top[:, None] | low).reshape(-1)


def codes_ties_and_neighbors(values, dtype):
    """Every finite value, every midpoint of two neighboring ones, and both float neighbors of each."""
    values = np.unique(values[np.isfinite(values)])
    points = np.concatenate([values, (values[1:] + values[:-1]) / 2]).astype(dtype)
    with np.errstate(over="ignore"):
        return np.concatenate([points, np.nextafter(points, dtype(np.inf)), np.nextafter(points, dtype(-np.inf)),
                               np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])


# -- fractions ---------------------------------------------------------------------------------------------------------


@functools.cache
def _magnitudes(format):
    """The magnitude codes of a format and their exact values, and of the first code where overflow begins."""
    codes = [c for c in range(format.max_code + 1)
             if format.subnormals or not format.zero or c == 0 or c >= 2**format.mantissa_bits]
    values = [Fraction(exact_value(c, format)) for c in codes]
    field, fraction = divmod(format.max_code + 1, 2**format.mantissa_bits)
    hidden = 2**format.mantissa_bits if field or not format.zero else 0
    grid = Fraction(2) ** (max(field, 1 if format.zero else 0) - format.bias - format.mantissa_bits)
    return [*codes, format.max_code + 1], [*values, (hidden + fraction) * grid]


def fraction_code(x: float, format, mode: str, overflow: str) -> int:
    """The code that x rounds to, found among the exact fractions of all values; for formats of at most 16 bits."""
    negative = math.copysign(1, x) < 0
    if math.isnan(x) or (x < 0 and not format.signed):
        return format.nan_code
    away = {"toward_positive": not negative, "toward_negative": negative}.get(mode)
    code = _fraction_magnitude(abs(x), format, mode, away)
    if code > format.max_code:
        stops = not math.isinf(x) and (mode == "toward_zero" or away is False)
        if overflow == "saturate" or stops or not (format.infinities or format.has_nan):
            code = format.max_code
        elif not format.infinities:
            return format.nan_code
    keeps_sign = code or format.has_minus_zero or not format.zero
    return code + 2**format.magnitude_bits if negative and format.signed and keeps_sign else code


def _fraction_magnitude(size: float, format, mode: str, away: bool | None) -> int:
    codes, values = _magnitudes(format)
    if math.isinf(size) or Fraction(size) >= values[-1]:
        return codes[-1]
    size = Fraction(size)
    if size < values[0]:
        return codes[0]
    i = bisect.bisect_right(values, size) - 1
    low, high = values[i], values[i + 1]
    if size == low:
        return codes[i]
    if mode.startswith("toward"):
        return codes[i + 1 if away else i]
    middle = (low + high) / 2
    if size != middle:
        return codes[i if size < middle else i + 1]
    return codes[i + 1 if mode == "nearest_away" or codes[i] % 2 else i]


# -- MPFR --------------------------------------------------------------------------------------------------------------

_MPFR = {"nearest_even": gmpy2.RoundToNearest, "toward_zero": gmpy2.RoundToZero, "toward_positive": gmpy2.RoundUp,
         "toward_negative": gmpy2.RoundDown}


def mpfr_value(x: float, format, mode: str) -> float:
    """x rounded by MPFR as IEEE 754 has it; for formats with infinities and subnormals. MPFR has no nearest_away."""
    precision = format.mantissa_bits + 1
    # MPFR's significands lie between 1/2 and 1, so its exponents are larger by one.
    settings = {"precision": precision, "emax": format.emax + 1, "emin": format.emin - precision + 2,
                "subnormalize": True, "round": _MPFR[mode]}
    exact = gmpy2.mpfr(x, 53)
    with gmpy2.context(gmpy2.get_context(), **settings):
        return float(+exact)


# -- integers ----------------------------------------------------------------------------------------------------------


class Facts(NamedTuple):
    """A format and a rounding in whole numbers."""

    mantissa_bits: int
    emin: int
    magnitude_bits: int
    max_code: int
    infinity_code: int  # -1: none
    nan_code: int  # -1: none
    signed: bool
    zero: bool
    subnormals: bool
    minus_zero: bool
    mode: int
    saturate: bool


def exact_rounding(x: np.ndarray, format, mode: str, overflow: str) -> tuple[np.ndarray, np.ndarray]:
    """The codes (uint64) and values (float64) that a contiguous float array rounds to."""
    facts = Facts(format.mantissa_bits, format.emin, format.magnitude_bits, format.max_code,
                  -1 if format.infinity_code is None else format.infinity_code,
                  -1 if format.nan_code is None else format.nan_code, format.signed, format.zero, format.subnormals,
                  format.has_minus_zero, MODES.index(mode), overflow == "saturate")
    codes, values = np.empty(x.size, np.uint64), np.empty(x.size)
    _exact_loop(x.view(f"u{x.itemsize}"), *((23, 8) if x.itemsize == 4 else (52, 11)), facts, codes, values)
    return codes, values


@numba.njit
def _exact_loop(bits, source_mantissa, source_exponent, facts, codes, values):
    for i in range(bits.size):
        codes[i], values[i] = _exact_one(np.int64(bits[i]), source_mantissa, source_exponent, facts)


@numba.njit
def _exact_one(bits, source_mantissa, source_exponent, facts):
    top = (1 << source_exponent) - 1
    fraction, field = bits & ((1 << source_mantissa) - 1), (bits >> source_mantissa) & top
    negative = ((bits >> (source_mantissa + source_exponent)) & 1) == 1
    if (field == top and fraction) or (negative and not facts.signed and (field or fraction)):
        return np.uint64(facts.nan_code), np.nan
    negative = negative and facts.signed
    up = facts.mode == (4 if negative else 3)  # away from zero, in a directed mode
    if field == top:
        code, value = facts.max_code + 1, np.inf
    else:
        significand = fraction | (1 << source_mantissa) if field else fraction
        exponent = max(field, 1) - (1 << (source_exponent - 1)) + 1 - source_mantissa
        code, value = _magnitude(significand, exponent, up, facts)
    if code > facts.max_code:
        stops = field != top and (facts.mode == 2 or (facts.mode >= 3 and not up))
        if facts.saturate or stops or (facts.infinity_code < 0 and facts.nan_code < 0):
            code, value = facts.max_code, _value(facts.max_code, facts)
        elif facts.infinity_code < 0:
            return np.uint64(facts.nan_code), np.nan
        else:
            code, value = facts.infinity_code, np.inf
    if negative and (code or facts.minus_zero or not facts.zero):
        return np.uint64(code) + (np.uint64(1) << np.uint64(facts.magnitude_bits)), -value
    return np.uint64(code), value


@numba.njit
def _magnitude(significand, exponent, up, facts):
    """The magnitude code and the value of significand * 2**exponent, rounded; a code beyond max_code means overflow."""
    binade = math.frexp(float(significand))[1] - 1 + exponent if significand else -100_000
    if not facts.zero and binade < facts.emin:
        return 0, math.ldexp(1.0, facts.emin)
    jump = facts.zero and not facts.subnormals and binade < facts.emin  # nothing lies between zero and the normal ones
    mantissa_bits = 0 if jump else facts.mantissa_bits
    field = max(binade - facts.emin, 0)
    if field > (facts.max_code >> facts.mantissa_bits) + 1:
        return facts.max_code + 1, np.inf  # far beyond; its code would not fit 64 bits
    step = field + facts.emin - mantissa_bits
    shift = step - exponent
    kept = significand >> min(shift, 63) if shift > 0 else significand << -shift
    first = (field - (0 if facts.zero else 1)) << mantissa_bits
    # What is cut off, against half of a step: -1 nothing, 0 less than half, 1 half, 2 more.
    cut = -1
    if shift > 0:
        rest = significand & ((1 << min(shift, 62)) - 1)
        half = 1 << min(shift - 1, 62)
        cut = -1 if rest == 0 else 0 if rest < half else 1 if rest == half else 2
    odd = ((first + kept) & 1) == 1
    increment = cut >= 0 and ((facts.mode == 0 and (cut == 2 or (cut == 1 and odd))) or (facts.mode == 1 and cut >= 1)
                              or (facts.mode >= 3 and up))
    kept += increment
    code = kept << facts.mantissa_bits if jump else first + kept
    return code, math.ldexp(float(kept), step)


@numba.njit
def _value(code, facts):
    field, fraction = code >> facts.mantissa_bits, code & ((1 << facts.mantissa_bits) - 1)
    normal = field > 0 or not facts.zero
    significand = fraction + (1 << facts.mantissa_bits) if normal else fraction
    lifted = max(field - (1 if facts.zero else 0), 0)
    return math.ldexp(float(significand), facts.emin + lifted - facts.mantissa_bits)
