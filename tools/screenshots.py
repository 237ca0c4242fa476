"""Pictures of every page for people to look at: `python -m tools.screenshots FOLDER [PAGE ...]`.

Each page is taken wide and phone-narrow, light and dark, from the book as it was built last. A long page becomes
several pictures, numbered from the top, so that each stays large enough to read.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from sphinx_external_toc.parsing import parse_toc_yaml

from tools.book import HTML, ROOT
from tools.browser import NARROW, SCHEMES, WIDE, Visit, launch, served

PART = 2600  # px


def take(visit: Visit, stem: Path) -> None:
    """Write the whole page, in parts where it is long."""
    height = visit.page.evaluate("document.documentElement.scrollHeight")
    width = visit.page.viewport_size["width"]
    for number, top in enumerate(range(0, height, PART), start=1):
        path = stem.with_name(f"{stem.name}-{number}.png")
        clip = {"x": 0, "y": top, "width": width, "height": min(PART, height - top)}
        visit.page.screenshot(path=path, full_page=True, clip=clip)
        print(path, flush=True)


def main(folder: Path, wanted: list[str]) -> None:
    """Write the pictures of the pages whose names are `wanted`, or of all."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in parse_toc_yaml(ROOT / "_toc.yml") if not wanted or name.rsplit("/", 1)[-1] in wanted]
    with sync_playwright() as playwright, served(HTML) as base:
        browser = launch(playwright)
        for name in names:
            visit = Visit.begin(browser, base).open(f"{name}.html")
            for width, size in (("wide", WIDE), ("narrow", NARROW)):
                for scheme in SCHEMES:
                    take(visit.look(size, scheme), folder / f"{name.rsplit('/', 1)[-1]}-{width}-{scheme}")
            for problem in [*visit.outside, *visit.errors]:
                print(f"  {name}: {problem}", flush=True)
            visit.context.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("python -m tools.screenshots FOLDER [PAGE ...]: say which folder the pictures go to")
    main(Path(sys.argv[1]), sys.argv[2:])
