"""Builds the book: execute what changed, put the outputs beside the prose, and let Sphinx make the pages, strictly."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from sphinx_external_toc.parsing import parse_toc_yaml

from tools import vendor
from tools.execute import ChapterError, execute_all
from tools.keys import ROOT

BUILD = ROOT / "_build"
SOURCE = BUILD / "source"
HTML = BUILD / "html"
DOCTREES = BUILD / ".doctrees"
STAMP = BUILD / "complete"
CHAPTERS = "chapters"
# A change in one of these can change every page.
FRAME = ("_config.yml", "_toc.yml", "requirements.txt", "package-lock.json", "_ext", "_static", "tools/book.py")
# How Sphinx says where in a notebook a warning comes from: the cell, counted from 1, times 10000, plus the line.
NOTEBOOK_LINE = re.compile(rf"{re.escape(str(SOURCE))}/(\S+\.ipynb):(\d+):")
COLORS = re.compile(r"\x1b\[[0-9;]*m")
REDIRECT = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Sixteen Bits</title>
<meta http-equiv="refresh" content="0; url={front}">
<p><a href="{front}">Sixteen Bits</a></p>
</html>
"""


def pages() -> list[str]:
    """The pages that `_toc.yml` lists, in reading order, as paths without ending. The first is the front page."""
    return list(parse_toc_yaml(ROOT / "_toc.yml"))


def notebooks() -> list[Path]:
    """The notebooks among the pages."""
    return [path for path in (ROOT / f"{name}.ipynb" for name in pages()) if path.exists()]


def with_outputs(source: Path, executed: Path) -> str:
    """The notebook as committed, its prose as it is now, with the outputs and widgets of the executed one."""
    notebook = nbformat.read(source, as_version=4)
    ran = nbformat.read(executed, as_version=4)
    code = [[cell for cell in book.cells if cell.cell_type == "code"] for book in (notebook, ran)]
    for cell, result in zip(*code, strict=True):
        cell.outputs, cell.execution_count = result.outputs, result.execution_count
    if "widgets" in ran.metadata:
        notebook.metadata["widgets"] = ran.metadata["widgets"]
    return nbformat.writes(notebook)


def write_source(executed: dict[Path, Path]) -> None:
    """Lay out what Sphinx reads. A file that does not change keeps its time, so that Sphinx reads only the others."""
    wanted = {}
    for folder in (CHAPTERS, "_static"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(ROOT).parts):
                wanted[SOURCE / path.relative_to(ROOT)] = path
    for target, path in wanted.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        content = with_outputs(path, executed[path]).encode() if path in executed else path.read_bytes()
        if not target.exists() or target.read_bytes() != content:
            target.write_bytes(content)
    for path in set(SOURCE.rglob("*")) - wanted.keys():
        if path.is_file():
            path.unlink()


def mark(*paths: Path) -> str:
    """A hash of these files and of all files in these folders."""
    digest = hashlib.sha256(str(ROOT).encode())
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def make_pages() -> int:
    """Run Jupyter Book so that every warning is an error; give its status. Without a change it need not run.

    The stamp is gone while Sphinx works. So after a run that failed or was interrupted, and after a change of the
    frame, all pages are made anew: Sphinx repeats no warning about a page that it has already read.
    """
    marks = [mark(*(ROOT / name for name in FRAME)), mark(SOURCE, vendor.VENDOR)]
    before = STAMP.read_text(encoding="utf-8").split() if STAMP.exists() else []
    if before == marks:
        STAMP.touch()
        return 0
    if before[:1] != marks[:1]:
        for folder in (HTML, DOCTREES, BUILD / "jupyter_execute"):
            shutil.rmtree(folder, ignore_errors=True)
    STAMP.unlink(missing_ok=True)
    strict = ["-W", "--keep-going", "-n", "-q"]
    places = ["--path-output", ".", "--config", "_config.yml", "--toc", str(ROOT / "_toc.yml")]
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", str(SOURCE)]
    status = run_sphinx([*command, *strict, *places])
    if status == 0:
        front = f"{pages()[0]}.html"
        (HTML / "index.html").write_text(REDIRECT.format(front=front), encoding="utf-8")
        STAMP.write_text("\n".join(marks), encoding="utf-8")
    return status


def run_sphinx(command: list[str]) -> int:
    """Run this command, show its warnings with chapter and cell, and give its status."""
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "encoding": "utf-8", "errors": "replace"}
    with subprocess.Popen(command, cwd=ROOT, **streams) as sphinx:
        for line in sphinx.stderr:
            print(plain(with_cell(line)), end="", file=sys.stderr, flush=True)
    return sphinx.returncode


def with_cell(line: str) -> str:
    """A line that Sphinx wrote, naming the file in `chapters/` and the cell instead of a place below `_build`."""
    named = NOTEBOOK_LINE.sub(lambda at: f"{at[1]}, cell {int(at[2]) // 10000}:", line)
    return named.replace(f"{SOURCE}/", "")


def plain(text: str) -> str:
    """The text without its colors, unless a terminal shows it."""
    return text if sys.stderr.isatty() else COLORS.sub("", text)


def stop(*_) -> None:
    """End at once, as Ctrl-C asks, not after the chapters that are running: their kernels end with this process."""
    print("\nStopped. What was finished is kept; make book goes on from there.", file=sys.stderr, flush=True)
    os._exit(130)


def main() -> int:
    """Build the book and say where it is."""
    start = time.monotonic()
    print("Chapters", flush=True)
    try:
        executed = execute_all(notebooks())
    except ChapterError as error:
        print(plain(f"\n{error}\n\nThe book was not built: a cell failed."), file=sys.stderr)
        return 1
    print("Pages", flush=True)
    vendor.copy()
    write_source(executed)
    if make_pages():
        print("\nThe book was not built: each warning above is an error.", file=sys.stderr)
        return 1
    print(f"The book is built ({time.monotonic() - start:.1f} s): {HTML / 'index.html'}")
    print("Open that file in a browser, or serve it: make serve")
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    sys.exit(main())
