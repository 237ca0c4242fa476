"""What a page says: its text in pieces, what it refers to, and what others can refer to.

The Markdown is read with the parser that builds the book (MyST), so that code spans, formulas, directives and roles
are told apart as the book does it.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from myst_parser.config.main import MdParserConfig
from myst_parser.mdit_to_docutils.base import default_slugify
from myst_parser.parsers.mdit import create_md_parser

from bookfiles import Page

EXTENSIONS = {"amsmath", "attrs_block", "attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution",
              "tasklist"}
PATH_DIRECTIVES = {"figure", "image", "include", "literalinclude", "download", "bibliography", "toctree", "raw"}
CODE_DIRECTIVES = {"code", "code-block", "code-cell", "literalinclude", "sourcecode"}
SILENT_DIRECTIVES = {"bibliography", "toctree", "tableofcontents", "eval-rst", "raw"}
REFERENCE_ROLES = {"ref", "numref", "eq", "doc", "term", "cite", "download"}
_OPTION = re.compile(r":([\w-]+):\s*(.*)")
_MARKUP = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class Piece:
    """A piece of what the reader sees. `kind` is "text", "math", "code" (in a line) or "listing" (a block of code)."""

    kind: str
    text: str
    where: str


@dataclass(frozen=True)
class Reference:
    """Something that the text points to. `kind` is a role's name, "link" or "image"."""

    kind: str
    target: str
    where: str


@dataclass
class Prose:
    """A page as its reader meets it.

    Attributes:
        pieces: the text, in order.
        references: what it points to.
        labels: names that a reference can use: targets, named figures and formulas.
        anchors: what can follow a `#` in a link to this page: labels and slugs of headings.
        terms: glossary entries defined here, in lower case.
        titles: headings and titles of boxes.
        figures: how many figures the Markdown itself holds.
        exercises: how many exercises it sets.
    """

    pieces: list[Piece] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)
    terms: set[str] = field(default_factory=set)
    titles: list[str] = field(default_factory=list)
    figures: int = 0
    exercises: int = 0


@functools.cache
def _parser():
    return create_md_parser(MdParserConfig(enable_extensions=EXTENSIONS), RendererHTML)


