"""The figures about sums: error and size against the number of terms, and where stochastic sums end.

Lines are medians over the seeds, bands hold the middle 80 % of them. Axes with powers of two hold whole or
broken exponents, drawn on a linear axis and labeled as powers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np

from sixteenbits import charts
from sixteenbits.figures_range import power_axis

#: One dash for each line, in the order of `charts.CATEGORIES`.
DASHES = ([1, 0], [7, 3], [2, 2], [10, 2, 2, 2], [5, 2], [1, 3])
TERMS = "number of terms (logarithmic, base 2)"


Curves = Mapping[str, np.ndarray]


def growth(curves: Curves, lengths: Sequence[int], bounds: Curves) -> alt.LayerChart:
    """Errors against the number of terms, on logarithmic axes of base 2, with bounds as thin gray lines.

    Args:
        curves: name -> errors of shape (seeds, lengths), all above zero in the median.
        bounds: name -> values of shape (lengths,); what is 1 or more is left out.
    """
    rows = [row for name, values in curves.items() for row in _spread(name, values, lengths, np.log2, -32)]
    x = alt.X("x:Q", title=TERMS, axis=power_axis(tickCount=8))
    y = alt.Y("middle:Q", title="error / sum of the sizes (base 2)", axis=power_axis(tickCount=8))
    spoken = "; ".join(f"{name}: median from {_two(v, 0)} to {_two(v, -1)}" for name, v in curves.items())
    return alt.layer(
        *_lines(rows, list(curves), x, y),
        *_guides(bounds, lengths),
    ).properties(width="container", height=320, description=(
        f"Error against the number of terms, {lengths[0]} to {lengths[-1]}. {spoken}. Gray: {', '.join(bounds)}."))


def sizes(curves: Curves, lengths: Sequence[int]) -> alt.LayerChart:
    """The sums themselves against the number of terms, on logarithmic axes of base 2; sums have to be positive."""
    rows = [row for name, values in curves.items() for row in _spread(name, values, lengths, np.log2, -40)]
    x = alt.X("x:Q", title=TERMS, axis=power_axis(tickCount=8))
    y = alt.Y("middle:Q", title="sum (logarithmic, base 2)", axis=power_axis(tickCount=8), scale=alt.Scale(zero=False))
    spoken = "; ".join(f"{name}: {np.median(v[:, -1]):.4g} at {lengths[-1]} terms" for name, v in curves.items())
    return alt.layer(*_lines(rows, list(curves), x, y)).properties(
        width="container", height=320, description=f"Sum against the number of terms. {spoken}.")


def dot_error(curves: Curves, lengths: Sequence[int], reported: Mapping[str, tuple]) -> alt.LayerChart:
    """The largest relative errors of dot products against their length, in percent, with reported points as crosses.

    Args:
        curves: name -> errors of shape (seeds, lengths).
        reported: label -> (length, error).
    """
    rows = [row for name, values in curves.items() for row in _spread(name, 100 * values, lengths, lambda x: x, 1e-9)]
    x = alt.X("x:Q", title="length of the dot product (logarithmic, base 2)", axis=power_axis(tickCount=8))
    y = alt.Y("middle:Q", title="largest relative error (%, base 10)", scale=alt.Scale(type="log", base=10),
              axis=alt.Axis(format="~g", tickCount=6))
    points = [{"x": float(np.log2(n)), "y": 100 * error, "text": label} for label, (n, error) in reported.items()]
    cross = alt.Chart(alt.Data(values=points))
    place = {"x": "x:Q", "y": "y:Q"}
    marks = [cross.mark_point(shape="cross", size=160, color=charts.INK, filled=True).encode(**place),
             cross.mark_text(align="right", dx=-10, color=charts.INK).encode(text="text:N", **place)]
    spoken = "; ".join(f"{name}: {100 * np.median(v[:, -1]):.2g} % at {lengths[-1]}" for name, v in curves.items())
    told = "; ".join(f"{label}, {100 * error:g} % at {n}" for label, (n, error) in reported.items())
    return alt.layer(*_lines(rows, list(curves), x, y), *marks).properties(width="container", height=340, description=(
        f"Largest relative error of dot products against their length. {spoken}. Reported: {told}."))


def ends(sums: np.ndarray, marks: Mapping[str, float], title: str) -> alt.LayerChart:
    """How often a sum ended at which value, with named values as vertical lines.

    Args:
        sums: the results of many runs.
        marks: name -> value.
    """
    values, counts = np.unique(sums, return_counts=True)
    bars = alt.Chart(alt.Data(values=[{"sum": float(v), "runs": int(n)} for v, n in zip(values, counts, strict=True)]))
    lines = alt.Chart(alt.Data(values=[{"sum": float(v), "name": name} for name, v in marks.items()]))
    x = alt.X("sum:Q", title=title, scale=alt.Scale(zero=False, padding=20))
    return (
        bars.mark_bar(size=5, color=charts.CATEGORIES[1]).encode(x=x, y=alt.Y("runs:Q", title="runs"),
                                                               tooltip=["sum:Q", "runs:Q"])
        + lines.mark_rule(color=charts.INK, strokeWidth=1.5, strokeDash=[4, 3]).encode(x=x)
        + lines.mark_text(align="left", dx=5, dy=5, baseline="top", color=charts.INK).encode(
            x=x, y=alt.value(0), text="name:N")
    ).properties(width="container", height=220, description=(
        f"Histogram of {len(sums)} sums, from {values[0]:g} to {values[-1]:g}, most often "
        f"{values[counts.argmax()]:g}. Lines: {', '.join(f'{name} at {v:.4g}' for name, v in marks.items())}."))


# -- parts -------------------------------------------------------------------------------------------------------------


def _spread(name: str, values: np.ndarray, lengths: Sequence[int], scale, least: float) -> list[dict]:
    """Median and the ends of the middle 80 % over the seeds, one record a length, none below `least`."""
    with np.errstate(divide="ignore"):
        found = [np.maximum(scale(np.quantile(values, q, axis=0)), least) for q in (0.5, 0.1, 0.9)]
    return [{"name": name, "x": float(np.log2(n)), "middle": float(m), "low": float(lo), "high": float(hi)}
            for n, m, lo, hi in zip(lengths, *found, strict=True)]


def _lines(rows: list[dict], names: list[str], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    base = alt.Chart(alt.Data(values=rows)).encode(x=x)
    columns = 1 if max(map(len, names)) > 24 else 2  # so that a phone has room for them
    legend = alt.Legend(title=None, orient="top", columns=columns, symbolType="stroke", symbolSize=400, symbolOpacity=1,
                        labelLimit=320)
    colors = alt.Scale(domain=names, range=list(charts.CATEGORIES[:len(names)]))
    dashes = alt.Scale(domain=names, range=[list(dash) for dash in DASHES[:len(names)]])
    band = base.mark_area(opacity=0.18).encode(
        y=alt.Y("low:Q"), y2="high:Q", color=alt.Color("name:N", scale=colors, legend=legend))
    line = base.mark_line().encode(
        y=y, color=alt.Color("name:N", scale=colors, legend=legend),
        strokeDash=alt.StrokeDash("name:N", scale=dashes, legend=legend),
        tooltip=[alt.Tooltip("name:N"), alt.Tooltip("x:Q", title="log2 of the terms", format=".3g"),
                 alt.Tooltip("middle:Q", title="median", format=".4g")])
    return [band, line]


def _guides(bounds: Mapping[str, np.ndarray], lengths: Sequence[int]) -> list[alt.Chart]:
    rows = [{"bound": name, "x": float(np.log2(n)), "y": float(np.log2(value))}
            for name, values in bounds.items() for n, value in zip(lengths, values, strict=True) if 0 < value < 1]
    ends = [next(row for row in reversed(rows) if row["bound"] == name) for name in bounds]
    line = alt.Chart(alt.Data(values=rows)).mark_line(color=charts.MUTED, strokeWidth=1).encode(
        x="x:Q", y="y:Q", detail="bound:N")
    text = alt.Chart(alt.Data(values=ends)).mark_text(align="right", dx=-6, dy=-8, color=charts.MUTED).encode(
        x="x:Q", y="y:Q", text="bound:N")
    return [line, text]


def _two(values: np.ndarray, place: int) -> str:
    middle = np.median(values[:, place])
    return f"2^{np.log2(middle):.0f}" if middle > 0 else "0"
