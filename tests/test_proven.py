"""Rounding and encoding on decision-complete inputs: every format, mode and overflow rule, against exact arithmetic.

Each pattern of the bits that a format keeps is met by the six patterns of low bits that can decide (nothing, one unit,
just below the tie, the tie, just above, everything). What is left are inputs whose low bits lie between two of these,
and no rounding tells them apart. `python -m tests.prove` goes through all 2**32 float32 inputs nevertheless.
"""

import numpy as np
import pytest
import torch

from oracles import (
    MODES,
    assert_same_bits,
    codes_ties_and_neighbors,
    decision_complete,
    exact_rounding,
    fraction_code,
    mpfr_value,
    with_low_bits,
)
from own_formats import OWN
from sixteenbits import kernel
from sixteenbits.codec import OVERFLOWS, ROUNDINGS, encode, exact, round_to
from sixteenbits.formats import FORMATS

SMALL = [f for f in FORMATS.values() if f.bits <= 16]
SOURCES = [np.float32, np.float64]
by_name = pytest.mark.parametrize("format", [*FORMATS.values(), *OWN], ids=lambda f: f.name)


def inputs(format, source):
    """Decision-complete inputs of a float dtype for a format, without NaN where the format has none.

    Of FP32 and FP64, that keep too many bits, only some patterns are taken: the ends, alternating and random ones. Of a
    float64, mantissas vary only where the exponent is within the format's range or next to it: elsewhere all of them
    overflow or vanish alike.
    """
    mantissa, exponent_bits, bias = (23, 8, 127) if source is np.float32 else (52, 11, 1023)
    kept = min(format.mantissa_bits, mantissa - 2)
    if source is np.float32 and kept <= 10:
        x = decision_complete(source, 9 + kept)
    else:
        near = np.arange(max(format.emin - format.mantissa_bits - 3 + bias, 0),
                         min(format.emax + 3 + bias, 2**exponent_bits))
        everywhere = np.arange(2**exponent_bits)
        x = np.concatenate([_patterns(source, near, kept), _patterns(source, everywhere, min(kept, 1))])
    if not format.has_nan:
        x = x[x >= 0] if not format.signed else x[~np.isnan(x)]
    return x


def _patterns(source, fields, kept):
    """Both signs, these exponent fields, every pattern of `kept` mantissa bits (or 30 of them), and the low bits."""
    mantissa, size = (23, 32) if source is np.float32 else (52, 64)
    patterns = np.arange(2**kept) if kept <= 10 else _some_patterns(kept)
    fields = fields.astype(np.int64)
    unsigned = np.dtype(f"u{size // 8}")
    top = (fields[:, None] << kept | patterns).reshape(-1).astype(unsigned) << unsigned.type(mantissa - kept)
    top = np.concatenate([top, top | unsigned.type(1 << (size - 1))])
    return with_low_bits(top, mantissa - kept).view(source)


def _some_patterns(kept):
    ends = [0, 1, 2, 3, 2**kept - 1, 2**kept - 2, 2 ** (kept - 1), (2**kept - 1) // 3, 2 * ((2**kept - 1) // 3)]
    return np.concatenate([ends, np.random.default_rng(0).integers(0, 2**kept, 21)])


# -- the reference itself ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [*SMALL, *OWN], ids=lambda f: f.name)
def test_the_integer_reference_agrees_with_exact_fractions(format):
    values = exact(np.arange(2**format.bits), format)
    floats = np.array([float(v) if 2.0**-1000 < abs(v) < 2**1000 else 0.0 for v in values])
    with np.errstate(over="ignore"):
        x = np.concatenate([codes_ties_and_neighbors(floats, np.float64), inputs(format, np.float64)])
    if not format.has_nan:
        x = x[x >= 0] if not format.signed else x[~np.isnan(x)]
    x = np.random.default_rng(0).permutation(x)[:300]
    for mode in MODES:
        for overflow in OVERFLOWS:
            codes, got = exact_rounding(x, format, mode, overflow)
            assert codes.tolist() == [fraction_code(float(v), format, mode, overflow) for v in x]
            if not format.name.startswith(("wide", "below")):
                assert_same_bits(got, np.array([float(values[code]) for code in codes]), x)


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "nearest_away"])
@pytest.mark.parametrize("name", ["fp16", "bf16", "tf32", "fp32", "fp64", "fp8_e5m2"])
def test_the_integer_reference_agrees_with_mpfr(name, mode):
    x = np.random.default_rng(1).permutation(inputs(FORMATS[name], np.float64))[:3000]
    x = x[~np.isnan(x)]
    _, got = exact_rounding(x, FORMATS[name], mode, "ieee")
    assert_same_bits(got, np.array([mpfr_value(float(v), FORMATS[name], mode) for v in x]), x)


