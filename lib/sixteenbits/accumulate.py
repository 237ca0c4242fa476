"""Sums, dot products and matrix products as a machine computes them: each addition rounded, in a given order.

    >>> sum([1.0] + [0.001] * 1000, "bf16")
    np.float64(1.0)
    >>> sum([1.0] + [0.001] * 1000, "bf16", accumulator="fp32")
    np.float64(2.0)

Two things decide the error of a sum: what holds the running total (`ACCUMULATORS`), and in which order the additions
are made (`ORDERS`). Both are tables; a new one is a new row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sixteenbits import arrays
from sixteenbits.addition import DRAWS, add_aligned, add_rows, grid_of_total
from sixteenbits.formats import FP32, Format, as_format
from sixteenbits.rounding import how_to_round, round_values

#: The registers that FP8 products are added up in on NVIDIA's Hopper: FP32 without its last ten bits.
FP22 = Format("fp22", 8, 13, title="FP22",
              source="Zhao et al., Insights into DeepSeek-V3, arXiv:2505.09343, 3.1.1, 2025")


@dataclass(frozen=True)
class Accumulator:
    """What holds a running total, and how one addition into it is rounded.

    Args:
        name, title: short and in prose.
        format: the format of the total; None means that of the numbers that are added.
        rounding: one of `codec.ROUNDINGS`.
        terms: how many terms one step adds. 1: an ordinary addition. More: a matrix unit, which shifts the terms until
            they share the largest exponent among them, drops what falls off, and adds the rest exactly.
        kept_bits: of each shifted term, the bits that are kept below the leading bit of the largest.
        total_is_shifted: whether the total takes part in the shifting, as one more term.
        source: where this is described.
    """

    name: str
    title: str
    format: Format | None = None
    rounding: str = "nearest_even"
    terms: int = 1
    kept_bits: int = 0
    total_is_shifted: bool = False
    source: str = ""


_HOPPER = "DeepSeek-AI, DeepSeek-V3 Technical Report, arXiv:2412.19437, 3.3.2 and 3.5.2, 2024"

#: Named accumulators. The name of a format is an accumulator too: that format, rounding to nearest.
#:
#: How Hopper's tensor cores add FP8 products is not published. Reported is: 32 products are shifted to their largest
#: exponent, the highest 14 bits of each are kept and the others cut off; the register holds 14 bits as well (FP22, with
#: its hidden bit). That is `hopper_fp8`. Not reported, so a guess here: cutting off goes toward zero, a product's
#: exponent is that of its value, and the total is not shifted together with the products. `hopper_fp8_joint` is the
#: other guess for the last point: so work older tensor cores (Fasi et al., PeerJ Computer Science 7:e330, 2021).
ACCUMULATORS: dict[str, Accumulator] = {a.name: a for a in [
    Accumulator("same", "the same format"),
    Accumulator("stochastic", "the same format, stochastic rounding", rounding="stochastic"),
    Accumulator("fp32", "FP32", FP32),
    Accumulator("hopper_fp8", "14 bits, products shifted", FP22, "toward_zero", 32, 13, source=_HOPPER),
    Accumulator("hopper_fp8_joint", "14 bits, products and total shifted", FP22, "toward_zero", 32, 13, True, _HOPPER),
]}


@dataclass(frozen=True)
class Order:
    """The order in which the terms of a sum are added.

    Args:
        name, title: short and in prose.
        scheme: `"sequential"`, one after the other; `"pairwise"`, neighbors first, then the sums of neighbors, as in a
            tournament; `"kahan"`, one after the other, with a second number that carries what was rounded off (Kahan,
            Communications of the ACM 8(1):40, 1965). Once a Kahan sum has overflowed it is NaN.
        chunk: if given, so many terms at a time are summed by the scheme, and then the sums of the chunks.
        promote_to: the accumulator of the sums of the chunks; None means the same one.
    """

    name: str
    title: str
    scheme: str = "sequential"
    chunk: int | None = None
    promote_to: str | None = None


#: Named orders; `chunks_of` makes others. 128 and FP32: DeepSeek-V3 (arXiv:2412.19437, 3.3.2).
ORDERS: dict[str, Order] = {o.name: o for o in [
    Order("sequential", "one after the other"),
    Order("pairwise", "pairwise", "pairwise"),
    Order("kahan", "Kahan", "kahan"),
    Order("chunks_of_32", "chunks of 32", chunk=32),
    Order("promotion_every_128", "promotion to FP32 every 128", chunk=128, promote_to="fp32"),
]}


def chunks_of(size: int, promote_to: str | None = None) -> Order:
    """The order that sums `size` terms at a time one after the other, and then the sums of these chunks likewise."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"size is {size!r}; a chunk has a whole number of terms, 1 or more")
    title = f"promotion to {promote_to} every {size}" if promote_to else f"chunks of {size}"
    return Order(f"chunks_of_{size}", title, chunk=size, promote_to=promote_to)


