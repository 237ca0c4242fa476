"""The figures about rounding: bins on a number line, drift, three roundings in one sum, chance and its mean.

Each function takes formats, numbers or finished series, lets the codec do the arithmetic, and returns one chart with
axes, units and a text alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

import altair as alt
import numpy as np

from sixteenbits import charts
from sixteenbits.codec import ROUNDINGS, round_to, ulp
from sixteenbits.codec import table as code_table
from sixteenbits.formats import Format, as_format

#: What happens to the numbers of a bin: neighboring bins of the line take turns. Readable under dark and light ink.
BINS = ("#8fc7c2", "#b3b7e6")
BIN_INK = "#14181d"
LINE_LEGEND = alt.Legend(title=None, symbolType="stroke", symbolSize=400, symbolOpacity=1, labelLimit=0, columns=1)
NEAREST, MEAN, EXACT = charts.CATEGORIES[1], charts.CATEGORIES[0], charts.INK


def bins(format: Format | str, roundings: Sequence[str] = ROUNDINGS[:5]) -> alt.LayerChart:
    """The whole number line of a small format, once for each mode: numbers that go to one value share a bar.

    Args:
        format: of at most 6 bits or so, with a sign; beyond its largest value the line ends.
        roundings: the modes, from top to bottom; not the stochastic one, which has no bins.
    """
    format = as_format(format)
    values = _finite(format)
    middles = (values[1:] + values[:-1]) / 2
    rows = [row for name in roundings for row in _bins(format, name, values, middles)]
    modes = [name.replace("_", " ") for name in roundings]
    x = alt.X("low:Q", title=f"number before rounding (ticks: {format} values, dots: middles)",
              scale=alt.Scale(domain=[float(values[0]), float(values[-1])], nice=False))
    y = alt.Y("mode:N", title=None, sort=modes, axis=alt.Axis(domain=False, ticks=False, labelLimit=0))
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(height={"band": 0.62}, stroke=charts.PAPER, strokeWidth=1).encode(
        x=x, x2="high:Q", y=y, color=alt.Color("shade:N", scale=alt.Scale(domain=[0, 1], range=BINS), legend=None),
        tooltip=["mode:N", alt.Tooltip("low:Q", title="from"), alt.Tooltip("high:Q", title="to"), "becomes:N"])
    wide = [{**row, "middle": (row["low"] + row["high"]) / 2} for row in rows if row["high"] - row["low"] >= 0.7]
    names = alt.Chart(alt.Data(values=wide)).mark_text(fontSize=11, fontWeight="bold", color=BIN_INK).encode(
        x="middle:Q", y=y, text="becomes:N")
    marks = [{"low": float(v), "mode": mode} for v in values for mode in modes]
    ticks = alt.Chart(alt.Data(values=marks)).mark_tick(
        color=charts.INK, thickness=1.5, size=7, opacity=1, yOffset=17).encode(x="low:Q", y=y)
    between = [{"low": float(m), "mode": mode} for m in middles for mode in modes]
    dots = alt.Chart(alt.Data(values=between)).mark_point(
        size=8, color=charts.MUTED, opacity=1, yOffset=17).encode(x="low:Q", y=y)
    return (bars + dots + ticks + names).properties(width="container", height=42 * len(modes), description=(
        f"The number line of {format} from {values[0]:g} to {values[-1]:g}, once for each of {', '.join(modes)}, cut "
        "into the stretches that go to one value. Nearest: the stretches end at the middles. Toward zero: the stretch "
        "of zero is twice as long. Toward plus or minus infinity: all stretches lie on one side of their values."))


def _finite(format: Format) -> np.ndarray:
    values = code_table(format)["value"]
    return np.unique(values[np.isfinite(values)])


def _bins(format: Format, rounding: str, values: np.ndarray, middles: np.ndarray) -> list[dict]:
    """The line cut at values and middles, pieces with one destination joined."""
    cuts = np.sort(np.concatenate([values, middles]))
    goals = round_to((cuts[1:] + cuts[:-1]) / 2, format, rounding) + 0.0
    rows: list[dict] = []
    for low, high, goal in zip(cuts[:-1].tolist(), cuts[1:].tolist(), goals.tolist(), strict=True):
        if rows and rows[-1]["value"] == goal:
            rows[-1]["high"] = high
        else:
            shade = int(np.searchsorted(values, goal)) % 2
            rows.append({"mode": rounding.replace("_", " "), "low": low, "high": high, "value": goal, "shade": shade,
                         "becomes": f"{goal:g}"})
    return rows


def series(lines: Mapping[str, Sequence[float]], x_title: str, y_title: str) -> alt.Chart:
    """One line for each named series of numbers, against the position in it: 0, 1, 2, ..."""
    rows = [{"step": i, "value": float(v), "line": name} for name, line in lines.items() for i, v in enumerate(line)]
    domain, colors = list(lines), [NEAREST, MEAN, *charts.CATEGORIES[2:]][:len(lines)]
    dashes = [[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]][:len(lines)]
    ends = "; ".join(f"{name} from {line[0]:g} to {line[-1]:g}" for name, line in lines.items())
    return alt.Chart(alt.Data(values=rows)).mark_line(point={"size": 30}).encode(
        x=alt.X("step:Q", title=x_title, axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=False)),
        color=alt.Color("line:N", scale=alt.Scale(domain=domain, range=colors), legend=LINE_LEGEND),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=domain, range=dashes), legend=LINE_LEGEND),
    ).properties(width="container", height=240, description=f"{y_title} against {x_title}: {ends}.")


def added(a: str, b: str, formats: Iterable[Format | str]) -> alt.LayerChart:
    """What a + b gives in each format, and what the decimal sum itself becomes: distances in ulps of the format there.

    Args:
        a, b: decimals as text, for example "0.1".
        formats: from top to bottom.
    """
    formats = [as_format(f) for f in formats]
    total = _decimal_sum(a, b)
    rows = [row for f in formats for row in _added(f, Fraction(a), Fraction(b), total)]
    kinds = {"stored numbers, added exactly": "circle", "their sum, rounded": "square", f"{total}, rounded": "diamond"}
    order = [f.title for f in formats]
    x = alt.X("offset:Q", title=f"distance from {total}, in ulps of each format", axis=alt.Axis(tickMinStep=1),
              scale=alt.Scale(domain=[-1.6, 1.6], nice=False))
    y = alt.Y("format:N", title=None, sort=order)
    points = [row for row in rows if row["kind"] in kinds]
    grid = alt.Chart(alt.Data(values=[r for r in rows if r["kind"] == "value"])).mark_tick(
        thickness=1.5, size=14, color=charts.MUTED).encode(x=x, y=y)
    ways = alt.Chart(alt.Data(values=[r for r in rows if r["kind"] == "way"])).mark_rule(
        color=charts.INK, strokeWidth=1.5).encode(x=x, x2="to:Q", y=y)
    legend = alt.Legend(title=None, orient="top", direction="vertical", symbolSize=110, labelLimit=0)
    colors = [MEAN, NEAREST, charts.CATEGORIES[2]]
    marks = alt.Chart(alt.Data(values=points)).mark_point(size=110, filled=True, opacity=0.9).encode(
        x=x, y=y, tooltip=["format:N", "kind:N", alt.Tooltip("offset:Q", title="ulps", format=".3f")],
        color=alt.Color("kind:N", scale=alt.Scale(domain=list(kinds), range=colors), legend=legend),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=list(kinds), range=list(kinds.values())), legend=legend))
    zero = alt.Chart(alt.Data(values=[{"offset": 0}])).mark_rule(strokeDash=[3, 3]).encode(x=x)
    same = [f.title for f in formats if len({r["offset"] for r in points if r["format"] == f.title and
                                             r["kind"].endswith("rounded")}) == 1]
    return (zero + grid + ways + marks).properties(width="container", height=38 * len(formats), description=(
        f"For each format, where the exact sum of the stored {a} and {b} lies, where it is rounded to, and where "
        f"{total} itself is rounded to, in ulps from {total}. The last two agree in {', '.join(same) or 'none'} and "
        "differ in the others."))


def _decimal_sum(a: str, b: str) -> str:
    """The sum of two decimals as a decimal."""
    total = Fraction(a) + Fraction(b)
    places = max(len(text.partition(".")[2]) for text in (a, b))
    return f"{round(total * 10**places) / 10**places:.{places}f}"


def _added(format: Format, a: Fraction, b: Fraction, name_of_total: str) -> list[dict]:
    """What is drawn for one format: its values near a + b, the three numbers, and the way of the rounding."""
    stored = [Fraction(float(round_to(float(x), format))) for x in (a, b)]
    both, total = sum(stored), a + b
    rounded, ideal = (Fraction(float(round_to(float(x), format))) for x in (both, total))
    gap = Fraction(float(ulp(float(total), format)))
    place = lambda x: round(float((x - total) / gap), 4)  # noqa: E731
    name = format.title
    values = [{"format": name, "kind": "value", "offset": place(ideal + k * gap)} for k in (-1, 0, 1)]
    return [
        *values,
        {"format": name, "kind": "way", "offset": place(both), "to": place(rounded)},
        {"format": name, "kind": "stored numbers, added exactly", "offset": place(both)},
        {"format": name, "kind": "their sum, rounded", "offset": place(rounded)},
        {"format": name, "kind": f"{name_of_total}, rounded", "offset": place(ideal)},
    ]


def running_mean(draws: np.ndarray, x: float, nearest: float) -> alt.LayerChart:
    """The mean of the first n draws against n, with the width in which two means of three are expected to lie.

    Args:
        draws: repeated stochastic roundings of x.
        nearest: what rounding to nearest gives every time.
    """
    n = np.unique(np.round(np.logspace(0, np.log10(draws.size), 160)).astype(int))
    means = np.cumsum(draws)[n - 1] / n
    width = draws.std() / np.sqrt(n)
    band = [{"n": int(i), "low": float(x - w), "high": float(x + w)} for i, w in zip(n, width, strict=True)]
    lines = [{"n": int(i), "value": v, "line": name}
             for i, m in zip(n, means.tolist(), strict=True)
             for name, v in (("mean of n stochastic roundings", m), ("mean of n roundings to nearest", nearest))]
    axis = alt.X("n:Q", title="number of roundings n (logarithmic, base 10)", scale=alt.Scale(type="log"))
    names = ["mean of n stochastic roundings", "mean of n roundings to nearest"]
    area = alt.Chart(alt.Data(values=band)).mark_area(opacity=0.22, color=MEAN).encode(
        x=axis, y=alt.Y("low:Q", title="value", scale=alt.Scale(zero=False)), y2="high:Q")
    curves = alt.Chart(alt.Data(values=lines)).mark_line().encode(
        x=axis, y="value:Q", color=alt.Color("line:N", scale=alt.Scale(domain=names, range=[MEAN, NEAREST]),
                                             legend=LINE_LEGEND),
        strokeDash=alt.StrokeDash("line:N", scale=alt.Scale(domain=names, range=[[1, 0], [6, 3]]), legend=LINE_LEGEND))
    truth = alt.Chart(alt.Data(values=[{"value": x}])).mark_rule(color=EXACT, strokeDash=[2, 3]).encode(y="value:Q")
    return (area + truth + curves).properties(width="container", height=260, description=(
        f"Mean against the number of roundings of {x:g}. The stochastic mean wanders and settles at {means[-1]:.4g} "
        f"after {draws.size}; rounding to nearest stays at {nearest:g} for ever. The shaded width shrinks with the "
        "square root of n."))


def walks(paths: np.ndarray, nearest: np.ndarray, exact: np.ndarray, y_title: str = "weight") -> alt.LayerChart:
    """Many runs with stochastic rounding, their mean, the run with rounding to nearest, and the exact course.

    Args:
        paths: (runs, steps + 1); the first 20 runs are drawn. nearest, exact: (steps + 1,).
    """
    every = max(1, paths.shape[1] // 125)
    steps = range(0, paths.shape[1], every)
    thin = [{"step": i, "value": float(path[i]), "run": r} for r, path in enumerate(paths[:20]) for i in steps]
    x = alt.X("step:Q", title="updates")
    y = alt.Y("value:Q", title=y_title, scale=alt.Scale(zero=False))
    named = {"exact": exact, "rounded to nearest": nearest, f"mean of {len(paths)} stochastic runs": paths.mean(axis=0)}
    rows = [{"step": i, "value": float(line[i]), "line": name} for name, line in named.items() for i in steps]
    scale = alt.Scale(domain=list(named), range=[EXACT, NEAREST, MEAN])
    dash = alt.Scale(domain=list(named), range=[[2, 3], [6, 3], [1, 0]])
    runs = alt.Chart(alt.Data(values=thin)).mark_line(strokeWidth=0.8, opacity=0.35, color=MEAN).encode(
        x=x, y=y, detail="run:N")
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.5).encode(
        x=x, y=y, color=alt.Color("line:N", scale=scale, legend=LINE_LEGEND),
        strokeDash=alt.StrokeDash("line:N", scale=dash, legend=LINE_LEGEND))
    spread = paths[:, -1].std()
    return (runs + lines).properties(width="container", height=300, description=(
        f"{y_title} against updates. Exact: up to {exact[-1]:.4g}. Rounded to nearest: {nearest[-1]:.4g} at the end. "
        f"The stochastic runs scatter around the exact line; at the end their mean is {paths[:, -1].mean():.4g} and "
        f"their standard deviation {spread:.2g}."))
