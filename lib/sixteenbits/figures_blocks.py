"""The figures about block formats: what becomes of the numbers of a block, and what the largest costs the others.

Errors are root mean squares over many blocks of normally distributed numbers, divided by the root mean square of the
numbers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import altair as alt
import numpy as np

from sixteenbits import charts
from sixteenbits.block_formats import BLOCK_FORMATS, SCALE_ROUNDINGS, BlockFormat, as_block_format
from sixteenbits.blocks import dequantize, quantize, round_to_blocks
from sixteenbits.codec import decode
from sixteenbits.figures_range import power_axis

#: The block formats of these figures, from wide to narrow.
SHOWN = ("fp8_e4m3_scaled", "mxfp8_e4m3", "mxfp6_e2m3", "mxfp4", "nvfp4")

#: Block format -> color and dash. An MX format has the color of its elements.
LOOKS = {
    "fp8_e5m2_scaled": (charts.COLORS["fp8_e5m2"], [2, 2]),
    "fp8_e4m3_scaled": (charts.COLORS["fp8_e4m3fn"], [2, 2]),
    "mxfp8_e5m2": (charts.COLORS["fp8_e5m2"], charts.DASHES["fp8_e5m2"]),
    "mxfp8_e4m3": (charts.COLORS["fp8_e4m3fn"], charts.DASHES["fp8_e4m3fn"]),
    "mxfp6_e3m2": (charts.COLORS["fp6_e3m2fn"], charts.DASHES["fp6_e3m2fn"]),
    "mxfp6_e2m3": (charts.COLORS["fp6_e2m3fn"], charts.DASHES["fp6_e2m3fn"]),
    "mxfp4": (charts.COLORS["fp4_e2m1fn"], charts.DASHES["fp4_e2m1fn"]),
    "nvfp4": (charts.CATEGORIES[2], [1, 0]),
}


def normal_blocks(count: int, size: int = 32, seed: int = 0) -> np.ndarray:
    """Normally distributed numbers of shape (count, size)."""
    return np.random.default_rng(seed).standard_normal((count, size))


# -- the numbers of a block --------------------------------------------------------------------------------------------


def numbers(x: Sequence[float], formats: Iterable[BlockFormat | str] = SHOWN[1:], format: str = "mxfp4",
            powers: Sequence[int] = range(7)) -> alt.LayerChart:
    """Numbers and what a block format makes of them, with the values that each block has to offer as thin lines.

    A menu chooses the format; a slider multiplies the largest of the numbers by a power of two. Both work without a
    kernel.

    Args:
        x: the numbers, 32 for example.
        formats: those in the menu.
        format: the first choice.
        powers: what the slider offers.
    """
    formats = [as_block_format(f) for f in formats]
    points, levels = [], []
    for one in formats:
        for power in powers:
            moved = np.array(x, np.float64)
            moved[np.abs(moved).argmax()] *= 2.0**power
            points += _points(moved, one, power)
            levels += _levels(moved, one, power)
    chosen = alt.param(name="chosen", value=as_block_format(format).title,
                       bind=alt.binding_select(options=[f.title for f in formats], name="Format "))
    power = alt.param(name="power", value=powers[0], bind=alt.binding_range(
        min=powers[0], max=powers[-1], step=1, name="Largest number times 2 to the power "))
    here = "datum.format == chosen && datum.power == power"
    marks = alt.Chart().transform_filter(here)
    grid = alt.Chart(alt.Data(values=levels)).transform_filter(here).mark_rule(
        color=charts.MUTED, strokeWidth=0.7, opacity=0.55).encode(x="from:Q", x2="to:Q", y="value:Q")
    at = alt.X("at:Q", title="place in the row", axis=alt.Axis(format="d", tickMinStep=1),
               scale=alt.Scale(domain=[-0.5, len(x) - 0.5], nice=False))
    value = alt.Y("value:Q", title="value", scale=alt.Scale(zero=False))
    change = marks.mark_rule(color=charts.CATEGORIES[1], strokeWidth=2).encode(x=at, y=value, y2="rounded:Q")
    before = marks.mark_point(filled=False, size=50, color=charts.CATEGORIES[0], strokeWidth=1.5).encode(x=at, y=value)
    after = marks.mark_tick(color=charts.CATEGORIES[1], thickness=3, width=11, orient="horizontal").encode(
        x=at, y="rounded:Q", tooltip=[alt.Tooltip("value:Q", format=".4~g"), alt.Tooltip("rounded:Q", format=".4~g")])
    moves = alt.layer(change, before, after, data=alt.Data(values=points))  # one copy of the data for all three
    return alt.layer(grid, moves).add_params(chosen, power).properties(
        width="container", height=320, description=(
            f"{len(x)} numbers as circles, what the chosen format makes of them as ticks, and the change as a line "
            "between the two. Thin gray lines, for elements of 4 bits: all values that the block can hold. The further "
            "the slider lifts the largest number, the fewer of them lie where the other numbers are."))


def _points(x: np.ndarray, format: BlockFormat, power: int) -> list[dict]:
    rounded = round_to_blocks(x, format)
    return [{"format": format.title, "power": power, "at": at, "value": _short(a), "rounded": _short(b)}
            for at, (a, b) in enumerate(zip(x, rounded, strict=True))]


def _levels(x: np.ndarray, format: BlockFormat, power: int) -> list[dict]:
    """The values that each block can hold, where they are few enough to be seen apart."""
    if format.element.bits > 4 or format.scale is None:
        return []
    blocks = quantize(x, format)
    elements = decode(np.arange(2**format.element.bits), format.element)
    rows = []
    for i, scale in enumerate(decode(blocks.scales, format.scale)):
        place = {"format": format.title, "power": power, "from": i * format.size - 0.5,
                 "to": min((i + 1) * format.size, len(x)) - 0.5}
        values = np.unique(elements) * scale * blocks.tensor_scale
        rows += [place | {"value": _short(v)} for v in values if abs(v) <= 1.1 * np.abs(x).max()]
    return rows


def _short(value: float) -> float:
    return float(f"{value:.4g}")


# -- errors over many blocks -------------------------------------------------------------------------------------------


def outlier_errors(formats: Iterable[BlockFormat | str] = SHOWN, powers: Sequence[int] = range(13),
                   count: int = 500) -> dict[str, np.ndarray]:
    """Block format -> relative error of all numbers but one, against the size of that one.

    Each of `count` blocks of 32 numbers has one that is 2**power times as large as the root mean square of the others;
    for a format with one scale for a tensor, all blocks are one tensor.
    """
    x = normal_blocks(count)
    errors = {}
    for format in map(as_block_format, formats):
        one = []
        for power in powers:
            moved = x.copy()
            moved[:, 0] = 2.0**power * np.sign(moved[:, 0])
            one.append(_error(moved[:, 1:], round_to_blocks(moved, format)[:, 1:]))
        errors[format.name] = np.array(one)
    return errors


def outlier(errors: dict[str, np.ndarray], powers: Sequence[int] = range(13)) -> alt.Chart:
    """What one large number costs the others in its block: `outlier_errors`, one line a block format."""
    formats = [BLOCK_FORMATS[name] for name in errors]
    rows = [{"format": f.title, "power": power, "error": float(np.log2(error))}
            for f in formats for power, error in zip(powers, errors[f.name], strict=True)]
    legend = alt.Legend(title=None, orient="top", columns=2, symbolSize=600, symbolStrokeWidth=2.5)
    spoken = "; ".join(f"{f.title}: from {errors[f.name][0]:.2g} to {errors[f.name][-1]:.2g}" for f in formats)
    return alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.5).encode(
        x=alt.X("power:Q", title="the large number / the others (logarithmic, base 2)",
                axis=power_axis(tickCount=len(powers)), scale=alt.Scale(nice=False)),
        y=alt.Y("error:Q", title="relative error of the others (base 2)", axis=power_axis(tickCount=8)),
        color=alt.Color("format:N", legend=legend, scale=_scale(formats, 0)),
        strokeDash=alt.StrokeDash("format:N", legend=legend, scale=_scale(formats, 1)),
        tooltip=["format:N", alt.Tooltip("power:Q", title="2^"), alt.Tooltip("error:Q", title="log2 of the error",
                                                                            format=".2f")],
    ).properties(width="container", height=320, description=(
        f"Relative error of the other numbers in a block against the size of one large number, 1 to 2^{powers[-1]} "
        f"times theirs. {spoken}. An error of 1 means that nothing is left of them."))


def scale_errors(format: BlockFormat | str = "mxfp4", count: int = 1000, steps: int = 64) -> dict[str, np.ndarray]:
    """Scale rounding -> relative error of a block for each of `steps` largest numbers between 1 and 2."""
    format, x = as_block_format(format), normal_blocks(count)
    x /= np.abs(x).max(axis=1, keepdims=True)
    return {how: np.array([_error(x * size, dequantize(quantize(x * size, replace(format, scale_rounding=how))))
                           for size in _between(steps)]) for how in SCALE_ROUNDINGS}


def scale_roundings(errors: dict[str, np.ndarray]) -> alt.Chart:
    """How the rounding of the scale decides over the error of a block: `scale_errors`, one line a rounding."""
    rows = [{"rounding": how, "largest": _short(largest), "error": _short(error)}
            for how, one in errors.items() for largest, error in zip(_between(len(one)), one, strict=True)]
    spoken = "; ".join(f"{how}: {one.min():.3g} to {one.max():.3g}" for how, one in errors.items())
    names = list(errors)
    return alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2.5).encode(
        x=alt.X("largest:Q", title="largest number / power of two below it (linear)", axis=alt.Axis(tickCount=5),
                scale=alt.Scale(domain=[1, 2], nice=False)),
        y=alt.Y("error:Q", title="relative error of the block (%, linear)", axis=alt.Axis(format="%"),
                scale=alt.Scale(zero=True)),
        color=alt.Color("rounding:N", title=None, scale=alt.Scale(domain=names, range=list(charts.CATEGORIES[:3]))),
        strokeDash=alt.StrokeDash("rounding:N", title=None,
                                  scale=alt.Scale(domain=names, range=[[1, 0], [7, 3], [2, 2]])),
        tooltip=["rounding:N", "largest:Q", alt.Tooltip("error:Q", format=".2%")],
    ).properties(width="container", height=280, description=(
        f"Relative error of a block against its largest number between two powers of two. {spoken}."))


def _between(steps: int) -> np.ndarray:
    """The middles of `steps` equal parts of the way from 1 to 2."""
    return 1 + (np.arange(steps) + 0.5) / steps


def _error(x: np.ndarray, rounded: np.ndarray) -> float:
    return float(np.sqrt(((rounded - x) ** 2).mean() / (x**2).mean()))


def _scale(formats: list[BlockFormat], look: int) -> alt.Scale:
    return alt.Scale(domain=[f.title for f in formats], range=[LOOKS[f.name][look] for f in formats])
