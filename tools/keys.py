"""When a chapter must be executed again: its key changes with its code and with the library modules it uses.

Prose is no part of the key. A module counts when the chapter imports it, directly or through other modules of the
library; with it count the data files beside it (JavaScript, CSS, tables), and for every chapter the pinned packages.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
LIB = ROOT / "lib"
PACKAGE = "sixteenbits"
# Cells with these tags run differently from others, so the tags belong to the key.
EXECUTION_TAGS = {"raises-exception", "skip-execution"}
IMPORTERS = {"import_module", "__import__"}


def chapter_key(notebook: NotebookNode, *settings: Path, lib: Path = LIB) -> str:
    """A hash of everything that can change what this notebook prints.

    Args:
        notebook: the chapter.
        settings: further files on which every chapter depends, for example `requirements.txt`.
        lib: the folder in which the package lies.
    """
    digest = hashlib.sha256()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in cells:
        tags = EXECUTION_TAGS & set(cell.metadata.get("tags", []))
        digest.update(repr((cell.source, sorted(tags))).encode())
    source = "\n".join(cell.source for cell in cells)
    for path in [*sorted(library_files(source, lib)), *settings]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def library_files(source: str, lib: Path = LIB) -> set[Path]:
    """The library's files that this code uses: modules, the modules those import, and the data beside them.

    Code that cannot be parsed, or that imports by a name made at run time, is taken to use the whole library.
    """
    found: set[Path] = set()
    waiting = [(TransformerManager().transform_cell(source), "")]
    while waiting:
        try:
            modules = imported_modules(*waiting.pop(), lib=lib)
        except SyntaxError:
            return all_files(lib / PACKAGE)
        for path in modules - found:
            found.add(path)
            waiting.append((path.read_text(encoding="utf-8"), package_of(path, lib)))
    folders = {path.parent for path in found}
    return found | {path for folder in folders for path in folder.iterdir() if is_data(path)}


def all_files(folder: Path) -> set[Path]:
    """Every file of the library."""
    return {path for path in folder.rglob("*") if path.suffix == ".py" or is_data(path)}


def is_data(path: Path) -> bool:
    """Whether this is a file that a module reads, not a module and not something that Python made."""
    return path.is_file() and path.suffix not in {".py", ".pyc"} and not path.name.startswith(".")


def package_of(path: Path, lib: Path) -> str:
    """The package that relative imports in this module start from."""
    return ".".join(path.parent.relative_to(lib).parts)


def imported_modules(source: str, package: str, lib: Path) -> set[Path]:
    """The files of the library's modules that this code imports, wherever in it the imports stand.

    Raises:
        SyntaxError: the code cannot be parsed, or it imports by a name made at run time.
    """
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
        elif getattr(node, "id", getattr(node, "attr", "")) in IMPORTERS:
            raise SyntaxError("an import by a name made at run time")
    return {path for name in names if name.split(".")[0] == PACKAGE for path in files_of(name, lib)}


@cache
def files_of(name: str, lib: Path) -> frozenset[Path]:
    """The files that importing this dotted name runs: of each package on the way its `__init__`, then the module."""
    parts = name.split(".")
    places = [lib.joinpath(*parts[: length + 1]) for length in range(len(parts))]
    files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
    return frozenset(file for file in files if file.is_file())
