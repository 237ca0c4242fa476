"""The figures about bits and codes: what a code is made of, and where a format spends its codes.

Each function takes formats, codes or numbers, lets the codec do the arithmetic, and returns one chart with axes, units
and a text alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import altair as alt
import numpy as np

from sixteenbits import charts
from sixteenbits.codec import decode, round_to, table, ulp
from sixteenbits.figures_range import KIND_COLORS, power_axis, power_label
from sixteenbits.formats import Format, as_format

FIELDS = ("sign", "exponent", "mantissa")
FIELD_COLORS = ("#eda0cf", "#8fc0f7", "#f2bd68")  # the hues of BitExplorer, for light and dark pages alike
FIELD_INK = "#14181d"
LEGEND = alt.Legend(title=None)
LINE_LEGEND = alt.Legend(title=None, symbolType="stroke", symbolSize=400, symbolOpacity=1)


def bit_fields(codes: Iterable[tuple[Format | str, int]]) -> alt.LayerChart:
    """Each code as a row of bits, colored and set apart by field, with the format, the code and the value above.

    Args:
        codes: pairs (format, code), drawn from top to bottom, flush left.

    Raises:
        ValueError: a code has more bits than its format.
    """
    rows = [(as_format(format), int(code)) for format, code in codes]
    for format, code in rows:
        if not 0 <= code < 2**format.bits:
            raise ValueError(f"code is {code}; {format} has {format.bits} bits: 0 to {2**format.bits - 1:#x}")
    bits = [bit for row, (format, code) in enumerate(rows) for bit in _bits(format, code, row)]
    titles = [{"row": row + 0.25, "text": _code_title(format, code)} for row, (format, code) in enumerate(rows)]
    width = max(bit["right"] for bit in bits)
    x = alt.X("left:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False))
    y = alt.Y("row:Q", axis=None, scale=alt.Scale(domain=[len(rows), 0], nice=False))
    base = alt.Chart(alt.Data(values=bits))
    boxes = base.mark_rect(cornerRadius=2).encode(
        x=x, x2="right:Q", y=y.copy(), y2="bottom:Q",
        color=alt.Color("field:N", scale=alt.Scale(domain=FIELDS, range=FIELD_COLORS), legend=LEGEND),
        tooltip=["field:N", "bit:N", alt.Tooltip("position:Q", title="bit position")],
    )
    digits = base.mark_text(fontSize=12, fontWeight="bold", color=FIELD_INK).encode(
        x="middle:Q", y="center:Q", text="bit:N")
    names = alt.Chart(alt.Data(values=titles)).mark_text(align="left", fontSize=13).encode(
        x=alt.value(0), y="row:Q", text="text:N")
    spoken = "; ".join(f"{title['text']}: {_spoken_bits(*row)}" for title, row in zip(titles, rows, strict=True))
    return (boxes + digits + names).properties(
        width=18 * width, height=50 * len(rows), view=alt.ViewConfig(stroke=None),
        description=f"Bit patterns. {spoken}.")


def _bits(format: Format, code: int, row: int) -> list[dict]:
    """One record a bit, from the left, with a gap of a third of a bit between fields."""
    widths = (int(format.signed), format.exponent_bits, format.mantissa_bits)
    fields = [field for field, width in zip(enumerate(FIELDS), widths, strict=True) for _ in range(width)]
    lefts = [round(place + index / 3, 3) for place, (index, _) in enumerate(fields)]
    return [
        {"field": name, "bit": digit, "position": format.bits - 1 - place,
         "left": left, "middle": left + 0.48, "right": left + 0.96,
         "row": row + 0.45, "center": row + 0.67, "bottom": row + 0.88}
        for place, (left, (_, name), digit) in enumerate(zip(lefts, fields, f"{code:0{format.bits}b}", strict=True))
    ]


def _code_title(format: Format, code: int) -> str:
    value = f"{decode(code, format):.9g}".replace("inf", "infinity").replace("nan", "NaN")
    return f"{format}  0x{code:0{-(-format.bits // 4)}x} = {value}"


def _spoken_bits(format: Format, code: int) -> str:
    digits, sign = f"{code:0{format.bits}b}", int(format.signed)
    split = sign + format.exponent_bits
    return f"sign {digits[:sign] or 'none'}, exponent {digits[sign:split]}, mantissa {digits[split:] or 'none'}"


def number_line(format: Format | str, scale: str = "linear") -> alt.Chart:
    """All positive finite numbers of a small format on a line, one mark each; meant for formats of up to 8 bits.

    Args:
        scale: "linear", or "log" for a base-2 logarithmic axis.

    Raises:
        ValueError: another scale, or a format of more than 16 bits.
    """
    if scale not in ("linear", "log"):
        raise ValueError(f"scale is {scale!r}; choose one of linear, log")
    format = as_format(format)
    rows = [
        {"value": float(value), "kind": str(kind), "code": f"0x{code:02x}"}
        for code, value, kind in zip(*(table(format)[column] for column in ("code", "value", "kind")), strict=True)
        if kind in ("subnormal", "normal") and value > 0
    ]
    kinds = alt.Scale(domain=["normal", "subnormal"], range=[KIND_COLORS["normal"], KIND_COLORS["subnormal"]])
    spoken = {
        "linear": "They crowd toward zero and thin out upward.",
        "log": f"Every power of two is followed by the same pattern of {2**format.mantissa_bits} marks; "
               f"only the subnormal numbers at the left end are sparser{_missing_at_the_top(format)}.",
    }
    return alt.Chart(alt.Data(values=rows)).mark_tick(thickness=1.5, size=36, opacity=1).encode(
        x=_number_axis(format, scale), color=alt.Color("kind:N", scale=kinds, legend=LEGEND),
        tooltip=["value:Q", "kind:N", "code:N"],
    ).properties(width="container", height=48, description=(
        f"Number line, {scale} axis, with the {len(rows)} positive finite {format} numbers. {spoken[scale]}"))


def _missing_at_the_top(format: Format) -> str:
    missing = -(format.max_code + 1) % 2**format.mantissa_bits
    return f", and the last pattern lacks {missing} of its marks" if missing else ""


def _number_axis(format: Format, scale: str) -> alt.X:
    if scale == "linear":
        return alt.X("value:Q", title=f"{format} number")
    powers = [2.0**k for k in range(format.emin - format.mantissa_bits, format.emax + 2)]
    labels = power_label("round(log(datum.value) / LN2)")
    return alt.X(
        "value:Q", title=f"{format} number (logarithmic axis, base 2)",
        scale=alt.Scale(type="log", base=2, domain=[powers[0] / 1.2, powers[-1]], nice=False),
        axis=alt.Axis(values=powers, labelExpr=labels, labelOverlap=True, labelSeparation=6))


def codes_per_binade(formats: Sequence[Format | str]) -> alt.LayerChart:
    """How many positive numbers each format has in each binade, as one outlined area for each format."""
    formats = [as_format(format) for format in formats]
    bars = [bar for format in formats for bar in _binades(format)]
    ends = [{**bar, "binade": bar["end"], "count": 0} for bar in bars if bar["last"]]
    x = alt.X("binade:Q", title="power of two at which the binade starts", axis=power_axis())
    y = alt.Y("count:Q", title="positive numbers in the binade")
    fill = alt.Chart(alt.Data(values=bars)).mark_rect(opacity=0.3).encode(
        x=x, x2="end:Q", y=y, y2=alt.datum(0), tooltip=["format:N", "binade:Q", "count:Q"],
        color=alt.Color("format:N", scale=charts.color_scale(formats), legend=LINE_LEGEND))
    outline = alt.Chart(alt.Data(values=bars + ends)).mark_line(interpolate="step-after").encode(
        x=x, y=y, color=alt.Color("format:N", scale=charts.color_scale(formats), legend=LINE_LEGEND),
        strokeDash=alt.StrokeDash("format:N", scale=charts.dash_scale(formats), legend=LINE_LEGEND))
    spoken = "; ".join(
        f"{format}: {2**format.mantissa_bits} numbers in each binade from 2^{format.emin} to 2^{format.emax}, halving "
        f"below in each subnormal binade down to 1 at 2^{format.emin - format.mantissa_bits}" for format in formats)
    return (fill + outline).properties(width="container", height=280, description=f"Numbers per binade. {spoken}.")


def _binades(format: Format) -> list[dict]:
    """One record for each binade that holds positive numbers: where it begins and ends, and how many they are."""
    values = table(format)["value"]
    exponents = np.frexp(values[(values > 0) & np.isfinite(values)])[1] - 1
    found, counts = np.unique(exponents, return_counts=True)
    return [
        {"format": format.title, "binade": int(k), "end": int(k) + 1, "count": int(n), "last": bool(k == found[-1])}
        for k, n in zip(found, counts, strict=True)
    ]


def rounding_error(format: Format | str, roundings: Sequence[str], low: float, high: float) -> alt.Chart:
    """The relative error of rounding, in percent, for numbers from low to high: one line for each way of rounding.

    Args:
        roundings: one to three of `codec.ROUNDINGS`, none of them stochastic.
        low, high: numbers of the format in one binade. The error is linear between neighbors and their midpoints, so
            those points, and the float64 numbers beside them, are enough to draw it.

    Raises:
        ValueError: low is not below high.
    """
    if not low < high:
        raise ValueError(f"low is {low} and high is {high}; low must be the smaller one")
    format = as_format(format)
    nodes = np.arange(low, high + ulp(low, format) / 4, ulp(low, format) / 2)
    points = np.stack([np.nextafter(nodes, -np.inf), nodes, np.nextafter(nodes, np.inf)], axis=1).ravel()[1:-1]
    errors = {name.replace("_", " "): 100 * (round_to(points, format, name) - points) / points for name in roundings}
    rows = [
        {"number": float(x), "error": round(float(error), 5), "rounding": name}
        for name, column in errors.items() for x, error in zip(points, column, strict=True)
    ]
    colors = alt.Scale(domain=list(errors), range=[charts.COLORS[format.name], charts.MUTED, charts.INK][:len(errors)])
    dashes = alt.Scale(domain=list(errors), range=[[1, 0], [6, 3], [2, 2]][:len(errors)])
    spans = [f"{name}: from {column.min():.2g} to {column.max():.2g} percent" for name, column in errors.items()]
    return alt.Chart(alt.Data(values=rows)).mark_line().encode(
        x=alt.X("number:Q", title="number before rounding", scale=alt.Scale(zero=False, nice=False)),
        y=alt.Y("error:Q", title=f"relative error in {format} (%)"),
        color=alt.Color("rounding:N", scale=colors, legend=LINE_LEGEND),
        strokeDash=alt.StrokeDash("rounding:N", scale=dashes, legend=LINE_LEGEND),
    ).properties(width="container", height=220, description=(
        f"Sawtooth lines of the relative error in {format} from {low:g} to {high:g}. {'; '.join(spans)}."))
