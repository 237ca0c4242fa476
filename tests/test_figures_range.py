"""The figures about range and precision: what they say agrees with the formats and with `survey`."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from sixteenbits import charts
from sixteenbits.codec import round_to, ulp
from sixteenbits.figures_range import KIND_COLORS, KINDS, SHOWN, errors, gaps, kind_of, limits, placed, ranges
from sixteenbits.formats import FORMATS, Format, as_format
from sixteenbits.tensors import overflow_limit, survey


def tables(node) -> Iterator[list[dict]]:
    """Every table of data in a chart's specification."""
    if isinstance(node, dict):
        if isinstance(node.get("values"), list) and node["values"] and isinstance(node["values"][0], dict):
            yield node["values"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from tables(part)


def rows(chart) -> list[dict]:
    return next(tables(chart.to_dict()))


def test_ranges_are_those_of_the_formats():
    found = {(row["format"], row["part"]): row for row in rows(ranges())}
    assert len(found) == 2 * len(SHOWN)
    for format in (FORMATS[name] for name in SHOWN):
        subnormal, normal = found[format.title, "subnormal"], found[format.title, "normal"]
        assert 2.0 ** subnormal["low"] == subnormal["smallest"] == format.smallest_subnormal
        assert 2.0 ** subnormal["high"] == 2.0 ** normal["low"] == normal["smallest"] == format.smallest_normal
        assert 2.0 ** (normal["high"] - 1) <= normal["largest"] == format.max < 2.0 ** normal["high"]
        assert subnormal["largest"] + format.smallest_subnormal == format.smallest_normal


def test_gaps_are_ulps():
    for row in rows(gaps(["fp16", "fp8_e4m3fn"])):
        format = next(f for f in FORMATS.values() if f.title == row["format"])
        if row["magnitude"] <= format.emax:
            assert 2.0 ** row["gap"] == ulp(2.0 ** row["magnitude"], format)


def test_errors_end_where_the_format_does():
    magnitudes = [row["magnitude"] for row in rows(errors(["fp16"], -30, 30))]
    assert (min(magnitudes), max(magnitudes)) == (-30, 16)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    """Numbers that some formats lose, some hold and some overflow at."""
    generator = np.random.default_rng(3)
    return generator.standard_normal(50_000) * 2.0 ** generator.integers(-160, 140, 50_000)


@pytest.fixture(scope="module")
def spec(x) -> dict:
    return placed({"x": x}, SHOWN).to_dict()


@pytest.mark.parametrize("name", SHOWN)
def test_the_explorer_sorts_as_survey_does(name, x, spec):
    data = next(values for values in tables(spec) if any("exponent" in row for row in values))
    shares = dict.fromkeys(KINDS, 0.0)
    for row in data:
        if "exponent" in row:
            shares[kind_of(row["exponent"], row["part"], limits(FORMATS[name]))] += row["share"]
    found, exact = survey(x, name), math.isclose
    assert exact(shares["overflow"], found.share("overflow"), abs_tol=1e-5)
    assert exact(shares["zero"], found.share("zero"), abs_tol=1e-5)
    # numbers that round up to the smallest normal one, or are subnormal and exact, are counted differently: few
    assert exact(shares["subnormal"], found.share("subnormal"), abs_tol=1e-3)
    assert exact(shares["normal"], found.share("exact") + found.share("rounded"), abs_tol=1e-3)


@pytest.mark.parametrize("format", [*SHOWN, Format("flushed", 4, 3, subnormals=False)], ids=str)
def test_the_explorer_knows_where_ties_go(format):
    format = as_format(format)
    half, limit = format.smallest_subnormal / 2, overflow_limit(format)
    for x in [half, np.nextafter(half, 1), np.nextafter(half, 0), limit, np.nextafter(limit, np.inf), format.max]:
        data = next(values for values in tables(placed({"x": [x]}, [format]).to_dict())
                    if any("exponent" in row for row in values))
        row = next(row for row in data if "exponent" in row)
        kind = kind_of(row["exponent"], row["part"], limits(format))
        found = next(fate for fate, count in survey(x, format).counts.items() if count)
        expected = {"exact": "normal", "rounded": "normal"}.get(found, found)
        assert kind == ("subnormal" if abs(round_to(x, format)) == format.smallest_subnormal and format.subnormals
                        else expected)


def test_the_explorer_has_controls_only_where_there_is_a_choice():
    def bound(chart):
        return [p["name"] for p in chart.to_dict()["params"] if "bind" in p]

    assert bound(placed({"a": [1.0], "b": [2.0]})) == ["tensor", "rule", "shift"]
    assert bound(placed({"a": [1.0]})) == ["rule", "shift"]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio."""
    def light(color):
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    high, low = sorted([light(one), light(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colors_are_seen_on_light_and_dark_and_are_nobodys_else():
    assert set(KIND_COLORS) == set(KINDS)
    assert not set(KIND_COLORS.values()) & set(charts.COLORS.values())
    for color in KIND_COLORS.values():
        assert min(contrast(color, charts.PAPER), contrast(color, charts.DARK[charts.PAPER])) >= 3


@pytest.mark.parametrize("chart", [
    ranges, gaps, lambda: errors(["fp16"], -30, 20), lambda: placed({"a": [1.0]})],
    ids=["ranges", "gaps", "errors", "placed"])
def test_every_figure_has_a_text_alternative_and_titled_axes(chart):
    spec = chart().to_dict()
    assert len(spec["description"]) > 40
    encodings = [layer["encoding"] for layer in spec.get("layer", [spec]) if "encoding" in layer]
    assert any("base 2" in (encoding.get("x", {}).get("title") or "") for encoding in encodings)
