"""RoundingExplorer's JavaScript against codec.py, bit for bit: destinations, chances, bins, overflow rules, draws.

test_widgets_numerics.py compares the arithmetic below it on every tie; here it is what the explorer makes of it.
"""

import json
import shutil
import subprocess
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from javascript import node_program
from sixteenbits import codec
from sixteenbits.formats import BF16, E8M0FNU, FORMATS, FP4_E2M1FN, FP8_E4M3FN, FP8_E5M2, FP16, FP64
from sixteenbits.widgets.explorer import bundle
from test_widgets_numerics import OWN, draws, finite_values, questions

HERE = Path(__file__).parent
TINY = [f for f in [*FORMATS.values(), *OWN] if f.bits <= 8]
WIDER = [FP16, BF16, FORMATS["fp32"], FORMATS["tf32"]]
MODES = [(rounding, overflow) for rounding in codec.ROUNDINGS for overflow in codec.OVERFLOWS]
DIRECTED = ("toward_positive", "toward_negative")
EVERY_MODE = pytest.mark.parametrize(("rounding", "overflow"), MODES, ids=lambda mode: mode)


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """ask(jobs) -> answers: runs rounding_node.mjs once on all jobs of a test."""
    program = node_program()
    folder = tmp_path_factory.mktemp("rounding")
    (folder / "rounding.mjs").write_text(bundle("rounding_panels.js"), encoding="utf-8")
    shutil.copy(HERE / "rounding_node.mjs", folder / "rounding_node.mjs")

    def ask(jobs: list[dict]) -> list:
        (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        done = subprocess.run([program, "rounding_node.mjs"], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout, parse_int=float)  # codes are texts

    return ask


def texts(xs: np.ndarray) -> list[str]:
    """float64 numbers as JavaScript's Number() reads them exactly."""
    names = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN", "-0.0": "-0"}
    return [names.get(repr(x), repr(x)) for x in xs.tolist()]


def inputs(format) -> np.ndarray:
    """Every value and tie of a small format with their float64 neighbors; a sample of a wide one's."""
    x = questions(format)
    return x if format.bits <= 8 else np.random.default_rng(1).choice(x, 3000, replace=False)


def test_draws_are_those_of_the_library(node):
    [got] = node([{"do": "draws", "key": 2030, "count": 500}])
    assert [int(n) for n in got] == draws(500, 2030).tolist()


@EVERY_MODE
def test_destinations(node, rounding, overflow):
    formats = [*TINY, *WIDER]
    xs = [inputs(f) for f in formats]
    answers = node([{"do": "outcomes", "format": asdict(f), "xs": texts(x), "rounding": rounding, "overflow": overflow}
                    for f, x in zip(formats, xs, strict=True)])
    for format, x, got in zip(formats, xs, answers, strict=True):
        if rounding != "stochastic":
            want = codec.encode(x, format, rounding, overflow, nan=0.0)
            assert [int(code) for code, *_ in got] == want.tolist(), format.name
            assert all(other is None for _, other, *_ in got)
            continue
        away, back = (codec.encode(x, format, mode, overflow, nan=0.0) for mode in DIRECTED)
        away, back = np.where(x < 0, back, away), np.where(x < 0, away, back)
        for number, code, near, (got_code, got_other, num, den) in zip(x, away, back, got, strict=True):
            if got_other is not None:
                assert (int(got_code), int(got_other)) == (code, near), (format.name, number)
                assert Fraction(int(num), int(den)) == chance_of(number, format), (format.name, number)
            else:
                assert int(got_code) in (code, near)


def chance_of(x: float, format) -> Fraction:
    """How far |x| lies between the values around it; beyond the largest one the grid goes on by one gap."""
    size = Fraction(abs(x))
    near = Fraction(float(codec.round_to(abs(x), format, "toward_zero", "saturate")))
    gap = Fraction(float(codec.ulp(float(near), format)))
    return (size - near) / gap


def test_chances_are_what_the_library_draws(node):
    """300 roundings of one number in the page and in the library: not alike on average, but the same ones."""
    x = ["0.3", "-0.3", "0.001", "460", "-470", "1.0625", "5e-4", "0.25"]
    formats = [FP8_E4M3FN, FP8_E5M2, FP16, BF16, FP4_E2M1FN, *OWN[3:5]]
    jobs = [{"do": "hundreds", "format": asdict(f), "xs": [exact_text(t) for t in x], "seed": 11, "overflow": overflow}
            for f in formats for overflow in codec.OVERFLOWS]
    answers = iter(node(jobs))
    for format in formats:
        for overflow in codec.OVERFLOWS:
            for text, (count, ups, mean) in zip(x, next(answers), strict=True):
                row = np.full(int(count), float(text))
                got = codec.encode(row, format, "stochastic", overflow, rng=11, nan=0.0)
                mode = "toward_negative" if float(text) < 0 else "toward_positive"
                far = codec.encode(float(text), format, mode, overflow, nan=0.0)
                if len(set(got.tolist())) > 1:
                    assert ups == (got == far).sum(), (format.name, overflow, text)
                if mean is not None:
                    np.testing.assert_allclose(mean, codec.decode(got, format).mean(), rtol=1e-14)


def exact_text(text: str) -> str:
    """The float64 that a text stands for, as a decimal without rounding."""
    return codec.decimal(float(text))


@EVERY_MODE
def test_bins_hold_what_goes_there(node, rounding, overflow):
    """Cut the whole line of each small format into bins; every float64 in a bin must go where the bin says."""
    formats = [f for f in TINY if abs(f.bias) < 100]
    ends = [1.6171875 * f.max for f in formats]
    answers = node([{"do": "pieces", "format": asdict(f), "low": -end, "high": end, "rounding": rounding,
                     "overflow": overflow} for f, end in zip(formats, ends, strict=True)])
    for format, end, got in zip(formats, ends, answers, strict=True):
        shown = codec.decode(np.array([int(code) for code in got["values"]]), format)
        np.testing.assert_array_equal(np.abs(shown), np.abs(finite_values(format)), err_msg=format.name)
        x = questions(format)
        x = x[np.abs(x) <= end]
        low, high, low_in, high_in, code, other = map(np.array, zip(*got["pieces"], strict=True))
        assert (low[0], high[-1]) == (-end, end)
        assert (low[1:] == high[:-1]).all(), format.name
        column = x[:, None]
        inside = (column > low) & (column < high) | (column == low) & low_in | (column == high) & high_in
        zero = x == 0  # minus zero has no place of its own; and where -tiny goes to -0 and tiny up, +0 is a bin alone
        place = inside.argmax(axis=1)
        if rounding != "stochastic":
            assert ((inside.sum(axis=1) == 1) | zero).all(), format.name
            want = codec.encode(x[~zero], format, rounding, overflow, nan=0.0)
            np.testing.assert_array_equal(code[place[~zero]].astype(int), want, err_msg=format.name)
            continue
        shared = inside.any(axis=1) & ~zero
        for number, i in zip(x[shared], place[shared], strict=True):
            goals = {int(code[i]), *([] if other[i] is None else [int(other[i])])}
            both = {int(codec.encode(number, format, mode, overflow, nan=0.0))
                    for mode in DIRECTED}
            beyond = abs(number) > format.max  # far beyond, there is no way back
            assert goals <= both if beyond else goals == both, (format.name, number)


@pytest.mark.parametrize("rounding", codec.ROUNDINGS[:5])
def test_the_three_answers_to_an_overflow(node, rounding):
    formats = [f for f in TINY if f.signed]
    xs = [np.array([m * f.max for m in (0.9, 1, 1 + f.eps / 8, 1.5, 3, -1.01, -2)]) for f in formats]
    answers = node([{"do": "answers", "format": asdict(f), "xs": texts(x), "rounding": rounding}
                    for f, x in zip(formats, xs, strict=True)])
    for format, x, got in zip(formats, xs, answers, strict=True):
        own = codec.encode(x, format, rounding)
        saturated = codec.encode(x, format, rounding, "saturate")
        for row, by_rule, at_most in zip(got, own.tolist(), saturated.tolist(), strict=True):
            *codes, rule = row
            named = dict(zip(["saturate", "infinity", "nan"], codes, strict=True))
            assert int(named["saturate"]) == at_most
            assert int(named[rule]) == by_rule, (format.name, rule)
            assert (named["infinity"] is None) == (not format.infinities)
            assert (named["nan"] is None) == (not format.has_nan)
            if named["nan"] is not None:
                assert int(named["nan"]) in (at_most, format.nan_code)


def test_ties_gaps_and_situations(node):
    formats = [FP4_E2M1FN, FP8_E4M3FN, FP8_E5M2, FP16, BF16, *[f for f in OWN[:4] if f.zero]]
    values = {f: np.sort(np.random.default_rng(2).choice(finite_values(f), 12, replace=False)) for f in formats}
    middles = {f: (v + codec.next_up(v, f)) / 2 for f, v in values.items()}
    middles = {f: m[np.isfinite(m)] for f, m in middles.items()}
    sorts = {f: (values[f], middles[f], np.nextafter(middles[f], np.inf), np.array([2 * f.max])) for f in formats}
    jobs = [{"do": "situations", "format": asdict(f), "xs": texts(x)} for f in formats for x in sorts[f]]
    words = node(jobs)
    assert [set(w) for w in words] == [{"exact"}, {"tie"}, {"between"}, {"above"}] * len(formats)
    gaps = node([{"do": "gaps", "format": asdict(f), "xs": texts(values[f])} for f in formats])
    for format, got in zip(formats, gaps, strict=True):
        np.testing.assert_array_equal(got, codec.ulp(values[format], format), err_msg=format.name)
    numbers = {f: v[(v > -f.max) & (v < f.max)] for f, v in values.items()}
    ties = node([{"do": "ties", "format": asdict(f), "xs": list(map(codec.decimal, numbers[f].tolist()))}
                 for f in formats])
    for format, got in zip(formats, ties, strict=True):
        x = numbers[format]
        below, above = (x + codec.next_down(x, format)) / 2, (x + codec.next_up(x, format)) / 2
        np.testing.assert_array_equal(np.array(got), np.stack([below, above], axis=1), err_msg=format.name)


def test_arrow_keys_move_by_eighths_of_a_gap(node):
    x = np.array([1.0, 0.3125, -2.5, 240.0, 0.0])
    [got] = node([{"do": "moves", "format": asdict(FP8_E4M3FN), "xs": [codec.decimal(v) for v in x.tolist()]}])
    gap = codec.ulp(x, FP8_E4M3FN)
    want = np.stack([x - gap, x - gap / 8, x + gap / 8, x + gap], axis=1)
    np.testing.assert_array_equal(got, want)


def test_states_survive_a_link(node):
    links = ["round/fp8_e4m3fn/0.3/nearest_even/ieee/0/", "round/bf16/257%2F256/stochastic/saturate/-2/fp16%2Bfp32",
             "round/e4m2b7-fn/-0/toward_zero/ieee/9/e5m10b15", "round/fp64/2^-1074/nearest_away/ieee/0/"]
    bad = ["fp16/0x3c00", "round", "round/fp16/0.1", "round/fp17/0.1/nearest_even/ieee/0/", "exercises", "%E0%A4%A",
           "round/fp16/x/nearest_even/ieee/0/", "round/fp16/1/nearest/ieee/0/", "round/fp16/1/nearest_even/ieee/0/fp17"]
    named = [asdict(f) for f in FORMATS.values()]
    good, none = node([{"do": "links", "formats": named, "links": links},
                       {"do": "links", "formats": named, "links": bad}])
    assert [link.replace("%5E", "^") for link in good] == links
    assert none == [None] * len(bad)


def test_odd_formats_do_not_break_it(node):
    """Formats without zero, without sign, beyond float64's usual places: a window can still be laid and cut."""
    formats = [E8M0FNU, FP64, *OWN]
    answers = node([{"do": "outcomes", "format": asdict(f), "xs": ["0", "-0", "1", "-1", "1e9"], "rounding": rounding,
                     "overflow": "ieee"} for f in formats for rounding in codec.ROUNDINGS])
    assert all(len(answer) == 5 for answer in answers)
