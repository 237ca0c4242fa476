"""Experiments on long sums give what theory and the papers say, and their figures show it."""

import numpy as np
import pytest

from sixteenbits import accumulate, charts, figures_sums, long_sums
from sixteenbits.formats import BF16, FP32, Format

LENGTHS = [2**k for k in range(6, 14)]


def slope(errors: np.ndarray) -> float:
    """The exponent with which the median error grows with the length."""
    return np.polyfit(np.log2(LENGTHS), np.log2(np.median(errors, axis=0)), 1)[0]


@pytest.mark.parametrize(("kind", "low", "high"), [
    ("one number, repeated", 0.8, 1.2), ("positive numbers", 0.3, 0.7), ("numbers of both signs", -0.3, 0.3)])
def test_the_error_grows_as_the_chapter_says(kind, low, high):
    errors = long_sums.errors(long_sums.terms(kind, LENGTHS[-1], range(40)), LENGTHS, FP32)
    assert errors.shape == (40, len(LENGTHS))
    assert low < slope(errors) < high
    assert (errors <= accumulate.worst_case(LENGTHS, FP32)).all()


def test_wangs_accumulator_stops_at_4096_and_chunks_repair_it():
    format = Format("wang16", 6, 9)
    terms = long_sums.terms("mean 1, deviation 1", 2**14, range(4))
    assert abs(terms.mean() - 1) < 0.02
    assert abs(terms.std() - 1) < 0.02
    exact = accumulate.exact_sum(terms)
    assert (long_sums.sums(terms, [2**14], format) == 4096).all()
    for way in [{"order": "chunks_of_32"}, {"accumulator": "stochastic"}]:
        sums = long_sums.sums(terms, [2**14], format, **way)[:, 0]
        assert (np.abs(sums / exact - 1) < 0.05).all()


def test_short_accumulators_lose_in_proportion_and_promotion_stops_it():
    for name in ["hopper_fp8", "hopper_fp8_joint"]:
        short = [long_sums.dot_errors(n, name, "sequential", range(2)).max() for n in (1024, 4096)]
        promoted = [long_sums.dot_errors(n, name, "promotion_every_128", range(2)).max() for n in (1024, 4096)]
        assert 2.5 < short[1] / short[0] < 6
        assert promoted[1] < 1.2 * promoted[0] < short[0]
    assert long_sums.dot_errors(512, "fp32", "sequential", [0], inputs="normal", rows=8).shape == (1, 8)
    # The first reading cannot lose more than one unit of its last bit in each step of 32 terms.
    assert long_sums.dot_errors(4096, "hopper_fp8", "sequential", range(2)).max() < 128 * accumulate.FP22.eps


def test_experiments_repeat_themselves():
    first, again = (long_sums.terms("positive numbers", 10, [3, 4]) for _ in range(2))
    assert (first == again).all()
    assert (first[0] != first[1]).all()
    with pytest.raises(ValueError, match="kind is 'none'; choose one of 'one number, repeated'"):
        long_sums.terms("none", 10, [0])


# -- figures -----------------------------------------------------------------------------------------------------------

CURVES = {"a": np.array([[1e-4, 1e-3], [2e-4, 4e-3], [0.0, 2e-3]]), "b": np.full((3, 2), 0.5)}


def data_of(chart, name: str) -> list[dict]:
    """The records of the layer that has a field `name`."""
    spec = chart.to_dict()
    tables = [layer["data"] for layer in spec["layer"] if "data" in layer] + ([spec["data"]] if "data" in spec else [])
    return next(table["values"] for table in tables if name in table["values"][0])


def test_growth_draws_medians_and_bounds():
    bounds = {"worst case": np.array([0.25, 2.0])}
    chart = figures_sums.growth(CURVES, [64, 4096], bounds)
    rows = {(row["name"], row["x"]): row for row in data_of(chart, "middle")}
    assert rows["a", 12.0]["middle"] == pytest.approx(np.log2(2e-3))
    assert rows["b", 6.0] == {"name": "b", "x": 6.0, "middle": -1.0, "low": -1.0, "high": -1.0}
    assert rows["a", 6.0]["low"] >= -32
    assert data_of(chart, "bound") == [{"bound": "worst case", "x": 6.0, "y": -2.0}]
    assert "a: median from 2^-13 to 2^-9" in chart.to_dict()["description"]


def test_dot_error_marks_what_was_reported():
    chart = figures_sums.dot_error(CURVES, [64, 4096], {"reported": (4096, 0.02)})
    assert data_of(chart, "text") == [{"x": 12.0, "y": 2.0, "text": "reported"}]
    assert "reported, 2 % at 4096" in chart.to_dict()["description"]


def test_ends_counts_runs():
    chart = figures_sums.ends(np.array([1.0, 2.0, 2.0]), {"exact": 1.5}, "total")
    assert data_of(chart, "runs") == [{"sum": 1.0, "runs": 1}, {"sum": 2.0, "runs": 2}]
    assert "most often 2" in chart.to_dict()["description"]


def test_every_line_has_a_color_and_a_dash_of_its_own():
    names = [f"way {i}" for i in range(len(charts.CATEGORIES))]
    chart = figures_sums.sizes({name: np.ones((2, 2)) for name in names}, [2, 4]).to_dict()
    line = next(layer for layer in chart["layer"] if layer["mark"]["type"] == "line")
    for channel in ("color", "strokeDash"):
        looks = line["encoding"][channel]["scale"]["range"]
        assert len({str(look) for look in looks}) == len(names)
    assert BF16.title not in names
