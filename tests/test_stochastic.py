"""Stochastic rounding: repeatable, without bias, one independent 64-bit number an element.

Every bound is a number of standard deviations that is exceeded by chance once in a million test runs, split over the
comparisons of the test (Bonferroni). The seeds are fixed, so a test that passes passes always.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
import torch

from oracles import assert_same_bits
from sixteenbits import kernel
from sixteenbits.codec import encode, next_down, next_up, round_to
from sixteenbits.formats import FORMATS, Format

DRAWS = 1 << 16


def bound(comparisons):
    """The |z| that any of so many independent normal numbers exceeds with a probability of 1e-6."""
    return -NormalDist().inv_cdf(1e-6 / comparisons / 2)


def random64(count, key=0):
    """The library's random numbers, as NumPy computes them."""
    index = np.arange(count, dtype=np.uint64)
    with np.errstate(over="ignore"):
        return kernel._random64(kernel.numpy_ops("float64"))(np.uint64(key), index)


# -- repeatable --------------------------------------------------------------------------------------------------------


def test_it_needs_a_seed_and_repeats_with_it():
    x = np.random.default_rng(0).standard_normal(1000)
    with pytest.raises(ValueError, match="needs rng"):
        round_to(x, "bf16", "stochastic")
    with pytest.raises(TypeError, match="rng is 'seed'"):
        round_to(x, "bf16", "stochastic", rng="seed")
    first = round_to(x, "bf16", "stochastic", rng=7)
    assert_same_bits(first, round_to(x, "bf16", "stochastic", rng=7))
    assert_same_bits(first, round_to(x, "bf16", "stochastic", rng=np.int32(7)))
    assert (first != round_to(x, "bf16", "stochastic", rng=8)).any()


def test_a_generator_repeats_with_its_seed_and_moves_on_with_each_call():
    x = np.full(1000, 1.001)
    for make in (np.random.default_rng, lambda seed: torch.Generator().manual_seed(seed)):
        one, other = make(1), make(1)
        first = [round_to(x, "bf16", "stochastic", rng=one) for _ in range(3)]
        for result in first:
            assert_same_bits(result, round_to(x, "bf16", "stochastic", rng=other))
        assert len({result.tobytes() for result in first}) == 3


def test_values_and_codes_draw_the_same_numbers_and_so_do_all_shapes_and_layouts():
    x = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
    wanted = round_to(x, "fp8_e4m3fn", "stochastic", rng=5)
    np.testing.assert_array_equal(encode(x, "fp8_e4m3fn", "stochastic", rng=5), encode(wanted, "fp8_e4m3fn"))
    assert_same_bits(round_to(x.reshape(-1), "fp8_e4m3fn", "stochastic", rng=5), wanted.reshape(-1))
    assert_same_bits(round_to(np.asfortranarray(x), "fp8_e4m3fn", "stochastic", rng=5), wanted)
    assert_same_bits(round_to(torch.from_numpy(x), "fp8_e4m3fn", "stochastic", rng=5).numpy(), wanted)


@pytest.mark.parametrize("format", ["bf16", "e8m0fnu", Format("jump", 3, 2, subnormals=False), Format("far", 12, 3)])
def test_codes_that_are_made_in_pieces_draw_the_same_numbers(format, monkeypatch):
    x = np.random.default_rng(0).uniform(0.1, 4, 5000).astype(np.float32)
    codes, y = encode(x, format, "stochastic", rng=3), round_to(x, format, "stochastic", rng=3)
    monkeypatch.setattr("sixteenbits.rounding.PIECE", 1234)
    np.testing.assert_array_equal(encode(x, format, "stochastic", rng=3), codes)
    assert_same_bits(round_to(x, format, "stochastic", rng=3), y)
    with pytest.raises(ValueError, match="x holds NaN"):
        encode(np.append(x, np.nan), "fp4_e2m1fn")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_numba_and_torch_draw_the_same_bits(dtype, monkeypatch):
    monkeypatch.setattr(kernel, "WORTH_A_CALL", np.inf)
    x = np.random.default_rng(0).standard_normal(5000).astype(dtype)
    for key in (0, 1, 2**63, 2**64 - 1):
        wanted = round_to(x, "fp8_e5m2", "stochastic", rng=key)
        with monkeypatch.context() as patch:
            patch.setattr(kernel, "COMPILE_FROM", 0)
            assert_same_bits(round_to(x, "fp8_e5m2", "stochastic", rng=key), wanted)
        with monkeypatch.context() as patch:
            patch.setattr("sixteenbits.arrays._numpy_reaches", lambda tensor: False)  # the text for a GPU
            assert_same_bits(round_to(torch.from_numpy(x), "fp8_e5m2", "stochastic", rng=key).numpy(), wanted)


