"""Laws that rounding keeps in every format that can be described, the named ones and any other."""

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from oracles import MODES, assert_same_bits, exact_rounding
from sixteenbits.codec import OVERFLOWS, ROUNDINGS, decode, encode, exact_value, next_down, next_up, round_to, ulp
from sixteenbits.formats import FORMATS, NAN_RULES, Format

MIRROR = {"toward_positive": "toward_negative", "toward_negative": "toward_positive"}
law = settings(max_examples=100, deadline=None, derandomize=True)


@st.composite
def own_formats(draw, inside_float64=False):
    """Any Format; with `inside_float64`, one whose values float64 holds all."""
    exponent_bits = draw(st.integers(1, 6) | st.integers(1, 15))
    bias = draw(st.none() | st.integers(-30, 30) | st.integers(-1200, 1200) | st.integers(-20_000, 20_000))
    try:
        format = Format("own", exponent_bits, draw(st.integers(0, 6) | st.integers(0, 52)), bias,
                        draw(st.sampled_from(NAN_RULES)), *(draw(st.booleans()) for _ in range(4)))
    except ValueError:
        assume(False)
    if inside_float64:
        assume(format.emin - format.mantissa_bits >= -1074 and format.emax <= 1023)
    return format


@st.composite
def inputs(draw, format):
    """Float64 numbers, most of them at or next to values of the format and the ties between them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    low, high = max(format.emin - format.mantissa_bits - 3, -1080), min(format.emax + 3, 1025)
    binades = rng.integers(low, high, 40, endpoint=True) if low <= high else np.zeros(40, int)
    steps = rng.integers(1, 2 ** min(format.mantissa_bits + 3, 52), 40).astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        x = np.ldexp(steps, binades - np.frexp(steps)[1] + 1) * rng.choice([-1.0, 1.0], 40)
        x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)])
    return np.concatenate([x, draw(st.lists(st.floats(), max_size=8)), [0.0, -0.0, np.inf, -np.inf]])


@st.composite
def cases(draw, inside_float64=False, signed=None):
    named = st.sampled_from([f for f in FORMATS.values() if f.bits <= 32])
    format = draw(named | own_formats(inside_float64))
    assume(signed is None or format.signed == signed)
    x = draw(inputs(format))
    if not format.has_nan:
        x = x[x >= 0] if not format.signed else x[~np.isnan(x)]
    return format, x


modes, overflows = st.sampled_from(MODES), st.sampled_from(OVERFLOWS)


@law
@given(cases(), modes, overflows)
def test_the_code_is_the_one_that_exact_arithmetic_gives(case, mode, overflow):
    format, x = case
    assume(format.magnitude_bits <= 61)  # what the reference's integers hold
    codes, _ = exact_rounding(x, format, mode, overflow)
    np.testing.assert_array_equal(encode(x, format, mode, overflow).astype(np.uint64), codes)


@law
@given(cases(inside_float64=True), st.sampled_from(ROUNDINGS), overflows)
def test_decoding_a_code_gives_the_rounded_value(case, mode, overflow):
    format, x = case
    assume(format.bits <= 64)
    codes = encode(x, format, mode, overflow, rng=1)
    assert_same_bits(decode(codes, format), round_to(x, format, mode, overflow, rng=1))


@law
@given(cases(inside_float64=True), st.sampled_from(ROUNDINGS), overflows)
def test_rounding_twice_is_rounding_once(case, mode, overflow):
    format, x = case
    y = round_to(x, format, mode, overflow, rng=1)
    assert_same_bits(round_to(y, format, mode, overflow, rng=2), y)


@law
@given(cases(inside_float64=True), modes, overflows)
def test_what_is_larger_stays_larger_or_becomes_equal(case, mode, overflow):
    format, x = case
    x = x[~np.isnan(x)] if format.zero else x[~np.isnan(x) & (x != 0)]  # there, -0 and 0 become two numbers
    y = round_to(np.sort(x), format, mode, overflow)
    y = y[~np.isnan(y)]
    assert (y[1:] >= y[:-1]).all()


@law
@given(cases(inside_float64=True, signed=True), modes, overflows)
def test_minus_x_becomes_minus_what_x_becomes_and_directed_modes_are_mirrors(case, mode, overflow):
    format, x = case
    wanted, mirrored = round_to(x, format, mode, overflow), -round_to(-x, format, MIRROR.get(mode, mode), overflow)
    assert_same_bits(mirrored if format.has_minus_zero else mirrored + 0.0, wanted)


@law
@given(cases(inside_float64=True), st.sampled_from(ROUNDINGS))
def test_never_further_than_one_ulp_and_to_nearest_never_than_half(case, mode):
    format, x = case
    x = x[np.isfinite(x) & (np.abs(x) <= format.max)]
    x = x[np.abs(x) >= format.smallest_normal] if not format.subnormals else x
    x = x if format.signed else np.abs(x)
    gap, y = ulp(x, format), round_to(x, format, mode, rng=3)
    with np.errstate(over="ignore"):
        assert (np.abs(y - x) <= gap).all()
        if mode.startswith("nearest"):
            assert (np.abs(y - x) <= gap / 2).all()


@law
@given(cases(inside_float64=True))
def test_the_directed_modes_enclose_x_and_nothing_lies_between(case):
    format, x = case
    x = x[np.isfinite(x) & (np.abs(x) <= format.max)]
    x = x[np.abs(x) >= format.smallest_normal] if not format.zero else x
    x = x if format.signed else np.abs(x)
    low, high = round_to(x, format, "toward_negative"), round_to(x, format, "toward_positive")
    assert ((low <= x) & (x <= high)).all()
    between = low < high
    np.testing.assert_array_equal(next_up(low[between], format), high[between])
    np.testing.assert_array_equal(next_down(high[between], format), low[between])
    assert (round_to(x, format, "toward_zero") == np.where(x < 0, high, low)).all()


@law
@given(cases(), st.data())
def test_the_value_of_a_code_rounds_to_that_code(case, data):
    format, _ = case
    assume(format.bits <= 64)
    code = data.draw(st.integers(0, 2**format.bits - 1))
    value = exact_value(code, format)
    exponent = code % 2**format.magnitude_bits >> format.mantissa_bits
    dead = not format.subnormals and format.zero and exponent == 0 and code % 2**format.magnitude_bits  # means zero too
    if value == value and not dead and (isinstance(value, float) or _is_float(value)):
        for mode in MODES:
            assert encode(float(value), format, mode) == code


def _is_float(value):
    try:
        return float(value) == value
    except OverflowError:
        return False


TENSORS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, ">f4", ">f8"]
shapes = arrays_of.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@law
@given(shapes, st.sampled_from(DTYPES), st.sampled_from(ROUNDINGS), st.booleans())
def test_shape_dtype_and_layout_change_nothing(shape, dtype, mode, transpose):
    x = np.linspace(-9, 9, int(np.prod(shape))).reshape(shape).astype(dtype)
    x = x.T if transpose else x
    y, codes = round_to(x, "fp8_e4m3fn", mode, rng=0), encode(x, "fp8_e4m3fn", mode, rng=0)
    assert (type(y), y.shape, y.dtype, codes.shape, codes.dtype) == (np.ndarray, x.shape, x.dtype, x.shape, np.uint8)
    flat = round_to(np.ascontiguousarray(x).reshape(-1), "fp8_e4m3fn", mode, rng=0)
    assert_same_bits(y.astype(np.float64).reshape(-1), flat.astype(np.float64))


@law
@given(shapes, st.sampled_from(TENSORS), st.sampled_from(ROUNDINGS))
def test_a_tensor_keeps_shape_and_dtype_and_gets_the_values_of_an_array(shape, dtype, mode):
    x = torch.linspace(-9, 9, int(np.prod(shape)), dtype=torch.float64).reshape(shape).to(dtype)
    y = round_to(x, "fp8_e5m2", mode, rng=0)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert_same_bits(y.double().numpy(), np.asarray(round_to(x.double().numpy(), "fp8_e5m2", mode, rng=0)))


def test_named_formats_that_are_wide_keep_the_laws_too():
    x = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.random.default_rng(1).integers(-320, 308, 1000)
    for name in ("fp64", "fp32"):
        for mode in MODES:
            y = round_to(x, name, mode)
            assert_same_bits(round_to(y, name, mode), y)
            assert_same_bits(decode(encode(x, name, mode), name), y)
    with pytest.raises(ValueError, match="codes are integers of at most 64"):
        encode(1.0, Format("widest", 15, 52))
