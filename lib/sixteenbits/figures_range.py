"""The figures about range and precision: how far a format reaches, how fine it is, and where real tensors lie in it.

Every axis is logarithmic with base 2. The data are whole exponents, drawn on a linear axis and labeled as powers, so
that the steps at the powers of two stand exactly where they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import altair as alt
import numpy as np

from sixteenbits import charts
from sixteenbits.codec import ulp
from sixteenbits.formats import Format, as_format
from sixteenbits.tensors import error_by_binade, histogram, overflow_limit

#: The formats of this chapter's figures, from wide to narrow. FP64 reaches too far to share an axis with the rest.
SHOWN = ("fp32", "tf32", "fp16", "bf16", "fp8_e5m2", "fp8_e4m3fn")

#: What becomes of a number, in the explorer: kind -> label. Drawn in this order, from small to large numbers.
KINDS = {"zero": "to zero", "subnormal": "subnormal", "normal": "normal", "overflow": "overflow"}

#: None of them is a format's color. At least 3:1 on the white and on the dark page.
KIND_COLORS = {"zero": "#c0392b", "subnormal": "#b8860b", "normal": "#5b7fb5", "overflow": "#8e5bd0"}


def power_label(value: str = "datum.value") -> str:
    """A Vega expression that writes 2 to the given whole power, with a raised exponent."""
    digits = json.dumps(list("⁰¹²³⁴⁵⁶⁷⁸⁹"), ensure_ascii=False)
    size = f"abs({value})"
    return (f"'2' + ({value} < 0 ? '⁻' : '') + ({size} >= 1000 ? {digits}[floor({size} / 1000) % 10] : '')"
            f" + ({size} >= 100 ? {digits}[floor({size} / 100) % 10] : '')"
            f" + ({size} >= 10 ? {digits}[floor({size} / 10) % 10] : '') + {digits}[{size} % 10]")


def power_axis(**options: Any) -> alt.Axis:
    """An axis of whole exponents, labeled as powers of two."""
    return alt.Axis(labelExpr=power_label(), format="d", tickMinStep=1, **options)


def _format_line(formats: list[Format]) -> dict:
    """Color and dash of each format, as in the whole book, with one legend for both."""
    legend = alt.Legend(title=None, orient="top", columns=3, symbolSize=600, symbolStrokeWidth=2.5)
    return {"color": alt.Color("format:N", scale=charts.color_scale(formats), legend=legend),
            "strokeDash": alt.StrokeDash("format:N", scale=charts.dash_scale(formats), legend=legend)}


def ranges(formats: Iterable[Format | str] = SHOWN) -> alt.LayerChart:
    """One bar a format, from its smallest to its largest positive number; the subnormal part is pale."""
    formats = [as_format(f) for f in formats]
    rows = [row for f in formats for row in _range_parts(f)]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("format:N", title=None, sort=[f.title for f in formats]),
        color=alt.Color("format:N", scale=charts.color_scale(formats), legend=None),
        tooltip=[alt.Tooltip("format:N"), alt.Tooltip("part:N"), alt.Tooltip("smallest:Q", format=".4~g"),
                 alt.Tooltip("largest:Q", format=".4~g")],
    )
    bars = base.mark_bar(height={"band": 0.6}).encode(
        x=alt.X("low:Q", title="magnitude (logarithmic, base 2)", axis=power_axis(tickCount=8)), x2="high:Q",
        opacity=alt.Opacity("part:O", scale=alt.Scale(domain=["subnormal", "normal"], range=[0.4, 1]), legend=None))
    spoken = "; ".join(f"{f.title} from {f.smallest_subnormal:.2g} to {f.max:.3g}" for f in formats)
    return bars.properties(width="container", height=30 * len(formats), description=f"Range of each format: {spoken}.")


def _range_parts(format: Format) -> list[dict]:
    """The subnormal and the normal part of a format's positive numbers, with their binades."""
    low = round(np.log2(format.smallest_subnormal))
    largest_subnormal = format.smallest_normal - format.smallest_subnormal
    parts = [("subnormal", low, format.emin, format.smallest_subnormal, largest_subnormal),
             ("normal", format.emin, format.emax + 1, format.smallest_normal, format.max)]
    return [{"format": format.title, "part": part, "low": lo, "high": hi, "smallest": small, "largest": large}
            for part, lo, hi, small, large in parts if lo < hi]


