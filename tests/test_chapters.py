"""Every chapter: it is shaped as chapters are, its cells run, and what is kept in it is what comes out."""

import copy
import itertools
import json
import sys

import pytest
import yaml

from bookfiles import ROOT, chapters
from chapter_runs import assert_passed, run_under_nbval
from chapter_shape import chart_problems, code_problems, file_problems, setup_source, shape_problems

EVERY_CHAPTER = pytest.mark.parametrize("chapter", chapters(), ids=lambda page: page.name)


def read(path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@EVERY_CHAPTER
def test_shape(chapter):
    notebook = read(chapter.source)
    problems = file_problems(notebook) + code_problems(notebook) + shape_problems(notebook)
    assert not problems, "\n  ".join(["", *(f"{chapter.source.name}: {problem}" for problem in problems)])


@EVERY_CHAPTER
def test_charts_have_alternative_text(chapter, executed):
    problems = chart_problems(read(executed(chapter)))
    assert not problems, "\n  ".join(["", *(f"{chapter.source.name}: {problem}" for problem in problems)])


def test_the_setup_cell_is_the_same_everywhere_and_installs_from_our_repository():
    sources = {setup_source(read(chapter.source)): chapter.source.name for chapter in chapters()}
    address = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    assert len(sources) == 1, f"set-up cells differ: {list(sources.values())}"
    assert address in next(iter(sources)), f"the set-up cell does not install from {address}, as _config.yml says"


@EVERY_CHAPTER
def test_nbval(chapter):
    assert_passed(run_under_nbval(sys.executable, chapter.source))


# ---- The tests above can fail --------------------------------------------------------------------------------------

IDS = itertools.count()


def cell(source: str, *tags: str, kind: str = "code", **more) -> dict:
    fresh = {"cell_type": kind, "id": f"c{next(IDS)}", "metadata": {"tags": list(tags)}, "source": source}
    return {**fresh, **({"outputs": [], "execution_count": None} if kind == "code" else {}), **more}


def markdown(source: str) -> dict:
    return cell(source, kind="markdown")


def exercise(name: str) -> str:
    return (f":::{{exercise}} Name\n:label: {name}\nDo it.\n:::\n\n"
            f":::{{solution-start}} {name}\n:class: dropdown\n:::\nDone.\n:::{{solution-end}}\n:::")


def chapter_that_is_well_shaped() -> dict:
    ends = "\n\n".join(f"## {name}" for name in ("Where it breaks", "Exercises", "Takeaways", "Sources"))
    return {
        "metadata": {"kernelspec": {"name": "python3", "language": "python"}, "language_info": {"name": "python"}},
        "nbformat": 4, "nbformat_minor": 5,
        "cells": [
            markdown("# What is it?"),
            cell('import sys\nif "google.colab" in sys.modules:\n    %pip install x', "remove-cell"),
            cell("import math\nfrom fractions import Fraction"), cell("print(1)"),
            cell("print(2)", "keep_output", execution_count=1,
                 outputs=[{"output_type": "stream", "name": "stdout", "text": "2\n"}]),
            markdown(exercise("a") + "\n\n" + exercise("b")), markdown(ends),
        ],
    }


def every_problem(notebook: dict) -> list[str]:
    return file_problems(notebook) + code_problems(notebook) + shape_problems(notebook) + chart_problems(notebook)


def test_a_well_shaped_chapter_passes():
    assert every_problem(chapter_that_is_well_shaped()) == []


def change(path: list, value):
    """A change of the well-shaped chapter: what lies at `path` becomes `value`, or `value(what it was)`."""
    def apply(notebook: dict) -> dict:
        notebook = copy.deepcopy(notebook)
        place = notebook
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
        return notebook
    return apply


CHART = {"output_type": "display_data", "data": {"application/vnd.vegalite.v6+json": {"description": "A chart"}}}


@pytest.mark.parametrize(("changed", "complaint"), [
    (change(["metadata", "kernelspec", "name"], "venv"), "kernelspec is"),
    (change(["metadata", "language_info", "version"], "3.11"), "names a Python version"),
    (change(["metadata", "widgets"], {}), "state of widgets"),
    (change(["cells", 3, "id"], lambda old: None), "an id each"),
    (change(["cells", 3, "execution_count"], 1), "has outputs or an execution count"),
    (change(["cells", 4, "outputs"], []), "nothing would be compared"),
    (change(["cells", 4, "outputs", 0], {"output_type": "display_data", "data": {"text/html": ""}}), "not text"),
    (change(["cells", 4, "outputs", 0, "text"], "x" * 2001), "more than 2000"),
    (change(["cells", 1, "source"], "x = 1"), "must be the set-up cell"),
    (change(["cells", 2, "source"], "\n".join(f"import math as m{i}" for i in range(9))), "9 lines of imports"),
    (change(["cells", 2, "source"], "import math\nx = 1"), "nothing else"),
    (change(["cells", 3, "source"], "\n".join("pass" for _ in range(16))), "16 lines, at most 15"),
    (change(["cells", 3, "source"], "from math import *"), "imports * from math"),
    (change(["cells", 0, "source"], "# Floats"), "is not the question"),
    (change(["cells", 6, "source"], lambda old: old.replace("Takeaways", "Ends")), "no section Takeaways"),
    (change(["cells", 5, "source"], exercise("a")), "1 exercises"),
    (change(["cells", 5, "source"], lambda old: old.replace("start} b", "start} c")), "b has no solution"),
    (change(["cells", 5, "source"], lambda old: old.replace(":class: dropdown", "")), "is not folded"),
    (change(["cells", 3, "outputs"], [CHART]), "needs a description"),
])
def test_a_badly_shaped_chapter_fails(changed, complaint):
    assert complaint in "\n".join(every_problem(changed(chapter_that_is_well_shaped())))


def test_nbval_reports_every_cell_that_fails(tmp_path):
    notebook = chapter_that_is_well_shaped()
    notebook["cells"] = [
        cell('raise NotImplementedError("Exercise 1")'),
        cell("print(3)", execution_count=1, outputs=[{"output_type": "stream", "name": "stdout", "text": "2\n"}]),
        cell("print(0xabc)"), cell("while True:\n    pass"),
    ]
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps(notebook))
    run = run_under_nbval(sys.executable, path, "--nbval-cell-timeout=3")
    assert run.returncode == 1
    assert "3 failed, 1 passed" in run.stdout
    for complaint in ("Exercise 1", "mismatch 'stdout'", "Timeout of 3 seconds"):
        assert complaint in run.stdout, run.stdout
