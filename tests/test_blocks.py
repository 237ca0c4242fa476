"""Block formats against a slow exact reference, hand-computed blocks, and torchao."""

import math
import os
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import assert_same_bits, fraction_code
from sixteenbits.blocks import (
    BLOCK_FORMATS,
    SCALE_ROUNDINGS,
    BlockFormat,
    as_block_format,
    dequantize,
    quantize,
    round_to_blocks,
)
from sixteenbits.codec import ROUNDINGS, decode
from sixteenbits.exact import exact_value
from sixteenbits.formats import E8M0FNU, FP4_E2M1FN, FP8_E4M3FN, FP32

MX = [name for name in BLOCK_FORMATS if name.startswith("mx")]
SCALED = ["fp8_e5m2_scaled", "fp8_e4m3_scaled"]
DETERMINISTIC = [mode for mode in ROUNDINGS if mode != "stochastic"]


# -- the slow exact reference ------------------------------------------------------------------------------------------


def to_fp32(x: Fraction) -> Fraction:
    """x > 0 rounded to nearest even in FP32 (normal range)."""
    exponent = math.frexp(float(x))[1] - 24
    return round(x / Fraction(2) ** exponent) * Fraction(2) ** exponent


def power_of_two(x: Fraction, rounding: str) -> Fraction:
    """x > 0 rounded to a power of two from 2**-127 to 2**127."""
    e = math.frexp(x)[1] - 1  # of the float64 nearest to x
    e = e - 1 if Fraction(2) ** e > x else e + 1 if Fraction(2) ** (e + 1) <= x else e
    fraction = x / Fraction(2) ** e
    odd_code = e % 2 == 0  # code = e + 127
    up = {"floor": False, "ceil": fraction > 1, "nearest": fraction > 1.5 or (fraction == 1.5 and odd_code)}[rounding]
    return Fraction(2) ** min(max(e + up, -127), 127)


def rounded(x: Fraction, format, mode: str) -> Fraction | float:
    """x rounded to the format, saturating. What float64 cannot hold lies on no grid of so narrow a format, nor half way
    between two of its points: it is moved to the middle of its cell of a finer grid first."""
    nearest = float(x)
    if Fraction(nearest) != x:
        cell = Fraction(2) ** (math.frexp(nearest)[1] - 20)
        nearest = float((math.floor(x / cell) + Fraction(1, 2)) * cell)
    return exact_value(fraction_code(nearest, format, mode, "saturate"), format)


def exact_block(row, format, tensor_scale: Fraction, mode: str = "nearest_even") -> list[float]:
    """What one block stores, in exact arithmetic."""
    if not all(math.isfinite(v) for v in row):
        return [math.nan] * len(row)
    wanted = max(abs(Fraction(v)) for v in row) / Fraction(format.target) / tensor_scale
    if format.scale is E8M0FNU:
        scale = power_of_two(wanted, format.scale_rounding) if wanted else Fraction(1, 2**127)
    else:
        scale_mode = {"floor": "toward_zero", "ceil": "toward_positive", "nearest": "nearest_even"}
        scale = Fraction(rounded(wanted, format.scale, scale_mode[format.scale_rounding]))
    step = scale * tensor_scale
    return [math.copysign(float(Fraction(rounded(Fraction(v) / step, format.element, mode)) * step), v)
            if v and step else math.copysign(0.0, v) for v in row]


def exact_rows(x, format, mode="nearest_even"):
    """Rows of x, each cut into blocks."""
    shared = Fraction(1)
    finite = [abs(Fraction(float(v))) for v in np.ravel(x) if math.isfinite(v)]
    if format.tensor_scale is not None and any(finite):
        shared = to_fp32(max(finite) / Fraction(format.target) / Fraction(format.scale.max))
    out = np.empty(x.shape)
    for i, row in enumerate(np.asarray(x, np.float64)):
        for start in range(0, len(row), format.size):
            out[i, start:start + format.size] = exact_block(row[start:start + format.size].tolist(), format, shared,
                                                            mode)
    return out


def wild(rng, shape, low=-30, high=30):
    """Float32 values over many binades, with some zeros of both signs."""
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(low, high, shape)).astype(np.float32)
    x[rng.random(shape) < 0.05] = 0.0
    x[rng.random(shape) < 0.05] = -0.0
    return x


