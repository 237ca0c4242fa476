"""What a format does to a tensor: every count against casts that NumPy, torch and ml_dtypes make."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch

from sixteenbits.codec import round_to
from sixteenbits.formats import FORMATS
from sixteenbits.tensors import (
    FATES,
    binade,
    error_by_binade,
    histogram,
    overflow_limit,
    overflows,
    survey,
    values,
)

SIGNED = [f for f in FORMATS.values() if f.signed]
CASTS = {
    "fp16": lambda x: x.astype(np.float16),
    "bf16": lambda x: x.astype(ml_dtypes.bfloat16),
    "fp8_e5m2": lambda x: x.astype(ml_dtypes.float8_e5m2),
    "fp8_e4m3fn": lambda x: x.astype(ml_dtypes.float8_e4m3fn),
}


@pytest.fixture(scope="module")
def spread() -> np.ndarray:
    """Float32 numbers from far below to far above every narrow format, with zeros among them."""
    generator = np.random.default_rng(0)
    x = (generator.standard_normal(20_000) * 2.0 ** generator.integers(-140, 125, 20_000)).astype(np.float32)
    return np.concatenate([x, (generator.standard_normal(20_000) * 2.0 ** generator.integers(-30, 20, 20_000))
                           .astype(np.float32), np.zeros(7, np.float32)])


@pytest.mark.parametrize("name", CASTS)
def test_counts_are_those_of_the_real_cast(name, spread):
    with np.errstate(over="ignore"):
        cast = CASTS[name](spread).astype(np.float32)
    numbers, format = spread != 0, FORMATS[name]
    small = np.abs(cast) < format.smallest_normal
    expected = {
        "overflow": ~np.isfinite(cast),
        "zero": numbers & (cast == 0),
        "exact": numbers & (cast == spread),
        "subnormal": (cast != 0) & small & (cast != spread),
        "rounded": np.isfinite(cast) & ~small & (cast != spread),
    }
    result = survey(spread, name)
    assert result.counts == {fate: int(expected[fate].sum()) for fate in FATES}
    assert (result.size, result.zeros, result.nonzero) == (spread.size, 7, spread.size - 7)


@pytest.mark.parametrize("format", [f for f in SIGNED if f.name != "fp64"], ids=str)
def test_overflow_begins_where_rounding_leaves_the_format(format):
    limit = overflow_limit(format)
    x = np.array([format.max, np.nextafter(limit, 0), limit, np.nextafter(limit, math.inf)])
    x = np.concatenate([x, -x])
    if format.infinities or format.has_nan:
        assert np.array_equal(overflows(x, format), ~np.isfinite(round_to(x, format)))
    else:
        assert np.array_equal(overflows(x, format), np.abs(x) >= limit if format.max_code % 2 else np.abs(x) > limit)


def test_no_float64_overflows_float64():
    assert not overflows(np.array([np.finfo(float).max]), FORMATS["fp64"]).any()


def test_a_saturating_format_overflows_too():
    result = survey([6.0, 6.9, 7.1, 100.0, -1e30], "fp4_e2m1fn")
    assert result.counts["overflow"] == 3
    assert result.largest_error == math.inf


def test_errors_are_bounded_by_the_unit_roundoff_in_the_normal_range():
    x = np.random.default_rng(1).uniform(1, 1000, 10_000)
    for name in ("fp16", "bf16", "tf32"):
        result = survey(x, name)
        assert result.median_error < result.largest_error <= FORMATS[name].unit_roundoff


def test_special_values_are_counted_apart():
    result = survey(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]), "bf16")
    assert (result.zeros, result.infinite, result.nan, result.nonzero) == (2, 2, 1, 1)
    assert result.share("exact") == 1


def test_a_tensor_of_zeros_has_no_shares():
    result = survey(torch.zeros(3), "fp16")
    assert result.nonzero == 0
    assert math.isnan(result.share("zero"))
    assert math.isnan(result.largest_error)


@pytest.mark.parametrize("x", [
    torch.tensor([[1.5, -2.0]], requires_grad=True), torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    torch.tensor([1.5, -2.0], dtype=torch.float8_e4m3fn), np.array([1.5, -2.0], dtype=ml_dtypes.bfloat16),
    np.array([1.5, -2.0], dtype=np.float16)[::1], [1.5, -2.0], np.array([1.5, 9, -2.0])[::2],
], ids=lambda x: f"{type(x).__name__} {getattr(x, 'dtype', '')}")
def test_values_of_every_kind_of_tensor(x):
    assert values(x).tolist() == [1.5, -2.0]


@pytest.mark.filterwarnings("ignore:.*[Qq]uantiz")
@pytest.mark.parametrize(("x", "error", "says"), [
    (np.zeros((0, 3)), ValueError, "empty"), ([], ValueError, "empty"), (torch.empty(0), ValueError, "empty"),
    (np.full(3, np.nan), ValueError, "nothing but NaN"),
    (np.ones(2, complex), TypeError, "complex"), (torch.ones(2, dtype=torch.complex64), TypeError, "complex"),
    (np.array([{}, 1]), TypeError, "object"), (None, TypeError, "object"), ("1, 2", TypeError, "text"),
    ([[1], [2, 3]], ValueError, "rectangular"), (np.array([True]), TypeError, "bool"),
    (torch.empty(3, device="meta"), TypeError, "meta device"),
    (torch.eye(3).to_sparse(), TypeError, "sparse"),
    (np.zeros(3, "V2"), TypeError, "raw bytes"), (np.zeros(3, "f4,f4"), TypeError, "fields f0, f1"),
    ([2**53 + 1], ValueError, "2\\*\\*53"),
    (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), TypeError, "quantized"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_bad_input_is_refused_in_words(x, error, says):
    with pytest.raises(error, match=says):
        values(x() if callable(x) else x)


def test_an_unsigned_format_is_refused():
    with pytest.raises(ValueError, match="signed formats"):
        survey([1.0], "e8m0fnu")


def test_binade_is_exact_at_powers_of_two():
    exponents = np.arange(-1074, 1024)
    powers = np.ldexp(1.0, exponents)
    assert np.array_equal(binade(powers), exponents)
    assert np.array_equal(binade(np.nextafter(powers[1:], 0)), exponents[:-1])


def test_histogram_counts_every_number_once(spread):
    rows = histogram(spread, [1.0, 1.5])
    assert sum(row["count"] for row in rows) == np.count_nonzero(spread)
    for row in rows[::37]:
        low = row["part"] * 2.0 ** row["exponent"]
        high = (1.5 if row["part"] == 1 else 2) * 2.0 ** row["exponent"]
        assert row["count"] == np.sum((np.abs(spread) >= low) & (np.abs(spread) < high))


def test_errors_by_binade():
    rows = {row["exponent"]: row for row in error_by_binade("fp16", -26, 20)}
    assert max(rows) == 15  # beyond, everything overflows
    u = FORMATS["fp16"].unit_roundoff
    assert all(rows[e]["largest"] == u / (1 + u) for e in range(-14, 16))  # reached in the middle of the first gap
    assert rows[-24]["largest"] == pytest.approx(1 / 3)  # 1.5 steps, rounded to 2
    assert rows[-26]["largest"] == rows[-26]["mean"] == 1
    assert all(rows[e]["largest"] >= rows[e + 1]["largest"] for e in range(-26, -14))
