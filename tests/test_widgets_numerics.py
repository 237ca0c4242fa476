"""The explorers' JavaScript arithmetic against codec.py, bit for bit, in one node process.

Python writes the questions (codes, numbers, texts) and its own answers; node answers the same questions; the answers
are compared. Every code of every format of at most 16 bits is decoded; encoding is asked for every value, every tie
between neighbors and both float64 neighbors of each, in every rounding mode where the format is small.
"""

import json
import math
import shutil
import subprocess
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from javascript import node_program
from sixteenbits import codec
from sixteenbits.formats import FORMATS, Format
from sixteenbits.widgets.explorer import bundle
from sixteenbits.widgets.number_text import nearest_code, read_number, write_number

HERE = Path(__file__).parent

#: Formats that no table holds: every rule for NaN, infinities, subnormals, zero and sign is met at least once.
OWN = [
    Format("e5m10b10", 5, 10, bias=10),
    Format("e1m6", 1, 6),
    Format("e6m1", 6, 1, nan="fnuz"),
    Format("e4m5_fnuz", 4, 5, nan="fnuz", infinities=True),
    Format("e4m4_none_inf", 4, 4, nan="none", infinities=True),
    Format("e5m0_none", 5, 0, nan="none"),
    Format("e6m0_fn", 6, 0, nan="fn", infinities=True),
    Format("e4m3_no_subnormals", 4, 3, subnormals=False),
    Format("e3m0_no_subnormals", 3, 0, nan="none", subnormals=False),
    Format("e5m3_unsigned", 5, 3, signed=False),
    Format("e4m4_unsigned_none", 4, 4, nan="none", signed=False),
    Format("e3m4_no_zero", 3, 4, nan="fn", subnormals=False, zero=False),
    Format("e7m0_no_zero_unsigned", 7, 0, nan="none", subnormals=False, signed=False, zero=False),
    Format("e8m5_far", 8, 5, bias=700),
]
SMALL = [f for f in [*FORMATS.values(), *OWN] if f.bits <= 16]
WIDE = [FORMATS["fp64"], FORMATS["fp32"], FORMATS["tf32"], Format("e9m20", 9, 20), Format("e11m20", 11, 20)]
MODES = [{"rounding": rounding, "overflow": overflow} for rounding in codec.ROUNDINGS for overflow in codec.OVERFLOWS]
FLUSHES = [{"flush_input": True}, {"flush_output": True}]
KEY = 2030


def finite_values(format: Format) -> np.ndarray:
    """Every finite value of a small format, and a random sample of a wide one, sorted."""
    if format.bits <= 16:
        codes = np.arange(2**format.bits)
    else:
        random = np.random.default_rng(7)
        codes = random.integers(0, 2**format.bits, 20_000, dtype=np.uint64, endpoint=False)
        codes = np.unique(np.concatenate([codes, [0, 1, format.max_code - 1, format.max_code]]).astype(np.uint64))
        codes = np.concatenate([codes[codes < 2**format.bits - 1], codes[codes < 2**format.bits - 1] + np.uint64(1)])
    values = codec.decode(codes, format)
    return np.unique(values[np.isfinite(values)])


def questions(format: Format) -> np.ndarray:
    """Every value, every tie between neighbors, the float64 neighbors of both, and what lies beyond."""
    values = finite_values(format)
    with np.errstate(over="ignore"):
        ties = values[:-1] / 2 + values[1:] / 2
        tiny, huge = values[values > 0].min(), values.max()
        beyond = np.array([tiny / 2, tiny / 3, tiny / 4, huge * 1.5, huge * 2, huge * (1 + format.eps / 2)])
    marks = np.concatenate([values, ties, beyond, -beyond, [huge + (huge - values[-2]) / 2]])
    x = np.concatenate([marks, np.nextafter(marks, np.inf), np.nextafter(marks, -np.inf), [0.0, -0.0]])
    return np.concatenate([x[np.isfinite(x)], [np.inf, -np.inf, np.nan]])