@pytest.mark.parametrize("scale_rounding", SCALE_ROUNDINGS)
@pytest.mark.parametrize("name", MX)
def test_mx_is_exact(name, scale_rounding):
    format = replace(BLOCK_FORMATS[name], size=8, scale_rounding=scale_rounding)
    rng = np.random.default_rng(1)
    x = np.concatenate([wild(rng, (20, 19)), wild(rng, (20, 19), -6, 2), wild(rng, (20, 19), -149, -110),
                        wild(rng, (10, 19), 100, 126)])
    assert_same_bits(round_to_blocks(x.astype(np.float64), format), exact_rows(x, format), x)
    assert_same_bits(round_to_blocks(x, format), exact_rows(x, format).astype(np.float32), x)


@pytest.mark.parametrize("mode", DETERMINISTIC)
@pytest.mark.parametrize("name", ["mxfp4", "mxfp8_e4m3", "nvfp4"])
def test_every_rounding_mode_is_exact(name, mode):
    format = replace(BLOCK_FORMATS[name], size=8)
    x = wild(np.random.default_rng(2), (30, 16), -5, 3)
    assert_same_bits(round_to_blocks(x.astype(np.float64), format, rounding=mode), exact_rows(x, format, mode), x)


def test_nvfp4_is_exact():
    format = BLOCK_FORMATS["nvfp4"]
    rng = np.random.default_rng(3)
    for x in (wild(rng, (20, 40), -2, 2), wild(rng, (20, 40), -12, 1), rng.standard_normal((20, 40))):
        x = x.astype(np.float32)
        assert_same_bits(round_to_blocks(x.astype(np.float64), format), exact_rows(x, format), x)


def test_nvfp4_ties_are_ties():
    # Scales that are powers of two: every quotient is exact, every tie a real one.
    elements = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0])
    x = np.concatenate([elements, -elements]) * 2.0**5
    assert_same_bits(round_to_blocks(x, "nvfp4", tensor_scale=1.0),
                     2.0**5 * np.array([0, 1, 1, 2, 2, 4, 4, 6, -0.0, -1, -1, -2, -2, -4, -4, -6]))


# -- blocks computed by hand -------------------------------------------------------------------------------------------


def test_a_block_of_mxfp4_by_hand():
    # Largest 22, floor(log2 22) = 4, the largest power of two in E2M1 is 4 = 2**2: scale 2**(4 - 2) = 4, code 127 + 2.
    # The elements are 0.125, -0.375, 1.125, 5.5: nearest 0, -0.5, 1, 6 with codes 0, 8 + 1, 2, 7.
    blocks = quantize([0.5, -1.5, 4.5, 22.0], "mxfp4", size=4)
    assert blocks.scales.tolist() == [129]
    assert blocks.codes.tolist() == [0, 9, 2, 7]
    assert dequantize(blocks).tolist() == [0.0, -2.0, 4.0, 24.0]


def test_a_block_of_mxfp8_by_hand():
    # Largest 1000: 2**9, largest power of two in E4M3 2**8: scale 2. 1000 / 2 = 500 saturates at 448.
    # 1.1 / 2 = 0.55, neighbors 0.5625 = 1.125 / 2 and 0.5: nearest 0.5625, code (6 << 3) + 1.
    blocks = quantize([1000.0, 1.1, 0.0], "mxfp8_e4m3")
    assert blocks.scales.tolist() == [128]
    assert blocks.codes.tolist() == [0x7E, (6 << 3) + 1, 0]
    assert dequantize(blocks).tolist() == [896.0, 1.125, 0.0]


def test_a_tensor_of_nvfp4_by_hand():
    # Tensor: largest 2688 = 6 * 448, scale 1. First block: 2688 / 6 = 448, second: 3 / 6 = 0.5.
    x = [2688.0] + [700.0] * 15 + [3.0, -1.0, 0.8] + [0.0] * 13
    blocks = quantize(x, "nvfp4")
    assert blocks.tensor_scale == 1.0
    assert blocks.scales.tolist() == [0x7E, 0x30]
    assert blocks.codes[[0, 1, 16, 17, 18, 19]].tolist() == [7, 3, 7, 12, 3, 0]
    assert dequantize(blocks)[[0, 1, 16, 17, 18]].tolist() == [2688.0, 672.0, 3.0, -1.0, 0.75]


