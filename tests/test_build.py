"""The build's own rules: when a chapter is executed again, what a failure says, what the pins and pages hold."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
import yaml
from packaging.requirements import Requirement

from tools import address, book, environment, execute, keys

sys.path.insert(0, str(book.ROOT / "_ext"))
import offline_book
import repository

ROOT = book.ROOT


def notebook(*cells: str, prose: str = "Text", tags: tuple = ()) -> nbformat.NotebookNode:
    code = [nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)}) for source in cells]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(prose), *code])


@pytest.fixture
def lib(tmp_path) -> Path:
    """A library in which `figures` uses `codec`, `codec` uses `formats`, and a folder of widgets has data files."""
    files = {
        "__init__.py": "from sixteenbits.formats import Format",
        "formats.py": "class Format: pass",
        "codec.py": "def decode():\n    from . import formats",
        "figures.py": "from .codec import decode",
        "train.py": "import math",
        "widgets/__init__.py": "from ..codec import decode",
        "widgets/explorer.py": "",
        "widgets/explorer.js": "draw()",
        "lazy.py": "import importlib\nimportlib.import_module(name)",
    }
    for name, text in files.items():
        path = tmp_path / "sixteenbits" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


# ---- When a chapter is executed again --------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "names"), [
    ("import math", ""),
    ("import sixteenbits", "__init__ formats"),
    ("from sixteenbits import figures", "__init__ formats codec figures"),
    ("from sixteenbits.codec import decode", "__init__ formats codec"),
    ("def f():\n    import sixteenbits.train as t", "__init__ formats train"),
    ("from sixteenbits.widgets import E", "__init__ formats codec widgets/__init__ widgets/explorer.js"),
    ("%pip install x\n!ls\nfrom sixteenbits import train", "__init__ formats train"),
])
def test_a_chapter_uses_what_it_imports_directly_or_not(code, names, lib):
    wanted = {name if "." in name else f"{name}.py" for name in names.split()}
    assert {path.relative_to(lib / "sixteenbits").as_posix() for path in keys.library_files(code, lib)} == wanted


@pytest.mark.parametrize("code", ["this is no Python", "from sixteenbits import lazy"])
def test_a_chapter_that_cannot_be_read_uses_the_whole_library(code, lib):
    assert keys.library_files(code, lib) == keys.all_files(lib / "sixteenbits")


def test_prose_changes_no_key(lib):
    assert keys.chapter_key(notebook("x"), lib=lib) == keys.chapter_key(notebook("x", prose="Other"), lib=lib)


def test_code_order_of_cells_and_execution_tags_change_the_key(lib):
    made = [notebook("a", "b"), notebook("b", "a"), notebook("a\nb"), notebook("a", "b", tags=["raises-exception"])]
    assert len({keys.chapter_key(one, lib=lib) for one in made}) == len(made)
    assert keys.chapter_key(notebook("a", "b", tags=["remove-cell"]), lib=lib) == keys.chapter_key(made[0], lib=lib)


@pytest.mark.parametrize(("name", "changes"), [("formats.py", True), ("codec.py", True), ("train.py", False)])
def test_a_change_of_the_library_changes_the_keys_of_the_chapters_that_use_it(name, changes, lib):
    chapter = notebook("from sixteenbits import figures")
    before = keys.chapter_key(chapter, lib=lib)
    (lib / "sixteenbits" / name).write_text("changed = True")
    assert (keys.chapter_key(chapter, lib=lib) != before) == changes


def test_a_change_of_the_pins_changes_the_key(tmp_path, lib):
    pins = tmp_path / "requirements.txt"
    made = [pins.write_text(text) and keys.chapter_key(notebook("x"), pins, lib=lib) for text in ("a==1", "a==2")]
    assert made[0] != made[1]


# ---- Execution -------------------------------------------------------------------------------------------------------


def chapter_of(tmp_path: Path, *cells: str) -> execute.Chapter:
    source = tmp_path / "chapters" / "01_one.ipynb"
    source.parent.mkdir(exist_ok=True)
    nbformat.write(notebook(*cells), source)
    return execute.Chapter.read(source, tmp_path)


def test_a_failing_cell_names_chapter_and_cell(tmp_path):
    chapter = chapter_of(tmp_path, "1 + 1", "value = 2\nvalue / 0")
    with pytest.raises(execute.ChapterError, match=r"^chapters/01_one.ipynb, cell 3 of 3 \(.*: value = 2\)") as error:
        execute.execute(chapter)
    assert "ZeroDivisionError" in str(error.value)
    assert not chapter.executed.exists()


def test_outputs_are_put_beside_the_prose_as_it_is_now(tmp_path):
    chapter = chapter_of(tmp_path, "print(6 * 7)")
    assert execute.execute(chapter) > 0
    fresh = nbformat.read(chapter.source, as_version=4)
    fresh.cells[0].source = "New text"
    nbformat.write(fresh, chapter.source)
    shown = nbformat.reads(book.with_outputs(chapter.source, chapter.executed), as_version=4)
    assert shown.cells[0].source == "New text"
    assert shown.cells[1].outputs[0].text == "42\n"


def test_a_warning_names_the_chapter_and_the_cell():
    line = f"{book.SOURCE}/chapters/02_x.ipynb:70017: WARNING: term not in glossary: 'x'\n"
    assert book.with_cell(line) == "chapters/02_x.ipynb, cell 7: WARNING: term not in glossary: 'x'\n"
    assert book.with_cell(f"{book.SOURCE}/chapters/index.md:3: WARNING: y") == "chapters/index.md:3: WARNING: y"


# ---- Pins ------------------------------------------------------------------------------------------------------------


def requirements() -> list[Requirement]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def test_every_requirement_is_one_exact_pin():
    assert all(re.fullmatch(r"==[\w.]+", str(one.specifier)) for one in requirements())
    assert len({one.name.lower().replace("_", "-") for one in requirements()}) == len(requirements())
    assert "torch==2.13.0" in map(str, requirements())


def test_the_pins_satisfy_what_the_package_asks_for():
    pins = {one.name: str(one.specifier).removeprefix("==") for one in requirements()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for asked in map(Requirement, project["dependencies"]):
        assert asked.specifier.contains(pins[asked.name]), f"{asked} against the pin {pins[asked.name]}"


def test_the_lock_names_no_download_address():
    lock = json.loads((ROOT / "package-lock.json").read_text(encoding="utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    assert all("integrity" in package for name, package in lock["packages"].items() if name)


def test_front_end_versions_are_exact():
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    versions = (package["dependencies"] | package["devDependencies"]).values()
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)


def test_nothing_third_party_is_committed():
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    committed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    assert not [name for name in committed if re.search(r"\.min\.js$|(^|/)(vendor|node_modules)/|\.woff2?$", name)]


# ---- The address of the repository -----------------------------------------------------------------------------------


def test_every_notebook_has_the_setup_cell_of_the_one_address():
    late = [path.name for path in address.notebooks() if address.out_of_date(path)]
    assert not late, f"{late}: the set-up cell does not fit _config.yml; run make address"


def test_the_address_stands_in_no_other_file():
    place = address.address().removeprefix("https://")
    below = [path for folder in ("chapters", "lib", "tests", "tools", "_ext") for path in (ROOT / folder).rglob("*")]
    top = [path for path in ROOT.iterdir() if path.name != "_config.yml"]
    texts = [path for path in below + top if path.suffix in {".md", ".py", ".js", ".toml", ".yml", ".cff", ".bib"}]
    assert not [path.name for path in texts if place in path.read_text(encoding="utf-8")]
    assert all(path.read_text(encoding="utf-8").count(place) == 1 for path in address.notebooks())


def test_a_new_address_reaches_every_notebook(tmp_path):
    (tmp_path / "_config.yml").write_text(yaml.safe_dump({"repository": {"url": "https://example.org/new/place"}}))
    chapter = chapter_of(tmp_path, "import math")
    address.update(chapter.source, tmp_path)
    assert not address.out_of_date(chapter.source, tmp_path)
    cells = nbformat.read(chapter.source, as_version=4).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "code"]
    assert 'pip install -q "sixteenbits @ git+https://example.org/new/place"' in cells[1].source


# ---- Pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("html", "fetched"), [
    ('<script src="https://a.org/x.js"></script>', True),
    ("<link href='//fonts.org/f.css' rel='stylesheet'>", True),
    ('<img alt="x" src="http://a.org/x.png">', True),
    ('<a href="https://a.org">a link that the reader follows</a>', False),
    ('<link rel="canonical" href="https://a.org/page">', False),
    ('<script src="../_static/x.js"></script>', False),
    ('<script>const text = "https://a.org";</script>', False),
])
def test_what_a_page_would_fetch_is_found(html, fetched):
    assert bool(offline_book.FETCHED.search(html)) == fetched


def test_a_module_is_linked_only_if_the_library_has_it():
    assert repository.module_path("sixteenbits.codec") == Path("sixteenbits/codec.py")
    assert repository.module_path("sixteenbits") == Path("sixteenbits/__init__.py")
    assert repository.module_path("sixteenbits.nothing") is None
    assert repository.module_path("numpy") is None


# ---- The environment -------------------------------------------------------------------------------------------------


def test_an_unfinished_or_outdated_environment_is_not_current(tmp_path):
    stamp, pins = tmp_path / ".complete", tmp_path / "requirements.txt"
    pins.write_text("a==1")
    assert not environment.is_current(stamp, environment.fingerprint(pins))
    stamp.write_text(environment.fingerprint(pins))
    assert environment.is_current(stamp, environment.fingerprint(pins))
    pins.write_text("a==2")
    assert not environment.is_current(stamp, environment.fingerprint(pins))


def test_a_python_that_is_gone_does_not_work(tmp_path):
    assert environment.works(Path(sys.executable))
    assert not environment.works(tmp_path / "python")


def fake_python(folder: Path, name: str, version: str, has_venv: bool = True) -> None:
    """A command that answers as a Python of this version does when `tools/python.sh` asks it."""
    major, minor = version.split(".")
    folder.joinpath(name).write_text(
        "#!/bin/sh\ncase \"$2\" in\n"
        f"*print*) echo {version};;\n"
        f"*version_info*) [ {major} -gt 3 ] || [ {minor} -ge 11 ];;\n"
        f"*venv*) {'true' if has_venv else 'false'};;\n"
        f"*) echo \"{name} runs $1\";;\nesac\n"
    )
    folder.joinpath(name).chmod(0o755)


def run_python_sh(folder: Path, **variables) -> subprocess.CompletedProcess:
    command = ["/bin/sh", str(ROOT / "tools" / "python.sh"), "script.py"]
    return subprocess.run(command, env={"PATH": str(folder), **variables}, capture_output=True, text=True)


def test_the_newest_suitable_python_is_taken(tmp_path):
    fake_python(tmp_path, "python3.13", "3.13", has_venv=False)
    fake_python(tmp_path, "python3.12", "3.12")
    fake_python(tmp_path, "python3", "3.9")
    assert run_python_sh(tmp_path).stdout == "python3.12 runs script.py\n"


def test_a_named_python_is_taken_and_no_other(tmp_path):
    fake_python(tmp_path, "python3.12", "3.12")
    fake_python(tmp_path, "my python", "3.11")
    assert run_python_sh(tmp_path, PYTHON=str(tmp_path / "my python")).stdout == "my python runs script.py\n"
    assert run_python_sh(tmp_path, PYTHON="nothing").returncode == 1


@pytest.mark.parametrize(("version", "has_venv", "says"), [
    ("3.9", True, "python3 is 3.9, too old"),
    ("3.12", False, "python3 has no venv module (Debian: apt-get install python3.12-venv)"),
    (None, True, "none was found"),
])
def test_a_missing_or_too_old_python_gives_one_clear_line(version, has_venv, says, tmp_path):
    if version:
        fake_python(tmp_path, "python3", version, has_venv)
    result = run_python_sh(tmp_path)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in result.stderr
    assert says in result.stderr