# -- the library -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=["float32", "float64"])
@by_name
def test_every_mode_and_overflow_rule_is_exact_on_decision_complete_inputs(format, source):
    x = inputs(format, source)
    for mode in MODES:
        for overflow in OVERFLOWS:
            codes, values = exact_rounding(x, format, mode, overflow)
            if format.bits <= 64:
                np.testing.assert_array_equal(encode(x, format, mode, overflow), codes.astype(f"u{_bytes(format)}"))
            if not format.name.startswith(("wide", "below")):  # those reach beyond float64
                assert_rounded(x, format, mode, overflow, values)


def _bytes(format):
    return next(n for n in (1, 2, 4, 8) if format.bits <= 8 * n)


def assert_rounded(x, format, mode, overflow, values):
    with np.errstate(over="ignore"):
        wanted = values.astype(x.dtype)
    fits = (wanted == values) | np.isnan(values)
    assert_same_bits(round_to(x[fits], format, mode, overflow), wanted[fits], x[fits])
    if not fits.all():
        with pytest.raises(OverflowError, match="does not fit the input's dtype float32"):
            round_to(x[~fits], format, mode, overflow)


@pytest.mark.parametrize("name", [f.name for f in SMALL])
def test_every_value_is_its_own_rounding_and_every_code_comes_back(name):
    format = FORMATS[name]
    codes = np.arange(2**format.bits)
    values = np.array([float(v) for v in exact(codes, format)])
    number = ~np.isnan(values)
    for mode in ROUNDINGS:
        np.testing.assert_array_equal(encode(values[number], format, mode, rng=0), codes[number])
        assert_same_bits(round_to(values[number], format, mode, rng=0), values[number])
    if format.has_nan:
        assert set(encode(values[~number], format).tolist()) == {format.nan_code}


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1fn"])
def test_the_float64_inputs_tell_rounding_once_from_rounding_twice(name):
    x = inputs(FORMATS[name], np.float64)
    x = x[np.abs(x) < FORMATS[name].max]
    with np.errstate(under="ignore"):
        twice = round_to(x.astype(np.float32), name)
    assert (round_to(x, name) != twice).sum() > 20


# -- one text, three vocabularies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", SOURCES, ids=["float32", "float64"])
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_numpy_numba_and_torch_agree_bit_for_bit(mode, source, monkeypatch):
    monkeypatch.setattr(kernel, "WORTH_A_CALL", np.inf)
    x = decision_complete(source, 13)
    formats = ["fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp32"]
    formats += ["e8m0fnu", *(f for f in OWN if "powers" in f.name and f.has_nan)] if mode == "nearest_even" else []
    for format in formats:
        for overflow in OVERFLOWS:
            flush = (format, mode) == ("bf16", "nearest_even")  # each combination costs a compilation
            options = {"rounding": mode, "overflow": overflow, "rng": 3, "flush_output": flush}
            by_numpy, codes = round_to(x, format, **options), encode(x, format, **options)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "COMPILE_FROM", 0)
                assert_same_bits(round_to(x, format, **options), by_numpy, x)
                np.testing.assert_array_equal(encode(x, format, **options), codes)
            with monkeypatch.context() as patch:
                patch.setattr("sixteenbits.arrays._numpy_reaches", lambda tensor: False)
                tensor = torch.from_numpy(x)
                assert_same_bits(round_to(tensor, format, **options).numpy(), by_numpy, x)
                np.testing.assert_array_equal(encode(tensor, format, **options).numpy(), codes)