@pytest.mark.parametrize(("scale_rounding", "scale"), [("floor", 1.0), ("ceil", 2.0), ("nearest", 2.0)])
def test_scale_rounding_says_what_becomes_of_the_largest(scale_rounding, scale):
    blocks = quantize([7.9, 1.0], "mxfp4", scale_rounding=scale_rounding)
    assert decode(blocks.scales, "e8m0fnu").tolist() == [scale]
    assert dequantize(blocks)[0] == {"floor": 6.0, "ceil": 8.0, "nearest": 8.0}[scale_rounding]


@pytest.mark.parametrize("name", MX)
def test_only_floor_saturates(name):
    format = BLOCK_FORMATS[name]
    largest = np.linspace(1, 4, 3001)
    for scale_rounding in ("ceil", "nearest"):
        scales = decode(quantize(largest, format, size=1, scale_rounding=scale_rounding).scales, "e8m0fnu")
        assert (largest / scales <= format.element.max).all()
    scales = decode(quantize(largest, format, size=1).scales, "e8m0fnu")
    assert (largest / scales > format.element.max).any()


# -- the edges of the scales -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MX)
def test_powers_of_two_change_the_scale(name):
    format = BLOCK_FORMATS[name]
    for e in (-100, -1, 0, 1, 90):
        x = np.array([np.nextafter(np.float32(2.0**e), np.float32(0)), 2.0**e, np.nextafter(np.float32(2.0**e),
                                                                                            np.float32(np.inf))])
        scales = decode(quantize(x, format, size=1).scales, "e8m0fnu")
        assert (scales == 2.0 ** (np.array([e - 1, e, e]) - format.element.emax)).all()
        scales = decode(quantize(x, format, size=1, scale_rounding="ceil").scales, "e8m0fnu")
        assert (scales == 2.0 ** (np.array([e, e, e + 1]) - format.element.emax)).all()


@pytest.mark.parametrize("name", MX)
def test_scales_below_the_smallest_are_the_smallest(name):
    format = BLOCK_FORMATS[name]
    for largest in (2.0**-126, 2.0**-130, 2.0**-149):
        blocks = quantize(np.float32([largest, -largest / 2, 0]), format)
        assert blocks.scales.tolist() == [max(0, round(np.log2(largest)) - format.element.emax + 127)]
    # The elements then begin to lose: of the smallest float32 number nothing is left unless 2**-127 has elements there.
    kept = dequantize(quantize(np.float32([2.0**-149]), format))
    tiny = format.element.smallest_subnormal * 2.0**-127
    assert kept == (0.0 if tiny > 2.0**-148 else round(2.0**-149 / tiny) * tiny)


@pytest.mark.parametrize("name", MX)
def test_scales_above_the_largest_are_the_largest(name):
    format = BLOCK_FORMATS[name]
    blocks = quantize(np.array([2.0**300, -(2.0**200), 2.0**127, 1.0]), format)
    assert blocks.scales.tolist() == [254]
    top = format.element.max * 2.0**127
    assert dequantize(blocks).tolist() == [top, -top, 2.0**127, 0.0]


def test_zeros_stay_zeros():
    for name, format in BLOCK_FORMATS.items():
        x = np.array([0.0, -0.0] * 20)
        assert_same_bits(round_to_blocks(x, name), x)
        if format.scale is E8M0FNU:
            assert not quantize(x, name).scales.any()


def test_a_block_too_small_for_its_tensor_is_zero():
    x = np.array([1.0] * 16 + [1e-9, -1e-9] * 8)
    blocks = quantize(x, "nvfp4")
    assert blocks.scales.tolist() == [0x7E, 0]
    assert_same_bits(dequantize(blocks)[16:], np.array([0.0, -0.0] * 8))
    upward = quantize(x, "nvfp4", scale_rounding="ceil")
    assert upward.scales.tolist() == [0x7E, 1]


