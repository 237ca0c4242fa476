"""RoundingExplorer as a reader meets it: dragged, typed at, stepped by keys, linked to, on a phone, in the dark."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from test_bit_explorer import ADDRESS, AXE, MARKER, PAGE, expect

from sixteenbits import codec
from sixteenbits.formats import FORMATS, Format
from sixteenbits.widgets import RoundingExplorer

TRAITS = ("format", "others", "number", "rounding", "overflow", "zoom", "seed", "formats", "colors")


@pytest.fixture
def explorers(chromium):
    """explorers(*widgets, fragment=...) -> a Playwright page that shows them, without any kernel."""
    contexts = []

    def show(*widgets, fragment="", width=1300, theme="light", live=False):
        states = [{name: value for name, value in widget.get_state().items() if name in TRAITS} for widget in widgets]
        html = PAGE.format(theme=theme, css=RoundingExplorer._css, esm=json.dumps(RoundingExplorer._esm), order=[0, 1],
                           states=json.dumps(states), marker="" if live else MARKER)
        context = chromium.new_context(viewport={"width": width, "height": 900}, has_touch=width < 500,
                                       permissions=["clipboard-read", "clipboard-write"])
        context.route("**/*", lambda route: route.fulfill(body=html, content_type="text/html"))
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(ADDRESS + (f"#{fragment}" if fragment else ""))
        page.wait_for_function("window.ready && document.querySelector('.sxb-line > *')")
        contexts.append(context)
        return page

    problems: list[str] = []
    yield show
    for context in contexts:
        context.close()
    assert not problems


def told(page, index: int = 0) -> str:
    """What a screen reader is told of an explorer."""
    return page.locator(".sxr").nth(index).locator("> [role=status]").inner_text()


def number(page):
    return page.get_by_label("Number or bits").first


def saved(page, name: str):
    return page.evaluate("name => models[0].saved[name]", name)


def goals(page) -> list[str]:
    """Where each of the six modes sends the number, in the order of the rows."""
    return page.locator(".sxr").first.locator("label .sxb-goes").all_inner_texts()


def test_six_modes_side_by_side(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=0.3))
    assert goals(page) == ["0.3125", "0.3125", "0.28125", "0.3125", "0.28125", "0.3125 (60 %) or 0.28125 (40 %)"]
    number(page).fill("-0.3")
    assert goals(page)[2:5] == ["−0.28125", "−0.28125", "−0.3125"]
    number(page).fill("0.296875")
    expect(page.locator(".sxb-sentence")).to_contain_text("A tie: exactly halfway. 0.3125 has the even code 0x2a")
    page.locator("input[value=toward_zero]").check()
    assert told(page) == "0.296875, a tie, rounded toward zero in FP8 E4M3: 0.28125"
    assert saved(page, "rounding") == "toward_zero"


def test_dragging_by_mouse(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=0.3))
    box = page.locator(".sxb-slider").bounding_box()
    seen, y = set(), box["y"] + 60
    page.mouse.move(box["x"] + 0.5 * box["width"], y)
    page.mouse.down()
    for i in range(50):
        page.mouse.move(box["x"] + (0.5 + i / 100) * box["width"], y)
        seen.add(number(page).input_value())
    page.mouse.up()
    values = sorted(float(x) for x in seen)
    assert values[0] < 0.29
    assert values[-1] > 0.4
    assert {0.28125, 0.296875, 0.3125, 0.328125} <= set(values), "values and ties can be met exactly"
    assert told(page).startswith(number(page).input_value())


def test_keys_move_the_number(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=1))
    page.get_by_role("slider").focus()
    for key, want in [("ArrowRight", "1.015625"), ("ArrowUp", "1.03125"), ("ArrowLeft", "1.015625"),
                      ("Shift+ArrowRight", "1.140625"), ("Home", "1.0625"), ("End", "1.1875"), ("PageUp", "2.375"),
                      ("PageDown", "1.1875")]:
        page.keyboard.press(key)
        expect(number(page)).to_have_value(want)
    page.keyboard.press("-")
    assert saved(page, "zoom") == 1
    page.keyboard.press("+")
    assert saved(page, "zoom") == 0
    assert "1.1875" in page.get_by_role("slider").get_attribute("aria-valuetext")


def test_across_zero_with_both_signs(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value="2^-10"))
    page.get_by_role("button", name="zero", exact=True).click()
    assert goals(page)[0] == "0"
    page.get_by_role("button", name="± changes the sign").click()
    assert goals(page)[:5] == ["−0", "−0", "−0", "−0", "−0.001953125"]
    expect(page.locator(".sxb-region-subnormal")).to_have_count(1)
    number(page).fill("-0")
    assert set(goals(page)) == {"−0"}
    page.get_by_label("Format", exact=True).select_option("fp8_e4m3fnuz")
    assert set(goals(page)) == {"0"}


def test_three_answers_to_an_overflow(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=470))
    cards = page.locator(".sxb-card")
    expect(cards).to_have_text(["saturate448", "go to infinityno infinity in this format", "become NaN (own rule)NaN"])
    assert goals(page) == ["NaN", "NaN", "448", "NaN", "448", "NaN (68.8 %) or 448 (31.3 %)"]
    expect(page.locator(".sxb-used dt")).to_have_text("become NaN (own rule)")
    page.get_by_label("Overflow", exact=True).select_option("saturate")
    assert set(goals(page)) == {"448"}
    expect(page.locator(".sxb-used dt")).to_have_text("saturate")
    page.get_by_label("Overflow", exact=True).select_option("ieee")
    page.get_by_label("Format", exact=True).select_option("fp16")
    number(page).fill("65520")
    expect(cards).to_have_text(["saturate65504", "go to infinity (own rule)∞", "become NaNNaN"])
    number(page).fill("1")
    expect(page.locator(".sxb-part .sxb-note").last).to_contain_text("nothing overflows")


def test_draws_are_the_librarys(explorers):
    page = explorers(RoundingExplorer("bf16", value=1.001, seed=7))
    for _ in range(3):
        page.get_by_role("button", name="Draw 100").click()
    x = np.full(300, 1.001)
    ups = int((codec.round_to(x, "bf16", "stochastic", rng=7) > 1).sum())
    expect(page.locator(".sxb-bar-drawn")).to_have_attribute("aria-label", f"drawn: 1: {300 - ups}, 1.0078125: {ups}")
    expect(page.locator(".sxb-bar-chance")).to_have_attribute("aria-label", "chances: 1: 87.2 %, 1.0078125: 12.8 %")
    page.get_by_role("button", name="Start again").click()
    expect(page.locator(".sxb-bar-drawn")).to_have_attribute("aria-label", "drawn: none")
    number(page).fill("1")
    expect(page.get_by_role("button", name="Draw 100")).to_be_disabled()


def test_other_formats_and_ones_own(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=0.3, others=["fp16"]))
    rows = page.locator(".sxb-part .sxb-row")
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="FP4 E2M1").click()
    expect(rows).to_have_text([re.compile(r"FP16.*0\.30004"), re.compile(r"FP4 E2M1.*0\.5")])
    page.get_by_role("button", name="FP16").click()
    assert [f["name"] for f in saved(page, "others")] == ["fp4_e2m1fn"]
    page.get_by_label("Format", exact=True).select_option("own")
    page.locator(".sxb-own").get_by_label("Mantissa bits").fill("1")
    assert goals(page)[0] == "0.25"
    assert told(page).endswith("in E4M1: 0.25")


@pytest.mark.parametrize("format", [*FORMATS.values(), Format("e3m0", 3, 0, nan="none", subnormals=False),
                                    Format("e4m4u", 4, 4, nan="none", signed=False), Format("e8m5far", 8, 5, bias=700)],
                         ids=str)
def test_every_format_everywhere(explorers, format):
    page = explorers(RoundingExplorer(format, value=1))
    for place in ("zero", "smallest normal", "one", "largest value"):
        page.get_by_role("button", name=place, exact=True).click()
        for key in ("ArrowRight", "Home", "End", "PageUp", "+", "-", "-"):
            page.get_by_role("slider").press(key)
    for text in ("-1e30", "1e-30", "0", "-0", "nan", "-inf", "1/3"):
        number(page).fill(text)
    for mode in codec.ROUNDINGS:
        page.locator(f"input[value={mode}]").check()
        assert all(goals(page))


# -- links and traits --------------------------------------------------------------------------------------------------


def test_the_address_follows_and_leads_back(explorers):
    first, second = RoundingExplorer("fp8_e4m3fn", value=0.3), RoundingExplorer("bf16", value=1)
    page = explorers(first, second)
    page.locator(".sxr").nth(1).locator("input[value=stochastic]").check()
    expect(page).to_have_url(re.compile(r"#2:round/bf16/1/stochastic/ieee/0/$"))
    page.locator(".sxr").nth(0).get_by_role("button", name="FP16").click()
    expect(page).to_have_url(re.compile(r"#round/fp8_e4m3fn/0\.3/nearest_even/ieee/0/fp16$"))
    assert told(page, 1) == "1, rounded stochastically in BF16: 1"
    again = explorers(first, second, fragment="2:round/fp4_e2m1fn/2.5/nearest_away/saturate/1/fp16%2Bbf16")
    again.wait_for_function("document.querySelectorAll('.sxr > [role=status]')[1].textContent.includes('FP4')")
    assert told(again, 1) == "2.5, a tie, rounded to nearest, ties away from zero in FP4 E2M1: 3"
    assert told(again, 0).startswith("0.3, rounded to nearest, ties to even in FP8 E4M3")


def test_a_notebooks_address_is_left_alone(explorers):
    page = explorers(RoundingExplorer("fp16", value=1), live=True, fragment="scrollTo=abc")
    page.get_by_role("button", name="double").click()
    page.wait_for_timeout(400)
    assert page.url.endswith("#scrollTo=abc")
    expect(page.get_by_role("button", name="Copy link")).to_have_count(0)


def test_it_follows_the_traits_and_they_follow_it(explorers):
    page = explorers(RoundingExplorer("fp16", value=0.1))
    page.evaluate("models[0].set('rounding', 'toward_zero')")
    page.evaluate("models[0].set('number', '1/3')")
    assert told(page) == "1/3, rounded toward zero in FP16: 0.333251953125"
    page.get_by_role("button", name="BF16").click()
    twin = RoundingExplorer()
    twin.set_state({name: saved(page, name) for name in TRAITS[:7]})
    assert (twin.format, twin.others, twin.number, twin.rounding) == (
        FORMATS["fp16"], [FORMATS["bf16"]], "1/3", "toward_zero")


# -- looks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 390, 320])
def test_fits_and_is_accessible(explorers, width, theme):
    if not AXE.exists():
        pytest.skip("axe-core is missing: make book installs it")
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=470, others=["fp16", "fp4_e2m1fn"]),
                     RoundingExplorer("fp16", value="1e-8", rounding="stochastic"), width=width, theme=theme)
    page.get_by_role("button", name="Draw 100").nth(1).click()
    number(page).fill("wrong")
    number(page).press("Enter")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate(
        "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.target.join(' '))]))")
    assert violations == []


def test_targets_on_a_phone(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=0.3), width=390)
    small = page.evaluate("""[...document.querySelectorAll('.sxr :is(button, select, label.sxb-row, [role=slider])')]
        .filter((e) => e.offsetParent).map((e) => [e.outerHTML, e.getBoundingClientRect()])
        .filter(([, box]) => box.width < 43.5 || box.height < 43.5).map(([html]) => html)""")
    assert small == []


def test_a_finger_drags_and_the_page_still_scrolls(explorers):
    page = explorers(RoundingExplorer("fp8_e4m3fn", value=0.3), width=390)
    slider = page.locator(".sxb-slider")
    assert slider.evaluate("e => getComputedStyle(e).touchAction") == "pan-y"
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.9 * box["width"], box["y"] + 40)
    assert float(number(page).input_value()) > 0.35
