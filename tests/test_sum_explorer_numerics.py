"""SumExplorer's JavaScript against `accumulate`, bit for bit: every way, every format, lengths of every kind."""

import json
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import traitlets

from javascript import node_program
from sixteenbits import accumulate, arithmetic
from sixteenbits.accumulate import ACCUMULATORS, ORDERS, chunks_of
from sixteenbits.codec import ROUNDINGS, round_to
from sixteenbits.formats import FORMATS, Format
from sixteenbits.widgets import SumExplorer
from sixteenbits.widgets.explorer import bundle, record
from sixteenbits.widgets.sum_explorer import MAX_TERMS, SHOWN, WAYS, default_terms, way_record

HERE = Path(__file__).parent
LENGTHS = [1, 2, 3, 4, 6, 31, 32, 33, 64, 90, 181, 300]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """ask(jobs) -> answers: runs sums_node.mjs once on all jobs of a test."""
    program = node_program()
    folder = tmp_path_factory.mktemp("sums")
    (folder / "sums.mjs").write_text(bundle("sum_words.js"), encoding="utf-8")
    shutil.copy(HERE / "sums_node.mjs", folder / "sums_node.mjs")

    def ask(jobs: list[dict]) -> list:
        (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        done = subprocess.run([program, "sums_node.mjs"], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ask


def wild_terms(n: int) -> np.ndarray:
    """Both signs, many binades, minus zeros."""
    random = np.random.default_rng(5)
    x = random.standard_normal(n) * 2.0 ** random.integers(-12, 13, n)
    x[::17] = -0.0
    return x


def every_way() -> list[tuple]:
    """(order, accumulator, record): those of the explorer, and others that its JavaScript could be asked for."""
    ways = [(ORDERS[w.order], ACCUMULATORS[w.accumulator]) for w in WAYS.values()]
    ways += [(ORDERS[order], ACCUMULATORS["stochastic"]) for order in ("pairwise", "kahan", "chunks_of_32")]
    ways += [(chunks_of(7), ACCUMULATORS["fp32"])]
    ways += [(ORDERS["sequential"], accumulate.Accumulator(mode, mode, rounding=mode)) for mode in ROUNDINGS]
    return [(order, acc, {"scheme": order.scheme, "chunk": order.chunk, "rounding": acc.rounding,
                          "format": acc.format and record(acc.format)}) for order, acc in ways]


@pytest.mark.parametrize("format", [*SHOWN, "fp8_e4m3fnuz", "fp6_e3m2fn", Format("e5m2b20", 5, 2, bias=20)], ids=str)
def test_sums_are_those_of_the_library(node, format):
    format = FORMATS.get(format, format)
    terms = wild_terms(max(LENGTHS)) * 2.0 ** min(0, format.emax - 20)
    jobs = [{"do": "sums", "format": asdict(format), "terms": list(map(repr, terms.tolist())), "lengths": LENGTHS,
             "way": way, "key": 2030} for *_, way in every_way()]
    for (order, accumulator, way), got in zip(every_way(), node(jobs), strict=True):
        want = [repr(float(arithmetic.sum(terms[:n], format, accumulator, order, rng=2030))) for n in LENGTHS]
        assert [repr(float(text)) for text in got] == want, (format.name, way)


def test_overflow_and_nan(node):
    cases = [("fp16", [60000.0, 60000.0, -60000.0]), ("fp16", [np.inf, 1.0, -np.inf]),
             ("fp8_e4m3fn", [448.0, 448.0, 1.0]), ("bf16", [np.nan, 1.0]), ("fp6_e3m2fn", [28.0, 28.0, -1.0]),
             ("fp16", [-0.0, -0.0]), ("fp16", [1.0, -1.0])]
    for name, terms in cases:
        jobs = [{"do": "sums", "format": asdict(FORMATS[name]), "terms": list(map(repr, terms)),
                 "lengths": [len(terms)], "way": way, "key": 1} for *_, way in every_way()]
        for (order, accumulator, way), [got] in zip(every_way(), node(jobs), strict=True):
            want = float(arithmetic.sum(terms, name, accumulator, order, rng=1))
            assert repr(float(got)) == repr(want), (name, terms, way)


def test_the_explorers_own_data_and_lengths(node):
    """What the page shows at first, for all its formats, data and ways; and the exact sums beside it."""
    lengths = [1, 1448, MAX_TERMS]
    for explorer in [SumExplorer(name) for name in ("bf16", "fp8_e4m3fn")]:
        format = FORMATS[explorer.format]
        jobs = [{"do": "sums", "format": asdict(format), "terms": list(map(repr, x.tolist())), "lengths": lengths,
                 "way": way, "key": explorer.seed} for x in default_terms().values() for way in explorer.ways]
        jobs += [{"do": "exact", "format": asdict(format), "data": data, "lengths": lengths} for data in explorer.sets]
        answers = iter(node(jobs))
        for x in default_terms().values():
            for way in WAYS.values():
                want = [arithmetic.sum(x[:n], format, way.accumulator, way.order, rng=explorer.seed) for n in lengths]
                assert [repr(float(text)) for text in next(answers)] == [repr(float(y)) for y in want], way.name
        for x in default_terms().values():
            held = round_to(x, format)
            want = [[arithmetic.exact_sum(held[:n]), arithmetic.exact_sum(np.abs(held[:n]))] for n in lengths]
            assert [[float(text) for text in pair] for pair in next(answers)] == want


def test_additions_that_change_nothing(node):
    """1, then 1/1024 again and again: in BF16 no addition changes anything, in FP16 all do up to 2."""
    explorer = SumExplorer()
    data = explorer.sets[2]
    sequential = way_record(WAYS["sequential"], "#000")
    bf16, fp16 = node([{"do": "idle", "format": asdict(FORMATS[name]), "data": data, "lengths": [4, 1025, MAX_TERMS],
                        "way": sequential} for name in ("bf16", "fp16")])
    assert bf16 == [{"count": 3, "last": 1}, {"count": 1024, "last": 1}, {"count": MAX_TERMS - 1, "last": 1}]
    assert fp16[:2] == [{"count": 0, "last": 4}, {"count": 0, "last": 1025}]
    assert fp16[2]["last"] < MAX_TERMS


def test_traits_and_their_errors():
    explorer = SumExplorer("fp16", way="pairwise", length=100)
    assert explorer.result == arithmetic.sum(default_terms()["positive, 0 to 1"][:100], "fp16", order="pairwise")
    assert SumExplorer(terms={"mine": [0.1, 0.2]}, length=2).result == arithmetic.sum([0.1, 0.2], "bf16")
    for arguments, message in [({"format": "fp4_e2m1fn"}, "choose one of fp32"), ({"way": "random"}, "way"),
                               ({"data": "none"}, "choose one of 'positive"), ({"length": 0}, "length")]:
        with pytest.raises(traitlets.TraitError, match=message):
            SumExplorer(**arguments)
    with pytest.raises(ValueError, match="'mine' holds 0 numbers"):
        SumExplorer(terms={"mine": []})
    with pytest.raises(ValueError, match="spans too many binades"):
        SumExplorer(terms={"mine": [1e30, 1e-30]})


@pytest.mark.parametrize("terms", list(default_terms().values()), ids=list(default_terms()))
def test_terms_are_handed_over_exactly(terms):
    [data] = SumExplorer(terms={"one": terms}).sets
    assert (np.array(data["steps"]) * data["unit"] == terms).all()
    assert (round_to(terms, "fp16") == terms).all()


def test_bounds_are_those_of_the_library(node):
    got = node([{"do": "bounds", "format": asdict(FORMATS[name]), "lengths": LENGTHS} for name in SHOWN])
    for name, pairs in zip(SHOWN, got, strict=True):
        want = [arithmetic.worst_case(LENGTHS, name), arithmetic.random_walk(LENGTHS, name)]
        np.testing.assert_allclose(np.array([[float(x) for x in pair] for pair in pairs]).T, want, rtol=1e-15)


def test_links_name_states(node):
    explorer = SumExplorer()
    tables = {"formats": explorer.formats, "ways": explorer.ways, "sets": explorer.sets, "seed": 0}
    links = ["bf16/sequential/1/4096/error", "fp16/kahan/3/64/sum"]
    bad = ["bf16/sequential/4/4096/error", "bf17/kahan/1/1/error", "bf16/kahan/1/x/error", "bf16/kahan/1/1/error/1",
           "x"]
    [got] = node([{"do": "links", "format": asdict(FORMATS["bf16"]), "tables": tables, "links": links + bad}])
    assert got == links + [None] * len(bad)
