"""The figures about rounding: what they draw is what the codec says."""

from itertools import pairwise

import altair as alt
import numpy as np
import pytest

from sixteenbits import figures_rounding as figures
from sixteenbits.codec import ROUNDINGS, round_to, table
from sixteenbits.formats import FP4_E2M1FN, FP6_E2M3FN

DRAWS = round_to(np.full(1000, 0.3), "fp8_e4m3fn", "stochastic", rng=0)
PATHS = 1 + np.cumsum(np.random.default_rng(0).normal(0, 0.01, (30, 200)), axis=1)
CHARTS = {
    "bins": lambda: figures.bins(FP4_E2M1FN),
    "series": lambda: figures.series({"one": [1, 2, 3], "two": [1, 0, 1]}, "step", "value"),
    "added": lambda: figures.added("0.1", "0.2", ["fp64", "fp16"]),
    "running_mean": lambda: figures.running_mean(DRAWS, 0.3, 0.3125),
    "walks": lambda: figures.walks(PATHS, np.ones(200), np.linspace(1, 2, 200)),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_is_valid_and_has_a_text_alternative(chart):
    spec = chart().to_dict(validate=True)
    assert len(spec["description"]) > 40


def rows(chart: alt.TopLevelMixin, column: str) -> list[dict]:
    """The rows of all data tables in the chart that have this column, wherever among its layers Altair put them."""
    def tables(node):
        if "data" in node:
            yield from node["data"]["values"]
        for layer in node.get("layer", []):
            yield from tables(layer)
    return [row for row in tables(chart.to_dict()) if column in row]


@pytest.mark.parametrize("rounding", ROUNDINGS[:5])
@pytest.mark.parametrize("format", [FP4_E2M1FN, FP6_E2M3FN], ids=str)
def test_a_bin_holds_what_goes_there(format, rounding):
    bars = [row for row in rows(figures.bins(format, [rounding]), "value") if "middle" not in row]  # no labels
    assert (bars[0]["low"], bars[-1]["high"]) == (-format.max, format.max)
    assert [bar["high"] for bar in bars[:-1]] == [bar["low"] for bar in bars[1:]]
    assert all(left["shade"] != right["shade"] for left, right in pairwise(bars))
    for bar in bars:
        inside = np.linspace(bar["low"], bar["high"], 9)[1:-1]
        assert set(round_to(inside, format, rounding) + 0.0) == {bar["value"]}
    assert {bar["value"] for bar in bars} <= set(table(format)["value"])


def test_sums_land_on_values_and_equality_is_what_python_says():
    points = rows(figures.added("0.1", "0.2", ["fp64", "fp32", "bf16"]), "kind")
    every = [row for row in points if row["kind"].endswith("rounded")]
    landed = {name: {row["offset"] for row in every if row["format"] == name} for name in ("FP64", "FP32", "BF16")}
    assert (len(landed["FP64"]) == 1) == (0.1 + 0.2 == 0.3)
    assert (len(landed["FP32"]) == 1) == (np.float32(0.1) + np.float32(0.2) == np.float32(0.3))
    ways = [row for row in points if row["kind"] == "way"]
    assert all(abs(row["to"] - row["offset"]) <= 0.5 + 1e-9 for row in ways)


def test_the_mean_ends_at_the_mean():
    last = [row for row in rows(figures.running_mean(DRAWS, 0.3, 0.3125), "line") if "stochastic" in row["line"]][-1]
    assert (last["n"], last["value"]) == (DRAWS.size, pytest.approx(DRAWS.mean()))


def test_walks_draw_the_mean_of_all_runs():
    lines = rows(figures.walks(PATHS, np.ones(200), np.linspace(1, 2, 200)), "line")
    mean = {row["step"]: row["value"] for row in lines if row["line"] == "mean of 30 stochastic runs"}
    assert mean[199] == pytest.approx(PATHS[:, 199].mean())
