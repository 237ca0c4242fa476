"""Where the libraries disagree, among each other and with the specifications: asked anew, of what is installed.

    >>> for row in disagreements():
    ...     print(row["asked"], row["torch"], row["ml_dtypes"], row["differ"])

A question is data: what is asked, of which format, what the specification says. A library that is not installed answers
"not installed", one that has no such format or function "-".
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sixteenbits import codec
from sixteenbits.formats import FORMATS, Format
from sixteenbits.peers import CASTS, OURS, PEERS, Absent, gfloat_info, load

COPIES = 65  # of each input: a library may treat the elements of a vector, and the last ones, by different code


# -- kinds of questions ------------------------------------------------------------------------------------------------


def _cast(peer: str, question: Question):
    return CASTS[peer](np.full(COPIES, question.x, question.source), FORMATS[question.format])


def _value(peer: str, question: Question):
    return _cast(peer, question)[0]


def _code(peer: str, question: Question):
    codes = _cast(peer, question)[1]
    return [f"0x{int(code):0{-(-FORMATS[question.format].bits // 4)}x}" for code in codes]


def _code_of_signaling(peer: str, question: Question):
    x = np.full(COPIES, 0x7F800001, np.uint32).view(np.float32)
    return [f"0x{int(code):04x}" for code in CASTS[peer](x, FORMATS[question.format])[1]]


def _gap_above_1(peer: str, question: Question):
    if peer == OURS:
        return [FORMATS[question.format].eps]
    return [_finfo(peer, FORMATS[question.format]).eps]


def _gap_below_1(peer: str, question: Question):
    if peer == OURS:
        return [1 - codec.next_down(1.0, question.format)]
    info = _finfo(peer, FORMATS[question.format])
    if not hasattr(info, "epsneg"):
        raise Absent
    return [info.epsneg]


def _finfo(peer: str, format: Format):
    if peer == "gfloat":
        return gfloat_info(format)
    module, dtype = load(peer), format.dtype or ""
    if peer == "torchao" or not hasattr(module, dtype) or (peer == "ml_dtypes" and format.name == "fp16"):
        raise Absent
    return module.finfo(getattr(module, dtype))


def _gap(peer: str, question: Question):
    format = FORMATS[question.format]
    if peer == OURS:
        return [codec.ulp(question.x, format)]
    if peer not in ("numpy", "ml_dtypes") or (peer == "numpy") != (format.name == "fp16"):
        raise Absent
    return [np.spacing(np.array(question.x, getattr(load(peer), format.dtype)))]


def _sum_of_ones(peer: str, question: Question):
    """A sum as the library adds it by default."""
    if peer == OURS:
        from sixteenbits.accumulate import sum as rounded_sum

        return [rounded_sum(np.ones(int(question.x)), question.format)]
    module, dtype = load(peer), FORMATS[question.format].dtype
    if peer in ("gfloat", "torchao") or not hasattr(module, dtype):
        raise Absent
    make = np.ones if peer == "ml_dtypes" else module.ones
    return [float(make(int(question.x), dtype=getattr(module, dtype)).sum())]


# -- questions ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """One thing that libraries answer differently.

    Args:
        topic, asked: what it is about, and the question in words.
        format: name of the format.
        ask: the kind of question.
        x, source: the input and the dtype that it comes in.
        right: the answers that the specification allows; none where it is silent.
        says, by: what the specification says, and which it is.
    """

    topic: str
    asked: str
    format: str
    x: float = 0.0
    right: tuple[str, ...] = ()
    says: str = ""
    by: str = ""
    ask: Callable = _value
    source: str = "float32"


_OFP8, _MX, _754 = "OCP OFP8 1.0, 2023", "OCP MX 1.0, 2023", "IEEE 754-2019"
_ONCE = "a conversion rounds once", f"{_754}, 4.3"
_NO_NAN = "the format has no NaN; what becomes of one is left open", _MX
_E8M0 = "how to round to E8M0 is left open: MX stores powers of two in it", _MX
_QUIET = "some quiet NaN, whose payload is left open", f"{_754}, 6.2"
_GAP = "follows from the format", "definition of a gap"
TINY = 2.0**-40

QUESTIONS = [
    Question("overflow", "1000 to E4M3", "fp8_e4m3fn", 1000.0, ("NaN", "448"),
             "NaN, or 448 in the saturating conversion", _OFP8),
    Question("overflow", "infinity to E4M3", "fp8_e4m3fn", np.inf, ("NaN", "448"),
             "NaN, or 448 in the saturating conversion", _OFP8),
    Question("NaN", "NaN to E2M1", "fp4_e2m1fn", np.nan, (), *_NO_NAN),
    Question("NaN", "NaN to E3M2", "fp6_e3m2fn", np.nan, (), *_NO_NAN),
    Question("NaN", "which code for NaN in BF16", "bf16", np.nan, (), *_QUIET, ask=_code),
    Question("NaN", "which code for NaN in E5M2", "fp8_e5m2", np.nan, (), *_QUIET, ask=_code),
    Question("NaN", "which code for a signaling NaN in FP16", "fp16", np.nan, ("0x7e00", "0xfe00", "0xffff"),
             "a quiet NaN: 0x7e00 to 0x7fff, or with a sign", f"{_754}, 6.2", ask=_code_of_signaling),
    Question("rounded twice", "1 + 2⁻¹¹ + 2⁻⁴⁰ (float64) to FP16", "fp16", 1 + 2.0**-11 + TINY, ("1.0009765625",),
             *_ONCE, source="float64"),
    Question("rounded twice", "1 + 2⁻⁸ + 2⁻⁴⁰ (float64) to BF16", "bf16", 1 + 2.0**-8 + TINY, ("1.0078125",), *_ONCE,
             source="float64"),
    Question("rounded twice", "1 + 2⁻⁴ + 2⁻⁴⁰ (float64) to E4M3", "fp8_e4m3fn", 1 + 2.0**-4 + TINY, ("1.125",), *_ONCE,
             source="float64"),
    Question("rounded twice", "1 + 2⁻³ + 2⁻⁴⁰ (float64) to E5M2", "fp8_e5m2", 1 + 2.0**-3 + TINY, ("1.25",), *_ONCE,
             source="float64"),
    Question("rounded twice", "1.25 + 2⁻⁴⁰ (float64) to E2M1", "fp4_e2m1fn", 1.25 + TINY, ("1.5",), *_ONCE,
             source="float64"),
    Question("rounded twice", "65520 − 2⁻²⁰ (float64) to FP16", "fp16", 65520 - 2.0**-20, ("65504",), *_ONCE,
             source="float64"),
    Question("rounded twice", "the integer 2²⁴ + 2¹⁶ + 1 to BF16", "bf16", 2**24 + 2**16 + 1, ("16908288",), *_ONCE,
             source="int64"),
    Question("E8M0", "3, a tie, to E8M0", "e8m0fnu", 3.0, (), *_E8M0),
    Question("E8M0", "zero to E8M0", "e8m0fnu", 0.0, (), "there is no zero; what becomes of one is left open", _MX),
    Question("E8M0", "−2 to E8M0", "e8m0fnu", -2.0, (), "there is no sign; what becomes of one is left open", _MX),
    Question("E8M0", "2⁻¹⁴⁰ to E8M0", "e8m0fnu", 2.0**-140, (), *_E8M0),
    Question("E8M0", "1.5 · 2¹²⁷, a tie, to E8M0", "e8m0fnu", 1.5 * 2.0**127, (), *_E8M0),
    Question("finfo", "the gap above 1 in E5M2 FNUZ", "fp8_e5m2fnuz", right=("0.25",), says=_GAP[0], by=_GAP[1],
             ask=_gap_above_1),
    Question("finfo", "the gap below 1 in E2M1", "fp4_e2m1fn", right=("0.5",), says=_GAP[0], by=_GAP[1],
             ask=_gap_below_1),
    Question("finfo", "the gap below 1 in E2M3", "fp6_e2m3fn", right=("0.125",), says=_GAP[0], by=_GAP[1],
             ask=_gap_below_1),
    Question("gaps", "the gap at −1 in FP16", "fp16", -1.0, (), "2⁻¹¹ toward zero, 2⁻¹⁰ away from it", _GAP[1], _gap),
    Question("gaps", "the gap at the largest value of FP16", "fp16", 65504.0, (), "32 below; above lies infinity",
             _GAP[1], _gap),
    Question("sums", "the sum of 512 ones in BF16", "bf16", 512, (), "a sum may be accumulated in any format",
             f"{_754}, 9.4", ask=_sum_of_ones),
]


# -- answers -----------------------------------------------------------------------------------------------------------


@functools.cache
def answer(peer: str, question: Question) -> str:
    """What a library (or `OURS`) answers, as text; several answers are joined with "or"."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            said = {_text(value) for value in question.ask(peer, question)}
    except Absent:
        return "-"
    except ImportError:
        return "not installed"
    except ValueError:
        return "ValueError"
    return " or ".join(sorted(said, reverse=True))


def _text(value) -> str:
    if isinstance(value, str):
        return value
    value = float(value)
    if np.isnan(value):
        return "NaN"
    exact = codec.decimal(value)
    return exact.removesuffix(".0") if len(exact) < 20 else f"2**{np.log2(value):g}"  # only powers of two are longer


def disagreements() -> list[dict[str, str]]:
    """The matrix, one row a question: topic, asked, one column a library and ours, says, by, differ.

    `differ` lists the libraries whose answer the specification does not allow, or says that all are allowed, or that
    the specification leaves it open.
    """
    rows = []
    for question in QUESTIONS:
        answers = {peer: answer(peer, question) for peer in [OURS, *PEERS]}
        wrong = [PEERS[peer] for peer in PEERS if answers[peer] not in ("-", "not installed", *question.right)]
        differ = (", ".join(wrong) or "all are allowed") if question.right else "left open"
        rows.append({"topic": question.topic, "asked": question.asked, **answers, "says": question.says,
                     "by": question.by, "differ": differ})
    return rows
