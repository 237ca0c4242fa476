"""Sums, products and norms with every result rounded, against NumPy's own 16-bit loops and against exact fractions."""

import doctest
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import assert_same_bits, fraction_code
from sixteenbits import accumulate, addition, arithmetic, norms
from sixteenbits.accumulate import ACCUMULATORS, FP22, ORDERS, Accumulator, Order, chunks_of
from sixteenbits.codec import ROUNDINGS, decode, round_to
from sixteenbits.formats import BF16, FORMATS, FP16, FP32, Format

SCHEMES = ("sequential", "pairwise", "kahan")
MASK = 2**64 - 1


def mixed(*shape: int, seed: int = 0) -> np.ndarray:
    """Terms of both signs whose sizes span many binades."""
    random = np.random.default_rng(seed)
    return random.standard_normal(shape) * 2.0 ** random.integers(-8, 9, shape)


def positive(*shape: int, seed: int = 0) -> np.ndarray:
    """Terms from 0 to 1."""
    return np.random.default_rng(seed).random(shape)


# -- references: the definitions, slowly -------------------------------------------------------------------------------


def draw(key: int, index: int) -> int:
    """splitmix64 at a place, in plain integers."""
    z = (index * 0x9E3779B97F4A7C15 + key) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


class Reference:
    """Adds exact fractions and rounds each sum; `index` counts as `addition` says."""

    def __init__(self, format: Format, mode: str, key: int = 0):
        self.format, self.mode, self.key = format, mode, key

    def to_value(self, total: Fraction, mode: str) -> float:
        if mode == "away":
            mode = "toward_positive" if total > 0 else "toward_negative"
        return float(decode(fraction_code(total, self.format, mode, "ieee"), self.format))

    def add(self, a: float, b: float, index: int) -> float:
        if not (math.isfinite(a) and math.isfinite(b)):
            return a + b
        total = Fraction(a) + Fraction(b)
        if total == 0:
            return a + b
        if self.mode != "stochastic":
            return self.to_value(total, self.mode)
        inward, outward = (self.to_value(total, mode) for mode in ("toward_zero", "away"))
        if inward == total:
            return inward
        share = (abs(total) - abs(Fraction(inward))) / (abs(Fraction(outward)) - abs(Fraction(inward)))
        return outward if draw(self.key, index) < math.floor(share * 2**64) else inward

    def sequential(self, x, first=0):
        total = x[0]
        for i in range(1, len(x)):
            total = self.add(total, x[i], first + i)
        return total

    def pairwise(self, x, first=0):
        level, made = list(x), 0
        while len(level) > 1:
            sums = []
            for a, b in zip(level[::2], level[1::2], strict=False):
                made += 1
                sums.append(self.add(a, b, first + made))
            level = sums + level[len(sums) * 2:]
        return level[0]

    def kahan(self, x, first=0):
        total, carry = x[0], 0.0
        for i in range(1, len(x)):
            at = first + 4 * i
            term = self.add(x[i], -carry, at)
            grown = self.add(total, term, at + 1)
            carry = self.add(self.add(grown, -total, at + 2), -term, at + 3)
            total = grown
        return total


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e5m2", "fp8_e4m3fn"])
def test_every_addition_is_rounded_once(name, scheme, mode):
    format, key = FORMATS[name], 11
    x = np.asarray(round_to(mixed(2, 21) / 64, format))
    reference = Reference(format, mode, key)
    accumulator = Accumulator("tested", "tested", rounding=mode)
    got = arithmetic.sum(x, format, accumulator, ORDERS[scheme], rng=key)
    steps = x.shape[1] * addition.DRAWS[scheme]
    wanted = [getattr(reference, scheme)(row.tolist(), first=r * steps) for r, row in enumerate(x)]
    assert_same_bits(got, np.array(wanted))


@pytest.mark.parametrize("mode", ["toward_zero", "toward_negative", "nearest_even", "nearest_away"])
def test_what_float64_would_round_off_counts(mode):
    """1 - 2**-80 is not 1, and 1 + 2**-8 + 2**-80 is no tie."""
    terms = np.array([[1, -(2.0**-80)], [1 + 2**-7, -(2.0**-80)], [-1, 2.0**-80], [1, 2.0**-100], [2.0**-100, 1]])
    reference = Reference(BF16, mode)
    accumulator = Accumulator("tested", "tested", rounding=mode)
    wanted = np.array([reference.sequential(row.tolist()) for row in terms])
    assert_same_bits(arithmetic.sum(terms, BF16, accumulator), wanted)
    pairs = np.array([[1 + 2.0**-8, 2.0**-80], [1 + 2.0**-8, -(2.0**-80)], [-1 - 2.0**-8, 2.0**-80]])
    got = addition.add_rows(pairs, "sequential", mode, addition.grid_of_total(accumulate.how_to_round(BF16, mode)))
    assert_same_bits(got, np.array([reference.add(*row, 0) for row in pairs.tolist()]))


