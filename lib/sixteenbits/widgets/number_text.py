"""Numbers as a reader types them, exactly: text to a fraction, and a fraction to the code that it rounds to."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from numbers import Real

from sixteenbits import codec
from sixteenbits.formats import Format

_FACTOR = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:\^([+-]?\d+))?", re.IGNORECASE)
_MAX_EXPONENT = 20000
_ACCEPTED = "a decimal (0.1, -6e-8), a fraction (1/3), a power or product (2^-24, 3*2^-10), inf or nan"


def read_number(text: str) -> Fraction | float:
    """The exact number that a text means; infinities, NaN and -0.0 as floats, since no fraction is them.

    Raises:
        ValueError: not a number of the accepted kinds, which the message lists.
    """
    if re.fullmatch(r"[+-]?(inf(inity)?|nan)", text.strip(), re.IGNORECASE):
        return float(text)
    parts = re.split(r"\s*([*/])\s*", text.strip())
    product = _factor(parts[0], text)
    for operator, part in zip(parts[1::2], parts[2::2], strict=True):
        factor = _factor(part, text)
        if operator == "/" and factor == 0:
            raise ValueError(f"{text!r} divides by zero")
        product = product * factor if operator == "*" else product / factor
    minus = sum(part.startswith("-") for part in parts[::2]) % 2
    return -0.0 if minus and not product else product


def _factor(part: str, text: str) -> Fraction:
    match = _FACTOR.fullmatch(part)
    if not match:
        raise ValueError(f"{text!r} is not a number that is read here; accepted: {_ACCEPTED}")
    base, power = match[1], int(match[2] or 1)
    exponent = int((re.split("e", base, flags=re.IGNORECASE)[1:] or ["0"])[0])
    if max(abs(exponent), abs(power)) > _MAX_EXPONENT:
        raise ValueError(f"{text!r}: exponents are read up to {_MAX_EXPONENT}")
    size = Fraction(base.lstrip("+-"))
    if power < 0 and size == 0:
        raise ValueError(f"{text!r} divides by zero")
    if max(size.numerator, size.denominator).bit_length() * abs(power) > 8 * _MAX_EXPONENT:
        raise ValueError(f"{text!r} has a power too large to write out")
    unsigned = size**power
    return -unsigned if base.startswith("-") else unsigned


def write_number(value: Fraction | float) -> str:
    """A text that `read_number` reads back to the same number: `0.1`, `1/3`, `3*2^-30`, `-inf`."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value == 0:
        return "-0" if isinstance(value, float) and math.copysign(1, value) < 0 else "0"
    value = Fraction(value)
    twos = value.denominator.bit_length() - 1
    if value.denominator != 1 << twos:
        return f"{value.numerator}/{value.denominator}"
    decimal = codec.decimal(value) if twos < 100 else ""
    return decimal if 0 < len(decimal) <= 20 else f"{value.numerator}*2^-{twos}"


def as_text(value) -> str:
    """A number given to an explorer as text that `read_number` reads; a float as the decimal that Python prints."""
    if isinstance(value, str):
        return value
    if isinstance(value, Fraction):
        return write_number(value)
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        raise TypeError(f"value is {value!r}; expected a number, or a text such as '1/3'")
    return str(value).lower() if isinstance(value, Decimal | int) else repr(float(value))


def nearest_code(value: Fraction | float, format: Format) -> int:
    """The code that an exact number is rounded to, once: nearest, ties to even. NaN needs a format that has one.

    `codec.encode` takes floats. So the number is brought near 1 and cut to a float64 whose last bit is set if anything
    was cut off (*round to odd*, Boldo and Melquiond 2008): that float lies on the same side of every value and every
    tie of a format with at most 51 mantissa bits. FP64 itself is what Python's own division rounds to.
    """
    if isinstance(value, float) or value == 0:
        return int(codec.encode(float(value), format, nan=0.0))
    top, bottom = format.emax + 2, format.emin - format.mantissa_bits - 2  # beyond these, one number is like another
    size = min(max(abs(value), Fraction(2) ** bottom), Fraction(2) ** top)
    shift = _log2(size)
    if format.mantissa_bits > 50:
        return int(codec.encode(_nearest_float(value), format))
    whole, rest = divmod(size / Fraction(2) ** shift * 2**52, 1)
    odd = math.ldexp(int(whole) | (rest > 0), -52)
    return int(codec.encode(odd if value > 0 else -odd, replace(format, bias=format.bias + shift), nan=0.0))


def _log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _nearest_float(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator  # Python rounds the quotient of two integers once
    except OverflowError:
        return math.inf if value > 0 else -math.inf
