"""Exact values of codes: fractions, full decimals, and the shortest decimal that reads back.

Nothing here rounds. It is plain integer arithmetic, slow and easy to check, and the reference that the fast code is
tested against.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

from sixteenbits.formats import Format, as_format


def exact_value(code: int, format: Format | str) -> Fraction | float:
    """The value of one code as a Fraction; NaN, the infinities and -0.0 as Python floats, since no fraction is them.

    Raises:
        ValueError: no code of this format.
        TypeError: a number that is no integer, such as 0.1 itself in place of its code.
    """
    format = as_format(format)
    if int(code) != code:
        raise TypeError(f"the code is {code}; expected an integer: encode(x, format) gives that of a number")
    if not 0 <= code < 2**format.bits:
        raise ValueError(f"the code is {code}; the codes of a {format.bits}-bit format are 0 to {2**format.bits - 1}")
    sign, magnitude = divmod(int(code), 2**format.magnitude_bits)
    if format.nan == "fnuz" and code == format.nan_code:
        return math.nan
    if magnitude > format.max_code:
        return (-math.inf if sign else math.inf) if magnitude == format.infinity_code else math.nan
    field, fraction = divmod(magnitude, 2**format.mantissa_bits)
    normal = field > 0 or not format.zero
    if not normal and not format.subnormals:
        fraction = 0
    significand = (2**format.mantissa_bits if normal else 0) + fraction
    value = significand * Fraction(2) ** (max(field, 1 if format.zero else 0) - format.bias - format.mantissa_bits)
    if sign:
        return -value if value else -0.0
    return value


def decode_array(codes: np.ndarray, format: Format) -> np.ndarray:
    """The values of an integer array of codes, in float64; ValueError where float64 cannot hold one."""
    magnitude = codes & codes.dtype.type(2**format.magnitude_bits - 1)
    field = (magnitude >> codes.dtype.type(format.mantissa_bits)).astype(np.int64)
    fraction = (magnitude & codes.dtype.type(2**format.mantissa_bits - 1)).astype(np.int64)
    normal = (field > 0) | (not format.zero)
    if not format.subnormals:
        fraction = np.where(normal, fraction, 0)
    significand = (fraction + (normal.astype(np.int64) << format.mantissa_bits)).astype(np.float64)
    exponent = np.maximum(field, 1 if format.zero else 0) - format.bias - format.mantissa_bits
    with np.errstate(over="ignore", under="ignore"):
        values = np.ldexp(significand, np.clip(exponent, -5000, 5000))
        back = np.ldexp(values, np.clip(-exponent, -5000, 5000))
    special = magnitude > format.max_code
    if not np.array_equal(back[~special], significand[~special]):
        raise ValueError(f"{format} holds values that float64 cannot: use exact(codes, format), which gives fractions")
    values = np.where(special, np.inf if format.infinities else np.nan, values)
    if format.infinities:
        values = np.where(special & (magnitude != format.infinity_code), np.nan, values)
    negative = (codes >> codes.dtype.type(format.bits - 1)) > 0 if format.signed else np.zeros(codes.shape, bool)
    values = np.where(negative, -values, values)
    return np.where(codes == format.nan_code, np.nan, values) if format.nan == "fnuz" else values


def decimal(value: float | Fraction) -> str:
    """All decimal digits of a binary number, for example `decimal(0.1)`; `inf`, `-inf` and `nan` as they are.

    Takes Python numbers, fractions, and one element of an array or tensor.

    Raises:
        ValueError: a fraction whose denominator is no power of two has no finite decimal expansion of this kind.
    """
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return str(value)
    value = Fraction(value)
    places = value.denominator.bit_length() - 1
    if value.denominator != 1 << places:
        raise ValueError(f"{value} is not a binary number: its denominator is no power of two")
    digits = str(abs(value.numerator) * 5**places).rjust(places + 1, "0")  # n / 2**p == n * 5**p / 10**p
    whole, fraction = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return ("-" if value < 0 else "") + whole + ("." + fraction if fraction else "")


def shortest(code: int, format: Format | str) -> str:
    """The shortest decimal that rounds to this code and no other (nearest, ties to even).

    Of several, the nearest to the value; of two equally near, the one with the even last digit, as NumPy prints.

    Plain notation from 1e-4 up to 1e16, otherwise like `6e-8`.
    """
    format = as_format(format)
    value = exact_value(code, format)
    if isinstance(value, float) or value == 0:
        return {"0": "0.0", "-0.0": "-0.0"}.get(str(value), str(value))
    low, high, closed = _interval(int(code) % 2**format.magnitude_bits, format)
    size, digits = abs(value), 1
    exponent = _decimal_exponent(size)
    while True:
        unit = Fraction(10) ** (exponent - digits + 1)
        candidates = [math.floor(size / unit), math.floor(size / unit) + 1]
        fitting = [n for n in candidates if low < n * unit < high or (closed and n and n * unit in (low, high))]
        if fitting:
            best = min(fitting, key=lambda n: (abs(n * unit - size), n % 2))
            return ("-" if value < 0 else "") + _notation(best * unit)
        digits += 1


def _interval(magnitude: int, format: Format) -> tuple[Fraction, Fraction, bool]:
    """The interval of numbers that round to a magnitude code, and whether its ends belong to it (even code)."""
    value = exact_value(magnitude, format)
    step_up = Fraction(2) ** (max(magnitude >> format.mantissa_bits, 1 if format.zero else 0)
                              - format.bias - format.mantissa_bits)
    below = exact_value(magnitude - 1, format) if magnitude else Fraction(0)
    return (value + below) / 2, value + step_up / 2, magnitude % 2 == 0


def _decimal_exponent(value: Fraction) -> int:
    estimate = len(str(value.numerator)) - len(str(value.denominator))
    return estimate if Fraction(10) ** estimate <= value else estimate - 1


def _notation(value: Fraction) -> str:
    if Fraction(1, 10**4) <= value < 10**16:
        return _plain(value)
    exponent = _decimal_exponent(value)
    return f"{_plain(value / Fraction(10) ** exponent).removesuffix('.0')}e{exponent}"


def _plain(value: Fraction) -> str:
    with localcontext() as context:
        context.prec = 1100
        number = Decimal(value.numerator) / Decimal(value.denominator)
        text = format(number, "f")
    return text if "." in text else text + ".0"