# -- against the machine's own arithmetic ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_same_format_sums_are_numpys_own_loops(dtype):
    x = mixed(20, 500).astype(dtype)
    name = {np.float16: "fp16", np.float32: "fp32"}[dtype]
    assert_same_bits(arithmetic.sum(x, name), np.add.accumulate(x, axis=1, dtype=dtype)[:, -1].astype(np.float64))
    total, carry = x[:, 0].copy(), np.zeros(20, dtype)
    for column in x.T[1:]:
        term = column - carry
        grown = total + term
        total, carry = grown, (grown - total) - term
    assert_same_bits(arithmetic.sum(x, name, order="kahan"), total.astype(np.float64))


def test_bfloat16_sums_are_torchs_own_loop():
    x = torch.randn(8, 300, generator=torch.Generator().manual_seed(1), dtype=torch.float64).bfloat16()
    total = x[:, 0]
    for column in x.T[1:]:
        total = total + column
    assert_same_bits(arithmetic.sum(x, "bf16"), total.double().numpy())


def test_torch_sums_16_bit_tensors_in_float32():
    """Chapter 4 says so: torch.sum of BF16 is far closer to an FP32 accumulator than to BF16's own."""
    for dtype, name in [(torch.bfloat16, "bf16"), (torch.float16, "fp16")]:
        x = torch.rand(4, 4096, generator=torch.Generator().manual_seed(2)).to(dtype)
        wide = arithmetic.sum(x, name, "fp32")
        assert np.abs(x.sum(1).double().numpy() / wide - 1).max() <= round_to(1.0, name) * FORMATS[name].eps
        assert np.abs(arithmetic.sum(x, name) / wide - 1).max() > 5 * FORMATS[name].eps


@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_dot_multiplies_rounds_and_adds(name):
    a, b = mixed(5, 64), mixed(5, 64, seed=1)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[name]
    ta, tb = torch.tensor(a).to(dtype), torch.tensor(b).to(dtype)
    products, total = ta * tb, (ta * tb)[:, 0]
    for column in products.T[1:]:
        total = total + column
    assert_same_bits(arithmetic.dot(round_to(a, name), round_to(b, name), name), total.double().numpy())


def test_dot_in_fp32_takes_the_exact_products_of_16_bit_numbers():
    a, b = (round_to(mixed(6, 200, seed=seed), FP16) for seed in (0, 1))
    products = a.astype(np.float32) * b.astype(np.float32)
    assert np.array_equal(products, a * b)
    total = np.add.accumulate(products, axis=1, dtype=np.float32)[:, -1].astype(np.float64)
    assert_same_bits(arithmetic.dot(a, b, "fp16", "fp32", result="fp32"), total)
    assert_same_bits(arithmetic.dot(a, b, "fp16", "fp32"), np.asarray(round_to(total, FP16)))


@pytest.mark.parametrize(("accumulator", "order"), [("same", "sequential"), ("stochastic", "chunks_of_32"),
                                                    ("hopper_fp8", "promotion_every_128"), ("fp32", "pairwise")])
def test_matmul_is_made_of_dots(accumulator, order):
    a, b = mixed(4, 300) / 16, mixed(300, 3, seed=1) / 16
    got = arithmetic.matmul(a, b, "fp8_e4m3fn", accumulator, order, rng=5, result="bf16")
    wanted = arithmetic.dot(a[:, None, :], b.T[None], "fp8_e4m3fn", accumulator, order, rng=5, result="bf16")
    if accumulator != "stochastic":
        assert_same_bits(got, wanted)
    assert_same_bits(got, arithmetic.matmul(a, b, "fp8_e4m3fn", accumulator, order, rng=5, result="bf16"))
    assert got.shape == (4, 3)


