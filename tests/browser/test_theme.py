"""What the theme offers around the pages: the launch button, search, the color mode, links."""

import re
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from bs4 import BeautifulSoup

from bookfiles import ROOT, pages
from tools.browser import SCHEMES


def soup(path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_launch_button_opens_the_chapter_on_colab(page, book):
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]
    repository = settings["url"].removeprefix("https://github.com/")
    right = f"https://colab.research.google.com/github/{repository}/blob/{settings['branch']}/{page.docname}.ipynb"
    links = {a["href"] for a in soup(book / page.html).select("a[href*='colab.research.google.com']")}
    assert links == ({right} if page.is_notebook else set())


@pytest.mark.parametrize("files", [False, True], ids=["http", "file"])
def test_search_finds_pages(files, visit):
    seen = visit(pages()[0].docname, files=files)
    seen.page.keyboard.press("Control+k")
    seen.page.locator("input[type=search]:visible").first.fill("subnormal")
    seen.page.keyboard.press("Enter")
    results = seen.page.locator("#search-results li a")
    results.first.wait_for()
    assert any("glossary" in link.get_attribute("href") for link in results.all())
    assert not seen.outside
    if not files:  # from the disk the browser refuses the summaries below the results, and says so in the console
        assert not seen.errors


def test_the_color_mode_can_be_chosen_and_is_kept(visit):
    seen, shown = visit(pages()[0].docname), set()
    button = seen.page.locator(".theme-switch-button:visible").first
    for _ in range(3):
        button.click()
        shown.add(seen.page.evaluate("document.documentElement.dataset.theme"))
    assert shown == set(SCHEMES)
    while seen.page.evaluate("document.documentElement.dataset.mode") != "dark":
        button.click()
    seen.open(pages()[1].html)
    assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert not [*seen.outside, *seen.errors]


def dead_links(site) -> list[str]:
    """Links from one page of the site to a file or an anchor that is not there."""
    soups = {path: soup(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    anchors = {path: {tag["id"] for tag in parsed.select("[id]")} for path, parsed in soups.items()}
    dead = []
    for path, parsed in soups.items():
        for href in {link["href"] for link in parsed.select("a[href]")}:
            target, fragment = urldefrag(href)
            if re.match(r"[a-z]+:", target):
                continue
            place = (path.parent / unquote(target)).resolve() if target else path
            if not place.exists() or (fragment and unquote(fragment) not in anchors.get(place, {fragment})):
                dead.append(f"{path.relative_to(site)}: {href}")
    return sorted(dead)


def test_every_link_inside_the_book_leads_somewhere(book):
    assert not dead_links(book)


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there">1</a><a href="b.html#here">2</a><a href="c.html">3</a>')
    (tmp_path / "b.html").write_text('<p id="here"><a href="https://example.org/">4</a><a href="#gone">5</a></p>')
    assert dead_links(tmp_path) == ["a.html: b.html#there", "a.html: c.html", "b.html: #gone"]
