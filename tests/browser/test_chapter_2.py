"""Chapter 2 in a browser: its explorer says what Python says, and shows no control that needs a kernel."""

import json
import re

import pytest

from sixteenbits.figures_range import KINDS, SHOWN, kind_of, limits
from sixteenbits.formats import FORMATS

PAGE = "chapters/02_range_and_precision"
READOUT = re.compile(r"([\d.e-]+) % (" + "|".join(KINDS.values()) + ")")
SPECS = "() => [...document.querySelectorAll('script[type$=\"vegalite+json\"]')].map((script) => script.textContent)"


@pytest.fixture
def explorer(visit):
    """The chart with the recorded tensors, and its data."""
    page = visit(PAGE).page
    data = next(rows for spec in page.evaluate(SPECS) for rows in tables(json.loads(spec))
                if any(row.get("tensor") == "second moments" for row in rows))
    return page.locator(".chart", has=page.locator("select[name=tensor]")).first, data


def tables(node):
    """Every table of data in a chart's specification."""
    if isinstance(node, dict):
        if isinstance(node.get("values"), list) and node["values"] and isinstance(node["values"][0], dict):
            yield node["values"]
        node = list(node.values())
    if isinstance(node, list):
        for part in node:
            yield from tables(part)


def read(chart) -> dict[str, float]:
    """Kind -> percent, as the chart says it."""
    words = {label: kind for kind, label in KINDS.items()}
    found = [READOUT.fullmatch(text) for text in chart.locator("svg.marks text").all_text_contents()]
    return {words[match[2]]: float(match[1]) for match in found if match}


@pytest.mark.parametrize("shift", [0, 11])
def test_every_tensor_in_every_format(explorer, shift):
    chart, data = explorer
    slider = chart.locator("input[name=shift]")
    slider.fill(str(shift))
    for tensor in ("weights", "logit gradients", "second moments"):
        chart.locator("select[name=tensor]").select_option(tensor)
        for format in (FORMATS[name] for name in SHOWN):
            chart.locator("select[name=rule]").select_option(format.title)
            chart.page.wait_for_timeout(60)
            expected = dict.fromkeys(KINDS, 0.0)
            for row in data:
                if row["tensor"] == tensor and "exponent" in row:
                    expected[kind_of(row["exponent"] + shift, row["part"], limits(format))] += 100 * row["share"]
            shown = read(chart)
            assert shown == pytest.approx(expected, abs=0.06), f"{tensor} in {format}, times 2^{shift}"


def test_no_control_needs_a_kernel(visit):
    page = visit(PAGE).page
    assert page.get_by_text("Behind this page there is no kernel").count() == 1
    kept = page.locator(".jupyter-widgets")
    assert kept.locator(":is(.widget-upload, .widget-tab, .jupyter-widget-tab, .widget-button)").count() == 0


def test_the_bit_explorer_walks_over_the_edge(visit):
    page = visit(PAGE).page
    up = page.locator("button", has_text="+1 ulp").first
    up.click()
    assert page.get_by_text("0x7c00").first.is_visible()
