"""Is what a page says borne out? Every function gives a list of problems, each a line that says where and what to do.

Numbers: `prose_numbers` says which count and when a printed one bears one out, `prose_outputs` what counts as printed.
What no cell prints stands in `chapters/cited_facts.toml`; that file explains itself.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import prose_names
from bookfiles import ROOT, Page, pages
from prose_numbers import Number, borne_out, nearest, numbers_in_prose, numbers_printed
from prose_text import Piece, Prose, cells, read_prose

FACTS = "chapters/cited_facts.toml"
OUTSIDE = ("http://", "https://", "mailto:")
SPHINX_PAGES = {"genindex", "modindex", "search"}
_MENTION = re.compile(r"\b(chapter|exercise|figure)s?\s+(\d+(?:\.\d+)?)(?:\s*(?:,|and|or|to|–|-)\s*(\d+(?:\.\d+)?))?"
                      r"(?!\s+(?:of|in)\b)", re.IGNORECASE)


@dataclass(frozen=True)
class Fact:
    """A number that the text may state although no cell of the page prints it."""

    pages: tuple[str, ...]
    number: Number
    source: str | None
    printed_in: str | None


@dataclass(frozen=True)
class Facts:
    """What `cited_facts.toml` holds: facts, words that may stand in backticks or hold digits, what is wrong."""

    facts: list[Fact]
    words: dict[str, str]
    problems: list[str]


def _fact(entry: dict, problems: list[str]) -> Fact | None:
    names = entry.get("page", [])
    where = f"{FACTS}, number {entry.get('number')!r}"
    numbers = numbers_in_prose(str(entry.get("number", "")).replace("$", ""))
    if len(numbers) != 1 or not names:
        problems.append(f'{where}: an entry needs a page and one number as the text writes it, such as "65,504"')
        return None
    if bool(entry.get("source")) == bool(entry.get("printed_in")):
        problems.append(f"{where}: say either its source or the chapter that it is printed_in")
    elif entry.get("source") and not entry.get("says"):
        problems.append(f"{where}: say in `says` what the source states")
    return Fact((names,) if isinstance(names, str) else tuple(names), numbers[0],
                entry.get("source"), entry.get("printed_in"))


def read_facts(path: Path) -> Facts:
    """Read `cited_facts.toml`; an entry that is not as the file asks becomes a problem."""
    table, problems = tomllib.loads(path.read_text(encoding="utf-8")), []
    facts = [fact for entry in table.get("fact", []) if (fact := _fact(entry, problems))]
    words = {entry.get("text", ""): entry.get("says", "") for entry in table.get("word", [])}
    problems += [f"{FACTS}, word {text!r}: say what it is" for text, says in words.items() if not (text and says)]
    problems += [f"{FACTS}: no table is called {name!r}; use fact or word" for name in table.keys() - {"fact", "word"}]
    return Facts(facts, words, problems)


@dataclass(frozen=True)
class Book:
    """All pages below `root`, as far as one page may refer to another."""

    root: Path = ROOT

    @cached_property
    def pages(self) -> list[Page]:
        return pages(self.root)

    @cached_property
    def prose(self) -> dict[str, Prose]:
        return {page.name: read_prose(page) for page in self.pages}

    @cached_property
    def facts(self) -> Facts:
        return read_facts(self.root / FACTS)

    @cached_property
    def citation_keys(self) -> set[str]:
        texts = [file.read_text(encoding="utf-8") for file in (self.root / "chapters").glob("*.bib")]
        return {key for text in texts for key in re.findall(r"@\w+\{\s*([^,\s]+)\s*,", text)}

    @cached_property
    def labels(self) -> set[str]:
        return SPHINX_PAGES.union(*(prose.labels for prose in self.prose.values()))

    @cached_property
    def terms(self) -> set[str]:
        return set().union(*(prose.terms for prose in self.prose.values()))

    def where(self, page: Page, place: str) -> str:
        return f"{page.source.relative_to(self.root)}, {place}"


def _without_words(book: Book, text: str) -> str:
    for word in book.facts.words:
        text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", " ", text)
    return text


def claims(book: Book, page: Page) -> Iterator[tuple[Piece, Number]]:
    """The numbers of a page that need a cell or a source."""
    for piece in book.prose[page.name].pieces:
        kind = "code" if piece.kind == "listing" else piece.kind
        for number in numbers_in_prose(_without_words(book, piece.text), kind):
            yield piece, number


def number_problems(book: Book, page: Page, printed_text: str) -> list[str]:
    """Numbers of the page that neither its cells print nor a cited fact covers."""
    printed = numbers_printed(printed_text)
    cited = [fact.number for fact in book.facts.facts if page.name in fact.pages]
    problems = []
    for piece, number in claims(book, page):
        if not borne_out(number, printed) and not borne_out(number, cited):
            near = nearest(number, [*printed, *cited])
            problems.append(f"{book.where(page, piece.where)}: no cell of this page prints {number.written}"
                            + (f" (nearest: {near})" if near else "")
                            + f". Correct it, print it in a cell, or add it with its source to {FACTS}")
    return problems


def fact_problems(book: Book, printed_texts: dict[str, str]) -> list[str]:
    """What is wrong with `cited_facts.toml`: entries that nobody needs, sources that do not exist, wrong chapters."""
    problems = list(book.facts.problems)
    stated = {page.name: [number for _, number in claims(book, page)] for page in book.pages}
    for fact in book.facts.facts:
        where = f"{FACTS}, number {fact.number.written!r}"
        for name in fact.pages:
            if not any(number.agrees(fact.number) for number in stated.get(name, [])):
                problems.append(f"{where}: page {name} does not state it (any more). Remove the entry")
        if fact.source and fact.source not in book.citation_keys and "://" not in fact.source:
            problems.append(f"{where}: source {fact.source!r} is neither a key of references.bib nor holds an address")
        if fact.printed_in and not borne_out(fact.number, numbers_printed(printed_texts.get(fact.printed_in, ""))):
            problems.append(f"{where}: no cell of {fact.printed_in} prints it")
    every_piece = " ".join(piece.text for prose in book.prose.values() for piece in prose.pieces)
    problems += [f"{FACTS}, word {word!r}: no page uses it (any more). Remove the entry"
                 for word in book.facts.words if word not in every_piece]
    return problems


def name_problems(book: Book, page: Page) -> list[str]:
    """Names in backticks that nobody has."""
    code = tuple(cell["source"] for cell in cells(page.source) if cell["cell_type"] == "code")
    own = prose_names.page_names(code)
    return [f"{book.where(page, piece.where)}: `{piece.text}`: {problem}. Correct it, or add it as a word to {FACTS}"
            for piece in book.prose[page.name].pieces
            if piece.kind == "code" and piece.text not in book.facts.words
            and (problem := prose_names.unknown(piece.text, own))]


def _link_problem(book: Book, page: Page, target: str) -> str | None:
    path, _, fragment = target.partition("#")
    if target.startswith(OUTSIDE):
        return None
    if not path:
        known = book.labels | book.prose[page.name].anchors
        return None if fragment in known else f"no label or heading is #{fragment}"
    if not Path(path).suffix and path in book.labels:
        return None
    file = (page.source.parent / path).resolve()
    sources = {other.source.resolve(): other for other in book.pages}
    names = (file, Path(f"{file}.md"), Path(f"{file}.ipynb"))
    linked = next((sources[name] for name in names if name in sources), None)
    if linked is None:
        pagelike = file.suffix in (".md", ".ipynb", ".html", "")
        return None if file.is_file() and not pagelike else f"_toc.yml lists no page {path}, and no other file is there"
    anchors = book.prose[linked.name].anchors
    return f"{path} has no label or heading #{fragment}" if fragment and fragment not in anchors else None


def _reference_problem(book: Book, page: Page, kind: str, target: str) -> str | None:
    if kind == "link":
        return _link_problem(book, page, target)
    if kind == "doc":
        base = book.root if target.startswith("/") else page.source.parent
        paths = {other.source.with_suffix("").resolve() for other in book.pages}
        return None if (base / target.lstrip("/")).resolve() in paths else f"_toc.yml lists no page {target}"
    if kind in ("image", "download"):
        found = target.startswith(OUTSIDE) or (page.source.parent / target).is_file()
        return None if found else f"there is no file {target} beside the page"
    known, what = {"cite": (book.citation_keys, "no entry of references.bib"),
                   "term": (book.terms, "no term of the glossary"),
                   }.get(kind, (book.labels, "no label in the book"))
    return None if (target.lower() if kind == "term" else target) in known else f"{what} is called {target}"


def reference_problems(book: Book, page: Page) -> list[str]:
    """Links, roles, citations and images of the page that lead nowhere."""
    return [f"{book.where(page, reference.where)}: {reference.kind} {reference.target!r}: {problem}"
            for reference in book.prose[page.name].references
            if (problem := _reference_problem(book, page, reference.kind, reference.target))]


def mention_problems(book: Book, page: Page, figures: int) -> list[str]:
    """"Chapter 7", "exercise 25", "figure 4" in the text, where there is none. `figures`: how many this page shows.

    Exercises are numbered through the whole book; 2.5 is the fifth of chapter 2.
    """
    exercises = {page.number: book.prose[page.name].exercises for page in book.pages if page.number is not None}
    problems = []
    for piece in book.prose[page.name].pieces:
        for match in _MENTION.finditer(piece.text) if piece.kind == "text" else ():
            for number in filter(None, match.groups()[1:]):
                kind, (first, *rest) = match[1].lower(), map(int, number.split("."))
                there = {
                    "chapter": not rest and first in exercises,
                    "exercise": rest[0] <= exercises.get(first, 0) if rest else first <= sum(exercises.values()),
                    "figure": not rest and first <= figures,
                }[kind]
                if not there:
                    problems.append(f"{book.where(page, piece.where)}: there is no {kind} {number}")
    return problems