# -- orders ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100])
@pytest.mark.parametrize("size", [1, 8, 32, 1000])
def test_chunks_are_sums_of_sums(n, size):
    x = np.asarray(round_to(mixed(3, n), "bf16"))
    parts = [arithmetic.sum(x[:, i:i + size], "bf16") for i in range(0, n, size)]
    wanted = arithmetic.sum(np.stack(parts, axis=1), "bf16")
    assert_same_bits(arithmetic.sum(x, "bf16", order=chunks_of(size)), wanted)


def test_promotion_adds_the_chunks_in_the_wide_format():
    x = np.asarray(round_to(positive(4, 1000), "bf16"))
    parts = np.stack([arithmetic.sum(x[:, i:i + 128], "bf16") for i in range(0, 1000, 128)], axis=1)
    wanted = arithmetic.sum(parts, "fp32")
    assert_same_bits(arithmetic.sum(x, "bf16", order="promotion_every_128", result="fp32"), wanted)


def test_kahan_needs_no_more_than_two_roundings():
    """Kahan: relative error of positive terms at most 2 u + O(n u**2) (Higham 2002, section 4.3)."""
    x = np.asarray(round_to(positive(200, 200), "bf16"))
    errors = arithmetic.relative_error(arithmetic.sum(x, "bf16", order="kahan"), arithmetic.exact_sum(x))
    assert errors.max() <= 2 * BF16.unit_roundoff + 200 * BF16.unit_roundoff**2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(2**-10, 2**10), min_size=1, max_size=60), st.sampled_from(["fp16", "bf16", "fp8_e5m2"]))
def test_no_sum_of_positive_terms_is_worse_than_its_bound(terms, name):
    x = np.asarray(round_to(np.array(terms) / 64, name))
    exact = arithmetic.exact_sum(x)
    if exact > FORMATS[name].max / 2 or exact == 0:
        return
    for order, steps in [("sequential", len(terms)), ("pairwise", math.ceil(math.log2(len(terms))) + 1),
                         (chunks_of(8), 8 + math.ceil(len(terms) / 8))]:
        error = arithmetic.relative_error(arithmetic.sum(x, name, order=order), exact)
        assert error <= arithmetic.worst_case(steps, name)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("mode", ["nearest_even", "stochastic"])
def test_compiled_and_interpreted_give_the_same_bits(scheme, mode, monkeypatch):
    x = mixed(7, 90)
    x[0, 5], x[1, 7], x[2, 8], x[3, :] = np.nan, np.inf, -0.0, 2.0**100
    x = np.asarray(round_to(x, "bf16"))
    grid = addition.grid_of_total(accumulate.how_to_round(BF16, mode, rng=0))
    slow = addition.add_rows(x, scheme, mode, grid, key=3, first=9)
    monkeypatch.setattr(addition, "COMPILE_FROM", 0)
    assert_same_bits(addition.add_rows(x, scheme, mode, grid, key=3, first=9), slow)


# -- stochastic rounding -----------------------------------------------------------------------------------------------


def test_stochastic_sums_have_the_exact_mean_and_others_do_not():
    x = np.full((4000, 1001), round_to(0.001, BF16))
    x[:, 0] = 1.0
    exact = arithmetic.exact_sum(x[0])
    sums = arithmetic.sum(x, "bf16", "stochastic", rng=1)
    z = (sums.mean() - exact) / (sums.std(ddof=1) / math.sqrt(len(sums)))
    assert abs(z) < 4
    assert arithmetic.sum(x[0], "bf16") == 1.0
    assert len(np.unique(sums)) > 20


def test_stochastic_sums_repeat_with_their_seed_alone():
    x = positive(5, 400)
    first, again, other = (arithmetic.sum(x, "bf16", "stochastic", rng=seed) for seed in (1, 1, 2))
    assert_same_bits(first, again)
    assert (first != other).any()
    rows = arithmetic.sum(np.broadcast_to(x[0], (50, 400)), "bf16", "stochastic", order="chunks_of_32", rng=1)
    assert len(np.unique(rows)) > 2


def test_rows_of_a_matrix_product_draw_their_own_numbers():
    a, b = np.ones((40, 1)) @ positive(1, 300), positive(300, 1, seed=1)
    products = arithmetic.matmul(a, b, "bf16", "stochastic", "chunks_of_32", rng=3)
    assert len(np.unique(products)) > 2


# -- matrix units ------------------------------------------------------------------------------------------------------