# -- without bias ------------------------------------------------------------------------------------------------------

RANGES = {
    "normal": lambda f: (1.0, 4.0),
    "subnormal": lambda f: (0.0, f.smallest_normal),
    "around the smallest normal": lambda f: (f.smallest_normal - f.smallest_subnormal,
                                             f.smallest_normal + f.smallest_subnormal),
    "near overflow": lambda f: (float(next_down(next_down(f.max, f), f)), f.max),
}


@pytest.mark.parametrize("where", RANGES)
@pytest.mark.parametrize("name", ["fp16", "bf16", "tf32", "fp8_e4m3fn", "fp8_e5m2", "fp6_e2m3fn", "fp4_e2m1fn"])
def test_the_mean_is_the_number_itself(name, where):
    format = FORMATS[name]
    low, high = RANGES[where](format)
    points = np.random.default_rng(3).uniform(low, high, 24) * np.array([1, -1] * 12)
    limit = bound(24)
    for seed, x in enumerate(points):
        down, up = float(next_down(x, format)), float(next_up(x, format))
        y = round_to(np.full(DRAWS, x), format, "stochastic", rng=seed)
        went_up = np.count_nonzero(y == up)
        assert went_up + np.count_nonzero(y == down) == DRAWS
        probability = (x - down) / (up - down)
        deviation = math.sqrt(DRAWS * probability * (1 - probability))
        assert abs(went_up - DRAWS * probability) <= max(limit * deviation, 0.5)


def test_above_the_largest_value_the_next_grid_point_means_overflow():
    for name, beyond in [("fp16", np.inf), ("fp8_e4m3fn", np.nan), ("fp4_e2m1fn", 6.0)]:
        top = FORMATS[name].max
        step = top - float(next_down(top, name))
        y = round_to(np.full(DRAWS, top + step / 4), name, "stochastic", rng=0)
        over = np.count_nonzero((y == beyond) | (np.isnan(y) & np.isnan(beyond))) if beyond != top else 0
        assert np.count_nonzero(y == top) + over == DRAWS
        if beyond != top:
            assert abs(over - DRAWS / 4) <= bound(1) * math.sqrt(DRAWS * 3 / 16)
        assert set(round_to(np.full(DRAWS, top + step / 4), name, "stochastic", "saturate", rng=0).tolist()) == {top}


def test_values_of_the_format_stay_whatever_is_drawn():
    x = np.repeat(np.array([0.0, -0.0, 1.0, -448.0, 2.0**-9, np.inf]), 1000)
    assert_same_bits(round_to(x, "fp8_e4m3fn", "stochastic", "saturate", rng=0), np.where(x == np.inf, 448.0, x))


@pytest.mark.parametrize("steps", [2**-64, 2**-63, 3 * 2**-60, 2**-40 + 2**-64, 1 - 2**-53, 1 - 2**-52, 0.5 - 2**-54])
@pytest.mark.parametrize("text", ["numpy", "numba", "torch"])
def test_the_probability_is_the_fraction_to_the_64th_bit(steps, text, monkeypatch):
    # Up goes whoever draws less than fraction * 2**64. So that no 2**64 draws are needed, the number drawn is chosen.
    if text == "numba":
        monkeypatch.setattr(kernel, "COMPILE_FROM", 0)
    if text == "torch":
        monkeypatch.setattr("sixteenbits.arrays._numpy_reaches", lambda tensor: False)
    threshold = int(steps * 2**64)
    for drawn, wanted in [(threshold - 1, 2.0**-24), (threshold, 0.0)]:
        x = torch.tensor([steps * 2.0**-24], dtype=torch.float64)
        x = x if text == "torch" else x.numpy()
        assert float(round_to(x, "fp16", "stochastic", rng=key_that_draws(drawn))[0]) == wanted


