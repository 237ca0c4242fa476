"""axe-core finds nothing serious on any page, wide and narrow, light and dark, with everything unfolded."""

import tomllib

import pytest

from bookfiles import ROOT, Page, pages
from tools.browser import NARROW, SCHEMES, WIDE

AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
KNOWN = tomllib.loads((ROOT / "tests/data/accessibility.toml").read_text(encoding="utf-8")).get("known", [])
MADE_BY_SPHINX = [Page(name, ROOT / "_config.yml") for name in ("search", "genindex")]
# Serious and critical violations; each element with the numbers of the entries of KNOWN that allow it.
RUN = """(known) => axe.run(document, {resultTypes: ['violations']}).then((results) => results.violations
  .filter((violation) => ['serious', 'critical'].includes(violation.impact))
  .flatMap((violation) => violation.nodes.map((node) => ({
    rule: violation.id, help: violation.help, where: node.target.join(' '), html: node.html,
    allowed: known.flatMap(({rule, selector}, index) =>
      rule === violation.id && document.querySelector(node.target.at(-1))?.matches(selector) ? [index] : []),
  }))))"""


def violations(visit) -> list[dict]:
    visit.unfold().page.evaluate(f"() => {{ {AXE.read_text(encoding='utf-8')}; }}")
    return visit.page.evaluate(RUN, KNOWN)


@pytest.fixture(scope="module")
def allowed():
    """Which entries of the list have allowed something so far."""
    return set()


@pytest.mark.parametrize("page", pages() + MADE_BY_SPHINX, ids=lambda page: page.name)
def test_nothing_serious(page, visit, allowed):
    seen, problems = visit(page.docname), []
    for size in (WIDE, NARROW):
        for scheme in SCHEMES:
            for one in violations(seen.look(size, scheme)):
                allowed.update(one["allowed"])
                if not one["allowed"]:
                    problems.append(f"{size[0]} px, {scheme}: {one['rule']} ({one['help']})\n"
                                    f"    {one['where']}\n    {one['html'][:300]}")
    assert not problems, "\n  ".join(["", *problems])


def test_nothing_is_listed_in_vain(allowed, request):
    if any(f"[{page.name}]" in request.config.getoption("keyword", "") for page in pages()):
        pytest.skip("only some pages were looked at")
    vain = [f"{entry['rule']} at {entry['selector']}" for index, entry in enumerate(KNOWN) if index not in allowed]
    assert not vain, f"accessibility.toml lists what no page has any more: {vain}"


def test_axe_finds_what_is_wrong(visit):
    """The test above can fail: a button without a name, gray on gray, a list with a wrong child."""
    seen = visit("chapters/index")
    seen.page.evaluate("""() => document.querySelector('article').insertAdjacentHTML('beforeend', `<button></button>
      <p style="color: #999; background: #aaa">gray</p><ul role="list"><div role="button">x</div></ul>`)""")
    assert {one["rule"] for one in violations(seen)} >= {"button-name", "color-contrast"}
