"""axe-core finds nothing serious on any page, light and dark, wide and narrow, with everything unfolded."""

import tomllib

import pytest

from bookfiles import ROOT, Page, pages
from tools.browser import NARROW, WIDE, Visit

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
KNOWN = tomllib.loads((ROOT / "tests/data/accessibility.toml").read_text(encoding="utf-8")).get("known", [])
EVERY_PAGE = [*pages(), *(Page(name, ROOT / "_config.yml") for name in ("search", "genindex"))]  # two are Sphinx's own
LOOKS = [(WIDE, "light"), (WIDE, "dark"), (NARROW, "light")]
REST_MS = 1500
# Serious and critical violations, each with the numbers of the entries of KNOWN that allow it. The inside of a chart
# is left out: it is one picture, whose name stands on the box around it.
RUN = """(known) => axe.run({include: [['html']], exclude: [['svg.marks']]}, {resultTypes: ['violations']})
  .then((results) => results.violations
    .filter((violation) => ['serious', 'critical'].includes(violation.impact))
    .flatMap((violation) => violation.nodes.map((node) => ({
      rule: violation.id, help: violation.help, where: node.target.join(' '), html: node.html,
      allowed: known.flatMap(({rule, selector}, index) =>
        rule === violation.id && document.querySelector(node.target.at(-1))?.matches(selector) ? [index] : []),
    }))))"""


def violations(visit: Visit, known: list[dict] = KNOWN) -> list[dict]:
    """What axe-core finds. A page on which it finds something gets time to come to rest and a second look."""
    visit.unfold().page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')}; }}")
    if found := visit.page.evaluate(RUN, known):
        visit.page.wait_for_timeout(REST_MS)
        found = visit.page.evaluate(RUN, known)
    return found


@pytest.fixture(scope="module")
def allowed():
    """Which entries of the list each page needs, for the pages looked at so far."""
    return {}


@pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.name)
def test_nothing_serious(page, visit, allowed):
    seen, problems, needed = visit(page.docname), [], set()
    for size, scheme in LOOKS:
        for one in violations(seen.look(size, scheme)):
            needed.update(one["allowed"])
            if not one["allowed"]:
                problems.append(f"{size[0]} px, {scheme}: {one['rule']} ({one['help']})\n"
                                f"    {one['where']}\n    {one['html'][:300]}")
    allowed[page] = needed
    assert not problems, "\n  ".join(["", *problems])


def test_nothing_is_listed_in_vain(allowed):
    if set(allowed) != set(EVERY_PAGE):
        pytest.skip("not every page was looked at")
    needed = set().union(*allowed.values())
    vain = [f"{entry['rule']} at {entry['selector']}" for index, entry in enumerate(KNOWN) if index not in needed]
    assert not vain, f"accessibility.toml lists what no page has any more: {vain}"


def test_axe_finds_what_is_wrong_and_not_what_is_listed(visit):
    """The tests above can fail."""
    seen = visit(pages()[0].docname)
    seen.page.evaluate("""() => document.querySelector('article').insertAdjacentHTML('beforeend',
      `<button class="nameless"></button><p style="color: #999; background: #aaa">gray</p>`)""")
    found = violations(seen, known=[{"rule": "button-name", "selector": ".nameless"}])
    assert {one["rule"]: one["allowed"] for one in found} == {"button-name": [0], "color-contrast": []}