class _Reader:
    """Collects one Markdown source into `prose`; `place(line)` says where a line is in the page."""

    def __init__(self, prose: Prose, place):
        self.prose, self.place = prose, place

    def read(self, source: str, first_line: int = 1) -> None:
        tokens = _parser().parse(source, {})
        for index, token in enumerate(tokens):
            where = self.place(first_line + (token.map[0] if token.map else 0))
            if token.type == "inline":
                self._inline(token.children, where)
                if index and tokens[index - 1].type == "heading_open":
                    self._title(token)
            elif token.type in ("fence", "colon_fence", "code_block"):
                self._fence(token, first_line, where)
            else:
                self._block(token, where)

    def _say(self, kind: str, text: str, where: str) -> None:
        if text.strip():
            self.prose.pieces.append(Piece(kind, text, where))

    def _label(self, name: str) -> None:
        self.prose.labels.add(name)
        self.prose.anchors.add(name)

    def _title(self, token: Token) -> None:
        title = "".join(child.content for child in token.children)
        self.prose.titles.append(title)
        self.prose.anchors.add(default_slugify(title))

    def _block(self, token: Token, where: str) -> None:
        if token.type in ("math_block", "math_block_label", "amsmath"):
            self._say("math", token.content, where)
            if token.type == "math_block_label":
                self._label(token.info)
        elif token.type == "myst_target":
            self._label(token.content)
        elif token.type == "html_block":
            self._say("text", _MARKUP.sub(" ", re.sub(r"<!--.*?-->", " ", token.content, flags=re.DOTALL)), where)
        if name := token.attrs.get("id"):
            self._label(str(name))

    def _inline(self, tokens: list[Token] | None, where: str) -> None:
        text = ""
        for token in [*(tokens or []), None]:
            if token is not None and token.type in ("text", "softbreak", "hardbreak"):
                text += token.content or "\n"
                continue
            if token is not None and token.type in ("strong_open", "strong_close", "em_open", "em_close"):
                continue
            self._say("text", text, where)
            text = ""
            if token is not None:
                self._span(token, where)

    def _span(self, token: Token, where: str) -> None:
        if token.type in ("math_inline", "math_inline_double"):
            self._say("math", token.content, where)
        elif token.type == "code_inline":
            self._say("code", token.content, where)
        elif token.type == "link_open" and token.info != "auto":
            self.prose.references.append(Reference("link", str(token.attrs["href"]), where))
        elif token.type == "image":
            self.prose.references.append(Reference("image", str(token.attrs["src"]), where))
            self._say("text", token.content, where)
        elif token.type == "myst_role":
            self._role(token.meta["name"], token.content, where)
        if name := token.attrs.get("id"):
            self._label(str(name))

    def _role(self, name: str, content: str, where: str) -> None:
        base = name.split(":", 1)[0]
        if base not in REFERENCE_ROLES:
            self._say({"math": "math", "code": "code"}.get(base, "text"), content, where)
            return
        explicit = re.fullmatch(r"(.*?)\s*<([^<>]+)>", content, re.DOTALL)
        text, target = explicit.groups() if explicit else ("", content)
        self._say("text", text, where)
        for one in target.split(",") if base == "cite" else [target]:
            self.prose.references.append(Reference(base, one.strip(), where))

    def _fence(self, token: Token, first_line: int, where: str) -> None:
        directive = re.match(r"\{([\w:-]+)\}\s*(.*)", token.info)
        if directive is None or directive[1] in CODE_DIRECTIVES:
            self._say("listing", token.content, where)
            return
        name, argument = directive.groups()
        options, body, skipped = _options(token.content)
        for key in ("name", "label"):
            if options.get(key):
                self._label(options[key])
        if name == "math":
            self._say("math", argument + "\n" + body, where)
        elif name in ("exercise", "exercise-start"):
            self.prose.exercises += 1
        elif name == "glossary":
            self.prose.terms |= {line.strip().lower() for line in body.splitlines() if line.strip() and line[0] != " "}
        self._argument(name, argument, where)
        self._say("text", options.get("alt", ""), where)
        if name not in SILENT_DIRECTIVES and name != "math":
            self.read(body, first_line + (token.map[0] if token.map else 0) + 1 + skipped)

    def _argument(self, name: str, argument: str, where: str) -> None:
        if name in ("figure", "image"):
            self.prose.figures += 1
            self.prose.references.append(Reference("image", argument, where))
        elif name in ("solution", "solution-start"):
            self.prose.references.append(Reference("ref", argument, where))
        elif name not in PATH_DIRECTIVES and name != "math" and argument:
            self.prose.titles.append(argument)
            self._inline(_parser().parseInline(argument, {})[0].children, where)


def _options(content: str) -> tuple[dict[str, str], str, int]:
    """A directive's options, its body, and how many lines the options take."""
    lines, options, taken = content.splitlines(), {}, 0
    if lines and lines[0].strip() == "---" and "---" in [line.strip() for line in lines[1:]]:
        taken = [line.strip() for line in lines[1:]].index("---") + 2
        options = dict(line.split(":", 1) for line in lines[1:taken - 1] if ":" in line)
    while taken < len(lines) and (match := _OPTION.fullmatch(lines[taken].strip())):
        options[match[1]] = match[2]
        taken += 1
    return {key.strip(): value.strip() for key, value in options.items()}, "\n".join(lines[taken:]), taken


def cells(source: Path) -> list[dict]:
    """The cells of a notebook; the text of each is one string. A Markdown file is one Markdown cell."""
    text = source.read_text(encoding="utf-8")
    if source.suffix != ".ipynb":
        return [{"cell_type": "markdown", "source": text, "metadata": {}}]
    return [{**cell, "source": "".join(cell["source"])} for cell in json.loads(text)["cells"]]


def read_prose(page: Page) -> Prose:
    """Everything that the page's Markdown says and points to."""
    prose = Prose()
    for number, cell in enumerate(cells(page.source), start=1):
        if cell["cell_type"] == "markdown":
            place = (f"cell {number}, line {{}}" if page.is_notebook else "line {}").format
            _Reader(prose, place).read(cell["source"])
        elif isinstance(name := cell["metadata"].get("mystnb", {}).get("figure", {}).get("name"), str):
            prose.labels.add(name)
    return prose
