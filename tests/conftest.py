"""What several test modules need: the executed chapters and the built book. Both are made by the build itself."""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookfiles import HTML, ROOT, Page, pages

INPUTS = ("_config.yml", "_toc.yml", "package-lock.json", "requirements.txt", "_ext", "_static", "chapters", "lib",
          "tools")


@contextlib.contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let one test process in; the others wait, and then find the work done."""
    folder = ROOT / "_build"
    folder.mkdir(exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def executed():
    """The executed copy of a page's notebook: `executed(page)`. Chapters that the build has executed are not run again.

    Where there is no such page (a test's own notebook), it is executed alone.
    """
    from tools.execute import execute_all

    with one_at_a_time("execution"):
        copies = execute_all([page.source for page in pages() if page.is_notebook])

    def copy(page: Page) -> Path:
        return copies[page.source]

    return copy


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
            run = subprocess.run([sys.executable, "-m", "tools.book"], cwd=ROOT, capture_output=True, text=True)
            assert run.returncode == 0, f"the book does not build:\n{run.stdout[-2000:]}\n{run.stderr[-6000:]}"
    return HTML
