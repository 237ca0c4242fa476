"""The package and every chapter, with the package versions that Colab has. PyTorch is the book's own, not Colab's."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from bookfiles import ROOT, chapters, one_at_a_time
from chapter_runs import assert_passed, run_under_nbval
from tools.colab_env import PACKAGES, PYTHON, colab_versions, dependencies, name_of

WHAT_IT_RUNS = ["altair", "anywidget", "ipykernel", "ipython", "ipywidgets", "jupyter_client", "ml_dtypes", "numba",
                "numpy", "pandas", "pytest", "traitlets"]
EVERY_CHAPTER = pytest.mark.parametrize("chapter", chapters(), ids=lambda page: page.name)


@pytest.fixture(scope="session")
def colab():
    """The Python of an environment with Colab's versions. In CI it has to be there; elsewhere one may be offline."""
    with one_at_a_time("colab"):
        made = subprocess.run([sys.executable, "-m", "tools.colab_env"], cwd=ROOT, capture_output=True, text=True)
    if made.returncode:
        problem = (f"the environment with Colab's versions could not be made (python -m tools.colab_env):\n"
                   f"{made.stdout[-1000:]}\n{made.stderr[-2000:]}")
        (pytest.fail if os.environ.get("CI") else pytest.skip)(problem)
    return PYTHON


def run(python, *arguments) -> str:
    done = subprocess.run([python, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("requirement", dependencies())
def test_colab_has_what_the_package_asks_for(requirement):
    asked, has = Requirement(requirement), colab_versions().get(name_of(requirement))
    assert has, f"{PACKAGES.name} has no {requirement}: Colab would have to install it"
    assert asked.specifier.contains(has, prereleases=True), f"Colab has {has}: {requirement} would replace it"
    assert all(clause.operator == ">=" for clause in asked.specifier), f"{requirement}: lower bounds only"


def test_the_package_runs_on_the_python_of_colab():
    first_line = PACKAGES.read_text(encoding="utf-8").partition("\n")[0]
    python = first_line.split("Python ")[1].split(",")[0]
    metadata = json.loads(run(sys.executable, "-c", "import importlib.metadata as m, json; "
                              "print(json.dumps(m.metadata('sixteenbits')['Requires-Python']))"))
    assert SpecifierSet(metadata).contains(python)


def test_the_environment_has_the_versions_of_colab(colab):
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    there = dict(zip([*WHAT_IT_RUNS, "torch"], run(colab, "-c", code, *WHAT_IT_RUNS, "torch").split(), strict=True))
    assert there == {**{name: colab_versions()[name_of(name)] for name in WHAT_IT_RUNS}, "torch": version("torch")}


def test_installing_the_package_replaces_nothing(colab, tmp_path):
    report = tmp_path / "report.json"
    run(colab, "-m", "pip", "install", "--dry-run", "--quiet", "--no-build-isolation", "--report", report, str(ROOT))
    assert [item["metadata"]["name"] for item in json.loads(report.read_text())["install"]] == ["sixteenbits"]


def test_every_module_of_the_library_imports(colab):
    run(colab, "-W", "error::DeprecationWarning:sixteenbits", "-c", "import importlib, pkgutil, sixteenbits as s; "
        "[importlib.import_module(m.name) for m in pkgutil.walk_packages(s.__path__, 'sixteenbits.')"
        " if not m.name.endswith('__main__')]")


def test_the_console_answers_with_the_ipywidgets_of_colab(colab):
    run(colab, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "--override-ini=filterwarnings=default",
        "tests/test_console.py")


@EVERY_CHAPTER
def test_nbval(chapter, colab):
    # The warnings of Colab's versions are not ours to mend.
    assert_passed(run_under_nbval(colab, chapter.source, "--override-ini=filterwarnings=default"))