# -- NaN and infinity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", [*MX, "nvfp4"])
def test_one_bad_number_spoils_its_block_and_no_other(name, bad):
    format = BLOCK_FORMATS[name]
    x = np.linspace(-1, 1, 96).astype(np.float32)
    fine = round_to_blocks(x, name)
    x[format.size + 3] = bad
    blocks = quantize(x, name)
    assert np.isnan(decode(blocks.scales, format.scale)).nonzero()[0].tolist() == [1]
    assert not blocks.codes[format.size:2 * format.size].any()
    spoiled = np.zeros(96, bool)
    spoiled[format.size:2 * format.size] = True
    for y in (round_to_blocks(x, name), dequantize(blocks).astype(np.float32)):
        assert np.isnan(y[spoiled]).all()
        assert_same_bits(y[~spoiled], fine[~spoiled])


def test_without_block_scales_each_number_stands_alone():
    y = round_to_blocks(np.array([448.0, np.nan, np.inf, -np.inf, -1.0]), "fp8_e4m3_scaled")
    assert_same_bits(y, np.array([448.0, np.nan, 448.0, -448.0, -1.0]))
    assert np.isnan(round_to_blocks(np.array([np.nan, np.nan]), "fp8_e5m2_scaled")).all()


# -- shapes, kinds, dtypes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_blocks_lie_along_the_axis(name):
    x = wild(np.random.default_rng(4), (5, 37, 6), -4, 4)
    wanted = round_to_blocks(np.ascontiguousarray(np.moveaxis(x, 1, -1)), name, size=8)
    for axis in (1, -2):
        assert_same_bits(round_to_blocks(x, name, axis=axis, size=8), np.ascontiguousarray(np.moveaxis(wanted, -1, 1)))
    blocks = quantize(x, name, axis=1, size=8)
    assert blocks.codes.shape == x.shape
    if BLOCK_FORMATS[name].scale:
        assert blocks.scales.shape == (5, 5, 6)
    assert_same_bits(dequantize(blocks).astype(np.float32), np.ascontiguousarray(np.moveaxis(wanted, -1, 1)))


@pytest.mark.parametrize("name", [*MX, "nvfp4"])
def test_the_last_block_may_be_short(name):
    format = BLOCK_FORMATS[name]
    x = wild(np.random.default_rng(5), (3, 2 * format.size + 5), -4, 4)
    shared = {"tensor_scale": 2.0**-5} if format.tensor_scale else {}
    whole = round_to_blocks(x, name, **shared)
    assert_same_bits(whole[:, -5:], round_to_blocks(np.ascontiguousarray(x[:, -5:]), name, **shared))
    assert_same_bits(whole[:, :format.size], round_to_blocks(np.ascontiguousarray(x[:, :format.size]), name, **shared))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (1, 1)])
