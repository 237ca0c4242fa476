"""Formats in which numbers share a scale, described by data: the MX formats, NVFP4, and FP8 with a scale.

`blocks` says what the fields mean to numbers. A new format is a new row of `BLOCK_FORMATS`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sixteenbits.formats import (
    E8M0FNU,
    FP4_E2M1FN,
    FP6_E2M3FN,
    FP6_E3M2FN,
    FP8_E4M3FN,
    FP8_E5M2,
    FP32,
    Format,
    as_format,
)

#: How a scale is rounded -> the rounding mode, since scales are positive.
SCALE_ROUNDINGS = {"floor": "toward_negative", "ceil": "toward_positive", "nearest": "nearest_even"}


@dataclass(frozen=True)
class BlockFormat:
    """A format with shared scales.

    Args:
        name: what the book calls it, for example `"mxfp4"`.
        element: the format of the elements: a Format or the name of one.
        size: how many neighbors share a scale; None means all along the axis.
        scale: the format of a block's scale, one with NaN; None means that blocks have none.
        tensor_scale: the format of the tensor's scale; None means that there is none.
        target: the element that the largest magnitude of a block is scaled to; None means the largest element. The
            tensor's scale, where there is one, is chosen so that the largest magnitude of all reaches the largest
            scale.
        scale_rounding: `"floor"`, `"ceil"` or `"nearest"`.
        title: the name in prose; None means `name`.
        source: the document that defines the format.

    Raises:
        ValueError: a field is out of range or contradicts another; the message names the field.
    """

    name: str
    element: Format
    size: int | None
    scale: Format | None
    tensor_scale: Format | None = None
    target: float | None = None
    scale_rounding: str = "nearest"
    title: str | None = None
    source: str | None = None

    def __post_init__(self):
        for field in ("element", "scale", "tensor_scale"):
            if (given := getattr(self, field)) is not None:
                object.__setattr__(self, field, as_format(given))
        if self.target is None:
            object.__setattr__(self, "target", self.element.max)
        if self.title is None:
            object.__setattr__(self, "title", self.name)
        self._check()

    def _check(self) -> None:
        whole = isinstance(self.size, int | np.integer) and not isinstance(self.size, bool)
        if self.size is not None and not (whole and self.size >= 1):
            raise ValueError(f"size is {self.size!r}; a block has 1 element or more, None means the whole axis")
        if self.scale_rounding not in SCALE_ROUNDINGS:
            raise ValueError(f"scale_rounding is {self.scale_rounding!r}; choose one of {', '.join(SCALE_ROUNDINGS)}")
        if not 0 < self.target <= self.element.max:
            raise ValueError(f"target is {self.target}; it lies between 0 and the largest element {self.element.max}")
        if self.scale is None and self.tensor_scale is None:
            raise ValueError("scale and tensor_scale are both None; a format without scales is a Format")
        if self.scale is not None and not self.scale.has_nan:
            raise ValueError(f"scale is {self.scale}, which has no NaN to mark a block that holds NaN or infinity")

    @property
    def bits(self) -> float:
        """Bits a number in full blocks: the element and its part of the block's scale."""
        return self.element.bits + (self.scale.bits / self.size if self.scale and self.size else 0)

    def __str__(self) -> str:
        return self.title


_MX = "OCP Microscaling Formats (MX) Specification 1.0, 2023"
_NVFP4 = "NVIDIA, Pretraining Large Language Models with NVFP4, arXiv:2509.25149, 2025"
_FP8 = "Micikevicius et al., FP8 Formats for Deep Learning, arXiv:2209.05433, 2022"


def _mx(name: str, element: Format, title: str) -> BlockFormat:
    return BlockFormat(name, element, 32, E8M0FNU, target=2.0**element.emax, scale_rounding="floor", title=title,
                       source=_MX)


#: The named block formats, widest first.
BLOCK_FORMATS: dict[str, BlockFormat] = {f.name: f for f in [
    BlockFormat("fp8_e5m2_scaled", FP8_E5M2, None, None, FP32, title="FP8 E5M2, one scale", source=_FP8),
    BlockFormat("fp8_e4m3_scaled", FP8_E4M3FN, None, None, FP32, title="FP8 E4M3, one scale", source=_FP8),
    _mx("mxfp8_e5m2", FP8_E5M2, "MXFP8 E5M2"),
    _mx("mxfp8_e4m3", FP8_E4M3FN, "MXFP8 E4M3"),
    _mx("mxfp6_e3m2", FP6_E3M2FN, "MXFP6 E3M2"),
    _mx("mxfp6_e2m3", FP6_E2M3FN, "MXFP6 E2M3"),
    _mx("mxfp4", FP4_E2M1FN, "MXFP4"),
    BlockFormat("nvfp4", FP4_E2M1FN, 16, FP8_E4M3FN, FP32, title="NVFP4", source=_NVFP4),
]}


def as_block_format(format: BlockFormat | str) -> BlockFormat:
    """The `BlockFormat` that is meant: itself, or the row of `BLOCK_FORMATS` with that name.

    Raises:
        ValueError: no block format has that name.
        TypeError: neither a BlockFormat nor a string.
    """
    if isinstance(format, BlockFormat):
        return format
    if not isinstance(format, str):
        raise TypeError(f"format is {format!r}; expected a BlockFormat or the name of one, such as 'mxfp4'")
    if format not in BLOCK_FORMATS:
        raise ValueError(f"no block format is named {format!r}; the named ones are {', '.join(BLOCK_FORMATS)}")
    return BLOCK_FORMATS[format]