def draws(n: int, key: int) -> np.ndarray:
    """The 64-bit numbers of stochastic rounding, as codec documents them: splitmix64 of (key, index)."""
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(key)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """ask(jobs) -> answers: runs numerics_node.mjs once on all jobs of a test; arrays travel as files."""
    program = node_program()
    folder = tmp_path_factory.mktemp("node")
    (folder / "explorer.mjs").write_text(bundle("bit_state.js"), encoding="utf-8")
    shutil.copy(HERE / "numerics_node.mjs", folder / "numerics_node.mjs")

    def ask(jobs: list[dict]):
        for i, job in enumerate(jobs):
            for name in [name for name, value in job.items() if isinstance(value, np.ndarray)]:
                job[name].tofile(folder / f"{i}.{name}")
                job[name] = f"{i}.{name}"
        (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        done = subprocess.run([program, "numerics_node.mjs"], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        dtypes = {"codes": np.uint64, "values": np.float64}
        return [np.fromfile(folder / answer["file"], dtypes[answer["kind"]]) if "file" in answer else answer["json"]
                for answer in json.loads(done.stdout)]

    return ask


def assert_same_codes(got: np.ndarray, want: np.ndarray, x: np.ndarray, what: str) -> None:
    wrong = np.flatnonzero(got != want.astype(np.uint64))
    shown = [(float(x[i]).hex(), hex(got[i]), hex(want[i])) for i in wrong[:5]]
    assert not wrong.size, f"{what}: {wrong.size} of {x.size} differ; (x, JavaScript, codec): {shown}"


def test_format_properties(node):
    formats = [*FORMATS.values(), *OWN]
    names = ["max_code", "infinity_code", "nan_code",
             "bits", "magnitude_bits", "has_nan", "has_minus_zero", "emin", "emax"]
    answers = node([{"do": "describe", "format": asdict(f), "names": names} for f in formats])
    for format, got in zip(formats, answers, strict=True):
        codes = [code and int(code) for code in got[:3]]  # BigInts, written as text
        assert codes + got[3:] == [getattr(format, name) for name in names], format.name


def test_decode_every_code(node):
    answers = node([{"do": "decode", "format": asdict(f), "codes": np.arange(2**f.bits, dtype=np.uint64)}
                    for f in SMALL])
    for format, got in zip(SMALL, answers, strict=True):
        want = codec.decode(np.arange(2**format.bits), format)
        assert np.array_equal(np.isnan(got), np.isnan(want)), format.name
        same = (got == want) & (np.signbit(got) == np.signbit(want))
        assert (same | np.isnan(want)).all(), format.name


def test_decode_wide_formats(node):
    random = np.random.default_rng(3)
    codes = [random.integers(0, 2**f.bits - 1, 20_000, dtype=np.uint64, endpoint=True) for f in WIDE]
    answers = node([{"do": "decode", "format": asdict(f), "codes": c.copy()} for f, c in zip(WIDE, codes, strict=True)])
    for format, sample, got in zip(WIDE, codes, answers, strict=True):
        np.testing.assert_array_equal(got, codec.decode(sample, format), err_msg=format.name)


@pytest.mark.parametrize("formats", [SMALL, WIDE], ids=["up to 16 bits", "wide"])
def test_encode_every_tie(node, formats):
    inputs = [questions(f) for f in formats]
    answers = node([{"do": "encode", "format": asdict(f), "x": x.copy(), "nan": 0.0}
                    for f, x in zip(formats, inputs, strict=True)])
    for format, x, got in zip(formats, inputs, answers, strict=True):
        assert_same_codes(got, codec.encode(x, format, nan=0.0), x, format.name)


@pytest.mark.parametrize("options", [*MODES, *FLUSHES], ids=lambda o: "-".join(map(str, o.values())))
def test_every_mode(node, options):
    formats = [f for f in SMALL if f.bits <= 10]
    inputs = [questions(f) for f in formats]
    stochastic = options.get("rounding") == "stochastic"
    answers = node([{"do": "encode", "format": asdict(f), "x": x.copy(), "nan": 0.0, **options,
                     **({"draws": draws(x.size, KEY)} if stochastic else {})}
                    for f, x in zip(formats, inputs, strict=True)])
    for format, x, got in zip(formats, inputs, answers, strict=True):
        want = codec.encode(x, format, nan=0.0, **options, **({"rng": KEY} if stochastic else {}))
        assert_same_codes(got, want, x, f"{format.name} {options}")


def test_neighbors_and_ulp(node):
    answers = node([{"do": "neighbors", "format": asdict(f)} for f in SMALL])
    for format, got in zip(SMALL, answers, strict=True):
        columns = codec.table(format)
        below, above, ulp = got.reshape(3, -1)
        finite = np.isfinite(columns["value"])
        for name, column in {"below": below, "above": above}.items():
            ended = np.isnan(columns[name])  # codec: there is nothing beyond; the explorer stays where it is
            want = np.where(ended, columns["value"], columns[name])
            np.testing.assert_array_equal(column[finite], want[finite], err_msg=f"{format.name} {name}")
        np.testing.assert_array_equal(ulp[finite], columns["ulp"][finite], err_msg=format.name)


def test_exact_and_shortest_decimals(node):
    formats = [*SMALL, *WIDE]
    random = np.random.default_rng(5)
    codes = [random.integers(0, 2**f.bits - 1, 300, dtype=np.uint64, endpoint=True) for f in formats]
    answers = node([{"do": "decimals", "format": asdict(f), "codes": c.copy()}
                    for f, c in zip(formats, codes, strict=True)])
    for format, sample, got in zip(formats, codes, answers, strict=True):
        for code, (exact, shortest) in zip(sample.tolist(), got, strict=True):
            plain = codec.decimal(codec.exact_value(code, format)).removesuffix(".0")
            assert exact == plain, (format.name, hex(code))
            assert shortest == codec.shortest(code, format).removesuffix(".0"), (format.name, hex(code))


TEXTS = [
    "0.1", "1/3", "-1/3", "2^-24", "3*2^-24", "-2^-25", "6e-8", "1e-400", "1e400", "65519.99999999999999999999",
    "65520", "0", "-0", "-0/3", "0*-1", "inf", "-inf", "nan", ".5", "5.", "1.5e3", "2/3*2^10", "1e5/3", "10^-10",
    "2^-1074", "2^1024",
    # halfway between two FP16 values, and just beside it, closer than float64 can tell
    "1.00048828125", "1.00048828125000000000000000000001", "1.00048828124999999999999999999999", "9007199254740993",
]


def test_texts_are_rounded_once(node):
    formats = [*FORMATS.values(), *OWN, Format("e15m16", 15, 16), Format("e10m21_far", 10, 21, bias=-800)]
    answers = node([{"do": "texts", "format": asdict(f), "texts": TEXTS} for f in formats])
    for format, got in zip(formats, answers, strict=True):
        want = [hex(nearest_code(read_number(text), format)) for text in TEXTS]
        assert got == want, (format.name, [(t, g, w) for t, g, w in zip(TEXTS, got, want, strict=True) if g != w])


def test_wrong_texts(node):
    wrong = ["", "abc", "-", "1e", "0x", "1//3", "1/0", "0^-1", "1e20001", "2^99999", "1 2", "--1", "1^2^3",
             "12345^19999"]
    [messages] = node([{"do": "complaints", "texts": wrong}])
    for text, message in zip(wrong, messages, strict=True):
        assert message, f"{text!r} was read as a number"
        with pytest.raises(ValueError, match=r"accepted|zero|exponents|too large"):
            read_number(text)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(3, 2**40), Fraction(-1, 2**200), 10**30, math.inf, -0.0])
