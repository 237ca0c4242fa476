"""One look for every chart, and one color, mark shape and dash for each format through the whole book.

`enable()` turns on the theme and the renderer of Altair, 5.5 or newer. The renderer gives the chart as Vega-Lite
JSON, which the book's pages draw with their own copy of Vega, and as HTML for notebooks. Both depend on nothing but
the chart: the same chart gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable

import altair as alt
from altair.utils.html import spec_to_html

from sixteenbits.formats import Format, as_format

NAME = "sixteenbits"
# The MIME type of the installed Vega-Lite. Altair 6 itself writes one that ends in ".json", which nbformat refuses.
MIME = f"application/vnd.vegalite.v{alt.VEGALITE_VERSION.partition('.')[0]}+json"

# The colors of everything that is not data. A dark page replaces each by what DARK says, wherever it stands in a
# chart, so a chart that needs ink takes INK.
INK, MUTED, GRID, PAPER = "#222832", "#48566b", "#d9dee4", "#ffffff"
DARK = {INK: "#ced6dd", MUTED: "#9ca4af", GRID: "#343b45", PAPER: "#121212"}

# After Okabe and Ito, "Color Universal Design" (2008), which people with the common color blindnesses can tell apart;
# shifted to a lightness with a contrast of at least 3:1 on white and on the dark page alike. Formats that are
# variants of each other share a hue; shape and dash tell them apart.
COLORS = {
    "fp64": "#6e7781",
    "fp32": "#0072b2",
    "tf32": "#7a6fd0",
    "fp16": "#d55e00",
    "bf16": "#009e73",
    "fp8_e5m2": "#a87900",
    "fp8_e4m3fn": "#bf5f98",
    "fp8_e5m2fnuz": "#8f6700",
    "fp8_e4m3fnuz": "#a34a80",
    "fp6_e3m2fn": "#1a8fa0",
    "fp6_e2m3fn": "#0f7c8c",
    "fp4_e2m1fn": "#9a6248",
    "e8m0fnu": "#66832f",
}
# For what is not a format: the same lightness, less color.
CATEGORIES = ("#4878a8", "#b5672f", "#4f8a5b", "#8f5d8f", "#7d7a33", "#6a6f78")

STAR = "M0,-1L0.29,-0.4L0.95,-0.31L0.48,0.15L0.59,0.81L0,0.5L-0.59,0.81L-0.48,0.15L-0.95,-0.31L-0.29,-0.4Z"
HEXAGON = "M0,-1L0.87,-0.5L0.87,0.5L0,1L-0.87,0.5L-0.87,-0.5Z"
BOW_TIE = "M-0.9,-0.8L0.9,0.8L0.9,-0.8L-0.9,0.8Z"
SHAPES = {
    "fp64": "square",
    "fp32": "circle",
    "tf32": "triangle-right",
    "fp16": "triangle-up",
    "bf16": "diamond",
    "fp8_e5m2": "triangle-down",
    "fp8_e4m3fn": "cross",
    "fp8_e5m2fnuz": "wedge",
    "fp8_e4m3fnuz": BOW_TIE,
    "fp6_e3m2fn": "triangle-left",
    "fp6_e2m3fn": "arrow",
    "fp4_e2m1fn": STAR,
    "e8m0fnu": HEXAGON,
}
DASHES = {
    "fp64": [12, 3],
    "fp32": [1, 0],
    "tf32": [10, 2, 2, 2],
    "fp16": [7, 3],
    "bf16": [2, 2],
    "fp8_e5m2": [4, 4],
    "fp8_e4m3fn": [7, 2, 2, 2, 2, 2],
    "fp8_e5m2fnuz": [4, 2, 1, 2],
    "fp8_e4m3fnuz": [7, 2, 1, 2, 1, 2],
    "fp6_e3m2fn": [5, 1],
    "fp6_e2m3fn": [3, 1, 1, 1],
    "fp4_e2m1fn": [1, 3],
    "e8m0fnu": [1, 6],
}


def color_scale(formats: Iterable[Format | str]) -> alt.Scale:
    """The scale for `alt.Color`: from the titles of these formats, in their order, to their colors.

    Raises:
        ValueError: the book has no color for one of the formats.
    """
    return _scale(COLORS, formats)


def shape_scale(formats: Iterable[Format | str]) -> alt.Scale:
    """The scale for `alt.Shape`, as `color_scale`."""
    return _scale(SHAPES, formats)


def dash_scale(formats: Iterable[Format | str]) -> alt.Scale:
    """The scale for `alt.StrokeDash`, as `color_scale`."""
    return _scale(DASHES, formats)


def _scale(looks: dict, formats: Iterable[Format | str]) -> alt.Scale:
    formats = [as_format(one) for one in formats]
    if unknown := [one.name for one in formats if one.name not in looks]:
        raise ValueError(f"no look for {', '.join(unknown)}; charts.py has one for {', '.join(looks)}")
    return alt.Scale(domain=[one.title for one in formats], range=[looks[one.name] for one in formats])


def format_scale(formats: Iterable[Format | str], field: str = "format") -> dict:
    """Color and shape of these formats as arguments of `encode`: `chart.encode(**format_scale(formats))`.

    Args:
        formats: in the order of the legend.
        field: the field that holds the formats' titles.
    """
    formats = list(formats)
    return {
        "color": alt.Color(f"{field}:N", scale=color_scale(formats), title=None),
        "shape": alt.Shape(f"{field}:N", scale=shape_scale(formats), title=None),
    }


def theme() -> dict:
    """The book's theme: quiet axes, room to read, and the colors that a dark page replaces."""
    text = {"labelColor": MUTED, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500}
    lines = {"domainColor": MUTED, "tickColor": MUTED, "gridColor": GRID}
    return {
        "usermeta": {"dark": DARK},
        "config": {
            "background": PAPER,
            "font": "system-ui, sans-serif",
            "view": {"continuousWidth": 560, "continuousHeight": 280, "stroke": None},
            "axis": text | lines,
            "legend": text | {"symbolSize": 90, "orient": "top", "title": None},
            "header": text,
            "title": {"color": INK, "subtitleColor": MUTED, "fontSize": 14, "anchor": "start"},
            "text": {"color": INK, "fontSize": 12},
            "rule": {"color": MUTED},
            "line": {"strokeWidth": 2},
            "point": {"size": 60, "filled": True},
            "mark": {"color": CATEGORIES[0]},
            "range": {"category": list(CATEGORIES)},
        },
    }


def render(spec: dict, **options) -> dict:
    """What a notebook shows for a chart, by MIME type. On Colab that is HTML alone, elsewhere the JSON with it."""
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    page = spec_to_html(
        spec,
        mode="vega-lite",
        vega_version=alt.VEGA_VERSION,
        vegalite_version=alt.VEGALITE_VERSION,
        vegaembed_version=alt.VEGAEMBED_VERSION,
        output_div=f"chart-{digest[:12]}",
        embed_options={"actions": False},
        fullhtml=False,
        template="universal",
    )
    shown = {"text/html": page, "text/plain": f"Chart: {spec.get('description', 'no description')}"}
    return shown if "google.colab" in sys.modules else {MIME: spec} | shown


def enable() -> None:
    """Give every chart of this session the book's theme and renderer."""
    alt.theme.register(NAME, enable=True)(lambda: alt.theme.ThemeConfig(theme()))
    alt.renderers.register(NAME, render)
    alt.renderers.enable(NAME)
