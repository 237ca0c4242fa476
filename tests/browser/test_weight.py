"""What a page weighs, as a server sends it that compresses: the first page of a visit, and the next."""

import gzip
from functools import cache
from itertools import pairwise
from urllib.parse import unquote

import pytest

from bookfiles import HTML, pages
from tools.browser import Visit

FIRST_VISIT, NEXT_PAGE = 1_500_000, 300_000  # bytes
COMPRESSED_ALREADY = {".woff", ".woff2", ".png", ".jpg", ".webp"}


@cache
def transferred(file: str) -> int:
    """Bytes on the way for a file of the site."""
    path = HTML / unquote(file)
    data = path.read_bytes()
    return len(data) if path.suffix in COMPRESSED_ALREADY else len(gzip.compress(data, 6))


def check(files: set[str], limit: int) -> None:
    total = sum(map(transferred, files))
    heaviest = ", ".join(f"{file} {transferred(file):,}" for file in sorted(files, key=transferred, reverse=True)[:6])
    assert total <= limit, f"{total:,} bytes, at most {limit:,}; the heaviest: {heaviest}"


@pytest.fixture(scope="module")
def fetched(chromium, site):
    """The files that each page fetches when nothing is cached."""
    found = {}
    for page in pages():
        visit = Visit.begin(chromium, site).open(page.html)
        found[page] = set(visit.files)
        visit.context.close()
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_a_first_visit_is_light(page, fetched):
    check(fetched[page], FIRST_VISIT)


@pytest.mark.parametrize(("before", "page"), list(pairwise(pages())), ids=lambda page: page.name)
def test_the_next_page_is_lighter(before, page, fetched):
    """In reading order. The first chapter brings what all chapters share, so it may be as heavy as a first visit."""
    earlier = pages()[:pages().index(page)]
    new = fetched[page].difference(*(fetched[one] for one in earlier))
    check(new, NEXT_PAGE if any(one.is_notebook for one in earlier) else FIRST_VISIT)


def test_a_heavy_page_fails(fetched):
    with pytest.raises(AssertionError, match="the heaviest: "):
        check(fetched[pages()[0]], limit=1000)
