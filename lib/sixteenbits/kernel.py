"""Rounding, written once.

`rounding` and `coding` are the algorithm. They are written over a small vocabulary (`where`, `clip`, `binade`, ...)
that three sets of operations supply: NumPy arrays, torch tensors on any device, and scalars that numba compiles to a
loop. The text is the same for all, and a test compares their results bit for bit.

The idea: within one binade the values of a format lie on an even grid. Divide by the power of two that makes the grid
the integers (exact), round to an integer (one operation of the machine), multiply back (exact; a carry into the next
binade comes out by itself). Below the smallest normal number the binade is clipped, and subnormals come out.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

SPLITMIX64 = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # increment and two multipliers
COMPILE_FROM = 1 << 17  # elements; below, NumPy is done before numba has compiled
WORTH_A_CALL = 1 << 10  # elements; from here on a loop that is compiled already is faster than NumPy
_compiled: set = set()  # the kinds of loops that are


class Grid(NamedTuple):
    """What rounding needs to know of a format, in the dtype it computes in."""

    lowest: float  # the binade of the smallest normal number
    highest: float  # the binade of the largest number
    half_steps: float  # half the grid steps in a binade, 2**(mantissa_bits - 1)
    eps: float  # one grid step, in binades
    max: float
    infinite: float  # what an infinite input becomes
    above: float  # what a finite input becomes that rounds to more than max
    below: float  # ... and to less than -max
    zero: float  # -0.0 keeps minus zero, +0.0 turns it into zero
    flush_input: float  # inputs smaller than this are zeros
    flush_output: float  # results smaller than this are zeros
    huge: float  # largest finite number of the dtype


class Lacks(NamedTuple):
    """What few formats do without; the lines that deal with it are compiled for those alone."""

    sign: bool = False
    zero: bool = False
    mantissa: bool = False
    bias_is_even: bool = False  # counts only where there is no mantissa


NOTHING = Lacks()


class Layout(NamedTuple):
    """What coding needs to know of a format and of the dtype that the value arrives in."""

    drop: int  # mantissa bits of the dtype that the format lacks
    offset: int  # difference of the biases, as a code
    sign: int  # the sign bit, 0 in an unsigned format
    infinity: int
    nan: int


# -- how to round t to an integer, one function a mode -----------------------------------------------------------------


def _nearest_even(ops):
    rint = ops.rint

    def to_integer(t, key, index):
        return rint(t)

    return to_integer


def _nearest_away(ops):
    trunc, copysign, almost_half = ops.trunc, ops.copysign, ops.almost_half

    def to_integer(t, key, index):
        # With a half itself, the sum could round up from just below a tie. The number below a half reaches n + 1 from
        # the ties alone: there the sum is nearer to it than to its neighbor below, or halfway, and n + 1 is even.
        return copysign(trunc(abs(t) + almost_half), t)

    return to_integer


def _toward_zero(ops):
    trunc = ops.trunc

    def to_integer(t, key, index):
        return trunc(t)

    return to_integer


def _toward_positive(ops):
    ceil = ops.ceil

    def to_integer(t, key, index):
        return ceil(t)

    return to_integer


def _toward_negative(ops):
    floor = ops.floor

    def to_integer(t, key, index):
        return floor(t)

    return to_integer


def _stochastic(ops):
    floor, ceil, where, copysign, exceeds = ops.floor, ops.ceil, ops.where, ops.copysign, ops.exceeds
    random64 = ops.function(_random64(ops))

    def to_integer(t, key, index):
        size = abs(t)
        down = floor(size)
        up = exceeds(size - down, random64(key, index))  # never floor(size + random): that sum rounds
        return copysign(where(up, ceil(size), down), t)

    return to_integer


def _random64(ops):
    """splitmix64 (Steele, Lea and Flood, OOPSLA 2014) at place `index`: a number that any element can make alone."""
    (golden, first, second), shift = [ops.uint64(n) for n in SPLITMIX64], ops.shift

    def random64(key, index):
        z = index * golden + key
        z = (z ^ shift(z, 30)) * first
        z = (z ^ shift(z, 27)) * second
        return z ^ shift(z, 31)

    return random64


TO_INTEGER = {"nearest_even": _nearest_even, "nearest_away": _nearest_away, "toward_zero": _toward_zero,
              "toward_positive": _toward_positive, "toward_negative": _toward_negative, "stochastic": _stochastic}


# -- the algorithm -----------------------------------------------------------------------------------------------------


def rounding(ops, mode: str, flush: bool = True, one_sided: bool = True, lacks: Lacks = NOTHING):
    """The function (x, key, index, grid) -> the value of the format that x is rounded to.

    `flush` and `one_sided` say whether the grid asks for flushing, and for an overflow that depends on the side; where
    it does not, those lines are left out, for speed alone.
    """
    to_integer = ops.function(TO_INTEGER[mode](ops))
    where, clip, copysign, binade, twice_inverse = ops.where, ops.clip, ops.copysign, ops.binade, ops.twice_inverse
    even_exponent, nan = ops.even_exponent, ops.number(np.nan)
    no_sign, no_zero, bias_is_even = lacks.sign, lacks.zero, lacks.bias_is_even
    powers = lacks.mantissa and mode == "nearest_even"

    def round_one(x, key, index, grid):
        if flush:
            x = where(abs(x) < grid.flush_input, copysign(grid.zero, x), x)
        if no_sign:
            x = where(x < grid.zero, x * nan, abs(x))
        if no_zero:
            x = where(abs(x) < grid.lowest, copysign(grid.lowest, x), x)
        scale = clip(binade(x), grid.lowest, grid.highest)
        if powers:  # the neighbors of a tie are the grid steps 1 and 2: even is what has the even exponent field, not 2
            down = (abs(x) * twice_inverse(scale) == 3) & (even_exponent(scale) == bias_is_even)
            x = where(down, copysign(scale, x), x)
        t = x * twice_inverse(scale) * grid.half_steps
        y = to_integer(t, key, index) * grid.eps * scale
        if flush:
            y = where(abs(y) < grid.flush_output, copysign(grid.zero, y), y)
        beyond = copysign(grid.infinite, x)
        if one_sided:
            beyond = where(abs(x) > grid.huge, beyond, where(x < grid.zero, grid.below, grid.above))
        return where(abs(y) > grid.max, beyond, y) + grid.zero

    return round_one


def coding(ops):
    """The function (y, grid, layout) -> the code of y, a value that lies on the format's grid."""
    where, bits, integer, sign_bit = ops.where, ops.bits, ops.integer, ops.sign_bit

    def code_one(y, grid, layout):
        size = abs(y)
        subnormal = integer(size / (grid.lowest * grid.eps))  # NaN and infinity are dealt with below
        normal = (bits(size) >> layout.drop) - layout.offset
        code = where(size < grid.lowest, subnormal, normal)
        code = where(size > grid.max, layout.infinity, code) + sign_bit(y) * layout.sign
        return where(y != y, layout.nan, code)

    return code_one


