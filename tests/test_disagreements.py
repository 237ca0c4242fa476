"""The disagreement matrix: each difference by name, with the versions that show it; and agreement everywhere else."""

import numpy as np
import pytest
import torch

from oracles import assert_same_bits, decision_complete
from sixteenbits.codec import round_to
from sixteenbits.disagreements import QUESTIONS, answer, disagreements
from sixteenbits.formats import FORMATS
from sixteenbits.peers import CASTS, OURS, PEERS, Absent, gfloat_info, load, versions

#: The versions that gave the answers below.
VERSIONS = {"ml_dtypes": "0.6.0", "torch": "2.13.0", "numpy": "2.4.6", "gfloat": "0.5.2", "torchao": "0.18.0"}
COLUMNS = ["sixteenbits", "ml_dtypes", "torch", "numpy", "gfloat", "torchao", "differ"]
RIGHT, OPEN = "all are allowed", "left open"

#: What each library answered; "|" separates answers of which the processor chooses one.
RECORDED = {
    "1000 to E4M3": "NaN, NaN, 448, -, NaN, -, all are allowed",
    "infinity to E4M3": "NaN, NaN, 448, -, NaN, -, all are allowed",
    "NaN to E2M1": "ValueError, -0, -, -, ValueError, 1.5, left open",
    "NaN to E3M2": "ValueError, -0, -, -, ValueError, 1.5, left open",
    "which code for NaN in BF16": "0x7fc0, 0x7fc0, 0xffff or 0x7fc0|0x7fc0, -, 0xffff, -, left open",
    "which code for NaN in E5M2": "0x7e, 0x7e, 0x7f, -, 0xff, -, left open",
    "which code for a signaling NaN in FP16": "0x7e00, -, 0x7e00, 0x7c01, 0xffff, -, NumPy",
    "1 + 2⁻¹¹ + 2⁻⁴⁰ (float64) to FP16": "1.0009765625, -, 1, 1.0009765625, 1.0009765625, -, PyTorch",
    "1 + 2⁻⁸ + 2⁻⁴⁰ (float64) to BF16": "1.0078125, 1, 1, -, 1.0078125, -, ml_dtypes; PyTorch",
    "1 + 2⁻⁴ + 2⁻⁴⁰ (float64) to E4M3": "1.125, 1, 1, -, 1.125, -, ml_dtypes; PyTorch",
    "1 + 2⁻³ + 2⁻⁴⁰ (float64) to E5M2": "1.25, 1, 1, -, 1.25, -, ml_dtypes; PyTorch",
    "1.25 + 2⁻⁴⁰ (float64) to E2M1": "1.5, 1, -, -, 1.5, -, ml_dtypes",
    "65520 − 2⁻²⁰ (float64) to FP16": "65504, -, inf, 65504, 65504, -, PyTorch",
    "the integer 2²⁴ + 2¹⁶ + 1 to BF16": "16908288, 16777216, 16777216, -, 16908288, -, ml_dtypes; PyTorch",
    "3, a tie, to E8M0": "2, 4, 4, -, 2, -, left open",
    "zero to E8M0": "2**-127, NaN, 2**-127, -, 0, -, left open",
    "−2 to E8M0": "NaN, NaN, 2, -, -2, -, left open",
    "2⁻¹⁴⁰ to E8M0": "2**-127, 2**-127, 2**-127, -, 2**-140, -, left open",
    "1.5 · 2¹²⁷, a tie, to E8M0": "2**127, NaN, NaN, -, 2**127, -, left open",
    "the gap above 1 in E5M2 FNUZ": "0.25, 0.25, 0.125, -, -, -, PyTorch",
    "the gap below 1 in E2M1": "0.5, 0.5, -, -, 0.25, -, gfloat",
    "the gap below 1 in E2M3": "0.125, 0.125, -, -, 0.0625, -, gfloat",
    "the gap at −1 in FP16": "0.0009765625, -, -, 0.00048828125, -, -, left open",
    "the gap at the largest value of FP16": "32, -, -, inf, -, -, left open",
    "the sum of 512 ones in BF16": "256, 256, 512, -, -, -, left open",
}


@pytest.fixture(scope="module")
def rows():
    return {row["asked"]: row for row in disagreements()}


def test_the_versions_are_those_that_the_answers_were_recorded_with():
    installed = {peer: version and version.split("+")[0] for peer, version in versions().items()}
    assert installed == VERSIONS, "ask again (sixteenbits.disagreements), compare each answer, then record the versions"


def test_every_question_is_recorded(rows):
    assert list(rows) == list(RECORDED)


@pytest.mark.parametrize("asked", RECORDED)
def test_each_library_still_answers_as_recorded(asked, rows):
    row, recorded = rows[asked], [text.strip() for text in RECORDED[asked].split(",")]
    for column, wanted in zip(COLUMNS, recorded, strict=True):
        got = row[column].replace(",", ";")
        version = f"{column} {versions().get(column) or ''}".strip()
        assert got in wanted.split("|"), f"{version} now answers {got!r} to {asked!r}; recorded was {wanted!r}"


def test_no_row_is_without_a_difference(rows):
    for row in rows.values():
        assert len({row[peer] for peer in [OURS, *PEERS]} - {"-", "not installed"}) > 1, row


def test_ours_is_what_the_specification_allows():
    for question in QUESTIONS:
        if question.right:
            assert answer(OURS, question) in question.right, question.asked


def test_a_missing_library_is_said_to_be_missing(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("sixteenbits.peers.load", missing)
    answer.cache_clear()
    try:
        assert answer("ml_dtypes", QUESTIONS[0]) == "not installed"
    finally:
        answer.cache_clear()


# -- and elsewhere they agree ------------------------------------------------------------------------------------------


def cast(peer, x, format):
    """Values by a library, of float32 inputs."""
    if peer == "gfloat":
        info = gfloat_info(format)
        return load("gfloat").round_ndarray(info, x.astype(np.float64), sat=not format.has_nan)
    return CASTS[peer](x, format)[0][: x.size]


NARROW = [f.name for f in FORMATS.values() if f.bits <= 16 and f.signed]
SMALL = ["fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn"]
LACKING = {"ml_dtypes": ["fp16"], "torch": SMALL, "numpy": [n for n in NARROW if n != "fp16"],
           "gfloat": ["fp8_e5m2fnuz", "fp8_e4m3fnuz"], "torchao": [n for n in NARROW if n not in SMALL]}


@pytest.mark.parametrize(("peer", "name"), [(p, n) for p in PEERS for n in NARROW if n not in LACKING[p]])
def test_on_float32_inputs_within_the_range_every_library_gives_our_value(peer, name):
    format = FORMATS[name]
    x = decision_complete(np.float32, 14)
    x = x[np.abs(x) <= format.max]
    with np.errstate(under="ignore"):
        got = cast(peer, x, format)
    assert_same_bits(np.asarray(got, np.float64), round_to(x, name).astype(np.float64), x)


def test_what_a_library_lacks_is_said_not_skipped():
    for peer, names in LACKING.items():
        for name in names:
            with pytest.raises(Absent):
                cast(peer, np.ones(3, np.float32), FORMATS[name])


def test_qnan_and_infinity_survive_where_the_format_has_them():
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    for name in ("fp16", "bf16", "fp8_e5m2"):
        for peer in PEERS:
            try:
                assert_same_bits(np.asarray(cast(peer, x, FORMATS[name]), np.float64), x.astype(np.float64))
            except Absent:
                continue
    assert torch.tensor(x).to(torch.float8_e4m3fnuz).isnan().all()