def aligned_reference(terms, kept: int, joint: bool) -> float:
    """What `hopper_fp8` says, in fractions."""
    def cut(x: Fraction, unit: Fraction) -> Fraction:
        return (abs(x) // unit) * unit * (1 if x > 0 else -1)

    def exponent(x: Fraction) -> int:
        return math.frexp(float(x))[1] - 1

    total = Fraction(0)
    for start in range(0, len(terms), 32):
        step = [Fraction(t) for t in terms[start:start + 32]] + ([total] if joint else [])
        largest = max(map(abs, step))
        if largest:
            unit = Fraction(2) ** (exponent(largest) - kept)
            total = (0 if joint else total) + builtin_sum(cut(t, unit) for t in step)
        if total:
            total = cut(total, Fraction(2) ** (exponent(abs(total)) - FP22.mantissa_bits))
    return float(total)


def builtin_sum(terms) -> Fraction:
    total = Fraction(0)
    for term in terms:
        total += term
    return total


@pytest.mark.parametrize("name", ["hopper_fp8", "hopper_fp8_joint"])
def test_hopper_shifts_cuts_and_adds(name):
    a, b = (np.asarray(round_to(mixed(12, 100, seed=seed) / 4, "fp8_e4m3fn")) for seed in (0, 1))
    got = arithmetic.dot(a, b, "fp8_e4m3fn", name, result="fp32")
    wanted = [aligned_reference(row, 13, ACCUMULATORS[name].total_is_shifted) for row in (a * b).tolist()]
    assert_same_bits(got, np.array(wanted))


def test_hopper_keeps_14_bits():
    """SageAttention2 (arXiv:2411.10958) saw the register lose its last ten bits when zeros are added."""
    for name in ["hopper_fp8", "hopper_fp8_joint"]:
        keep = short_sum(name)
        assert keep([1 + 2.0**-13] + [0.0] * 63) == 1 + 2.0**-13
        assert keep([1 + 2.0**-14] + [0.0] * 63) == 1.0
        assert keep([1.0, 2.0**-13]) == 1 + 2.0**-13
        assert keep([1.0] + [2.0**-14] * 31) == 1.0  # every term alone is cut off, though together they are not small
    # The two guesses differ where a small step meets a large total.
    terms = [64.0] + [0.0] * 31 + [2.0**-8] * 32
    assert short_sum("hopper_fp8")(terms) == 64.125
    assert short_sum("hopper_fp8_joint")(terms) == 64.0


def short_sum(name):
    return lambda terms: arithmetic.sum(terms, "fp32", name)


def test_promotion_repairs_the_short_accumulator():
    a, b = (np.asarray(round_to(positive(8, 4096, seed=seed), "fp8_e4m3fn")) for seed in (1, 2))
    exact = arithmetic.exact_dot(a, b, "fp8_e4m3fn")
    for name in ["hopper_fp8", "hopper_fp8_joint"]:
        short, promoted = (
            arithmetic.relative_error(arithmetic.dot(a, b, "fp8_e4m3fn", name, order, result="fp32"), exact).max()
            for order in ("sequential", "promotion_every_128"))
        assert short > 10 * promoted


def test_matrix_units_add_in_their_own_order():
    with pytest.raises(ValueError, match="one term at a time"):
        arithmetic.sum(np.ones(64), "bf16", "hopper_fp8", "pairwise")


# -- results and errors ------------------------------------------------------------------------------------------------


def test_exact_sums_are_exact():
    x = mixed(4, 300)
    wanted = [float(builtin_sum(map(Fraction, row))) for row in x.tolist()]
    assert arithmetic.exact_sum(x).tolist() == wanted
    assert arithmetic.exact_sum(x.T, axis=0).tolist() == wanted
    products = [float(builtin_sum(map(Fraction, row))) for row in (round_to(x, FP16) ** 2).tolist()]
    assert arithmetic.exact_dot(x, x, FP16).tolist() == products


def test_shapes_and_special_values():
    assert arithmetic.sum(np.zeros((2, 0)), "bf16").tolist() == [0.0, 0.0]
    assert arithmetic.sum(np.zeros((0, 3)), "bf16").shape == (0,)
    assert arithmetic.sum(np.ones((2, 3, 4)), "bf16", axis=1).shape == (2, 4)
    assert isinstance(arithmetic.sum([1, 2], "fp16"), np.float64)
    assert math.copysign(1, arithmetic.sum([-0.0, -0.0], "fp16", order=chunks_of(3))) == -1
    assert arithmetic.sum([60000, 60000], "fp16") == math.inf
    assert math.isnan(arithmetic.sum([math.inf, -math.inf], "fp16"))
    assert math.isnan(arithmetic.sum([448.0, 448.0], "fp8_e4m3fn"))
    assert arithmetic.sum([6.0, 6.0], "fp4_e2m1fn") == 6.0
    assert arithmetic.sum([1.0, 2.0**-53, 2.0**-53], "fp64") == 1.0
    assert arithmetic.relative_error([1.0, math.nan, 0.0, 3.0], [2.0, 1.0, 0.0, 0.0]).tolist() == [0.5, math.inf, 0,
                                                                                                   math.inf]
    assert arithmetic.worst_case([1, 2, 1000], BF16).tolist() == [0.0, 2.0**-8 / (1 - 2.0**-8), math.inf]
    assert arithmetic.random_walk(65537, BF16) == 1.0


@pytest.mark.parametrize(("call", "message"), [
    (lambda: arithmetic.sum([1], "fp17"), "no format is named 'fp17'"),
    (lambda: arithmetic.sum([1], "fp16", "fp17"), "no accumulator is named 'fp17'; choose one of same, stochastic"),
    (lambda: arithmetic.sum([1], "fp16", order="random"), "no order is named 'random'; choose one of sequential"),
    (lambda: arithmetic.sum([1, 2], "fp16", "stochastic"), "stochastic rounding needs rng"),
    (lambda: arithmetic.sum([1, 2], Format("e4m3", 4, 3, subnormals=False)), "cannot hold a running total"),
    (lambda: arithmetic.sum([1, 2], Format("e11m51", 11, 51)), "cannot hold a running total"),
    (lambda: arithmetic.dot([1], [1], "fp64"), "52 mantissa bits"),
    (lambda: arithmetic.matmul(np.ones((2, 3)), np.ones((2, 3)), "bf16"), r"a has shape \(2, 3\) and b \(2, 3\)"),
    (lambda: chunks_of(0), "size is 0"),
    (lambda: arithmetic.softmax([1.0], "fp16", form="clever"), "softmax has the forms naive, stable"),
    (lambda: arithmetic.variance([1.0], "fp64"), "52 mantissa bits"),
])
def test_errors_say_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("module", [accumulate, arithmetic, norms])
def test_examples_in_the_documentation(module):
    assert doctest.testmod(module).failed == 0


# -- softmax, variance, norms ------------------------------------------------------------------------------------------


def half(x) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.asarray(x, np.float64).astype(np.float16)


def half_sum(x) -> np.ndarray:
    return np.add.accumulate(x, axis=-1, dtype=np.float16)[..., -1:]


def test_softmax_and_cross_entropy_are_half_precision_step_by_step():
    random = np.random.default_rng(0)
    x, target = half(random.normal(0, 3, (50, 40))), random.integers(0, 40, 50)
    for form, shift in [("naive", np.float16(0)), ("stable", x.max(-1, keepdims=True))]:
        powers = half(np.exp((x - shift).astype(np.float64)))
        wanted = powers / half_sum(powers)
        assert_same_bits(arithmetic.softmax(x, "fp16", form), wanted.astype(np.float64))
        logs = half(np.log(half_sum(powers).astype(np.float64)))
        assert_same_bits(arithmetic.logsumexp(x, "fp16", form), (shift + logs)[:, 0].astype(np.float64))
    stable = logs[:, 0] - (x - shift)[np.arange(50), target]
    assert_same_bits(arithmetic.cross_entropy(x, target, "fp16"), stable.astype(np.float64))


def test_variance_and_norms_are_half_precision_step_by_step():
    x, n = half(np.random.default_rng(0).normal(5, 2, (50, 32))), np.float16(32)
    mean = half_sum(x) / n
    one_pass = half_sum(x * x) / n - mean * mean
    two_pass = half_sum((x - mean) * (x - mean)) / n
    assert_same_bits(arithmetic.variance(x, "fp16", "naive"), one_pass[:, 0].astype(np.float64))
    assert_same_bits(arithmetic.variance(x, "fp16", "stable"), two_pass[:, 0].astype(np.float64))
    for form, spread in [("naive", one_pass), ("stable", two_pass)]:
        wanted = (x - mean) * (np.float16(1) / np.sqrt(spread + half(1e-5)))
        assert_same_bits(arithmetic.layer_norm(x, "fp16", form), wanted.astype(np.float64))


@pytest.mark.parametrize("function", ["softmax", "logsumexp", "variance", "layer_norm", "rms_norm"])
def test_all_forms_agree_where_nothing_overflows(function):
    x = torch.randn(20, 64, generator=torch.Generator().manual_seed(4))
    weight, bias = torch.linspace(0.5, 1.5, 64), torch.linspace(-1, 1, 64)
    wanted = {"softmax": lambda: x.softmax(-1), "logsumexp": lambda: x.logsumexp(-1),
              "variance": lambda: x.var(-1, correction=0),
              "layer_norm": lambda: torch.nn.functional.layer_norm(x, (64,), weight, bias),
              "rms_norm": lambda: torch.nn.functional.rms_norm(x, (64,), weight, eps=1e-6)}[function]().numpy()
    more = {"layer_norm": {"weight": weight, "bias": bias}, "rms_norm": {"weight": weight}}.get(function, {})
    for form in arithmetic.FORMS[function]:
        got = getattr(arithmetic, function)(x, "fp32", form, **more)
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6, err_msg=form)


