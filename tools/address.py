"""Writes the repository's address into the set-up cell of every notebook: `python -m tools.address`.

The address stands in `_config.yml`. On Colab a notebook comes alone, without that file, so its set-up cell has to name
the repository. That cell is made here, from `_config.yml`, and a test compares the two.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import yaml

from tools.keys import ROOT

TAGS = ["setup", "remove-cell"]
SETUP = """\
import sys

if "google.colab" in sys.modules:
    %pip install -q "sixteenbits @ git+{address}"
"""


def address(root: Path = ROOT) -> str:
    """The address of the public repository, from the one place where it stands."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]


def setup_cell(root: Path = ROOT) -> str:
    """The source of the set-up cell."""
    return SETUP.format(address=address(root)).strip()


def notebooks(root: Path = ROOT) -> list[Path]:
    """Every notebook of the book, also those that are no pages."""
    return sorted(path for path in (root / "chapters").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def out_of_date(path: Path, root: Path = ROOT) -> bool:
    """Whether this notebook lacks the set-up cell, or has another one than `_config.yml` asks for."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if "setup" in cell.metadata.get("tags", [])]
    return [cell.source for cell in cells] != [setup_cell(root)] or cells[0].metadata.tags != TAGS


def update(path: Path, root: Path = ROOT) -> None:
    """Write the set-up cell into this notebook; a notebook without one gets it before its first code cell."""
    notebook = nbformat.read(path, as_version=4)
    cell = next((cell for cell in notebook.cells if "setup" in cell.metadata.get("tags", [])), None)
    if cell is None:
        cell = nbformat.v4.new_code_cell(id="setup")
        first = next((at for at, one in enumerate(notebook.cells) if one.cell_type == "code"), len(notebook.cells))
        notebook.cells.insert(first, cell)
    cell.source, cell.metadata["tags"] = setup_cell(root), TAGS
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for one in notebooks():
        if out_of_date(one):
            update(one)
            print(f"{one.relative_to(ROOT)}: {address()}")
