"""Sphinx extension: what the pages say about the public repository comes from `repository` in `_config.yml`.

- `{{ repository }}` in a page's source is its address.
- A module of the library named in the text, as in `sixteenbits.codec`, links to its source there.
"""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

LIB = Path(__file__).resolve().parent.parent / "lib"
PACKAGE = "sixteenbits"


def insert_address(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write the repository's address where the page asks for it."""
    source[0] = source[0].replace("{{ repository }}", app.config.html_theme_options["repository_url"])


def link_modules(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Link each module of the library that the text names to its source."""
    for literal in list(doctree.findall(nodes.literal)):
        path = module_path(literal.astext())
        if path and not isinstance(literal.parent, nodes.reference | nodes.title):
            literal.replace_self(nodes.reference("", "", literal.deepcopy(), refuri=source_address(app, path)))


def module_path(name: str) -> Path | None:
    """The file of this module below `lib`, or None if the library has no such module."""
    if name.partition(".")[0] != PACKAGE:
        return None
    path = Path(*name.split("."))
    places = (path.with_suffix(".py"), path / "__init__.py")
    return next((place for place in places if (LIB / place).is_file()), None)


def source_address(app: Sphinx, path: Path) -> str:
    """Where a file below `lib` stands in the public repository."""
    options = app.config.html_theme_options
    return f"{options['repository_url']}/blob/{options['repository_branch']}/lib/{path.as_posix()}"


def setup(app: Sphinx) -> dict:
    app.connect("source-read", insert_address)
    app.connect("doctree-resolved", link_modules)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
