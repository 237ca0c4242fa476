"""Pictures of every page for people to look at: `python -m tools.screenshots FOLDER [PAGE ...]`.

Each page is taken whole, wide and phone-narrow, light and dark, from the book as it was built last.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from sphinx_external_toc.parsing import parse_toc_yaml

from tools.book import HTML, ROOT
from tools.browser import NARROW, SCHEMES, WIDE, Visit, launch, served


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
                    path = folder / f"{name.rsplit('/', 1)[-1]}-{width}-{scheme}.png"
                    visit.look(size, scheme).page.screenshot(path=path, full_page=True)
                    print(path, flush=True)
            for problem in [*visit.outside, *visit.errors]:
                print(f"  {name}: {problem}", flush=True)
            visit.context.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("python -m tools.screenshots FOLDER [PAGE ...]: say which folder the pictures go to")
    main(Path(sys.argv[1]), sys.argv[2:])