def key_that_draws(wanted):
    """The seed whose first number is `wanted`: splitmix64 undone, each step of it being one to one."""
    _, first, second = kernel.SPLITMIX64
    z = unshift(wanted, 31) * pow(second, -1, 2**64) % 2**64
    z = unshift(z, 27) * pow(first, -1, 2**64) % 2**64
    return unshift(z, 30)


def unshift(z, n):
    """The number whose exclusive or with itself shifted right by n is z."""
    result = z
    for _ in range(64 // n):
        result = z ^ (result >> n)
    return result


def test_two_precisions_of_input_give_the_same_rounding():
    x = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    wide = round_to(x.astype(np.float64), "bf16", "stochastic", rng=1)
    assert_same_bits(round_to(x, "bf16", "stochastic", rng=1), wide.astype(np.float32))


# -- independent -------------------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_splitmix64():
    # Vigna's splitmix64.c, seed 1234567, as printed in many libraries' tests; its state is advanced before each number.
    wanted = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    golden = kernel.SPLITMIX64[0]
    assert random64(5, (1234567 + golden) % 2**64).tolist() == wanted


def test_every_bit_is_balanced_and_no_two_bits_go_together():
    count = 1 << 16
    bits = (random64(count, key=11)[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    signs = bits.astype(np.float64) * 2 - 1
    assert np.abs(signs.sum(0)).max() / math.sqrt(count) < bound(64)
    pairs = signs.T @ signs / math.sqrt(count)
    assert np.abs(pairs[np.triu_indices(64, 1)]).max() < bound(64 * 63 // 2)


@pytest.mark.parametrize("key", [0, 1, 2**63, 0x9E3779B97F4A7C15])
def test_neighboring_elements_are_independent(key):
    """Serial correlation at many lags, runs of pairs, and the spread over cells."""
    count = 1 << 17
    uniform = random64(count, key) / 2.0**64 - 0.5
    lags = [1, 2, 3, 4, 7, 8, 16, 31, 32, 64, 128, 256, 1024, 4096]
    for lag in lags:
        z = (uniform[:-lag] * uniform[lag:]).sum() * 12 / math.sqrt(count - lag)
        assert abs(z) < bound(len(lags)), lag
    cells = ((uniform + 0.5) * 64).astype(int)
    pairs = np.bincount(cells[:-1] * 64 + cells[1:], minlength=4096)
    expected = (count - 1) / 4096
    chi = ((pairs - expected) ** 2 / expected).sum()
    assert abs(chi - 4095) / math.sqrt(2 * 4095) < bound(1) + 1  # chi-square, a little skewed


def test_neighboring_and_related_seeds_are_independent():
    count = 1 << 16
    base = random64(count, 5) / 2.0**64 - 0.5
    others = [6, 4, 5 + 2**32, 5 + 2**63, 2**64 - 5, 5 ^ 0xFFFF]
    for key in others:
        z = (base * (random64(count, key) / 2.0**64 - 0.5)).sum() * 12 / math.sqrt(count)
        assert abs(z) < bound(len(others)), key


def test_the_errors_of_a_rounded_array_are_uncorrelated_and_add_up_like_independent_ones():
    x = np.full(1 << 16, 1 + 0.3 * 2.0**-7)
    up = (round_to(x, "bf16", "stochastic", rng=9) > 1).astype(np.float64) - 0.3
    z = (up[:-1] * up[1:]).sum() / (0.21 * math.sqrt(x.size - 1))
    assert abs(z) < bound(2)
    blocks = up.reshape(256, 256).sum(1) / math.sqrt(256 * 0.21)
    assert abs((blocks**2).sum() - 256) / math.sqrt(2 * 256) < bound(2) + 1


def test_formats_without_zero_subnormals_sign_or_mantissa_are_unbiased_too():
    jump, powers = Format("jump", 3, 2, subnormals=False), Format("powers", 4, 0, nan="fn")
    for format, x in [("e8m0fnu", 2.5), (jump, 0.1), (powers, -5)]:
        down, up = float(next_down(x, format)), float(next_up(x, format))
        y = round_to(np.full(DRAWS, float(x)), format, "stochastic", rng=0)
        assert set(y.tolist()) == {down, up}
        probability = (x - down) / (up - down)
        z = (np.count_nonzero(y == up) - DRAWS * probability) / math.sqrt(DRAWS * probability * (1 - probability))
        assert abs(z) < bound(3)
