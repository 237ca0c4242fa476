"""Explorers: widgets that answer in the page, with or without a kernel."""

from sixteenbits.widgets.bit_explorer import BitExplorer
from sixteenbits.widgets.explorer import Explorer
from sixteenbits.widgets.rounding_explorer import RoundingExplorer
from sixteenbits.widgets.sum_explorer import SumExplorer

__all__ = ["BitExplorer", "Explorer", "RoundingExplorer", "SumExplorer"]
