"""Executes the chapters, a few at a time, and keeps what they print until their key changes.

`_build/executed/NAME.KEY.ipynb` is an executed chapter; that it exists means that it ran to its end.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from tools.keys import ROOT, chapter_key

EXECUTED = ROOT / "_build" / "executed"
SETTINGS = (ROOT / "requirements.txt", Path(__file__))
CELL_SECONDS = 600
# One thread a chapter: its numbers then do not depend on how many cores the machine has. The rest keeps the reader's
# own IPython and Jupyter settings out of the book.
KERNEL_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "SIXTEENBITS_STATIC": "1",  # no kernel stays behind the page: live consoles show recorded tensors instead
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "JUPYTER_PREFER_ENV_PATH": "1",
    "JUPYTER_CONFIG_DIR": str(ROOT / "_build" / "jupyter"),
    "IPYTHONDIR": str(ROOT / "_build" / "ipython"),
}


class ChapterError(Exception):
    """A cell failed. The message names the chapter and the cell, and shows the error."""


@dataclass(frozen=True)
class Chapter:
    """A chapter's notebook and where its executed copy lies."""

    source: Path
    notebook: nbformat.NotebookNode
    executed: Path

    @classmethod
    def read(cls, source: Path, folder: Path = EXECUTED) -> Chapter:
        notebook = nbformat.read(source, as_version=4)
        return cls(source, notebook, folder / f"{source.stem}.{chapter_key(notebook, *SETTINGS)}.ipynb")


def execute_all(sources: Iterable[Path]) -> dict[Path, Path]:
    """Execute what has changed, saying so chapter by chapter; give the executed copy of each source.

    Raises:
        ChapterError: at least one cell failed. The others are executed and kept all the same.
    """
    chapters = [Chapter.read(source) for source in sources]
    EXECUTED.mkdir(parents=True, exist_ok=True)
    waiting = [chapter for chapter in chapters if not chapter.executed.exists()]
    for chapter in chapters:
        if chapter not in waiting:
            print(f"  {chapter.source.stem:<32} unchanged", flush=True)
    if waiting:
        print(f"  executing {', '.join(chapter.source.stem for chapter in waiting)}", flush=True)
    errors = _execute(waiting)
    for chapter in chapters:
        for path in set(EXECUTED.glob(f"{chapter.source.stem}.*")) - {chapter.executed}:
            path.unlink()
    if errors:
        raise ChapterError("\n\n".join(errors))
    return {chapter.source: chapter.executed for chapter in chapters}


def _execute(waiting: list[Chapter]) -> list[str]:
    """Execute these chapters side by side; give the messages of those that failed."""
    os.environ.update(KERNEL_ENVIRONMENT)
    errors = []
    with ThreadPoolExecutor(max(1, os.cpu_count() or 1)) as pool:
        running = {pool.submit(execute, chapter): chapter for chapter in waiting}
        for count, future in enumerate(as_completed(running), start=1):
            name = running[future].source.stem
            try:
                print(f"  {name:<32} {future.result():.1f} s   [{count}/{len(running)}]", flush=True)
            except ChapterError as error:
                print(f"  {name:<32} FAILED   [{count}/{len(running)}]", flush=True)
                errors.append(str(error))
    return errors


def execute(chapter: Chapter) -> float:
    """Execute one chapter in its own folder, write its executed copy, and give the seconds it took.

    Raises:
        ChapterError: a cell failed, ran too long, or took the kernel down.
    """
    start = time.monotonic()
    current = []
    client = NotebookClient(
        chapter.notebook,
        timeout=CELL_SECONDS,
        coalesce_streams=True,  # else it depends on the load of the machine how often a printed text is cut
        kernel_name="python3",
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(chapter.source.parent)}},
        on_cell_start=lambda cell, cell_index: current.append(cell_index),
    )
    try:
        client.execute()
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        raise ChapterError(describe(chapter, current[-1] if current else 0, error)) from error
    temporary = chapter.executed.with_suffix(".part")
    nbformat.write(chapter.notebook, temporary)
    temporary.replace(chapter.executed)
    return time.monotonic() - start


def describe(chapter: Chapter, index: int, error: Exception) -> str:
    """Name the chapter and the cell in which it failed, counted from 1 as a reader would, and show the error."""
    cell = chapter.notebook.cells[index]
    first_line = cell.source.strip().partition("\n")[0]
    where = f"{chapter.source.parent.name}/{chapter.source.name}, cell {index + 1} of {len(chapter.notebook.cells)}"
    return f"{where} ({cell.get('id', 'without id')}: {first_line}) failed:\n{error}"