def gaps(formats: Iterable[Format | str] = SHOWN) -> alt.Chart:
    """The gap to the next number against the magnitude, one line a format, in steps at the powers of two.

    A menu narrows the view to the magnitudes that 16-bit and 8-bit formats share.
    """
    formats = [as_format(f) for f in formats]
    rows = [{"format": f.title, "magnitude": e, "gap": round(float(np.log2(ulp(2.0 ** min(e, f.emax), f))))}
            for f in formats for e in range(round(np.log2(f.smallest_subnormal)), f.emax + 2)]
    views = {"all magnitudes": ([-150, 130], [-152, 124]), "2⁻²⁶ to 2¹⁶": ([-26, 16], [-34, 14])}
    view = alt.param(name="view", value="all magnitudes", bind=alt.binding_select(options=list(views), name="Show "))
    edges = alt.param(name="edges", expr=f"({json.dumps(views)})[view]")

    def scale(axis: int) -> alt.Scale:
        ends = [alt.ExprRef(f"edges[{axis}][{end}]") for end in (0, 1)]
        return alt.Scale(domainMin=ends[0], domainMax=ends[1], nice=False)

    spoken = "; ".join(f"{f.title} has gap 2^{-f.mantissa_bits} at 1" for f in formats)
    return alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after", strokeWidth=2, clip=True).encode(
        x=alt.X("magnitude:Q", title="magnitude of the number (logarithmic, base 2)", axis=power_axis(tickCount=8),
                scale=scale(0)),
        y=alt.Y("gap:Q", title="gap to the next number (base 2)", axis=power_axis(tickCount=8), scale=scale(1)),
        **_format_line(formats),
        tooltip=["format:N", alt.Tooltip("magnitude:Q", title="magnitude 2^"), alt.Tooltip("gap:Q", title="gap 2^")],
    ).add_params(view, edges).properties(width="container", height=320, description=(
        "Gap against magnitude. Each line is flat where the numbers are subnormal and then climbs by one power of two "
        f"with each power of two of the magnitude: {spoken}."))


def errors(formats: Iterable[Format | str], low: int, high: int) -> alt.LayerChart:
    """The largest relative error of rounding in each binade from 2**low to 2**high, one line a format."""
    formats = [as_format(f) for f in formats]
    rows = [{"format": f.title, "magnitude": row["exponent"] + end, "error": float(np.log2(row["largest"]))}
            for f in formats for row in error_by_binade(f, low, high) for end in (0, 1)]
    return alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(
        x=alt.X("magnitude:Q", title="magnitude of the number (logarithmic, base 2)",
                axis=power_axis(tickCount=10), scale=alt.Scale(domain=[low, high], nice=False)),
        y=alt.Y("error:Q", title="largest relative error (2⁰ is 100 %)", axis=power_axis(tickCount=12),
                scale=alt.Scale(domainMax=0.5, nice=False)),
        **_format_line(formats),
        tooltip=["format:N", alt.Tooltip("magnitude:Q", title="magnitude 2^"),
                 alt.Tooltip("error:Q", title="log2 of the largest error", format=".2f")],
    ).properties(width="container", height=300, description=(
        "Largest relative error of rounding against magnitude. " + "; ".join(
            f"{f.title}: 2^{-f.mantissa_bits - 1} from 2^{f.emin} upward, below that doubling with each binade "
            "until everything is lost" for f in formats) + "."))


# -- the explorer ------------------------------------------------------------------------------------------------------


def placed(tensors: Mapping[str, Any], formats: Iterable[Format | str] = SHOWN, tensor: str | None = None,
           format: Format | str = "fp16") -> alt.LayerChart:
    """Tensors on the number line: a histogram by binade, colored by what the chosen format makes of each value.

    Menus choose the tensor and the format, a slider multiplies the tensor by a power of two. They work wherever the
    chart is shown, without a kernel.

    Args:
        tensors: name -> anything that `tensors.values` takes. Zeros, infinities and NaN are left out.
        formats: those in the menu.
        tensor, format: the first choice.
    """
    formats = [as_format(f) for f in formats]
    cuts = sorted({1.0, float(np.nextafter(1.0, 2.0))} | {_first_overflow(f) for f in formats})
    rows = [row for name, x in tensors.items() for row in _shares(name, x, cuts)]
    low, high = _domain(rows, formats)
    menu = {"bind": alt.binding_select(options=list(tensors), name="Tensor ")} if len(tensors) > 1 else {}
    chosen = alt.param(name="tensor", value=tensor or next(iter(tensors)), **menu)
    rule = alt.param(name="rule", value=as_format(format).title,
                     bind=alt.binding_select(options=[f.title for f in formats], name="Format "))
    shift = alt.param(name="shift", value=0,
                      bind=alt.binding_range(min=-28, max=28, step=1, name="Times 2 to the power "))
    edges = alt.param(name="limits", expr=f"({json.dumps({f.title: limits(f) for f in formats})})[rule]")
    here = alt.Chart(alt.Data(values=rows)).transform_filter("datum.tensor == tensor").transform_calculate(
        at="datum.exponent + shift", kind=_kind_expression())
    bars = here.transform_filter("isValid(datum.exponent)").transform_aggregate(
        share="sum(share)", groupby=["at", "kind"]
    ).transform_stack(stack="share", as_=["y0", "y1"], groupby=["at"], sort=[alt.SortField("kind")]
    ).transform_calculate(right="datum.at + 1").mark_bar(clip=True).encode(
        x=alt.X("at:Q", title="magnitude (logarithmic, base 2)", axis=power_axis(tickCount=8),
                scale=alt.Scale(domain=[low, high], nice=False)),
        x2="right:Q",
        y=alt.Y("y0:Q", title="share of the values", axis=alt.Axis(format="%")), y2="y1:Q",
        color=_kind_color(),
        tooltip=[alt.Tooltip("at:Q", title="from 2^"), alt.Tooltip("share:Q", format=".3%"), alt.Tooltip("kind:N")],
    )
    return (_regions(low, high) + bars + _readout(here)).add_params(chosen, rule, shift, edges).properties(
        width="container", height=260, padding={"top": 46, "left": 5, "right": 5, "bottom": 5},
        description="Histogram of the chosen tensor's magnitudes, colored by what the chosen format makes of them.")


