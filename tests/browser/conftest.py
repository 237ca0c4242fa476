"""A headless Chromium that sees the built book and nothing else.

`visit("chapters/01_inside_a_float")` opens a page and waits until it has settled. What comes back is a `Visit`: the
Playwright page, and what went wrong on the way (addresses asked for outside, errors in the console).
"""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response, Route, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
WIDE, NARROW = (1300, 1000), (390, 844)
HOW_TO_GET_CHROMIUM = ("no Chromium found, so the pages were not opened: install Debian's (apt-get install chromium), "
                       "or Playwright's own (.venv/bin/playwright install chromium), and run make test again")
# True once formulas, widgets and charts of the page are drawn. Each part is asked for only where the page has it.
SETTLED = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const math = !all('.math').length || (window.MathJax?.startup?.promise && all('mjx-container').length > 0);
  const widgets = all('script[type="application/vnd.jupyter.widget-view+json"]')
    .every((script) => script.parentElement.querySelector('.jupyter-widgets, .widget-subarea > *'));
  const charts = all('script[type^="application/vnd.vegalite"]')
    .every((script) => script.parentElement.querySelector('.vega-embed svg, .vega-embed canvas'));
  return document.readyState === 'complete' && math && widgets && charts;
}"""


@dataclass
class Visit:
    """A page that was opened, and what it asked for.

    Attributes:
        page: the Playwright page.
        outside: addresses asked for that are not the book's; each was refused.
        errors: errors in the console, uncaught exceptions, and answers with status 400 and above.
        files: addresses of the book's own files that the page fetched, in order.
    """

    page: Page
    context: BrowserContext
    base: str
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def open(self, path: str) -> Visit:
        """Go to `path` below the book's root and wait until the page has settled."""
        self.page.goto(f"{self.base}/{path}", wait_until="load")
        return self.settle()

    def settle(self, timeout_s: float = 20) -> Visit:
        """Wait until formulas, widgets and charts are drawn; what is missing then shows in the tests' own checks."""
        try:
            self.page.wait_for_function(SETTLED, timeout=timeout_s * 1000)
        except PlaywrightTimeout:
            self.errors.append(f"not drawn after {timeout_s} s: formulas, widgets or charts are missing")
        self.page.wait_for_load_state("networkidle")
        return self

    def look(self, width: int, height: int, scheme: str) -> Visit:
        """Show the same page in another size and color scheme (`"light"` or `"dark"`)."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function("(scheme) => document.documentElement.dataset.theme === scheme", arg=scheme)
        return self

    def watch(self) -> Visit:
        """Begin to record, and refuse every address but the book's own."""
        self.context.route("**/*", self._route)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(f"exception: {error}"))
        self.page.on("response", self._response)
        return self

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text}")

    def _response(self, answer: Response) -> None:
        if answer.status >= 400:
            self.errors.append(f"status {answer.status}: {answer.url}")

    def _route(self, route: Route) -> None:
        address = route.request.url
        if address.startswith((self.base, "data:", "blob:")):
            if address.startswith(self.base):
                self.files.append(address.split("#")[0].split("?")[0])
            return route.continue_()
        self.outside.append(address)
        return route.abort()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Keep the tests' output to the tests."""


@pytest.fixture(scope="session")
def site(book: Path):
    """The address of the built book, served on this machine only."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=book)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def _executable(playwright) -> str | None:
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in named if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium. Without one the test is skipped; in CI that is a failure, since there it must run."""
    with sync_playwright() as playwright:
        executable = _executable(playwright)
        if executable is None:
            (pytest.fail if os.environ.get("CI") else pytest.skip)(HOW_TO_GET_CHROMIUM)
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium, request):
    """Open pages: `visit(docname)` over http, `visit(docname, files=True)` from the disk. `options` go to the context.

    A docname is what `_toc.yml` calls the page; `fragment` is what follows the `#`.
    """
    contexts = []

    def open_page(docname: str, *, files: bool = False, width: int = WIDE[0], height: int = WIDE[1],
                  scheme: str = "light", fragment: str = "", **options) -> Visit:
        base = request.getfixturevalue("book").as_uri() if files else request.getfixturevalue("site")
        context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                       reduced_motion="reduce", **options)
        contexts.append(context)
        address = f"{docname}.html" + (f"#{fragment}" if fragment else "")
        return Visit(context.new_page(), context, base).watch().open(address)

    yield open_page
    for context in contexts:
        context.close()