@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_small_and_empty_shapes(name, shape):
    for x in (np.full(shape, 3.0, np.float32), torch.full(shape, 3.0)):
        y, blocks = round_to_blocks(x, name), quantize(x, name)
        assert type(y) is type(x)
        assert y.shape == blocks.codes.shape == dequantize(blocks).shape == x.shape
        assert y.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(y), np.asarray(x), rtol=1e-7)


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_torch_is_numpy(name):
    x = wild(np.random.default_rng(6), (7, 50), -6, 6)
    x[3, 4] = np.nan
    for axis in (0, 1):
        for mode in ROUNDINGS:
            seed = {"rng": 5} if mode == "stochastic" else {}
            array = quantize(x, name, axis=axis, rounding=mode, **seed)
            tensor = quantize(torch.from_numpy(x), name, axis=axis, rounding=mode, **seed)
            assert torch.is_tensor(tensor.codes)
            assert_same_bits(tensor.codes.numpy(), array.codes)
            if array.scales is not None:
                assert_same_bits(tensor.scales.numpy(), array.scales)
            assert tensor.tensor_scale == array.tensor_scale
            assert_same_bits(dequantize(tensor).numpy(), dequantize(array))
            y = round_to_blocks(torch.from_numpy(x), name, axis=axis, rounding=mode, **seed)
            assert_same_bits(y.numpy(), dequantize(array).astype(np.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_every_dtype_is_rounded_from_what_it_holds(name, dtype):
    x = torch.randn(4, 40, generator=torch.Generator().manual_seed(0)).to(dtype)
    y = round_to_blocks(x, name)
    assert y.dtype == dtype
    assert torch.equal(y, dequantize(quantize(x.double(), name)).to(dtype))


def test_views_and_lists_and_numbers():
    x = torch.arange(24.0).reshape(4, 6)
    assert torch.equal(round_to_blocks(x.t(), "mxfp4"), round_to_blocks(x.t().contiguous(), "mxfp4"))
    assert round_to_blocks([1, 2.2, 3], "mxfp4").tolist() == [1.0, 2.0, 3.0]
    assert round_to_blocks(3.4, "mxfp4") == 3.0
    assert round_to_blocks(np.arange(4), "mxfp8_e4m3").dtype == np.float64
    fixed = np.ones(5, np.float32)
    fixed.flags.writeable = False
    assert round_to_blocks(fixed, "nvfp4").tolist() == [1.0] * 5


def test_one_scale_for_the_whole_axis_or_tensor():
    x = np.array([[1.0, 2.0, 300.0], [0.001, 0.002, 0.003]])
    rows = BlockFormat("rows", FP8_E4M3FN, None, FP32)
    blocks = quantize(x, rows)
    assert blocks.scales.shape == (2, 1)
    assert np.allclose(dequantize(blocks), x, rtol=2.0**-4)
    assert np.allclose(dequantize(quantize(x, "fp8_e4m3_scaled"))[0], x[0], rtol=2.0**-4)
    assert not np.allclose(dequantize(quantize(x * [[1], [1e-2]], "fp8_e4m3_scaled"))[1], x[1] / 100, rtol=2.0**-4)


def test_a_scale_of_your_own_for_the_tensor():
    x = np.array([4.0, 100.0])
    assert round_to_blocks(x, "fp8_e4m3_scaled", tensor_scale=0.125).tolist() == [4.0, 56.0]  # 448 / 8
    for wrong in (0.0, -1.0, np.inf, np.nan, 0.1):
        with pytest.raises(ValueError, match="expected a positive value of FP32"):
            quantize(x, "nvfp4", tensor_scale=wrong)
    with pytest.raises(ValueError, match="MXFP4 has no such scale"):
        quantize(x, "mxfp4", tensor_scale=1.0)


def test_tiny_tensors_have_a_scale():
    x = np.array([1e-44, 5e-45, 0.0])
    blocks = quantize(x, "nvfp4")
    assert blocks.tensor_scale == 2.0**-149
    assert np.abs(dequantize(blocks) - x).max() <= 1e-45
    assert quantize(np.zeros(3), "nvfp4").tensor_scale == 1.0


# -- gradients, random rounding ----------------------------------------------------------------------------------------


def test_the_gradient_goes_straight_through():
    x = torch.randn(3, 40, requires_grad=True)
    y = round_to_blocks(x, "mxfp4")
    assert torch.equal(y, round_to_blocks(x.detach(), "mxfp4"))
    g = torch.randn(3, 40)
    y.backward(g)
    assert torch.equal(x.grad, g)


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8_e5m2", "nvfp4"])
def test_stochastic_rounding_keeps_the_mean(name):
    x = np.random.default_rng(7).uniform(-1, 1, 48)
    draws = np.stack([round_to_blocks(x, name, rounding="stochastic", rng=seed, scale_rounding="ceil")
                      for seed in range(1000)])
    low, high = draws.min(0), draws.max(0)
    sigma = np.sqrt(np.maximum((x - low) * (high - x), 0) / len(draws))
    inside = (low < x) & (x < high)
    assert inside.sum() > 40
    assert (np.abs(draws.mean(0) - x)[inside] <= 5 * sigma[inside]).all()
    again = round_to_blocks(x, name, rounding="stochastic", rng=3, scale_rounding="ceil")
    assert_same_bits(again, draws[3])


# -- properties --------------------------------------------------------------------------------------------------------


NUMBERS = st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=70)


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.sampled_from(MX), st.integers(-8, 8))
def test_scaling_a_block_by_two_scales_the_result(values, name, k):
    x = np.array(values)
    x[np.abs(x) < 1e-20] = 0.0
    assert_same_bits(round_to_blocks(x * 2.0**k, name), round_to_blocks(x, name) * 2.0**k)


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.sampled_from(MX))
def test_rounding_twice_is_rounding_once(values, name):
    once = round_to_blocks(np.array(values), name)
    assert_same_bits(round_to_blocks(once, name), once)


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.sampled_from([*MX, "nvfp4"]))
def test_odd(values, name):
    x = np.array(values)
    assert_same_bits(round_to_blocks(-x, name), -round_to_blocks(x, name))


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_descriptions_that_cannot_be():
    make = BlockFormat
    with pytest.raises(ValueError, match="size is 0"):
        make("x", FP4_E2M1FN, 0, E8M0FNU)
    with pytest.raises(ValueError, match=r"size is 1\.5"):
        make("x", FP4_E2M1FN, 1.5, E8M0FNU)
    with pytest.raises(ValueError, match="scale_rounding is 'up'; choose one of floor, ceil, nearest"):
        make("x", FP4_E2M1FN, 16, E8M0FNU, scale_rounding="up")
    with pytest.raises(ValueError, match="target is 7"):
        make("x", FP4_E2M1FN, 16, E8M0FNU, target=7)
    with pytest.raises(ValueError, match="both None"):
        make("x", FP4_E2M1FN, 16, None)
    with pytest.raises(ValueError, match="has no NaN"):
        make("x", FP4_E2M1FN, 16, FP4_E2M1FN)
    with pytest.raises(ValueError, match="no block format is named 'mxfp5'; the named ones are"):
        as_block_format("mxfp5")
    with pytest.raises(TypeError, match="expected a BlockFormat or the name of one"):
        as_block_format(4)
    assert make("x", "fp4_e2m1fn", 16, "e8m0fnu").scale is E8M0FNU


