"""Fixtures for tests that open the built pages in a headless Chromium; `tools/browser.py` says what it sees.

`visit("chapters/01_inside_a_float")` opens a page over http and waits until formulas, widgets and charts are drawn.
"""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import sync_playwright

from tools.browser import HOW_TO_GET_CHROMIUM, Visit, executable, launch, served


@pytest.fixture(scope="session")
def site(book):
    """The address of the built book, served on this machine only."""
    with served(book) as address:
        yield address


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium. Without one the tests are skipped; in CI that is a failure, since there they must run."""
    with sync_playwright() as playwright:
        if executable(playwright) is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_GET_CHROMIUM)
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, request):
    """Open pages: `visit(docname)` over http, `visit(docname, files=True)` from the disk. Gives a `Visit`.

    A docname is what `_toc.yml` calls the page; `fragment` is what follows the `#`; other arguments (`size`, `scheme`,
    `has_touch`, ...) go to `Visit.begin`.
    """
    visits = []

    def open_page(docname: str, *, files: bool = False, fragment: str = "", **options) -> Visit:
        base = request.getfixturevalue("book").as_uri() if files else request.getfixturevalue("site")
        visits.append(Visit.begin(chromium, base, **options))
        return visits[-1].open(f"{docname}.html" + (f"#{fragment}" if fragment else ""))

    yield open_page
    for one in visits:
        one.context.close()
