"""Formats in which numbers share a scale: the MX formats and NVFP4.

A narrow element has too little range to stand alone. A block format puts some neighbors (32 in MX, 16 in NVFP4) into a
block and stores one more number for them all, the block's *scale*; NVFP4 has a third number for the whole tensor:

    value = element * scale of the block * scale of the tensor

    >>> blocks = quantize([0.5, -1.5, 4.5, 22.0], "mxfp4", size=4)
    >>> blocks.codes, blocks.scales
    (array([0, 9, 2, 7], dtype=uint8), array([129], dtype=uint8))
    >>> dequantize(blocks)
    array([ 0., -2.,  4., 24.])

How a scale is chosen. The block's largest magnitude, divided by `target`, is rounded to the scale's format, `"floor"`
(down), `"ceil"` (up) or `"nearest"`. For MX the target is the largest power of two among the elements and the rounding
is floor: the rule of the OCP MX specification, 6.3. A block whose largest magnitude then lies beyond the largest
element saturates: floor can take up to a quarter from the largest number of an FP4 block (7.99 becomes 6). Ceil and
nearest never saturate an MX block; half way between two scales, nearest takes the one with the even code.

What the specification says and leaves open. Elements beyond the largest one saturate (6.3); ties go to even (5.3); a
NaN scale makes the whole block NaN (5.1). Open is what NaN and infinities in the input become. Here one of them makes
the scale NaN, and so the block, as in Microsoft's reference implementation, microxcaling. A block of zeros, or of
numbers so small that the scale would fall below the smallest one, gets the smallest scale (code 0, 2**-127 in E8M0);
one too large for the scales gets the largest, and saturates. Without scales of blocks, NaN and infinities are treated
one by one: NaN stays, infinity saturates.

All of it is computed in float64: exact scales, and elements rounded once, for input of up to 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sixteenbits import arrays
from sixteenbits.block_formats import BLOCK_FORMATS, SCALE_ROUNDINGS, BlockFormat, as_block_format
from sixteenbits.codec import _straight_through, decode, encode, round_to

__all__ = ["BLOCK_FORMATS", "SCALE_ROUNDINGS", "BlockFormat", "Blocks", "as_block_format", "dequantize", "quantize",
           "round_to_blocks"]


@dataclass(frozen=True)
class Blocks:
    """Numbers in a block format, as they would be stored.

    Attributes:
        format: the BlockFormat, with the size and the scale rounding that were used.
        axis: along which the blocks lie.
        codes: codes of the elements, in the shape of the numbers.
        scales: codes of the blocks' scales, in that shape too but for `axis`, which counts blocks; None where the
            format has none.
        tensor_scale: the tensor's scale; 1.0 where the format has none.
    """

    format: BlockFormat
    axis: int
    codes: Any
    scales: Any
    tensor_scale: float


def quantize(x, format, *, size=None, axis=-1, scale_rounding=None, rounding="nearest_even", rng=None,
             tensor_scale=None) -> Blocks:
    """The numbers in x as codes and scales.

    Args:
        x: what `codec.round_to` takes. The last block of a row may be shorter than the others; a zero-dimensional x is
            a block of one.
        format: a BlockFormat or the name of one.
        size, scale_rounding: instead of the format's own.
        axis: along which the blocks lie.
        rounding, rng: of the elements, as in `codec.round_to`. They always saturate.
        tensor_scale: instead of the one computed from x (the largest finite magnitude over `target` and the largest
            scale, rounded to nearest): one measured on other data, or 1.0 to do without.

    Raises:
        ValueError, TypeError: an unknown name, an axis that x does not have, no numbers; a tensor scale that is not a
            positive value of its format.
    """
    format = _chosen(format, size, scale_rounding)
    values, axis = _ready(x, axis)
    elements, scales, tensor_scale = _scaled(values, format, axis, tensor_scale)
    codes = encode(elements, format.element, rounding, "saturate", rng)
    scales = None if scales is None else encode(scales, format.scale)
    return Blocks(format, axis, _as_kind(x, codes), _as_kind(x, scales), tensor_scale)


def dequantize(blocks: Blocks):
    """The numbers that are stored, exactly, in float64: an array or tensor like `blocks.codes`."""
    format = blocks.format
    codes, scales = (x.numpy() if arrays.is_tensor(x) and x.device.type == "cpu" else x
                     for x in (blocks.codes, blocks.scales))
    scales = None if scales is None else decode(scales, format.scale)
    values = _multiply(decode(codes, format.element), scales, blocks.tensor_scale, format, blocks.axis)
    return _as_kind(blocks.codes, values)


def round_to_blocks(x, format, *, size=None, axis=-1, scale_rounding=None, rounding="nearest_even", rng=None,
                    tensor_scale=None):
    """Every number in x, rounded to what the block format stores: `dequantize(quantize(x, ...))` in the dtype of x.

    A product of element and scales can have more bits than a narrow dtype; it is then rounded to nearest once more, and
    becomes infinite where it is too large. This concerns NVFP4 in float32 and narrower, the others in float16.

    Returns:
        What came in: array or tensor, of the same shape, floating dtype and device; integers and Python numbers become
        float64. A tensor that requires a gradient gets a straight-through one, as in `codec.round_to`.

    Arguments and errors: see `quantize`.
    """
    format = _chosen(format, size, scale_rounding)

    def rounded(x):
        values, at = _ready(x, axis)
        elements, scales, shared = _scaled(values, format, at, tensor_scale)
        elements = round_to(elements, format.element, rounding, "saturate", rng)
        return _like(x, _multiply(elements, scales, shared, format, at))

    return _straight_through()(x, rounded) if arrays.is_tensor(x) and x.requires_grad else rounded(x)


# -- the steps ---------------------------------------------------------------------------------------------------------
# NumPy and torch call what is needed here by the same names: `module` is whichever made the array.


def _chosen(format, size, scale_rounding) -> BlockFormat:
    format = as_block_format(format)
    changes = {"size": size, "scale_rounding": scale_rounding}
    return replace(format, **{field: value for field, value in changes.items() if value is not None})


def _ready(x, axis: int):
    """x in float64, and the axis counted from the front. A tensor in main memory becomes an array."""
    values = arrays.floats(x).values
    dimensions = max(values.ndim, 1)
    if not -dimensions <= axis < dimensions:
        raise ValueError(f"axis is {axis}; x has {values.ndim} dimensions")
    values = arrays.widen(values, np.float64) if isinstance(values, np.ndarray) else values.double()
    return values, axis % dimensions


def _as_kind(x, values):
    """values as a tensor where x is one; None stays None."""
    if values is None or not arrays.is_tensor(x) or arrays.is_tensor(values):
        return values
    import torch

    return torch.from_numpy(np.asarray(values))


def _module(values):
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch


def _scaled(values, format: BlockFormat, axis: int, tensor_scale: float | None):
    """values divided by their scales; the blocks' scales, or None; the tensor's scale."""
    module = _module(values)
    shared = _tensor_scale(values, format, tensor_scale)
    if format.scale is None:
        return module.where(module.isfinite(values), values / shared, values), None, shared
    tiles = _tiles(values, format, axis)
    largest = module.amax(abs(tiles), axis + 1)
    wanted = module.where(module.isfinite(largest), largest / (format.target * shared), np.nan)
    scales = round_to(wanted, format.scale, SCALE_ROUNDINGS[format.scale_rounding], "saturate")
    step = _spread(scales * shared, axis)
    # A scale of zero or NaN leaves nothing of its block: dividing by infinity gives zeros, with their signs.
    if (step != step).any():
        tiles = module.where(step == step, tiles, 0.0)
    return _untile(tiles / module.where(step > 0, step, np.inf), values.shape, axis), scales, shared


def _tensor_scale(values, format: BlockFormat, given: float | None) -> float:
    if format.tensor_scale is None:
        if given is not None:
            raise ValueError(f"tensor_scale is {given}, but {format} has no such scale")
        return 1.0
    if given is not None:
        if not 0 < given < np.inf or round_to(float(given), format.tensor_scale) != given:
            raise ValueError(f"tensor_scale is {given!r}; expected a positive value of {format.tensor_scale}")
        return float(given)
    module = _module(values)
    finite = abs(values)[module.isfinite(values)]
    largest = float(finite.max()) if len(finite) else 0.0
    if largest == 0:
        return 1.0
    span = format.target * (format.scale.max if format.scale else 1)
    mode = "nearest_even" if format.scale else SCALE_ROUNDINGS[format.scale_rounding]
    return max(float(round_to(largest / span, format.tensor_scale, mode, "saturate")),
               format.tensor_scale.smallest_subnormal)


def _multiply(elements, scales, shared: float, format: BlockFormat, axis: int):
    if scales is None:
        return elements * shared
    return _untile(_tiles(elements, format, axis) * _spread(scales * shared, axis), elements.shape, axis)


def _tiles(values, format: BlockFormat, axis: int):
    """values with `axis` cut into two: blocks, and their elements; the last block is filled up with zeros."""
    module, shape = _module(values), tuple(values.shape) or (1,)
    size = format.size or max(shape[axis], 1)
    count = -(-shape[axis] // size)
    values = values.reshape(shape)
    if missing := count * size - shape[axis]:
        device = {} if module is np else {"device": values.device}
        filling = module.zeros((*shape[:axis], missing, *shape[axis + 1:]), dtype=values.dtype, **device)
        values = module.concatenate((values, filling), axis)
    return values.reshape(*shape[:axis], count, size, *shape[axis + 1:])


def _spread(scales, axis: int):
    """The scales of blocks, to be multiplied with `_tiles`."""
    return scales[(slice(None),) * (axis + 1) + (None,)]


def _untile(tiles, shape, axis: int):
    """The way back from `_tiles`."""
    count, size = tiles.shape[axis:axis + 2]
    rows = tiles.reshape(*tiles.shape[:axis], count * size, *tiles.shape[axis + 2:])
    return rows[(slice(None),) * axis + (slice(shape[axis] if shape else 1),)].reshape(shape)


def _like(x, values):
    """values as the kind and dtype of x."""
    if arrays.is_tensor(x):
        values = _as_kind(x, values)
        return values.to(x.dtype) if x.dtype.is_floating_point else values
    if not isinstance(x, np.ndarray):
        return values[()]
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(x.dtype if x.dtype.kind not in "iu" else np.float64)
