"""The figures about block formats: what they draw is what the formats do."""

import numpy as np
import pytest

from sixteenbits import charts
from sixteenbits.block_formats import BLOCK_FORMATS
from sixteenbits.blocks import round_to_blocks
from sixteenbits.figures_blocks import (
    LOOKS,
    normal_blocks,
    numbers,
    outlier,
    outlier_errors,
    scale_errors,
    scale_roundings,
)


def tables(node):
    """Every table of data in a chart's specification."""
    if isinstance(node, dict):
        if isinstance(node.get("values"), list) and node["values"] and isinstance(node["values"][0], dict):
            yield node["values"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from tables(part)


def test_every_block_format_has_a_look_of_its_own():
    assert set(LOOKS) == set(BLOCK_FORMATS)
    assert len({(color, tuple(dash)) for color, dash in LOOKS.values()}) == len(LOOKS)
    known = {*charts.COLORS.values(), *charts.CATEGORIES}
    assert {color for color, _ in LOOKS.values()} <= known  # whose contrast is tested with the charts


def test_numbers_are_drawn_where_the_format_puts_them():
    x = normal_blocks(1)[0]
    levels, points = sorted(tables(numbers(x, powers=(0, 3)).to_dict()), key=lambda rows: "at" in rows[0])
    for format in (BLOCK_FORMATS[name] for name in ("mxfp8_e4m3", "mxfp4", "nvfp4")):
        for power in (0, 3):
            moved = x.copy()
            moved[np.abs(moved).argmax()] *= 2.0**power
            rows = [row for row in points if row["format"] == format.title and row["power"] == power]
            assert [row["at"] for row in rows] == list(range(32))
            np.testing.assert_allclose([row["rounded"] for row in rows], round_to_blocks(moved, format), rtol=1e-3)
            offered = [row for row in levels if row["format"] == format.title and row["power"] == power]
            if format.element.bits > 4:
                assert not offered
                continue
            for row in rows:
                here = [level["value"] for level in offered if level["from"] < row["at"] < level["to"]]
                assert min(abs(value - row["rounded"]) for value in here) <= 1e-3 * abs(row["rounded"])


def test_outliers_cost_block_formats_without_range_and_no_others():
    errors = outlier_errors(powers=range(0, 13, 4), count=100)
    assert errors["mxfp8_e4m3"].max() < 2.0**-4.5
    assert errors["mxfp4"][-1] == 1.0
    assert errors["nvfp4"][-1] == pytest.approx(0.5**0.5, abs=0.02)  # half of its blocks are spared
    assert (np.diff(errors["mxfp6_e2m3"])[:2] > 0.1).all()
    spec = outlier(errors, range(0, 13, 4)).to_dict()
    rows = next(tables(spec))
    assert len(rows) == 4 * len(errors)
    row = next(row for row in rows if row["format"] == "MXFP4" and row["power"] == 4)
    assert 2.0 ** row["error"] == pytest.approx(errors["mxfp4"][1])


def test_no_scale_rounding_is_best_everywhere():
    errors = scale_errors(count=200, steps=16)
    assert (errors["floor"] <= errors["ceil"])[:12].all()
    assert (errors["floor"] > errors["ceil"])[-3:].all()
    assert errors["nearest"].max() < min(errors["floor"].max(), errors["ceil"].max())
    np.testing.assert_array_equal(errors["nearest"][:8], errors["floor"][:8])
    np.testing.assert_array_equal(errors["nearest"][8:], errors["ceil"][8:])


def test_the_figures_say_in_words_what_they_show():
    charts_made = [numbers(normal_blocks(1)[0], powers=(0,)), outlier(outlier_errors(powers=(0, 1), count=10), (0, 1)),
                   scale_roundings(scale_errors(count=10, steps=4))]
    for chart in charts_made:
        spec = chart.to_dict()
        assert len(spec["description"]) > 80
        assert spec["width"] == "container"
