"""Adding up, written once: the schemes by which a row of numbers becomes one number, every addition rounded.

As in `kernel`, the text is written over a small vocabulary. NumPy runs it on all rows at once, a step at a time; numba
compiles it to a loop over rows for large arrays. Both give the same bits. Matrix units, which add many terms in one
step, need no such loop and are plain NumPy.
"""

from __future__ import annotations

import functools

import numpy as np

from sixteenbits.kernel import COMPILE_FROM, Grid, numba_ops, numpy_ops, round_array, rounding
from sixteenbits.rounding import How, _fits, _grid

FP64_EPS = 2.0**-52
INTERPRET_UP_TO = 1 << 14  # terms a row; beyond, so many steps of NumPy take longer than numba takes to compile

# -- one addition ------------------------------------------------------------------------------------------------------


def _to_odd(ops):
    """a + b as a float64 that every format of at most 50 mantissa bits rounds as it would round the exact sum.

    Knuth's TwoSum finds what float64 itself rounds off. If that is anything, the last bit is made odd, which keeps the
    number on its side of every tie: *round to odd* (Boldo and Melquiond, IEEE Transactions on Computers 57(4), 2008).
    FP64 takes float64's own sum.
    """
    where, bits = ops.where, ops.bits

    def add(a, b, grid):
        total = a + b
        back = total - a
        rest = (a - (total - back)) + (b - back)
        lost = (rest > 0) | (rest < 0)  # neither where rest is 0, nor where it is NaN because the total is infinite
        even = ((bits(total) & 1) == 0) & (grid.eps > FP64_EPS)
        return where(lost & even, np.nextafter(total, where(rest > 0, np.inf, -np.inf)), total)

    return add


def adding(ops, mode: str, function):
    """The function (a, b, key, index, grid) -> a + b, rounded once to the format that the grid describes.

    `function` makes the parts callable: what numba compiles, NumPy takes as it is.
    """
    round_one, exact = function(rounding(ops, mode, flush=False)), function(_to_odd(ops))

    def add(a, b, key, index, grid):
        return round_one(exact(a, b, grid), key, index, grid)

    return add


# -- schemes: x holds the terms, numbers or rows of numbers; addition i of the scheme draws number index + i ----------


def _sequential(ops, add):
    number = ops.uint64

    def run(x, key, index, grid):
        total = x[0]
        for i in range(1, len(x)):
            total = add(total, x[i], key, index + number(i), grid)
        return total

    return run


def _pairwise(ops, add):
    number = ops.uint64

    def run(x, key, index, grid):
        n, made = len(x), 0
        while n > 1:
            for i in range(n // 2):
                made += 1
                x[i] = add(x[2 * i], x[2 * i + 1], key, index + number(made), grid)
            if n % 2:
                x[n // 2] = x[n - 1]
            n = (n + 1) // 2
        return x[0]

    return run


def _kahan(ops, add):
    number = ops.uint64

    def run(x, key, index, grid):
        total, carry = x[0], x[0] - x[0]  # a zero; NaN for what is not finite
        for i in range(1, len(x)):
            at = index + number(4 * i)
            term = add(x[i], -carry, key, at, grid)
            grown = add(total, term, key, at + number(1), grid)
            gained = add(grown, -total, key, at + number(2), grid)
            carry = add(gained, -term, key, at + number(3), grid)
            total = grown
        return total

    return run


SCHEMES = {"sequential": _sequential, "pairwise": _pairwise, "kahan": _kahan}
DRAWS = {"sequential": 1, "pairwise": 1, "kahan": 4}  # random numbers for each term


# -- running them ------------------------------------------------------------------------------------------------------


def grid_of_total(how: How) -> Grid:
    """The kernel's numbers for a format that holds a running total.

    Raises:
        ValueError: the kernel alone does not round to the format (it lacks sign, zero, subnormals or mantissa, or goes
            beyond float64), or it is so close to float64 that the result of an addition would be rounded twice.
    """
    format = how.format
    plain = format.signed and format.zero and format.subnormals and format.mantissa_bits and _fits(format, "float64")
    same = format.mantissa_bits == 52 and how.rounding == "nearest_even"
    if not plain or (format.mantissa_bits > 50 and not same):
        raise ValueError(f"{format} with rounding {how.rounding!r} cannot hold a running total here: that takes a "
                         "sign, a zero, subnormals and 1 to 50 mantissa bits inside float64's range; or FP64 itself, "
                         "rounding to nearest")
    return _grid(how, "float64")


def add_rows(x: np.ndarray, scheme: str, mode: str, grid: Grid, key: int = 0, first: int = 0) -> np.ndarray:
    """Each row of x, float64 of shape (rows, n) with n of 1 or more, added up by a scheme: shape (rows,).

    Args:
        x: values of the format.
        first: the number of draws that were used up before.
    """
    index = np.uint64(first) + np.arange(len(x), dtype=np.uint64) * np.uint64(x.shape[1] * DRAWS[scheme])
    grid, key = Grid(*(np.float64(v) for v in grid)), np.uint64(key)
    if x.shape[1] == 1 or (x.size < COMPILE_FROM and x.shape[1] <= INTERPRET_UP_TO):
        return _interpreted(scheme, mode)(x.T.copy(), key, index, grid)
    out = np.empty(len(x))
    _compiled(scheme, mode)(np.ascontiguousarray(x), out, key, index, grid)
    return out


@functools.cache
def _interpreted(scheme: str, mode: str):
    ops = numpy_ops("float64")
    run = SCHEMES[scheme](ops, adding(ops, mode, lambda part: part))

    def quietly(x, key, index, grid):
        with np.errstate(all="ignore"):
            return run(x, key, index, grid)

    return quietly


@functools.cache
def _compiled(scheme: str, mode: str):
    """A loop (x, out, key, index, grid) over the rows of x, compiled by numba from the text above."""
    run = _njit(SCHEMES[scheme](numba_ops("float64"), _compiled_addition(mode)))

    def loop(x, out, key, index, grid):
        for row in range(len(x)):
            out[row] = run(x[row].copy(), key, index[row], grid)

    return _njit(loop)


@functools.cache
def _compiled_addition(mode: str):
    return _njit(adding(numba_ops("float64"), mode, _njit))


def _njit(function):
    import numba

    return numba.njit(nogil=True, error_model="numpy")(function)


def add_aligned(x: np.ndarray, terms: int, kept_bits: int, total_is_shifted: bool, mode: str, grid: Grid) -> np.ndarray:
    """Each row of x added up by a matrix unit, `terms` at a step, as `accumulate.Accumulator` says: shape (rows,).

    In a step the terms share the exponent of the largest of them: what lies more than `kept_bits` below its leading bit
    is cut off, toward zero. Their sum is then exact, and is added to the total, which is rounded.
    """
    total = np.zeros(len(x))
    exact = _to_odd(numpy_ops("float64"))
    for start in range(0, x.shape[1], terms):
        step = x[:, start:start + terms]
        if total_is_shifted:
            step, total = np.concatenate([step, total[:, None]], axis=1), np.zeros(len(x))
        with np.errstate(all="ignore"):
            unit = np.ldexp(1.0, np.frexp(np.abs(step).max(axis=1, keepdims=True))[1] - 1 - kept_bits)
            cut = np.where(np.isfinite(step), np.trunc(step / unit) * unit, step)
            total = round_array(exact(total, cut.sum(axis=1), grid), mode, grid)
    return total
