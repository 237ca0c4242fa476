"""Whose is a name in backticks? Ours, the page's own, Python's, or that of a library the book uses; or nobody's.

Looked at are code spans that are a Python name with a dot, a call, an underscore or an inner capital
(`codec.round_to`, `enable()`, `round_to`, `BitExplorer`, `FORMATS`), file names and `make` targets. A plain lower-case
word (`lr`) could be anything and is left alone.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import functools
import importlib
import inspect
import keyword
import pkgutil
import re
import subprocess
from collections.abc import Iterable

from bookfiles import ROOT

OURS = "sixteenbits"
#: What the book calls modules in prose, beside their own names.
ALIASES = {"np": "numpy", "alt": "altair", "nn": "torch.nn", "F": "torch.nn.functional", "widgets": "ipywidgets"}
LIBRARIES = ("numpy", "torch", "torch.nn", "torch.nn.functional", "torch.amp", "torch.optim", "torch.cuda", "altair",
             "ml_dtypes", "ipywidgets", "anywidget", "math", "fractions", "decimal", "sys", "os")
CLASSES = ("torch.Tensor", "torch.nn.Module", "torch.optim.Optimizer", "numpy.ndarray")
KNOWN = {"NaN", "True", "False", "None", *keyword.kwlist, *dir(builtins)}
FILE = re.compile(r"[\w./*-]*[\w*]\.(?:py|md|ipynb|toml|txt|yml|json|js|css|bib|npz)|\.venv|Makefile")


@functools.cache
def _modules() -> dict:
    package = importlib.import_module(OURS)
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{OURS}.")
             if not info.name.endswith("__main__")]
    return {OURS: package, **{name: importlib.import_module(name) for name in names}}


def _members(thing) -> set[str]:
    """The names that stand after a dot: attributes, dataclass fields, traits, and the parameters of functions."""
    found = {*dir(thing), *getattr(thing, "__annotations__", {}), *getattr(thing, "__dataclass_fields__", {})}
    if callable(thing):
        with contextlib.suppress(TypeError, ValueError):  # built-in ones have no signature
            found |= set(inspect.signature(thing).parameters)
    return found


@functools.cache
def our_names() -> frozenset[str]:
    """Every public name of the library: modules, what they hold, the members of its classes, parameters, table rows."""
    found = set()
    for path, module in _modules().items():
        found.add(path.rsplit(".", 1)[-1])
        for name, thing in vars(module).items():
            if name.startswith("_") or inspect.ismodule(thing):
                continue
            found.add(name)
            if getattr(thing, "__module__", "").startswith(OURS):
                found |= _members(thing)
                if inspect.isclass(thing):
                    found.update(*(_members(method) for method in vars(thing).values() if inspect.isfunction(method)))
            if isinstance(thing, dict):
                found |= {key for key in thing if isinstance(key, str)}
    return frozenset(name for name in found if not name.startswith("__"))


@functools.cache
def _library_names() -> frozenset[str]:
    modules = [importlib.import_module(name) for name in LIBRARIES]
    classes = [_follow(name.split(".")) for name in CLASSES]
    return frozenset(KNOWN | {name for thing in [*modules, *classes] for name in dir(thing)})


@functools.cache
def page_names(sources: tuple[str, ...]) -> frozenset[str]:
    """The names, attributes, keywords and strings of a chapter's code cells."""
    found = set()
    for source in sources:
        code = "\n".join(line for line in source.splitlines() if not re.match(r"\s*[%!]", line))
        try:
            tree = ast.parse(code)
        except SyntaxError:
            continue  # a cell that shows an error on purpose; whether cells run is another test's question
        for node in ast.walk(tree):
            values = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname"))
            found |= {value for value in values if isinstance(value, str)}
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return frozenset(found)