def test_written_numbers_read_back(value):
    back = read_number(write_number(value))
    assert back == value
    assert math.copysign(1, back) == math.copysign(1, value)


def test_own_formats_survive_a_link(node):
    names = [field.name for field in fields(Format) if field.name not in ("name", "title", "dtype", "source")]
    answers = node([{"do": "spec", "format": asdict(f)} for f in [*FORMATS.values(), *OWN] if f.bits <= 32])
    for format, got in zip([f for f in [*FORMATS.values(), *OWN] if f.bits <= 32], answers, strict=True):
        assert {name: got[name] for name in names} == {name: getattr(format, name) for name in names}


def test_states_survive_a_link(node):
    named = [asdict(f) for f in FORMATS.values()]
    links = ["fp16/0x3c00", "fp16/0x3c00/bf16", "fp16/0.1/bf16", "e5m10b15/0x3c00", "fp16/1%2F3",
             "fp16/0x3c00/bf16/0x7f81", "e4m3b8-fnuz-nosub/0x08", "bf16/nan", "fp64/0x3fb999999999999a"]
    expected = dict.fromkeys(links) | {"bf16/nan": "bf16/0x7fc0"}  # a number that a code expresses becomes the code
    [answers] = node([{"do": "links", "formats": named, "links": links}])
    assert answers == [expected[link] or link for link in links]
    bad = ["exercises", "fp16", "fp17/0x3c00", "fp16/0x13c00", "fp16/0x3c00/fp17", "fp16/zzz", "e0m3/0x1",
           "fp16/%E0%A4%A"]
    [answers] = node([{"do": "links", "formats": named, "links": bad}])
    assert answers == [None] * len(bad)