def test_where_the_naive_forms_fail_in_fp16():
    logits = np.array([[12.0, 11.0, 0.0]])
    assert np.isnan(arithmetic.softmax(logits, "fp16", "naive")).any()
    assert arithmetic.logsumexp(logits, "fp16", "naive") == math.inf
    np.testing.assert_allclose(arithmetic.softmax(logits, "fp16").sum(), 1, atol=4 * FP16.eps)
    assert arithmetic.cross_entropy([[0.0, 20.0]], [0], "fp16", "log_of_softmax") == math.inf  # exp(-20) is 0 in FP16
    assert arithmetic.cross_entropy([[0.0, 20.0]], [0], "fp16") == 20.0
    near_300 = 300 + np.arange(8.0)
    assert not np.isfinite(arithmetic.variance(near_300, "fp16", "naive"))
    assert abs(arithmetic.variance(near_300, "fp16") - near_300.var()) < 0.01 * near_300.var()
    assert abs(arithmetic.variance(near_300, "fp16", "welford") - near_300.var()) < 0.01 * near_300.var()


@pytest.mark.parametrize("scale", [1, 2.0**6, 2.0**12])
def test_the_scaled_norms_do_not_care_how_large_x_is(scale):
    x = np.asarray(round_to(np.random.default_rng(0).standard_normal((6, 64)), "bf16"))
    for function in (arithmetic.layer_norm, arithmetic.rms_norm):
        wanted = function(x, "fp16", "scaled", eps=0)
        assert_same_bits(function(x * scale, "fp16", "scaled", eps=0), wanted)
        assert np.isfinite(function(x * scale, "fp16", "scaled")).all()
    assert (arithmetic.layer_norm(x * 2.0**12, "fp16", "stable") == 0).all()  # divided by the root of infinity
    assert np.isfinite(arithmetic.layer_norm(x * 2.0**12, "bf16", "stable")).all()


def test_equal_elements_have_no_norm_to_divide_by():
    for form in arithmetic.FORMS["layer_norm"]:
        assert (arithmetic.layer_norm(np.full((2, 16), 512.0), "bf16", form) == 0).all()
    assert (arithmetic.rms_norm(np.zeros((2, 16)), "fp16") == 0).all()


def test_failed_rows_are_loud_or_silent():
    result = [[1.0, 0.0], [math.nan, 0.0], [0.5, 0.0], [math.inf, 0.0]]
    assert arithmetic.failed_rows(result, [[1.0, 0.05]] * 4) == {"NaN": 0.5, "silent": 0.25}


def test_a_wide_accumulator_saves_the_mean():
    x = np.full((1, 4096), 100.0)
    assert arithmetic.variance(x, "fp16", "stable") != 0  # the sum overflows
    assert arithmetic.variance(x, "fp16", "stable", "fp32") == 0
    assert arithmetic.layer_norm(x, FP16, "stable", FP32).max() == 0


def test_orders_and_accumulators_are_named_once():
    assert all(name == row.name for table in (ACCUMULATORS, ORDERS) for name, row in table.items())
    assert isinstance(accumulate.as_order(Order("own", "own", "pairwise")), Order)
