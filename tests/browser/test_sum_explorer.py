"""SumExplorer as a reader meets it: chosen from, clicked, stepped by keys, linked to, on a phone, in the dark."""

from __future__ import annotations

import json
import re

import pytest
from test_bit_explorer import ADDRESS, AXE, MARKER, PAGE, expect

from sixteenbits.widgets import SumExplorer
from sixteenbits.widgets.sum_explorer import WAYS

TRAITS = ("format", "data", "way", "length", "view", "seed", "ways", "sets", "formats", "colors")
ALL_DRAWN = "[...document.querySelectorAll('.sxs')].every(x => x.querySelectorAll('.sxs-way').length === 6)"
TARGETS = ".sxs select, .sxs-row, .sxs-views label, .sxs-length input"
SMALL = {"ones": [1.0] * 600, "tenths": [0.1] * 100}


@pytest.fixture
def explorers(chromium):
    """explorers(*widgets, fragment=...) -> a Playwright page that shows them, without any kernel."""
    contexts = []

    def show(*widgets, fragment="", width=1300, theme="light", live=False):
        states = [{name: value for name, value in widget.get_state().items() if name in TRAITS} for widget in widgets]
        html = PAGE.format(theme=theme, css=SumExplorer._css, esm=json.dumps(SumExplorer._esm), order=[0, 1],
                           states=json.dumps(states), marker="" if live else MARKER)
        context = chromium.new_context(viewport={"width": width, "height": 900}, has_touch=width < 500,
                                       permissions=["clipboard-read", "clipboard-write"])
        context.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(ADDRESS + (f"#{fragment}" if fragment else ""))
        page.wait_for_function(ALL_DRAWN)
        contexts.append(context)
        return page

    problems: list[str] = []
    yield show
    for context in contexts:
        context.close()
    assert not problems


def told(page, index: int = 0) -> str:
    """What a screen reader is told of an explorer."""
    return page.locator(".sxs").nth(index).locator("> [role=status]").inner_text()


def saved(page, name: str):
    return page.evaluate("name => models[0].saved[name]", name)


def errors(page) -> list[str]:
    """The errors of all ways, in the order of the rows."""
    return page.locator(".sxs").first.locator(".sxs-error").all_inner_texts()


def way_input(page, name: str):
    return page.locator(f".sxs input[value={name}]").first


def test_it_says_what_the_library_computes(explorers):
    widget = SumExplorer("bf16", terms=SMALL, length=600)
    page = explorers(widget)
    assert widget.result == 256
    assert "the sum is 256, exactly it is 600" in told(page)
    assert "344 of 599 additions (57 %) changed nothing; the last one that did was addition 255." in told(page)
    assert errors(page)[0] == "57.3 %"
    for way in WAYS.values():
        way_input(page, way.name).check()
        assert f"; {way.title}." in told(page)
        widget.way = way.name
        assert f"the sum is {widget.result:.7g}," in told(page)


def test_choices_of_format_terms_and_view(explorers):
    page = explorers(SumExplorer("bf16", terms=SMALL, length=600))
    page.get_by_label("Format").select_option("fp16")
    assert "600 terms in FP16: the sum is 600, exactly it is 600. No error at all." in told(page)
    page.get_by_label("Terms", exact=True).select_option("tenths")
    assert saved(page, "data") == "tenths"
    assert saved(page, "length") == 100
    assert "tenths;" in told(page)
    expect(page.locator(".sxs-bound")).to_have_count(2)
    page.get_by_label("size of the sum").check()
    assert saved(page, "view") == "sum"
    expect(page.locator(".sxs-exact")).to_have_count(1)


def test_the_number_of_terms_by_slider_and_by_click(explorers):
    page = explorers(SumExplorer("bf16", terms=SMALL, length=600))
    slider = page.get_by_label("Terms added")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    assert saved(page, "length") == 512
    expect(slider).to_have_attribute("aria-valuetext", "512 terms")
    page.keyboard.press("Home")
    assert "1 term in BF16" in told(page)
    box = page.locator(".sxs-chart").bounding_box()
    page.mouse.click(box["x"] + box["width"] - 20, box["y"] + 50)
    assert saved(page, "length") == 600
    page.mouse.move(box["x"] + box["width"] - 20, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 50, box["y"] + 50, steps=5)
    page.mouse.up()
    assert saved(page, "length") < 3


def test_keys_choose_the_way(explorers):
    page = explorers(SumExplorer("bf16", terms=SMALL, length=600))
    way_input(page, "sequential").focus()
    page.keyboard.press("ArrowDown")
    assert saved(page, "way") == "stochastic"
    page.keyboard.press("ArrowUp")
    assert saved(page, "way") == "sequential"


def test_links(explorers):
    page = explorers(SumExplorer(terms=SMALL, length=600), SumExplorer(terms=SMALL), fragment="2:fp16/kahan/2/64/sum")
    assert "600 terms in BF16" in told(page)
    assert "tenths; Kahan. 64 terms in FP16" in told(page, 1)
    way_input(page, "pairwise").check()
    page.wait_for_function("location.hash === '#bf16/pairwise/1/600/error'")
    page.get_by_role("button", name="Copy link").first.click()
    assert page.evaluate("navigator.clipboard.readText()").endswith("#bf16/pairwise/1/600/error")
    other = explorers(SumExplorer(terms=SMALL, length=600), fragment="exercises")
    assert "600 terms in BF16" in told(other)


def test_python_leads(explorers):
    page = explorers(SumExplorer(terms=SMALL, length=600), live=True)
    page.evaluate("models[0].set('format', 'fp8_e4m3fn')")
    assert "in FP8 E4M3: the sum is 16, exactly it is 600" in told(page)
    assert page.evaluate("location.hash") == ""


def test_overflow_is_an_infinite_error(explorers):
    page = explorers(SumExplorer("fp8_e4m3fn", terms={"large": [100.0] * 20}, way="pairwise", length=20))
    assert "the sum is nan, exactly it is 1920" in told(page)  # 100 is 96 in E4M3
    assert errors(page)[3] == "∞"


@pytest.mark.parametrize(("width", "theme"), [(1300, "light"), (390, "dark")])
def test_it_fits_and_is_accessible(explorers, width, theme):
    page = explorers(SumExplorer(terms=SMALL, length=600), width=width, theme=theme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width < 500:
        heights = page.eval_on_selector_all(TARGETS, "xs => xs.map(x => x.getBoundingClientRect().height)")
        assert min(heights) >= 42
    if not AXE.exists():
        pytest.skip("axe-core is missing: make book installs it")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run('.sxs').then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html)]))")
    assert not found, re.sub(r"\s+", " ", str(found))
