"""Encode, decode and round numbers to any binary floating-point format.

    >>> round_to(0.1, "bf16")
    np.float64(0.10009765625)
    >>> hex(encode(0.1, "fp16"))
    '0x2e66'
    >>> decode(0x2e66, "fp16")
    np.float64(0.0999755859375)

A format is a set of values. Rounding picks one of them:

    ==================  ==============================================================================================
    nearest_even        the nearest; of two equally near, the one with the even code
    nearest_away        the nearest; of two equally near, the one further from zero
    toward_zero         the next one toward zero
    toward_positive     the next one toward +infinity
    toward_negative     the next one toward -infinity
    stochastic          one of the two neighbors, the nearer the likelier, so that the mean is the number itself
    ==================  ==============================================================================================

Above the largest value, `overflow="ieee"` follows the format's own rule: infinity where it has one, else NaN where it
has one, else the largest value; the directed modes stop at the largest value on the side where they point back
(IEEE 754-2019, 7.4). An infinite input becomes infinity, NaN or the largest value likewise. `overflow="saturate"` gives
the largest value for both (the saturating mode of the OCP OFP8 specification, and CUDA's `__NV_SATFINITE`).

NaN becomes NaN; a format without NaN raises `ValueError` unless `nan` says what to put there. Zero keeps its sign where
the format has a minus zero. A negative number has no place in an unsigned format and is treated like NaN. In a format
without zero, what is smaller than the smallest value becomes that. In a format without subnormals the grid jumps from
zero to `smallest_normal`; half of it is the tie, which goes to zero.
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np

from sixteenbits import arrays
from sixteenbits.exact import decimal, decode_array, exact_value, shortest
from sixteenbits.formats import as_format
from sixteenbits.neighbors import next_down, next_up, table, ulp
from sixteenbits.rounding import OVERFLOWS, ROUNDINGS, How, encode_values, how_to_round, round_values

__all__ = ["OVERFLOWS", "ROUNDINGS", "decimal", "decode", "encode", "exact", "exact_value", "next_down", "next_up",
           "round_to", "shortest", "table", "ulp"]


def round_to(x, format, rounding="nearest_even", overflow="ieee", rng=None, *, flush_input=False, flush_output=False,
             nan=None, out=None):
    """Every number in x, rounded to a value of the format.

    Args:
        x: NumPy array, torch tensor, Python number or (nested) list; any shape and layout. float16, bfloat16,
            float32, float64 and integers are all rounded once.
        format: a Format or the name of one.
        rounding: one of `ROUNDINGS`.
        overflow: `"ieee"` or `"saturate"`, see above.
        rng: for stochastic rounding only: an int, a NumPy Generator or a torch Generator. An int is the key itself
            (same int, same result); a generator gives one key a call. Element i draws the 64-bit number
            splitmix64(key, i), alike in NumPy and torch, on CPU and GPU. P(up) is the fraction, to within 2**-64.
        flush_input: numbers smaller than `smallest_normal` count as zero before they are rounded.
        flush_output: results smaller than `smallest_normal` become zero.
        nan: what NaN becomes in a format that has none.
        out: a NumPy array of the shape and dtype of x (float32 or float64) that receives the result.

    Returns:
        What came in: array or tensor, of the same shape, floating dtype and device; integers and Python numbers become
        float64. A tensor that requires a gradient gets a straight-through one: the gradient of the result, unchanged.

    Raises:
        TypeError: x does not hold real numbers.
        ValueError: an unknown name; NaN where the format has none; a 64-bit integer that float64 cannot hold.
        OverflowError: a result does not fit the dtype of x, as 65536 does not fit float16.
    """
    how = how_to_round(format, rounding, overflow, rng, flush_input, flush_output, nan)
    if arrays.is_tensor(x) and x.requires_grad:
        return _straight_through()(x, lambda plain: _round_arrived(arrays.floats(plain), how, None))
    arrived = arrays.floats(x)
    if out is not None:
        _check_out(out, x, arrived.values)
    return _round_arrived(arrived, how, out)


def _round_arrived(arrived: arrays.Arrived, how: How, out):
    return arrived.leave(round_values(arrived.values, how, out))


def encode(x, format, rounding="nearest_even", overflow="ieee", rng=None, *, flush_input=False, flush_output=False,
           nan=None):
    """The codes of the numbers in x, rounded as `round_to` does.

    Returns:
        Unsigned integers of the shape of x, the narrowest of uint8, uint16, uint32, uint64 that holds
        `format.bits` bits: NumPy array, torch tensor on the device of x, or NumPy scalar. Every NaN becomes
        `format.nan_code`: sign and payload are not kept.

    Arguments and errors: see `round_to`. No OverflowError: a code always fits.
    """
    how = how_to_round(format, rounding, overflow, rng, flush_input, flush_output, nan)
    codes = encode_values(arrays.floats(x).values, how)
    if arrays.is_tensor(x) and isinstance(codes, np.ndarray):
        import torch

        return torch.from_numpy(codes).to(x.device)
    return codes if arrays.is_tensor(x) or isinstance(x, np.ndarray) else codes[()]


def decode(codes, format, *, flush_input=False):
    """The exact values of codes, in float64: -0.0, infinities and NaN included.

    Args:
        codes: integers from 0 to 2**format.bits - 1: NumPy array, torch tensor, Python int or list, any shape.
        format: a Format or the name of one.
        flush_input: subnormal numbers read as zero.

    Returns:
        float64 of the same shape and kind, on the same device.

    Raises:
        TypeError: not integers.
        ValueError: a code outside the range, or a value that float64 cannot hold (only in own formats of
            more than 11 exponent bits or an unusual bias); `exact` gives those as fractions.
    """
    format = as_format(format)
    values = decode_array(arrays.integers(codes, format.bits), format)
    if flush_input:
        values = np.where(np.abs(values) < format.smallest_normal, np.copysign(0.0, values), values)
    if arrays.is_tensor(codes):
        import torch

        return torch.from_numpy(np.asarray(values)).to(codes.device)
    return values if isinstance(codes, np.ndarray) else values[()]


def exact(codes, format) -> Fraction | float | np.ndarray:
    """The values of codes as exact fractions (`fractions.Fraction`); NaN, infinities and -0.0 as Python floats.

    One code gives one value, an array gives an object array of the same shape.
    """
    format = as_format(format)
    integers = arrays.integers(codes, format.bits)
    values = np.frompyfunc(lambda code: exact_value(code, format), 1, 1)(integers)
    return values


def _check_out(out, x, values) -> None:
    if not isinstance(out, np.ndarray) or not isinstance(x, np.ndarray) or x.dtype != values.dtype:
        raise TypeError("out works with NumPy arrays of float32 or float64 only; leave it away for other input")
    if out.shape != x.shape or out.dtype != x.dtype or not out.flags.writeable:
        raise ValueError(f"out is {out.dtype} of shape {out.shape}; expected a writable {x.dtype} of shape {x.shape}")


@functools.cache
def _straight_through():
    import torch

    class StraightThrough(torch.autograd.Function):
        """Rounding forward, the identity backward (Bengio, Leonard and Courville, arXiv:1308.3432, 2013)."""

        @staticmethod
        def forward(ctx, x, function):
            return function(x.detach())

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    return StraightThrough.apply
