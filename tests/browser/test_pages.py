"""Every page of the built book, with every address outside it refused: it is alive, and it fits."""

from dataclasses import dataclass

import pytest

from bookfiles import pages
from tools.browser import NARROW, SCHEMES, WIDE, Visit

EVERY_PAGE = pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
# How many formulas, widgets and charts the page has, and how many of each are drawn.
PARTS = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const boxes = (type) => all(`script[type="application/${type}+json"]`).map((script) => script.parentElement);
  const seen = (element) => element && element.getBoundingClientRect().height > 10;
  const parts = {
    formulas: [all('.math'), (box) => box.querySelector('mjx-container') && !box.querySelector('mjx-merror')],
    widgets: [boxes('vnd.jupyter.widget-view'), (box) => seen(box.querySelector('.jupyter-widgets'))],
    charts: [boxes('vnd.vegalite'), (box) => seen(box.querySelector('svg.marks [class^="mark-"] > *'))],
  };
  return Object.fromEntries(Object.entries(parts).map(([name, [there, drawn]]) =>
    [name, [there.length, there.filter(drawn).length]]));
}"""
LABELS = """() => [...document.querySelectorAll('svg.marks')].map((chart) =>
  chart.closest('[role=graphics-document]')?.getAttribute('aria-label') ?? '')"""
# Elements that reach beyond the right edge, and that no scrolling box of their own holds.
TOO_WIDE = """() => [...document.querySelectorAll('body *')].filter((element) => {
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.right <= document.documentElement.clientWidth + 1) return false;
  for (let outer = element; outer !== document.body; outer = outer.parentElement) {
    const style = getComputedStyle(outer);
    if (style.position === 'fixed' || (outer !== element && style.overflowX !== 'visible')) return false;
  }
  return true;
}).slice(0, 5).map((element) => element.outerHTML.slice(0, 150))"""
DRAWING = "(control) => control.closest('.chart').querySelector('svg.marks').innerHTML"
MOVE = """(control) => {
  if (control.type === 'checkbox' || control.type === 'radio') return control.click();
  if (control.tagName === 'SELECT') control.selectedIndex = (control.selectedIndex + 1) % control.options.length;
  else control.value = control.value === control.max ? control.min : control.max;
  for (const type of ['input', 'change']) control.dispatchEvent(new Event(type, {bubbles: true}));
}"""


@dataclass
class Seen:
    """What one visit of a page showed."""

    parts: dict[str, list[int]]
    labels: list[str]
    too_wide: list[str]
    dead_controls: list[str]
    problems: list[str]


def width_problems(visit: Visit) -> list[str]:
    problems = []
    for size in (WIDE, NARROW):
        for scheme in SCHEMES:
            width = visit.look(size, scheme).unfold().page.evaluate("document.documentElement.scrollWidth")
            if width > size[0]:
                problems.append(f"{width} px on a screen of {size[0]}, {scheme}: {visit.page.evaluate(TOO_WIDE)}")
    return problems


def dead_controls(visit: Visit) -> list[str]:
    """The sliders and menus of charts that change nothing in their chart."""
    dead = []
    for control in visit.page.locator(".vega-bind :is(input, select)").all():
        before = control.evaluate(DRAWING)
        control.evaluate(MOVE)
        visit.page.wait_for_timeout(100)
        if control.evaluate(DRAWING) == before:
            dead.append(control.get_attribute("name") or control.evaluate("(control) => control.outerHTML"))
    return dead


@pytest.fixture(scope="module")
def tour(chromium, site):
    """What a page shows: `tour(page)`. Each page is opened once, looked at in every size and color, and tried."""
    seen = {}

    def look(page) -> Seen:
        if page not in seen:
            visit = Visit.begin(chromium, site).open(page.html).unfold()
            parts, labels = visit.page.evaluate(PARTS), visit.page.evaluate(LABELS)
            dead, wide = dead_controls(visit), width_problems(visit)
            seen[page] = Seen(parts, labels, wide, dead, [*visit.outside, *visit.errors])
            visit.context.close()
        return seen[page]

    return look


def all_is_drawn(parts: dict[str, list[int]]) -> None:
    for name, (there, drawn) in parts.items():
        assert drawn == there, f"{drawn} of {there} {name} are drawn"


@EVERY_PAGE
def test_formulas_widgets_and_charts_are_drawn(page, tour):
    all_is_drawn(tour(page).parts)


@EVERY_PAGE
def test_nothing_goes_wrong_and_nothing_is_asked_for_outside(page, tour):
    assert not tour(page).problems


@EVERY_PAGE
def test_it_fits_wide_and_narrow_light_and_dark(page, tour):
    assert not tour(page).too_wide


@EVERY_PAGE
def test_every_control_of_a_chart_changes_it(page, tour):
    assert not tour(page).dead_controls


@EVERY_PAGE
def test_charts_have_words_for_those_who_cannot_see_them(page, tour):
    assert all(tour(page).labels)


@EVERY_PAGE
def test_it_is_as_alive_when_opened_from_the_disk(page, visit, tour):
    seen = visit(page.docname, files=True).unfold()
    parts = seen.page.evaluate(PARTS)
    all_is_drawn(parts)
    assert parts == tour(page).parts
    assert not [*seen.outside, *seen.errors]


def test_a_visit_sees_what_goes_wrong(visit):
    """The tests above can fail."""
    seen = visit(pages()[0].docname)
    assert not [*seen.outside, *seen.errors, *width_problems(seen)]
    seen.page.evaluate("fetch('https://example.org/x.js').catch(() => 0)")
    seen.page.evaluate("fetch('nothing.js')")
    seen.page.evaluate("setTimeout(() => { throw new Error('broken') })")
    seen.page.evaluate("console.error('a complaint')")
    seen.page.evaluate("""document.querySelector('article').insertAdjacentHTML('beforeend', `
      <p style="width: 2000px">wide</p><div class="chart"><div class="vega-bind"><input type="range" name="dead"></div>
      <script type="application/vnd.vegalite+json">{}</script><svg class="marks"></svg></div>`)""")
    seen.page.wait_for_timeout(200)
    assert seen.outside == ["https://example.org/x.js"]
    assert all(any(word in error for error in seen.errors) for word in ("broken", "404", "a complaint"))
    assert dead_controls(seen) == ["dead"]
    assert seen.page.evaluate(PARTS)["charts"] == [1, 0]
    assert "" in seen.page.evaluate(LABELS)
    assert any("2000px" in problem for problem in width_problems(seen))
