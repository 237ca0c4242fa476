"""Sphinx extension: mends what the theme and the bibliography leave inaccessible. The browser tests look with axe-core.

Each mend is a piece of a page and what takes its place. What would need more than that is listed, with its reason, in
`tests/data/accessibility.toml`.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

MENDS = [(re.compile(pattern), replacement) for pattern, replacement in [
    # The search button is called "Search" and reads "Search Ctrl+K": somebody who speaks to the browser says what it
    # reads. Without a label of its own, a button is called what it reads. (label-content-name-mismatch)
    (r'(<button class="btn search-button-field[^"]*") title="Search" aria-label="Search"', r"\1"),
    # The book's name above the sidebar's menu stands in no landmark. (region)
    (r'<div class="sidebar-primary-items__start sidebar-primary__section">',
     '<div class="sidebar-primary-items__start sidebar-primary__section" role="region" aria-label="Book">'),
    # Entries of a list must be list items; the role that docutils gives them is deprecated. (aria-required-children)
    (r'role="doc-biblioentry"', 'role="listitem"'),
]]


def mended(page: str) -> str:
    """The page's HTML with every mend made."""
    for pattern, replacement in MENDS:
        page = pattern.sub(replacement, page)
    return page


def mend_pages(app: Sphinx, exception: Exception | None) -> None:
    """Mend every page of the site in its file."""
    if exception is not None or app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if (better := mended(text)) != text:
            path.write_text(better, encoding="utf-8")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", mend_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
