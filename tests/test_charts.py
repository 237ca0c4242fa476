"""The look of the charts: unique for each format, readable on light and dark pages, the same bytes every time."""

import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import altair as alt
import nbformat
import pytest

from sixteenbits import charts
from sixteenbits.formats import BF16, FORMATS, FP16, Format

COMPARED = ("fp32", "fp16", "bf16", "fp8_e4m3fn")
PAPERS = (charts.PAPER, charts.DARK[charts.PAPER])


@pytest.fixture
def book_look():
    """The book's theme and renderer, and afterwards Altair's own again."""
    charts.enable()
    yield
    alt.theme.enable("default")
    alt.renderers.enable("default")


def chart() -> alt.Chart:
    rows = [{"x": 1, "y": 2, "format": "FP16"}, {"x": 2, "y": 3, "format": "BF16"}]
    points = alt.Chart(alt.Data(values=rows)).mark_point()
    return points.encode(x="x:Q", y="y:Q", **charts.format_scale([FP16, "bf16"])).properties(description="Two points")


def luminance(color: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_of_black_and_white_is_21():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("looks", [charts.COLORS, charts.SHAPES, charts.DASHES], ids=["colors", "shapes", "dashes"])
def test_every_format_has_a_look_of_its_own(looks):
    assert looks.keys() == FORMATS.keys()
    assert len({json.dumps(look) for look in looks.values()}) == len(FORMATS)


@pytest.mark.parametrize("paper", PAPERS)
@pytest.mark.parametrize("color", [*charts.COLORS.values(), *charts.CATEGORIES])
def test_marks_stand_out_from_the_page(color, paper):
    assert contrast(color, paper) >= 3


def test_text_can_be_read_on_both_pages():
    for ink in (charts.INK, charts.MUTED):
        assert contrast(ink, charts.PAPER) >= 4.5
        assert contrast(charts.DARK[ink], charts.DARK[charts.PAPER]) >= 4.5


def simulated(color: str, blindness: str) -> list[float]:
    """A color as somebody without red (protan) or green (deutan) cones sees it, in linear RGB.

    Matrices for full severity from Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of
    Color Vision Deficiency" (2009).
    """
    matrix = {
        "protan": [(0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)],
        "deutan": [(0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)],
    }[blindness]
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return [sum(weight * part for weight, part in zip(row, linear, strict=True)) for row in matrix]


@pytest.mark.parametrize("blindness", ["protan", "deutan"])
@pytest.mark.parametrize("pair", [*itertools.combinations(COMPARED, 2)], ids="-".join)
def test_the_formats_compared_most_differ_for_the_color_blind(pair, blindness):
    one, other = (simulated(charts.COLORS[name], blindness) for name in pair)
    assert sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5 > 0.12


def test_scales_go_from_titles_to_looks_in_the_given_order():
    assert charts.color_scale([BF16, "fp16"]).to_dict() == {
        "domain": ["BF16", "FP16"],
        "range": [charts.COLORS["bf16"], charts.COLORS["fp16"]],
    }
    assert charts.dash_scale(["fp32"]).to_dict()["range"] == [[1, 0]]
    assert charts.shape_scale(["fp32"]).to_dict()["range"] == ["circle"]


def test_a_format_without_a_look_is_named():
    with pytest.raises(ValueError, match=r"no look for mine; charts\.py has one for fp64"):
        charts.color_scale([Format("mine", 4, 3)])


def test_a_chart_is_valid_in_a_notebook_and_brings_json_html_and_text(book_look):
    data = alt.renderers.get()(chart().to_dict())
    assert data.keys() == {charts.MIME, "text/html", "text/plain"}
    assert data["text/plain"] == "Chart: Two points"
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("display_data", data)])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


def test_a_chart_has_the_theme(book_look):
    spec = chart().to_dict()
    assert spec["usermeta"]["dark"] == charts.DARK
    assert spec["config"]["background"] == charts.PAPER


def test_colab_gets_html_alone(book_look, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    assert charts.render(chart().to_dict()).keys() == {"text/html", "text/plain"}


PRINT_ONE = """
import altair as alt, json
from sixteenbits import charts
charts.enable()
made = alt.Chart(alt.Data(values=[{"x": 1}])).mark_bar().encode(x="x:Q").properties(description="One bar")
print(json.dumps(alt.renderers.get()(made.to_dict())))
"""


def test_the_same_chart_gives_the_same_bytes():
    one, other = (subprocess.check_output([sys.executable, "-c", PRINT_ONE]) for _ in range(2))
    assert one == other


def test_importing_changes_nothing():
    code = "import altair as alt; before = alt.theme.active, alt.renderers.active; import sixteenbits.charts; " \
           "assert (alt.theme.active, alt.renderers.active) == before"
    subprocess.run([sys.executable, "-c", code], check=True)
