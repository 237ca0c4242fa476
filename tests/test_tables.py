"""Tables as text and as HTML."""

import re

import pytest

from sixteenbits.tables import Table, format_table, percent, survey_table
from sixteenbits.tensors import survey

ROWS = [{"format": "FP16", "max": "65,504"}, {"format": "<b>", "max": 1}]


def test_text_is_aligned():
    assert repr(Table(ROWS, "Ranges")) == "Ranges\nformat     max\nFP16    65,504\n<b>          1"


def test_html_has_headers_and_no_markup_of_the_content():
    page = Table(ROWS, "a < b")._repr_html_()
    plain = re.sub(' style="[^"]*"', "", page)
    assert '<th scope="col">max</th>' in plain
    assert '<th scope="row">FP16</th><td>65,504</td>' in plain
    assert "<caption>a &lt; b</caption>" in plain
    assert "&lt;b&gt;" in page


def test_an_empty_table():
    assert repr(Table([])) == ""
    assert "<tr></tr>" in Table([])._repr_html_()


@pytest.mark.parametrize(("share", "text"), [
    (0, "0 %"), (1, "100 %"), (0.5, "50 %"), (0.01234, "1.23 %"), (1e-9, "< 0.001 %"), (0.99999, "> 99.9 %"),
    (float("nan"), "–"), (0.0001634, "0.0163 %"), (0.9996, "> 99.9 %"), (0.99949, "99.9 %"),
])
def test_percent_never_rounds_to_none_or_all(share, text):
    assert percent(share) == text


def test_formats_as_numpy_and_c_describe_them():
    rows = {row["format"]: row for row in format_table(["fp64", "fp32", "fp16"]).rows}
    assert [row["decimal digits"] for row in rows.values()] == [15, 6, 3]  # DBL_DIG, FLT_DIG, numpy.finfo.precision
    assert rows["FP16"]["max"] == "6.55e+04"
    assert rows["FP32"]["smallest subnormal"] == "1.4e-45"
    assert rows["FP32"]["decades"] == "76.5"
    assert rows["FP16"]["codes"] == "2^16"


def test_a_survey_as_a_row():
    table = survey_table([survey([1.0, 1e-9, 1e9], "fp16")], heads=["mine"])
    assert table.rows[0] == {"": "mine", "become zero": "33.3 %", "become subnormal": "0 %", "rounded": "0 %",
                             "exact": "33.3 %", "overflow": "33.3 %", "median error": "100 %",
                             "largest error": "infinite"}