# -- the vocabulary, for NumPy, torch and numba ------------------------------------------------------------------------


@functools.cache
def numpy_ops(dtype: str) -> SimpleNamespace:
    """The vocabulary over NumPy arrays of float32 or float64."""
    unsigned, exponent, sign = _bit_facts(dtype)
    lowest_bit = exponent & ~(exponent << 1)
    return SimpleNamespace(
        function=lambda f: f, number=np.dtype(dtype).type, almost_half=_almost_half(dtype),
        where=np.where, clip=np.clip, copysign=np.copysign, rint=np.rint, floor=np.floor, ceil=np.ceil, trunc=np.trunc,
        binade=lambda x: (x.view(unsigned) & exponent).view(dtype),
        twice_inverse=lambda c: (exponent - c.view(unsigned)).view(dtype),
        bits=lambda x: x.view(unsigned).astype(np.int64),
        integer=lambda x: np.where(x < 2.0**53, x, 0).astype(np.int64),
        sign_bit=lambda x: (x.view(unsigned) >> sign).astype(np.int64),
        even_exponent=lambda c: c.view(unsigned) & lowest_bit != 0,  # both biases are odd
        uint64=np.uint64,
        shift=lambda z, n: z >> np.uint64(n),
        exceeds=lambda fraction, r: (fraction.astype(np.float64) * 2.0**64).astype(np.uint64) > r,
    )


