"""Where the book's files are, for the tests: the pages that `_toc.yml` lists, their sources, the built site.

Nothing here imports the library, so that a broken library cannot hide a broken page.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHAPTERS = ROOT / "chapters"
HTML = ROOT / "_build" / "html"


@dataclass(frozen=True)
class Page:
    """One page of the book.

    Args:
        docname: what `_toc.yml` calls it, for example `"chapters/01_inside_a_float"`.
        source: its file, a notebook or Markdown.
    """

    docname: str
    source: Path

    @property
    def name(self) -> str:
        """The file's name without ending: what `cited_facts.toml` and test ids call the page."""
        return self.docname.rsplit("/", 1)[-1]

    @property
    def is_notebook(self) -> bool:
        return self.source.suffix == ".ipynb"

    @property
    def number(self) -> int | None:
        """The chapter's number, from the `NN_` its name begins with; None for other pages."""
        digits = self.name.split("_", 1)[0]
        return int(digits) if "_" in self.name and digits.isdigit() else None

    @property
    def html(self) -> str:
        """The page's path below the site's root."""
        return f"{self.docname}.html"


def _docnames(node: dict) -> list[str]:
    """The files that a node of the table of contents names, in reading order."""
    own = [node[key] for key in ("root", "file") if key in node]
    below = [child for key in ("parts", "chapters", "sections", "entries", "subtrees") for child in node.get(key, [])]
    return own + [name for child in below for name in _docnames(child)]


def pages(root: Path = ROOT) -> list[Page]:
    """Every page that `_toc.yml` lists, in reading order.

    Raises:
        FileNotFoundError: a listed page has no source; the message names it.
    """
    found = []
    for docname in _docnames(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))):
        docname = docname.removesuffix(".md").removesuffix(".ipynb")
        sources = [root / f"{docname}{ending}" for ending in (".ipynb", ".md")]
        source = next((path for path in sources if path.exists()), None)
        if source is None:
            raise FileNotFoundError(f"_toc.yml lists {docname}, but there is neither {docname}.ipynb nor {docname}.md")
        found.append(Page(docname, source))
    return found


def chapters(root: Path = ROOT) -> list[Page]:
    """The pages that are numbered chapters, in reading order."""
    return [page for page in pages(root) if page.number is not None]


@contextlib.contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let one test process in; the others wait, and then find the work done."""
    folder = ROOT / "_build"
    folder.mkdir(exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
