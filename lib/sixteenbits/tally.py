"""Rounding whole tensors in place, with a count of what became of their values.

Emulation rounds after every operation, so it has to be quick: for tensors in main memory, rounding and counting are
one loop, compiled from the text of `kernel`. Other devices, and the few formats that the loop does not know, take
`codec.round_to` and count afterwards.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import torch

from sixteenbits.block_formats import BlockFormat
from sixteenbits.blocks import round_to_blocks
from sixteenbits.codec import round_to
from sixteenbits.formats import BF16, FP16, Format
from sixteenbits.kernel import COMPILE_FROM, Grid, numba_ops, rounding
from sixteenbits.rounding import _fits, _grid, how_to_round


class Counts(NamedTuple):
    """What became of the values of a tensor.

    Attributes:
        values: how many there are.
        overflows: finite before, beyond the largest number after: infinity, NaN or the largest number, as the format
            and its overflow rule have it.
        underflows: not zero before, zero after.
        nans: NaN after.
        infinities: infinite before.
    """

    values: int
    overflows: int
    underflows: int
    nans: int
    infinities: int


class Rounder:
    """Rounds tensors to one format, in place.

    Args:
        format: a Format, or a BlockFormat (whose blocks then lie along the axis that the call names).
        mode, overflow, nan: as `rounding`, `overflow` and `nan` of `codec.round_to`. Block formats always saturate.
        rng: a NumPy or torch Generator for stochastic rounding: one key a tensor. An int would round all tensors alike.
    """

    def __init__(self, format: Format | BlockFormat, mode: str = "nearest_even", overflow: str = "ieee", rng=None,
                 nan: float | None = None):
        self.format, self.mode, self.overflow, self.rng, self.nan = format, mode, overflow, rng, nan
        self.blocks = isinstance(format, BlockFormat)
        element = format.element if self.blocks else format
        self.how = how_to_round(element, mode, overflow, rng, nan=nan)
        if self.blocks:
            _warm(mode)
        usual = not self.blocks and format.signed and format.zero and format.subnormals and format.mantissa_bits
        self.loops = {getattr(torch, dtype): self._loop(dtype) for dtype in ("float32", "float64")
                      if usual and _fits(format, dtype)}

    def deterministic(self) -> Rounder:
        """This one, or if it rounds stochastically one that rounds to nearest."""
        return self if self.rng is None else Rounder(self.format, "nearest_even", self.overflow, None, self.nan)

    def _loop(self, dtype: str):
        number = np.dtype(dtype).type
        with np.errstate(over="ignore"):  # a limit beyond the dtype: nothing overflows
            return dtype, Grid(*(number(v) for v in _grid(self.how, dtype))), number(overflow_from(self.how))

    def __call__(self, x: torch.Tensor, axis: int = -1) -> Counts:
        """x, which needs no gradient, rounded where it stands.

        Raises:
            ValueError: NaN, and the format has none.
            TypeError: the dtype of x cannot hold the format.
        """
        if x.is_complex():
            return self(torch.view_as_real(x), axis)
        if x.dtype not in (torch.float32, torch.float64):
            return self._widely(x, axis)
        flat = _memory(x) if x.dtype in self.loops and x.device.type == "cpu" else None
        counts = self._slowly(x, axis) if flat is None else self._quickly(x.dtype, flat.numpy())
        if counts.nans and not self.blocks and not self.format.has_nan:
            self._replace_nan(x, counts)
        return counts

    def _widely(self, x: torch.Tensor, axis: int) -> Counts:
        if not self.blocks and not _holds(str(x.dtype).removeprefix("torch."), self.format):
            raise TypeError(f"a {x.dtype} tensor cannot hold {self.format}; keep the tensors in float32, without "
                            "autocast, or emulate a format that fits")
        wide = x.float()
        counts = self(wide, axis)
        x.copy_(wide)
        return counts

    def _quickly(self, dtype: torch.dtype, values: np.ndarray) -> Counts:
        name, grid, limit = self.loops[dtype]
        key = self.how.key if self.rng is None else how_to_round(self.format, self.mode, rng=self.rng).key
        return Counts(values.size, *_compiled(self.mode, name)(values, np.uint64(key), grid, limit))

    def _slowly(self, x: torch.Tensor, axis: int) -> Counts:
        if self.blocks:
            y = round_to_blocks(x, self.format, axis=axis, rounding=self.mode, rng=self.rng)
        elif self.format.has_nan:
            y = round_to(x, self.format, self.mode, self.overflow, self.rng)
        else:
            y = round_to(x, self.format, self.mode, self.overflow, self.rng, nan=0.0).masked_fill(x.isnan(), np.nan)
        counts = count(x, y, np.inf if self.blocks else overflow_from(self.how))
        x.copy_(y)
        return counts

    def _replace_nan(self, x: torch.Tensor, counts: Counts) -> None:
        if self.nan is None:
            raise ValueError(f"{counts.nans} of {counts.values} values are NaN, and {self.format} has no code for it; "
                             "say what to put there, for example nan=0.0")
        mode = self.mode if self.rng is None else "nearest_even"
        x.masked_fill_(x.isnan(), float(round_to(float(self.nan), self.format, mode, self.overflow)))


def overflow_from(how) -> float:
    """The smallest magnitude that overflows; in the directed and stochastic modes the smallest that always does."""
    gap = 2.0**how.format.emax * how.format.eps
    if not how.rounding.startswith("nearest"):
        return how.format.max + gap
    limit = how.format.max + gap / 2
    tie_goes_up = how.rounding == "nearest_away" or how.format.max_code % 2 == 1
    return limit if tie_goes_up else float(np.nextafter(np.float32(limit), np.float32(np.inf)))


def count(x: torch.Tensor, y: torch.Tensor, limit: float) -> Counts:
    """What became of x when it was rounded to y, on any device."""
    if x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64):
        x, y = x.numpy(), y.numpy()
        with np.errstate(over="ignore"):
            limit = x.dtype.type(limit)
        return Counts(x.size, *_compiled_count()(x.reshape(-1), y.reshape(-1), limit))
    finite, size = x.isfinite(), x.abs()
    over = finite & ((size >= limit) | ~y.isfinite())
    parts = torch.stack([over.sum(), ((x != 0) & (y == 0)).sum(), y.isnan().sum(), x.isinf().sum()])
    return Counts(x.numel(), *parts.tolist())


@functools.cache
def _holds(dtype: str, format: Format) -> bool:
    """Whether every number of the format is one of this dtype of 16 bits."""
    wide = {"float16": FP16, "bfloat16": BF16}[dtype]
    return (format.mantissa_bits <= wide.mantissa_bits and format.emax <= wide.emax
            and format.emin - format.mantissa_bits >= wide.emin - wide.mantissa_bits)


def _memory(x: torch.Tensor) -> torch.Tensor | None:
    """x as one flat view, in the order in which its values lie in memory; None if they do not fill it."""
    if x.is_contiguous():
        return x.view(-1)
    x = x.permute(sorted(range(x.dim()), key=x.stride, reverse=True))
    return x.view(-1) if x.is_contiguous() else None


@functools.cache
def _warm(mode: str) -> None:
    """Have the loop for the elements of blocks compiled, so that small tensors take it too."""
    round_to(np.zeros(COMPILE_FROM), "fp4_e2m1fn", mode, "saturate", 0)


@functools.cache
def _compiled(mode: str, dtype: str):
    """A loop (x, key, grid, limit) that rounds x in place and returns the four counts."""
    import numba

    ops = numba_ops(dtype)
    one, add = ops.function(rounding(ops, mode, flush=False)), _counting()

    def loop(x, key, grid, limit):
        counts = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
        for i in range(x.size):
            value = x[i]
            x[i] = y = one(value, key, np.uint64(i), grid)
            counts = add(counts, value, y, limit)
        return counts

    return numba.njit(nogil=True, error_model="numpy")(loop)


@functools.cache
def _compiled_count():
    """A loop (x, y, limit) that returns the four counts."""
    import numba

    add = _counting()

    def loop(x, y, limit):
        counts = (np.int32(0), np.int32(0), np.int32(0), np.int32(0))
        for i in range(x.size):
            counts = add(counts, x[i], y[i], limit)
        return counts

    return numba.njit(nogil=True, error_model="numpy")(loop)


@functools.cache
def _counting():
    """Compiled: the counts with one more value that was rounded to y. 32 bits fit into the vector registers."""
    import numba

    int32 = np.int32

    def add(counts, value, y, limit):
        overflows, underflows, nans, infinities = counts
        size = abs(value)
        lost = (size < np.inf) & ((size >= limit) | ~(abs(y) < np.inf))
        return (int32(overflows + (int32(1) if lost else int32(0))),
                int32(underflows + (int32(1) if (value != 0) & (y == 0) else int32(0))),
                int32(nans + (int32(1) if y != y else int32(0))),
                int32(infinities + (int32(1) if size == np.inf else int32(0))))

    return numba.njit(inline="always", error_model="numpy")(add)