@functools.cache
def torch_ops(dtype: str) -> SimpleNamespace:
    """The vocabulary over torch tensors of float32 or float64, on their device. torch has no uint64 arithmetic."""
    import torch

    _, exponent, _ = _bit_facts(dtype)
    exponent = int(exponent)
    lowest_bit = exponent & ~(exponent << 1)
    signed, floating = {"float32": torch.int32, "float64": torch.int64}[dtype], getattr(torch, dtype)

    def exceeds(fraction, r):
        scaled = fraction.double() * 2.0**32
        high = torch.floor(scaled)  # two halves, since int64 ends at 2**63; compared as unsigned: both lowered by 2**63
        return ((high.long() - 2**31) << 32) + ((scaled - high) * 2.0**32).long() > r + -(2**63)

    return SimpleNamespace(
        function=lambda f: f, number=float, almost_half=float(_almost_half(dtype)),
        where=torch.where, clip=torch.clamp, copysign=torch.copysign, rint=torch.round, floor=torch.floor,
        ceil=torch.ceil, trunc=torch.trunc,
        binade=lambda x: (x.view(signed) & exponent).view(floating),
        twice_inverse=lambda c: (exponent - c.view(signed)).view(floating),
        bits=lambda x: x.view(signed).long(),
        integer=lambda x: torch.where(x < 2.0**53, x, 0).long(),
        sign_bit=lambda x: torch.signbit(x).long(),
        even_exponent=lambda c: c.view(signed) & lowest_bit != 0,
        uint64=as_int64,
        shift=lambda z, n: (z >> n) & ((1 << (64 - n)) - 1),  # int64 shifts its sign in: mask it off
        exceeds=exceeds,
    )


@functools.cache
def numba_ops(dtype: str) -> SimpleNamespace:
    """The vocabulary over single numbers, compiled."""
    import numba

    function = numba.njit(inline="always", error_model="numpy")
    floating = np.dtype(dtype).type
    unsigned, exponent, sign = _bit_facts(dtype)
    lowest_bit = exponent & ~(exponent << 1)
    words = {
        "where": lambda condition, a, b: a if condition else b,
        "clip": lambda x, low, high: max(min(x, high), low),
        "copysign": lambda a, b: np.copysign(a, b), "rint": lambda x: np.rint(x), "floor": lambda x: np.floor(x),
        "ceil": lambda x: np.ceil(x), "trunc": lambda x: np.trunc(x),
        "binade": lambda x: unsigned(floating(x).view(unsigned) & exponent).view(floating),
        "twice_inverse": lambda c: unsigned(exponent - floating(c).view(unsigned)).view(floating),
        "bits": lambda x: np.int64(floating(x).view(unsigned)),
        "integer": lambda x: np.int64(x) if x < 2.0**53 else np.int64(0),
        "sign_bit": lambda x: np.int64(unsigned(floating(x).view(unsigned)) >> sign),
        "even_exponent": lambda c: floating(c).view(unsigned) & lowest_bit != 0,
        "shift": lambda z, n: np.uint64(z) >> np.uint64(n),
        "exceeds": lambda fraction, r: np.uint64(np.float64(fraction) * 2.0**64) > np.uint64(r),
    }
    compiled = {name: function(word) for name, word in words.items()}
    compiled["almost_half"] = _almost_half(dtype)
    return SimpleNamespace(function=function, number=floating, uint64=np.uint64, **compiled)


def _almost_half(dtype: str):
    """The number just below a half."""
    number = np.dtype(dtype).type
    return np.nextafter(number(0.5), number(0))


def _bit_facts(dtype: str):
    """The unsigned integer of the same size, the mask of the exponent field, the place of the sign bit."""
    if dtype == "float32":
        return np.uint32, np.uint32(0x7F800000), np.uint32(31)
    return np.uint64, np.uint64(0x7FF0000000000000), np.uint64(63)


def as_int64(n: int) -> int:
    """The signed integer with the same 64 bits as the unsigned n."""
    return n - (1 << 64) if n >= 1 << 63 else n


# -- running it --------------------------------------------------------------------------------------------------------


