"""Every page: the numbers in its text are printed or cited; the names, chapters and figures it refers to exist."""

import json
import re

import pytest

from bookfiles import pages
from prose import Book, fact_problems, mention_problems, name_problems, number_problems, reference_problems
from prose_numbers import borne_out, numbers_in_prose, numbers_printed
from prose_outputs import charts, printed_text

EVERY_PAGE = pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)


def none_of(problems: list[str]) -> None:
    assert not problems, "\n  ".join(["", *problems])


@pytest.fixture(scope="module")
def the_book() -> Book:
    return Book()


@EVERY_PAGE
def test_every_number_is_printed_or_cited(page, the_book, executed):
    none_of(number_problems(the_book, page, printed_text(executed(page)) if page.is_notebook else ""))


@EVERY_PAGE
def test_every_name_in_backticks_is_somebodys(page, the_book):
    none_of(name_problems(the_book, page))


@EVERY_PAGE
def test_every_reference_leads_somewhere(page, the_book):
    none_of(reference_problems(the_book, page))


@EVERY_PAGE
def test_every_chapter_exercise_and_figure_mentioned_exists(page, the_book, executed):
    cells = json.loads(executed(page).read_text(encoding="utf-8"))["cells"] if page.is_notebook else []
    figures = the_book.prose[page.name].figures + sum(len(charts(cell)) for cell in cells)
    none_of(mention_problems(the_book, page, figures))


def test_cited_facts_are_used_and_have_a_source(the_book, executed):
    texts = {page.name: printed_text(executed(page)) for page in the_book.pages if page.is_notebook}
    none_of(fact_problems(the_book, texts))


# ---- The tests above can fail: small books in which one thing is wrong -------------------------------------------

