"""What several test modules need: the executed chapters and the built book. Both are made by the build itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bookfiles import HTML, ROOT, one_at_a_time, pages

INPUTS = ("_config.yml", "_toc.yml", "package-lock.json", "requirements.txt", "_ext", "_static", "chapters", "lib",
          "tools")


EXECUTE = "from tools.book import notebooks; from tools.execute import execute_all; execute_all(notebooks())"


def _run(what: str, *arguments: str) -> None:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{what}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"


@pytest.fixture(scope="session")
def executed():
    """The executed copy of a page's notebook: `executed(page)`. What the build has executed is not run again."""
    from tools.execute import Chapter

    notebooks = [page for page in pages() if page.is_notebook]
    copies = {page: Chapter.read(page.source).executed for page in notebooks}
    with one_at_a_time("execution"):
        if not all(copy.exists() for copy in copies.values()):
            _run("a chapter does not run", "-c", EXECUTE)
    return copies.__getitem__


def _newest(path: Path) -> float:
    files = [path] if path.is_file() else [file for file in path.rglob("*") if "__pycache__" not in file.parts]
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0)


def _is_built() -> bool:
    """Whether the built book is younger than everything that it is made from."""
    stamp = ROOT / "_build" / "complete"
    return stamp.exists() and stamp.stat().st_mtime > max(_newest(ROOT / name) for name in INPUTS)


@pytest.fixture(scope="session")
def book() -> Path:
    """The folder of the built pages. They are built if something has changed since."""
    with one_at_a_time("book"):
        if not _is_built():
            _run("the book does not build", "-m", "tools.book")
    return HTML