@functools.cache
def compiled_rounding(mode: str, dtype: str, flush: bool, one_sided: bool, lacks: Lacks):
    """A loop (x, out, key, grid) over contiguous arrays, compiled by numba from the text above.

    It computes in `dtype`, whatever x and out are.
    """
    ops = numba_ops(dtype)
    one, number = ops.function(rounding(ops, mode, flush, one_sided, lacks)), ops.number

    def loop(x, out, key, grid):
        for i in range(x.size):
            out[i] = one(number(x[i]), key, np.uint64(i), grid)

    return _njit(loop)


@functools.cache
def compiled_coding(dtype: str):
    """A loop (y, out, grid, layout) over contiguous arrays, compiled by numba from the text above."""
    ops = numba_ops(dtype)
    one = ops.function(coding(ops))

    def loop(y, out, grid, layout):
        for i in range(y.size):
            out[i] = one(y[i], grid, layout)

    return _njit(loop)


def _njit(loop):
    import numba

    return numba.njit(nogil=True, error_model="numpy")(loop)


def round_array(x, mode: str, grid: Grid, key: int = 0, out=None, dtype: str | None = None, lacks: Lacks = NOTHING):
    """Every element of x, float32 or float64 (NumPy or torch), rounded.

    Args:
        out: a NumPy array to write to, float32 or float64; it may be x itself.
        dtype: what to compute in, if not the dtype of x (NumPy only).
    """
    if not isinstance(x, np.ndarray):
        return _round_tensor(x, mode, grid, key, lacks)
    dtype, key = dtype or x.dtype.name, np.uint64(key)
    grid = Grid(*(np.dtype(dtype).type(v) for v in grid))
    if out is None:
        out = np.empty(x.shape, dtype)
    elif out is not x and np.may_share_memory(out, x):
        x = x.copy()  # shifted against each other, one would be overwritten before it is read
    flush = bool(grid.flush_input > 0 or grid.flush_output > 0)
    one_sided = str((grid.above, -grid.below)) != str((grid.infinite, grid.infinite))  # as text: NaN is not NaN
    kind = mode, dtype, flush, one_sided, lacks
    if x.size >= COMPILE_FROM or (x.size >= WORTH_A_CALL and kind in _compiled):
        target = out if out.flags.c_contiguous else np.empty(x.shape, out.dtype)
        loop = compiled_rounding(*kind)
        _compiled.add(kind)
        loop(np.ascontiguousarray(x).reshape(-1), target.reshape(-1), key, grid)
        if target is not out:
            out[...] = target
    elif x.size:
        index = np.arange(x.size, dtype=np.uint64).reshape(x.shape)
        with np.errstate(all="ignore"):
            out[...] = rounding(numpy_ops(dtype), mode, lacks=lacks)(x.astype(dtype, copy=False), key, index, grid)
    return out


def _round_tensor(x, mode: str, grid: Grid, key: int, lacks: Lacks):
    import torch

    grid = Grid(*(torch.tensor(v, dtype=x.dtype, device=x.device) for v in grid))
    index = torch.arange(x.numel() if mode == "stochastic" else 0, device=x.device)
    index = index.view(x.shape) if mode == "stochastic" else index
    ops = torch_ops(str(x.dtype).removeprefix("torch."))
    return rounding(ops, mode, lacks=lacks)(x, as_int64(key), index, grid)


def code_array(y, grid: Grid, layout: Layout, dtype: str):
    """The codes of y, values on the format's grid, as unsigned integers of the given NumPy dtype name."""
    if not isinstance(y, np.ndarray):
        import torch

        grid = Grid(*(torch.tensor(v, dtype=y.dtype, device=y.device) for v in grid))
        codes = coding(torch_ops(str(y.dtype).removeprefix("torch.")))(y, grid, layout)
        return codes.view(torch.uint64) if dtype == "uint64" else codes.to(getattr(torch, dtype))
    grid = Grid(*(y.dtype.type(v) for v in grid))
    if y.size >= COMPILE_FROM:
        out = np.empty(y.shape, dtype)
        compiled_coding(y.dtype.name)(np.ascontiguousarray(y).reshape(-1), out.reshape(-1), grid, layout)
        return out
    with np.errstate(all="ignore"):
        return np.asarray(coding(numpy_ops(y.dtype.name))(y, grid, layout)).astype(dtype)