# -- the public functions ----------------------------------------------------------------------------------------------


def sum(x, format, accumulator="same", order="sequential", *, rng=None, result=None, axis=-1):
    """The sum along an axis as a machine computes it.

    Args:
        x: numbers of shape (..., n, ...): NumPy array, tensor or list. They are rounded to `format` first.
        format: what holds the terms: a Format or the name of one.
        accumulator: an Accumulator, the name of one of `ACCUMULATORS`, a Format or the name of one.
        order: an Order or the name of one of `ORDERS`.
        rng: for stochastic accumulators, as in `codec.round_to`. Addition i of row r draws number r * steps + i.
        result: the format that the total is rounded to in the end (to nearest); None means `format`.
        axis: the axis that is summed.

    Returns:
        float64, of the shape of x without that axis. The sum of no terms is 0. Overflow is the format's own:
        infinity where there is one, else NaN or the largest number. NaN and infinities among the terms go their way.

    Raises:
        ValueError: an unknown name; a format that cannot accumulate (see `addition.grid_of_total`).
    """
    format, accumulator = as_format(format), as_accumulator(accumulator, format)
    terms = rounded(np.moveaxis(values(x), axis, -1), format)
    return rounded(_total(terms, accumulator, as_order(order), _key(accumulator, rng)), as_format(result or format))[()]


def dot(a, b, format, accumulator="same", order="sequential", *, rng=None, result=None):
    """The dot product along the last axis, `sum(a * b)`, as a machine computes it.

    Args:
        a, b: numbers of shapes that broadcast, (..., n); rounded to `format` first.

    A product is rounded to the format of the accumulator before it is added (as by separate multiply and add
    instructions); a matrix unit (`Accumulator.terms` above 1) takes it exactly. The products of two FP8, FP16 or BF16
    numbers are exact in FP32. The rest is as for `sum`.

    Raises:
        ValueError: `format` has more than 25 mantissa bits, so that float64 does not hold the products.
    """
    format, accumulator = as_format(format), as_accumulator(accumulator, format)
    products = _exact_products(rounded(values(a, "a"), format), rounded(values(b, "b"), format), format)
    total = _total(products, accumulator, as_order(order), _key(accumulator, rng))
    return rounded(total, as_format(result or format))[()]


def matmul(a, b, format, accumulator="same", order="sequential", *, rng=None, result=None):
    """The matrix product of a, shape (m, n), and b, shape (n, k): an array (m, k) of dot products, see `dot`.

    Raises:
        ValueError: the shapes do not match.
    """
    a, b = values(a, "a"), values(b, "b")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a has shape {a.shape} and b {b.shape}; expected (m, n) and (n, k)")
    format, accumulator, order = as_format(format), as_accumulator(accumulator, as_format(format)), as_order(order)
    a, b, key = rounded(a, format), rounded(b.T, format), _key(accumulator, rng)
    out = np.zeros((len(a), len(b)))
    for i, row in enumerate(a):  # one row at a time: all the products at once would need n times the memory
        out[i] = _total(_exact_products(row, b, format), accumulator, order, key, first_row=i * len(b))
    return rounded(out, as_format(result or format))


def as_accumulator(accumulator, format: Format) -> Accumulator:
    """The Accumulator that is meant, with its format filled in.

    Raises:
        ValueError: no accumulator or format has that name; the message lists the accumulators.
    """
    if isinstance(accumulator, str) and accumulator in ACCUMULATORS:
        accumulator = ACCUMULATORS[accumulator]
    if not isinstance(accumulator, Accumulator):
        try:
            own = as_format(accumulator)
        except ValueError:
            raise ValueError(f"no accumulator is named {accumulator!r}; choose one of {', '.join(ACCUMULATORS)}, or "
                             "the name of a format") from None
        accumulator = Accumulator(own.name, own.title, own)
    return replace(accumulator, format=accumulator.format or format)


def as_order(order) -> Order:
    """The Order that is meant: itself, or the row of `ORDERS` with that name."""
    if isinstance(order, Order):
        return order
    if order not in ORDERS:
        raise ValueError(f"no order is named {order!r}; choose one of {', '.join(ORDERS)}, or make one with chunks_of")
    return ORDERS[order]


# -- how far off -------------------------------------------------------------------------------------------------------