def test_arguments_that_cannot_be():
    with pytest.raises(ValueError, match="axis is 2; x has 2 dimensions"):
        quantize(np.ones((2, 2)), "mxfp4", axis=2)
    with pytest.raises(TypeError, match="real numbers"):
        quantize(np.array([1j]), "mxfp4")
    with pytest.raises(ValueError, match="rounding is 'up'"):
        quantize(np.ones(2), "mxfp4", rounding="up")
    with pytest.raises(ValueError, match="needs rng"):
        round_to_blocks(np.ones(2), "mxfp4", rounding="stochastic")


def test_bits_a_number():
    assert [BLOCK_FORMATS[name].bits for name in ("mxfp8_e4m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "fp8_e4m3_scaled")] == [
        8.25, 6.25, 4.25, 4.5, 8]


# -- torchao -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ao():
    """torchao's modules, or a skip (in CI: a failure) that says what is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchao.prototype.mx_formats import kernels, mx_tensor, nvfp4_tensor
        except ImportError as problem:
            stop = pytest.fail if os.environ.get("CI") else pytest.skip
            stop(f"no torchao to compare with: {problem}; pip install -r requirements.txt")
    return mx_tensor, nvfp4_tensor, kernels


ELEMENTS = {"mxfp8_e4m3": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2, "mxfp6_e3m2": "fp6_e3m2",
            "mxfp6_e2m3": "fp6_e2m3", "mxfp4": torch.float4_e2m1fn_x2}


def ao_mx(ao, x, name, mode):
    """Scale codes and element codes by torchao."""
    mx, _, kernels = ao
    scales, codes = mx.to_mx(torch.from_numpy(x), ELEMENTS[name], 32, getattr(mx.ScaleCalculationMode, mode))
    codes = kernels.unpack_uint4(codes) if name == "mxfp4" else codes.view(torch.uint8)
    return scales.view(torch.uint8).numpy(), codes.numpy().reshape(x.shape)


@pytest.mark.parametrize(("mode", "scale_rounding"), [("FLOOR", "floor"), ("CEIL", "ceil"), ("RCEIL", "ceil")])
@pytest.mark.parametrize("name", MX)
def test_mx_is_torchao(ao, name, mode, scale_rounding):
    format = BLOCK_FORMATS[name]
    if mode == "RCEIL":  # as cuBLAS: the largest magnitude reaches for the largest element
        format = replace(format, target=format.element.max)
    rng = np.random.default_rng(8)
    x = np.concatenate([wild(rng, (300, 64), -20, 20), wild(rng, (300, 64), -3, 1), wild(rng, (300, 64), -100, 100),
                        np.ldexp(rng.integers(-64, 65, (300, 64)), -4).astype(np.float32)])
    scales, codes = ao_mx(ao, x, name, mode)
    blocks = quantize(x, format, scale_rounding=scale_rounding)
    assert_same_bits(blocks.scales, scales)
    assert_same_bits(blocks.codes, codes, x)


def test_where_torchao_departs(ao):
    # 1. An infinity: torchao gives its block the scale of 2**128 and saturates; here the block becomes NaN.
    x = np.ones((1, 32), np.float32)
    x[0, 0] = np.inf
    assert ao_mx(ao, x, "mxfp8_e4m3", "FLOOR")[0].tolist() == [[128 - 8 + 127]]
    assert quantize(x, "mxfp8_e4m3").scales.tolist() == [[255]]
    # 2. NaN: both make the scale NaN.
    x[0, 0] = np.nan
    assert ao_mx(ao, x, "mxfp8_e4m3", "FLOOR")[0].tolist() == [[255]] == quantize(x, "mxfp8_e4m3").scales.tolist()
    # 3. The scale 2**-127: torchao stores it, but divides by 2**-126, so the elements are half of what they should be.
    x = np.full((1, 32), 2.0**-119, np.float32)
    scales, codes = ao_mx(ao, x, "mxfp8_e4m3", "FLOOR")
    assert scales.tolist() == [[0]]
    assert (decode(codes, "fp8_e4m3fn") == 2.0**7).all()
    assert (dequantize(quantize(x, "mxfp8_e4m3")) == x).all()
    # 4. EVEN rounds the largest magnitude to the element's bits before it takes the power of two: 1.75 is the border.
    x = np.float32([[1.74] + [0] * 31, [1.75] + [0] * 31, [1.5] + [0] * 31])
    assert ao_mx(ao, x, "mxfp4", "EVEN")[0].ravel().tolist() == [125, 126, 125]
    assert quantize(x, "mxfp4", scale_rounding="nearest").scales.ravel().tolist() == [126, 126, 126]


def near_tie(quotient, steps):
    """Whether float32 arithmetic may put a quotient on the other side of a tie: within 4 of its units."""
    ties = np.asarray(steps)
    return (np.abs(np.abs(quotient)[..., None] - ties) <= 4 * 2.0**-24 * ties).any(-1)


@pytest.mark.parametrize("two_scales", [False, True])
def test_nvfp4_is_torchao_but_for_its_float32_arithmetic(ao, two_scales):
    """torchao multiplies by a rounded reciprocal in float32, and has no scales below 2**-6."""
    _, nvfp4, kernels = ao
    rng = np.random.default_rng(9)
    x = (rng.standard_normal((400, 256)) * 2.0 ** rng.uniform(-6, 0, (400, 1))).astype(np.float32)
    tensor = torch.from_numpy(x)
    shared = nvfp4.per_tensor_amax_to_scale(tensor.abs().max()) if two_scales else torch.tensor(1.0)
    scales, codes = nvfp4.nvfp4_quantize(tensor, per_tensor_scale=shared if two_scales else None)
    codes = kernels.unpack_uint4(codes).numpy().reshape(x.shape)
    blocks = quantize(x, "nvfp4", tensor_scale=None if two_scales else 1.0)
    assert blocks.tensor_scale == float(shared)
    ours, theirs = decode(blocks.scales, "fp8_e4m3fn"), scales.double().numpy().reshape(400, 16)
    largest = np.abs(x.reshape(400, 16, 16)).max(-1) / (6.0 * float(shared))
    values = np.arange(0x7E)
    ties = (decode(values, "fp8_e4m3fn") + decode(values + 1, "fp8_e4m3fn")) / 2
    may_differ = near_tie(largest, ties) | (largest < 2.0**-6)
    assert (ours == theirs)[~may_differ].all()
    assert may_differ.mean() < 0.6
    same = np.repeat(ours == theirs, 16, axis=1)
    quotient = x / (np.repeat(ours, 16, axis=1) * float(shared))
    element_ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])
    same &= ~near_tie(quotient, element_ties)
    assert same.mean() > 0.4
    assert (blocks.codes == codes)[same].all()