def _follow(parts: list[str]):
    """What `a.b.c` leads to, importing modules on the way; None if it leads nowhere."""
    try:
        thing = importlib.import_module(parts[0])
    except ImportError:
        return None
    for depth, part in enumerate(parts[1:], start=2):
        if not hasattr(thing, part):
            try:
                importlib.import_module(".".join(parts[:depth]))
            except ImportError:
                return True if depth == len(parts) and part in _members(thing) else None
        thing = getattr(thing, part)
    return thing if thing is not None else True


@functools.cache
def _files() -> frozenset[str]:
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split("\n")
    return frozenset(listed)


def _file_exists(path: str) -> bool:
    pattern = re.compile(r"(?:.*/)?" + re.escape(path.removeprefix("./")).replace(r"\*", "[^/]*"))
    return path == ".venv" or any(map(pattern.fullmatch, _files()))


def _dotted_exists(parts: list[str], page: Iterable[str]) -> bool:
    head, rest = parts[0], parts[1:]
    if head == OURS:
        return _follow(parts) is not None
    for module in _modules():
        if module.rsplit(".", 1)[-1] == head and module != OURS:
            return _follow([*module.split("."), *rest]) is not None
    if head in ALIASES or head in {name.split(".")[0] for name in LIBRARIES}:
        return _follow([*ALIASES.get(head, head).split("."), *rest]) is not None
    ours = next((vars(module)[head] for module in _modules().values() if head in vars(module)), None)
    if ours is not None:
        return rest[0] in _members(ours)
    return exists(head, page, bare=True) and all(exists(part, page, bare=True) for part in rest)


def exists(name: str, page: Iterable[str], *, bare: bool = False) -> bool:
    """Whether `name`, dotted or not, is somebody's. `page` holds the page's own names."""
    if "." in name and not bare:
        return _dotted_exists(name.split("."), page)
    return name in our_names() or name in page or name in _library_names() or name in ALIASES


def unknown(span: str, page: Iterable[str]) -> str | None:
    """What in this code span is nobody's, in words; None if all is well or there is nothing to check."""
    span = span.strip()
    if FILE.fullmatch(span):
        return None if _file_exists(span) else f"no file of the repository is called {span}"
    if target := re.fullmatch(r"make (\w+)", span):
        rules = re.findall(r"^(\w+)\s*:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return None if target[1] in rules else f"the Makefile has no target {target[1]}"
    try:
        tree = ast.parse(span, mode="eval").body
    except SyntaxError:
        return None
    for name, is_call in _dotted_names(tree):
        looks_ours = is_call or "." in name or "_" in name.strip("_") or (name == span and re.search("[A-Z]", name[1:]))
        if looks_ours and not exists(name, page):
            return f"{name} is in neither the library, nor this page's cells, nor a library that the book uses"
    return next(filter(None, map(_wrong_keyword, filter(_is_call, ast.walk(tree)))), None)


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Call)


def _dotted(node: ast.AST) -> str | None:
    """`a.b.c`, if the node is that; None if it begins with something else than a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := _dotted(node.value)):
        return f"{head}.{node.attr}"
    return None


def _dotted_names(tree: ast.AST) -> list[tuple[str, bool]]:
    """The longest dotted names in an expression, each with whether it is called."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return [(name, id(node) in called) for node in ast.walk(tree)
            if id(node) not in inner and (name := _dotted(node))]


def _wrong_keyword(call: ast.Call) -> str | None:
    """What is wrong with a call of one of our functions, if a keyword is one that it does not take."""
    name = (_dotted(call.func) or "").rsplit(".", 1)[-1]
    functions = [thing for module in _modules().values()
                 if inspect.isfunction(thing := vars(module).get(name)) and thing.__module__.startswith(OURS)]
    if not functions:
        return None
    parameters = inspect.signature(functions[0]).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    wrong = [given.arg for given in call.keywords if given.arg is not None and given.arg not in parameters]
    return f"{name} takes no argument {', '.join(wrong)}" if wrong else None
