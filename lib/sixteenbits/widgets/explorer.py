"""What all explorers share: formats as traits, and one ES module made from a few files.

An explorer is Python traits on one side and plain JavaScript on the other. In a page without a kernel the JavaScript
works alone; in a notebook the traits follow it, and it follows them.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import anywidget
import traitlets

from sixteenbits import charts
from sixteenbits.formats import FORMATS, Format, as_format

_HERE = Path(__file__).parent
_IMPORT = re.compile(r'^import [^;]*? from "\./(?P<file>[\w.]+)";\n', re.MULTILINE)


def bundle(entry: str) -> str:
    """The ES module `entry` with the files that it imports in front of it, as one module: anywidget loads only one.

    Every file is a module of its own too, so that node and editors can read it.
    """
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order:
            return
        for imported in _IMPORT.finditer((_HERE / name).read_text(encoding="utf-8")):
            visit(imported["file"])
        order.append(name)

    visit(entry)
    return "\n".join(_IMPORT.sub("", (_HERE / name).read_text(encoding="utf-8")) for name in order)


def stylesheet(*names: str) -> str:
    """Style sheets, joined."""
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


def record(format: Format) -> dict:
    """The fields of a format, as the JavaScript side gets them."""
    return asdict(format)


class FormatTrait(traitlets.TraitType):
    """A trait that holds a Format and takes the name of one as well; a dictionary of its fields in the browser."""

    info_text = "a Format, or the name of one such as 'fp16'"

    def __init__(self, default_value, **kwargs):
        super().__init__(default_value, **kwargs)
        self.tag(sync=True, to_json=lambda value, _: value and record(value), from_json=lambda value, _: value)

    def validate(self, obj, value):
        try:
            return Format(**value) if isinstance(value, dict) else as_format(value)
        except (TypeError, ValueError) as problem:
            raise traitlets.TraitError(f"{self.name}: {problem}") from None


class Explorer(anywidget.AnyWidget):
    """Base of the explorers: it hands the table of formats, and their colors, to the page."""

    formats = traitlets.List(traitlets.Dict(), help="the table FORMATS, as records").tag(sync=True)
    colors = traitlets.Dict(help="the color of each named format, as in the charts").tag(sync=True)

    @traitlets.default("formats")
    def _named_formats(self):
        return [record(format) for format in FORMATS.values()]

    @traitlets.default("colors")
    def _chart_colors(self):
        return dict(charts.COLORS)