def exact_sum(x, axis=-1) -> np.ndarray:
    """The exact sum of finite numbers along an axis, rounded once to float64 (`math.fsum`: Shewchuk, 1997)."""
    x = np.moveaxis(values(x), axis, -1)
    rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return np.array([math.fsum(row) for row in rows.tolist()]).reshape(x.shape[:-1])[()]


def exact_dot(a, b, format) -> np.ndarray:
    """The exact dot product along the last axis of a and b, rounded to `format` first; then rounded once to float64."""
    format = as_format(format)
    return exact_sum(_exact_products(rounded(values(a, "a"), format), rounded(values(b, "b"), format), format))


def relative_error(computed, exact) -> np.ndarray:
    """|computed - exact| / |exact|, element by element; infinite where something finite became infinite or NaN."""
    computed, exact = np.asarray(computed, np.float64), np.asarray(exact, np.float64)
    with np.errstate(all="ignore"):
        error = np.abs(computed - exact) / np.abs(exact)
    return np.where(computed == exact, 0.0, np.where(np.isfinite(computed), error, np.inf))[()]


def worst_case(n, format) -> np.ndarray:
    """The bound on the relative error of n positive terms added one after the other: (n-1) u / (1 - (n-1) u).

    Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 4.2; for terms of both signs it is relative to
    the sum of their sizes. Infinite where (n-1) u reaches 1: nothing is promised any more.
    """
    steps = (np.asarray(n, np.float64) - 1) * as_format(format).unit_roundoff
    return np.where(steps < 1, steps / np.where(steps < 1, 1 - steps, 1), np.inf)[()]


def random_walk(n, format) -> np.ndarray:
    """What the bound becomes, to first order, if the rounding errors are independent with mean zero: sqrt(n-1) u.

    Higham and Mary, SIAM Journal on Scientific Computing 41(5):A2815-A2835, 2019; their bound has a factor in front, so
    that it holds with a given probability.
    """
    return np.sqrt(np.asarray(n, np.float64) - 1) * as_format(format).unit_roundoff


# -- how it is done ----------------------------------------------------------------------------------------------------


def values(x, name: str = "x") -> np.ndarray:
    """What a caller gave (array, tensor, list) as a float64 array."""
    arrived = arrays.floats(x, name).values
    return np.asarray(arrived if isinstance(arrived, np.ndarray) else arrived.cpu().numpy(), np.float64)


def rounded(x, format: Format) -> np.ndarray:
    """The numbers of x, rounded to nearest."""
    return round_values(np.asarray(x, np.float64), how_to_round(format))


def _exact_products(a: np.ndarray, b: np.ndarray, format: Format) -> np.ndarray:
    if format.mantissa_bits > 25:
        raise ValueError(f"{format} has {format.mantissa_bits} mantissa bits; float64 holds the exact products of "
                         "formats of up to 25")
    with np.errstate(all="ignore"):
        return a * b


def _key(accumulator: Accumulator, rng) -> int:
    return how_to_round(accumulator.format, accumulator.rounding, rng=rng).key


def _total(terms: np.ndarray, accumulator: Accumulator, order: Order, key: int, first_row: int = 0) -> np.ndarray:
    """The totals over the last axis, values of the accumulator's format; `first_row`: rows added up before."""
    if terms.shape[-1] == 0:
        return np.zeros(terms.shape[:-1])
    rows, n = terms.reshape(-1, terms.shape[-1]), terms.shape[-1]
    size = order.chunk or n
    chunks = -(-n // size)
    # Minus zero is the number that changes no sum.
    padded = np.pad(rows, [(0, 0), (0, chunks * size - n)], constant_values=-0.0).reshape(-1, size)
    first = first_row * (size + 1) * chunks * DRAWS[order.scheme]
    total = _add_up(padded, accumulator, order.scheme, key, first)
    if order.chunk:
        outer = as_accumulator(order.promote_to or accumulator, accumulator.format)
        total = _add_up(total.reshape(-1, chunks), outer, order.scheme, key, first + padded.size * DRAWS[order.scheme])
    return total.reshape(terms.shape[:-1])


def _add_up(rows: np.ndarray, accumulator: Accumulator, scheme: str, key: int, first: int) -> np.ndarray:
    grid = grid_of_total(how_to_round(accumulator.format, accumulator.rounding, rng=key))
    if accumulator.terms > 1:
        if scheme != "sequential":
            raise ValueError(f"{accumulator.name} adds {accumulator.terms} terms a step, one step after the other; "
                             f"the scheme {scheme!r} needs an accumulator that adds one term at a time")
        return add_aligned(rows, accumulator.terms, accumulator.kept_bits, accumulator.total_is_shifted,
                           accumulator.rounding, grid)
    return add_rows(rounded(rows, accumulator.format), scheme, accumulator.rounding, grid, key, first)
