"""Is a chapter's notebook shaped as the book's chapters are? Every function gives a list of problems, one a line.

What cannot be told from the file (whether the question stands before the figure, whether a solution teaches) stays with
the people who read it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prose_outputs import charts, joined

MAX_CODE_LINES = 15
MAX_IMPORT_LINES = 8
MAX_KEPT_CHARACTERS = 2000
MIN_ALT_CHARACTERS = 40
EXERCISES = range(2, 5)
LAST_SECTIONS = ("Where it breaks", "Exercises", "Takeaways", "Sources")
_DIRECTIVE = r"(?:`{3,}|:{3,})\{NAME(?:-start)?\}[ ]*(.*)\n((?::[\w-]+:.*\n)*)"
_EXERCISE = re.compile(_DIRECTIVE.replace("NAME", "exercise"))
_SOLUTION = re.compile(_DIRECTIVE.replace("NAME", "solution"))


def _tags(cell: dict) -> set[str]:
    return set(cell["metadata"].get("tags", []))


def _code(notebook: dict) -> Iterator[tuple[str, dict, str]]:
    """Each code cell: where it is, the cell, its source."""
    for number, cell in enumerate(notebook["cells"], start=1):
        if cell["cell_type"] == "code":
            yield f"cell {number} ({cell.get('id', 'without id')})", cell, joined(cell["source"]).strip("\n")


def _markdown(notebook: dict) -> str:
    return "\n\n".join(joined(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown") + "\n"


def _statements(source: str) -> list[ast.stmt]:
    lines = [re.sub(r"^(\s*)[%!].*", r"\1pass", line) for line in source.splitlines()]
    return ast.parse("\n".join(lines)).body


def file_problems(notebook: dict) -> list[str]:
    """Metadata that machines disagree about, and outputs that were committed."""
    problems = []
    kernel = notebook["metadata"].get("kernelspec", {})
    if (kernel.get("name"), kernel.get("language")) != ("python3", "python"):
        problems.append(f"kernelspec is {kernel}: a reader's Jupyter and Colab know the kernel python3 alone")
    if "version" in notebook["metadata"].get("language_info", {}):
        problems.append("language_info names a Python version, which changes with every machine: leave its name only")
    if "widgets" in notebook["metadata"]:
        problems.append("the state of widgets was committed: clear the outputs")
    ids = [cell.get("id") for cell in notebook["cells"]]
    if None in ids or len(set(ids)) < len(ids):
        problems.append("cells need an id each, all different (nbformat 4.5)")
    for where, cell, _ in _code(notebook):
        if "keep_output" in _tags(cell):
            problems += [f"{where}: {problem}" for problem in _kept_problems(cell)]
        elif cell["outputs"] or cell["execution_count"] is not None:
            problems.append(f"{where}: has outputs or an execution count; clear them, or tag the cell keep_output")
    return problems


def _kept_problems(cell: dict) -> Iterator[str]:
    if not cell["outputs"] or cell["execution_count"] is None:
        yield "is tagged keep_output, but has no output or no execution count, so that nothing would be compared"
    if any(set(output.get("data", {})) - {"text/plain"} for output in cell["outputs"]):
        yield "keeps an output that is not text"
    if len(str(cell["outputs"])) > MAX_KEPT_CHARACTERS:
        yield f"keeps an output of more than {MAX_KEPT_CHARACTERS} characters"


def code_problems(notebook: dict) -> list[str]:
    """Set-up and imports come first, cells are short, nothing is imported by a star."""
    cells = list(_code(notebook))
    problems = []
    if not cells or "google.colab" not in cells[0][2] or "remove-cell" not in _tags(cells[0][1]):
        problems.append("the first code cell must be the set-up cell: it installs on Colab, and is tagged remove-cell")
    if len(cells) > 1:
        problems += [f"{cells[1][0]}: {problem}" for problem in _import_problems(cells[1][2])]
    for where, _, source in cells:
        if (lines := len(source.splitlines())) > MAX_CODE_LINES:
            problems.append(f"{where}: {lines} lines, at most {MAX_CODE_LINES}: move what is more into the library")
        stars = [node for node in ast.walk(ast.Module(_statements(source), [])) if isinstance(node, ast.ImportFrom)
                 and node.names[0].name == "*"]
        problems += [f"{where}: imports * from {star.module}" for star in stars]
    return problems


def _import_problems(source: str) -> Iterator[str]:
    if (lines := len(source.splitlines())) > MAX_IMPORT_LINES:
        yield f"{lines} lines of imports, at most {MAX_IMPORT_LINES}"
    statements = _statements(source)
    other = [s for s in statements if not isinstance(s, ast.Import | ast.ImportFrom) and "enable" not in ast.unparse(s)]
    if other or not statements:
        yield "the second code cell must hold the imports and nothing else"


def shape_problems(notebook: dict) -> list[str]:
    """The title asks, the last sections are there, and every exercise has a folded solution."""
    text = _markdown(notebook)
    title = text.strip().split("\n", 1)[0]
    problems = [] if re.fullmatch(r"# .*\?", title) else [f"the title {title!r} is not the question that it answers"]
    problems += [f"there is no section {name}" for name in LAST_SECTIONS
                 if not re.search(rf"^##+ {name}", text, re.MULTILINE)]
    exercises = [_label(match[2]) for match in _EXERCISE.finditer(text)]
    if len(exercises) not in EXERCISES:
        problems.append(f"{len(exercises)} exercises, where a chapter has {EXERCISES.start} to {EXERCISES.stop - 1}")
    solutions = {match[1].strip(): match[2] for match in _SOLUTION.finditer(text)}
    for label in exercises:
        if label not in solutions:
            problems.append(f"exercise {label or 'without label'} has no solution")
        elif "dropdown" not in solutions[label]:
            problems.append(f"the solution of exercise {label} is not folded: give it `:class: dropdown`")
    return problems


def _label(options: str) -> str | None:
    match = re.search(r":label:[ ]*(\S+)", options)
    return match[1] if match else None


def chart_problems(executed: dict) -> list[str]:
    """Charts without words for those who cannot see them."""
    problems = []
    for where, cell, _ in _code(executed):
        for spec in charts(cell):
            if len(spec.get("description", "")) < MIN_ALT_CHARACTERS:
                problems.append(f"{where}: its chart needs a description of at least {MIN_ALT_CHARACTERS} characters, "
                                "which says what the figure shows")
    return problems


def setup_source(notebook: dict) -> str:
    """The set-up cell, which is the same in every chapter."""
    return next((source for _, _, source in _code(notebook)), "")
