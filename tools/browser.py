"""A headless Chromium that sees the built book and nothing else: for the browser tests and for `tools.screenshots`."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Response, Route
from playwright.sync_api import TimeoutError as PlaywrightTimeout

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
HOW_TO_GET_CHROMIUM = ("no Chromium found, so the pages were not opened: install Debian's (apt-get install chromium), "
                       "or Playwright's own (.venv/bin/playwright install chromium), and run make test again")
WIDE, NARROW = (1300, 1000), (390, 844)
SCHEMES = ("light", "dark")
DRAWING_MS = 100  # what is drawn may ask for a font more, or fail
SETTLING_MS = 400  # the theme waits a little less before it acts on a new size
UNFOLD = """() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  for (const button of document.querySelectorAll('.toggle-button-hidden')) button.click();
}"""
# True once formulas, widgets and charts of the page are drawn. Each part is asked for only where the page has it.
SETTLED = """() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const math = all('.math').every((formula) => formula.querySelector('mjx-container'));
  const widgets = all('script[type="application/vnd.jupyter.widget-view+json"]')
    .every((script) => script.parentElement.querySelector('.jupyter-widgets'));
  const charts = all('script[type="application/vnd.vegalite+json"]')
    .every((script) => script.parentElement.querySelector('svg.marks'));
  const files = document.readyState === 'complete' && document.fonts.status === 'loaded';
  return files && math && widgets && charts;
}"""


def executable(playwright: Playwright) -> str | None:
    """Where Chromium is: what the variable CHROMIUM names, a system's, or Playwright's own; None if there is none."""
    named = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), playwright.chromium.executable_path]
    return next((path for path in named if path and Path(path).exists()), None)


def launch(playwright: Playwright) -> Browser:
    """Start Chromium.

    Raises:
        FileNotFoundError: there is none; the message says how to get one.
    """
    if (path := executable(playwright)) is None:
        raise FileNotFoundError(HOW_TO_GET_CHROMIUM)
    return playwright.chromium.launch(executable_path=path, args=FLAGS)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        """Say nothing: what a page asked for is recorded in its `Visit`."""


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder on this machine alone, while the block lasts; give its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Visit:
    """A page that was opened, and what it asked for. `Visit.begin` makes one.

    Attributes:
        page: the Playwright page.
        base: the address of the book's root.
        outside: addresses asked for that are not the book's; each was refused.
        errors: errors in the console, uncaught exceptions, answers with status 400 and above, parts never drawn.
        files: what the page fetched of the book, as paths below its root, in order.
    """

    page: Page
    context: BrowserContext
    base: str
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, browser: Browser, base: str, *, size: tuple[int, int] = WIDE, scheme: str = "light",
              **options) -> Visit:
        """A visit in a context of its own, so that nothing is cached or remembered. `options` go to the context."""
        width, height = size
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                      reduced_motion="reduce", **options)
        visit = cls(context.new_page(), context, base)
        context.route("**/*", visit._route)
        visit.page.on("console", visit._console)
        visit.page.on("pageerror", lambda error: visit.errors.append(f"exception: {error}"))
        visit.page.on("response", visit._response)
        return visit

    def open(self, path: str) -> Visit:
        """Go to `path` below the book's root and wait until the page has settled."""
        self.page.goto(f"{self.base}/{path}", wait_until="load")
        return self.settle()

    def settle(self, timeout_s: float = 60) -> Visit:
        """Wait until formulas, widgets and charts are drawn and every font that they ask for is there."""
        try:
            self.page.wait_for_function(SETTLED, timeout=timeout_s * 1000)
        except PlaywrightTimeout:
            self.errors.append(f"after {timeout_s} s not every formula, widget and chart is drawn")
        self.page.wait_for_timeout(DRAWING_MS)
        return self

    def look(self, size: tuple[int, int] = WIDE, scheme: str = "light") -> Visit:
        """Show the same page in another size and color scheme."""
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme=scheme)
        self.page.wait_for_function("(scheme) => document.documentElement.dataset.theme === scheme", arg=scheme)
        self.page.wait_for_timeout(SETTLING_MS)
        return self.settle()

    def unfold(self) -> Visit:
        """Open everything that is folded."""
        self.page.evaluate(UNFOLD)
        self.page.wait_for_timeout(SETTLING_MS)
        return self

    def _route(self, route: Route) -> None:
        address = route.request.url
        if address.startswith(f"{self.base}/"):
            self.files.append(address.removeprefix(f"{self.base}/").partition("#")[0].partition("?")[0])
        elif not address.startswith(("data:", "blob:")):
            self.outside.append(address)
            return route.abort()
        return route.continue_()

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"console: {message.text}")

    def _response(self, answer: Response) -> None:
        if answer.status >= 400:
            self.errors.append(f"status {answer.status}: {answer.url}")