def _shares(name: str, x: Any, cuts: list[float]) -> list[dict]:
    rows = histogram(x, cuts)
    total = sum(row["count"] for row in rows) or 1
    zero_rows = [{"tensor": name, "fixed": kind, "share": 0} for kind in KINDS]  # so that every kind has a readout
    return zero_rows + [{"tensor": name, "exponent": row["exponent"], "part": row["part"],
                         "share": float(f"{row['count'] / total:.6g}")} for row in rows]


def limits(format: Format) -> dict:
    """What decides over a binade: the exponents below which all is lost or subnormal, and where overflow begins.

    2**lost itself is half the smallest number, a tie that goes to zero. Without subnormals, what is not lost is normal.
    """
    lost = round(np.log2(format.smallest_subnormal)) - 1
    return {"lost": lost, "emin": format.emin if format.subnormals else lost, "emax": format.emax,
            "limit": _first_overflow(format)}


def _first_overflow(format: Format) -> float:
    """The first significand of the topmost binade that overflows; a tie does so where the largest code is odd."""
    limit = overflow_limit(format) / 2.0**format.emax
    return limit if format.max_code % 2 else float(np.nextafter(limit, 2.0))


def kind_of(exponent: int, part: float, limits: dict) -> str:
    """What becomes of the numbers in a part of a binade; the chart works out the same by `_kind_expression`."""
    if exponent > limits["emax"] or (exponent == limits["emax"] and part >= limits["limit"]):
        return "overflow"
    if exponent < limits["lost"] or (exponent == limits["lost"] and part == 1):
        return "zero"
    return "subnormal" if exponent < limits["emin"] else "normal"


def _kind_expression() -> str:
    return ("isValid(datum.fixed) ? datum.fixed"
            " : datum.exponent + shift > limits.emax"
            " || (datum.exponent + shift == limits.emax && datum.part >= limits.limit) ? 'overflow'"
            " : datum.exponent + shift < limits.lost"
            " || (datum.exponent + shift == limits.lost && datum.part == 1) ? 'zero'"
            " : datum.exponent + shift < limits.emin ? 'subnormal' : 'normal'")


def _domain(rows: list[dict], formats: list[Format]) -> tuple[int, int]:
    exponents = [row["exponent"] for row in rows if "exponent" in row]
    narrow = [f for f in formats if f.exponent_bits <= 5] or formats
    return (min([*exponents, *(f.emin - f.mantissa_bits for f in narrow)]) - 4,
            max([*exponents, *(f.emax for f in narrow)]) + 5)


def _kind_color() -> alt.Color:
    return alt.Color("kind:N", legend=None,
                     scale=alt.Scale(domain=list(KINDS), range=[KIND_COLORS[kind] for kind in KINDS]))


def _regions(low: int, high: int) -> alt.Chart:
    """Pale bands behind the bars: where the chosen format loses, weakens, keeps and overflows."""
    starts = {"zero": f"{low}", "subnormal": "limits.lost", "normal": "limits.emin",
              "overflow": "limits.emax + log(limits.limit) / log(2)"}
    ends = dict(zip(starts, [*list(starts.values())[1:], f"{high}"], strict=True))

    def pick(edges):
        choice = "".join(f"datum.kind == '{kind}' ? {edge} : " for kind, edge in edges.items())
        return f"clamp({choice}0, {low}, {high})"

    return alt.Chart(alt.Data(values=[{"kind": kind} for kind in KINDS])).transform_calculate(
        start=pick(starts), end=pick(ends)).mark_rect(opacity=0.13).encode(x="start:Q", x2="end:Q", color=_kind_color())


def _readout(here: alt.Chart) -> alt.LayerChart:
    """The share of each kind in words, with its color, in two rows above the plot."""
    total = here.transform_aggregate(share="sum(share)", groupby=["kind"]).transform_calculate(
        label="format(100 * datum.share, datum.share > 0 && datum.share < 0.001 ? '.1~r' : '.3~r') + ' % ' + "
              f"({json.dumps(KINDS)})[datum.kind]")
    layers = []
    for (kind, x), y in zip({"zero": 0, "subnormal": 0, "normal": 0.5, "overflow": 0.5}.items(), (-34, -16) * 2,
                            strict=True):
        one = total.transform_filter(f"datum.kind == '{kind}'")
        layers.append(one.mark_square(size=110, opacity=1).encode(
            x=alt.value(alt.ExprRef(f"{x} * width + 6")), y=alt.value(y), color=_kind_color()))
        layers.append(one.mark_text(align="left", baseline="middle").encode(
            x=alt.value(alt.ExprRef(f"{x} * width + 18")), y=alt.value(y), text="label:N"))
    return alt.layer(*layers)
