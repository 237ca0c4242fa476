"""Choosing FP32, FP16, BF16 or pure BF16 by experiment: the library under the book."""

from sixteenbits.formats import FORMATS, Format

__all__ = ["FORMATS", "Format"]
__version__ = "0.1.0"