def notebook(*cells: str | tuple[str, dict]) -> str:
    """A notebook as JSON: strings are Markdown cells, pairs are code cells with the data of their one output."""
    def cell(content):
        if isinstance(content, str):
            return {"cell_type": "markdown", "metadata": {}, "source": content}
        output = {"output_type": "display_data", "metadata": {}, "data": content[1]}
        return {"cell_type": "code", "metadata": {}, "source": content[0], "execution_count": 1, "outputs": [output]}
    return json.dumps({"cells": list(map(cell, cells)), "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def small_book(tmp_path):
    """Write a book of one chapter beside a Markdown page; give the book, its chapter, and what the chapter prints."""
    def write(*cells, facts: str = "", page: str = "# A page"):
        (tmp_path / "chapters").mkdir()
        (tmp_path / "_toc.yml").write_text("root: chapters/index\nchapters:\n- file: chapters/01_one\n")
        (tmp_path / "chapters/index.md").write_text(page)
        (tmp_path / "chapters/01_one.ipynb").write_text(notebook(*cells))
        (tmp_path / "chapters/cited_facts.toml").write_text(facts)
        (tmp_path / "chapters/references.bib").write_text("@misc{ieee754,\n title={x}}\n")
        book = Book(tmp_path)
        return book, book.pages[1], printed_text(book.pages[1].source)
    return write


PRINTS = ("x", {"text/plain": "tensor(65504.) 6.103515625e-05 0x3c00", "text/html": "<td>1.1754943508222875e-38</td>"})


@pytest.mark.parametrize("text", [
    "The largest is 65,504.", "about 65,500", "`0x3c00`", "$6.10 \\times 10^{-5}$", "6.1 × 10⁻⁵",
    "In 2019, FP16 and E4M3 had 1,000 codes; see section 3.10 and IEEE 754-2019, on 2026-11-30.", "100% of 0.5",
    "$1.18\\times10^{-38}$",
    "[a link](https://example.org/12345)", "{cite}`ieee754`", "$2^{-14}$", "% a comment with 12345", "$10^{-45}$",
])
def test_a_right_number_passes(small_book, text):
    book, page, printed = small_book(text, PRINTS)
    none_of(number_problems(book, page, printed))


@pytest.mark.parametrize(("text", "written"), [
    ("The largest is 65,503.", "65,503"), ("`0x3c01`", "0x3c01"), ("$6.11 \\times 10^{-5}$", "6.11e-5"),
    ("6.2 × 10⁻⁵", "6.2e-5"), ("1.18e-39", "1.18e-39"), ("**2048** steps", "2048"), ("$2^{-15}$", "2^-15"),
    ("$2^{-149}$", "2^-149"), (":::{note} 12,345\nhere\n:::", "12,345"), ("| a |\n|--|\n| 1.234 |", "1.234"),
    ("```{figure} x.png\n:alt: 512 points\n:width: 300px\n777 dots\n```", "512"), ("`0 01111 0000000000`", "0 01111"),
    ("```python\nlr = 0.00125\n```", "0.00125"), ("12.5%", "12.5"), ("175B weights", "175"), ("0.667…", "0.667"),
])
def test_a_wrong_number_fails_and_is_named(small_book, text, written):
    book, page, printed = small_book("# One", text, PRINTS)
    problems = number_problems(book, page, printed)
    assert problems
    assert problems[0].startswith("chapters/01_one.ipynb, cell 2, line ")
    assert f"prints {written}" in problems[0]


def test_the_message_names_the_nearest_printed_number(small_book):
    book, page, printed = small_book("The largest is 65,503.", PRINTS)
    assert number_problems(book, page, printed) == [
        "chapters/01_one.ipynb, cell 1, line 1: no cell of this page prints 65,503 (nearest: 65504). Correct it, print "
        "it in a cell, or add it with its source to chapters/cited_facts.toml"]


@pytest.mark.parametrize(("text", "output"), [
    ("12.5%", "0.125"), ("0.666…", "0.66667"), ("0.125", "1.25e-01"), ("256", "[256, 128]"), ("65,504", "-65,504"),
    ("`0 01111 0000000000`", "0 | 01111 | 0000000000"), ("01111", "0b0011110"), ("$2^{11}$", "2048"),
    ("$2^{-149}$", "1.401298464324817e-45"), ("$2^{-149}$", "2**-149"), ("$2^{-149}$", "emin -149"),
])
def test_ways_of_printing_a_number(text, output):
    kind = "math" if text.startswith("$") else "code" if text.startswith("`") else "text"
    found = numbers_in_prose(text.strip("$`"), kind)
    assert found
    assert all(borne_out(number, numbers_printed(output)) for number in found)


def test_a_chart_counts_with_its_words_and_with_few_data(small_book):
    def chart(rows, description="Gaps"):
        return "chart", {"application/vnd.vegalite.v6+json": {
            "description": description, "width": 648, "data": {"values": [{"x": row / 8} for row in range(rows)]}}}

    book, page, printed = small_book("648 and 0.875 and 12.625 here and 333", chart(8, "333 points"), chart(999))
    problems = number_problems(book, page, printed)
    assert [re.search(r"prints ([\d.]+\d)", problem)[1] for problem in problems] == ["648", "12.625"]


FACT = '[[fact]]\npage = "01_one"\nnumber = "312"\nsays = "TFLOPS"\nsource = "ieee754"\n'


def test_a_cited_number_passes(small_book):
    word = '[[word]]\ntext = "RTX 4090"\nsays = "a GPU"\n'
    book, page, printed = small_book("312 TFLOPS on an RTX 4090", facts=FACT + word)
    none_of(number_problems(book, page, printed) + fact_problems(book, {}))


@pytest.mark.parametrize(("facts", "complaint"), [
    (FACT.replace("312", "313"), "does not state it"),
    (FACT.replace("ieee754", "nobody2020"), "neither a key of references.bib"),
    (FACT.replace('source = "ieee754"\n', ""), "say either its source"),
    (FACT.replace('says = "TFLOPS"\n', ""), "say in `says`"),
    (FACT.replace("312", "some"), "one number"),
    (FACT + '[[word]]\ntext = "H100"\nsays = "a GPU"\n', "no page uses it"),
    ('[[fact]]\npage = "01_one"\nnumber = "312"\nprinted_in = "02_two"\n', "no cell of 02_two prints it"),
    (FACT.replace("[[fact]]", "[[facts]]"), "no table is called"),
])
def test_a_wrong_entry_of_the_facts_fails(small_book, facts, complaint):
    book, _, _ = small_book("312 TFLOPS", facts=facts)
    assert complaint in "\n".join(fact_problems(book, {"02_two": "313"}))


@pytest.mark.parametrize("span", [
    "Format", "FORMATS", "Format.eps", "formats.FP16", "sixteenbits.formats", "as_format('fp16')", "mine", "mine_too",
    "torch.finfo", "np.float16", "fp8_e4m3fn", "mantissa_bits", "lr", "0x3c00", "pyproject.toml", "make book", "NaN",
])
def test_a_name_that_exists_passes(small_book, span):
    book, page, _ = small_book(f"Take `{span}`.", ("mine_too = 3", {}))
    none_of(name_problems(book, page))


@pytest.mark.parametrize("span", [
    "FORMATZ", "Format.epsilon", "formats.FP17", "sixteenbits.nothing", "as_format('fp16', mode=1)", "round_it_to(x)",
    "torch.nothing", "mine_three", "nothing.toml", "make coffee", "1 + formats.nothing",
])
def test_a_name_that_nobody_has_fails(small_book, span):
    book, page, _ = small_book("# One", f"Take `{span}`.", ("mine_too = 3", {}))
    problems = name_problems(book, page)
    assert len(problems) == 1
    assert problems[0].startswith(f"chapters/01_one.ipynb, cell 2, line 1: `{span}`: ")


GOOD_PAGE = "(here)=\n# A page\n\n```{figure} 01_one.ipynb\n:name: fig-a\n```\n\n```{glossary}\nULP\n  A gap.\n```\n"


@pytest.mark.parametrize("text", [
    "[](index.md)", "[a](index.md#here)", "[b](#here)", "{doc}`index`", "{ref}`here`", "{ref}`there <here>`",
    "{term}`ulp`", "{numref}`fig-a`", "{cite:t}`ieee754`", "[c](https://example.org/x.html)", "[d](index.md#a-page)",
    "[e](cited_facts.toml)",
])
def test_a_reference_that_leads_somewhere_passes(small_book, text):
    book, page, _ = small_book(text, page=GOOD_PAGE)
    none_of(reference_problems(book, page))


@pytest.mark.parametrize("text", [
    "[](02_two.ipynb)", "[a](index.md#nowhere)", "[b](#nowhere)", "{doc}`02_two`", "{ref}`nowhere`", "[c](index.html)",
    "{ref}`x <nowhere>`", "{term}`ulps`", "{numref}`fig-b`", "{cite:t}`ieee754,nobody2020`", "![d](nothing.png)",
])
def test_a_reference_that_leads_nowhere_fails(small_book, text):
    book, page, _ = small_book(text, page=GOOD_PAGE)
    problems = reference_problems(book, page)
    assert len(problems) == 1
    assert problems[0].startswith("chapters/01_one.ipynb, cell 1, line 1: ")


def test_chapters_exercises_and_figures_that_do_not_exist(small_book):
    exercise = "```{exercise} Gaps\n:label: ex-1\nFind one.\n```"
    book, page, _ = small_book("See chapter 1, exercise 1.1 and figure 1, and figure 9 of the paper.", exercise)
    none_of(mention_problems(book, page, figures=1))
    book.prose[page.name].pieces[0] = type(book.prose[page.name].pieces[0])(
        "text", "Chapters 1 and 2, exercise 1.2, figure 2", "cell 1, line 1")
    assert [problem.split("there is ")[1] for problem in mention_problems(book, page, figures=1)] == [
        "no chapter 2", "no exercise 1.2", "no figure 2"]
