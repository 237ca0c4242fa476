"""encode, decode and round_to against NumPy, torch, ml_dtypes and exact fractions; what comes in and out; errors."""

import ml_dtypes
import numpy as np
import pytest
import torch

from oracles import ExactRounding, assert_same_bits, codes_ties_and_neighbors, decision_complete
from sixteenbits import kernel
from sixteenbits.codec import OVERFLOWS, ROUNDINGS, decode, encode, exact, next_down, next_up, round_to, table, ulp
from sixteenbits.formats import FORMATS, Format

SIXTEEN = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
EIGHT = ["fp8_e5m2", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp8_e4m3fnuz"]
SMALL = ["fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn"]
OWN = [
    Format("one_exponent_bit", 1, 3), Format("no_mantissa", 4, 0, nan="none"), Format("signed_powers", 4, 0, nan="fn"),
    Format("no_subnormals", 3, 2, subnormals=False), Format("unsigned", 3, 3, signed=False),
    Format("p3109_like", 4, 3, bias=8, nan="fnuz", infinities=True), Format("biased_up", 4, 3, bias=-20),
    Format("biased_down", 4, 3, bias=60), Format("no_infinity", 4, 2, infinities=False),
    Format("wide_low", 4, 3, bias=1100), Format("wide_high", 4, 3, bias=-1100),
    Format("unsigned_no_nan", 2, 3, nan="none", signed=False),
    Format("no_zero", 3, 2, nan="fn", subnormals=False, zero=False),
]


def native(name):
    return np.dtype(getattr(ml_dtypes, FORMATS[name].dtype)) if name != "fp16" else np.dtype(np.float16)


# -- decode ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SIXTEEN, *EIGHT, *SMALL, "e8m0fnu"])
def test_decode_every_code_as_numpy_and_ml_dtypes_do(name):
    format, dtype = FORMATS[name], native(name)
    codes = np.arange(2**format.bits, dtype=f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):  # signaling NaNs
        assert_same_bits(decode(codes, name), codes.view(dtype).astype(np.float64))


@pytest.mark.parametrize("name", [*SIXTEEN, *EIGHT])
def test_decode_every_code_as_torch_does(name):
    format = FORMATS[name]
    codes = np.arange(2**format.bits, dtype=f"u{format.bits // 8}")
    values = torch.from_numpy(codes).view(getattr(torch, format.dtype)).double().numpy()
    assert_same_bits(decode(codes, name), values)


@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.bits <= 16), *OWN[:6]], ids=lambda f: f.name)
def test_decode_is_the_exact_fraction(format):
    codes = np.arange(2**format.bits)
    assert_same_bits(decode(codes, format), np.array([float(v) for v in exact(codes, format)]))


def test_decode_of_fp32_and_fp64_is_a_view_of_the_bits():
    bits = np.random.default_rng(0).integers(0, 2**64, 100_000, dtype=np.uint64)
    assert_same_bits(decode(bits, "fp64"), bits.view(np.float64))
    bits = bits.astype(np.uint32)
    with np.errstate(invalid="ignore"):
        assert_same_bits(decode(bits, "fp32"), bits.view(np.float32).astype(np.float64))


def test_decode_refuses_what_is_no_code():
    with pytest.raises(TypeError, match="codes holds float64 values; expected integers"):
        decode(np.array([1.0]), "fp16")
    with pytest.raises(ValueError, match="codes holds 256; the codes of a 8-bit format are 0 to 255"):
        decode(256, "fp8_e5m2")
    with pytest.raises(ValueError, match=r"view signed storage as unsigned first"):
        decode(np.array([-1], np.int16), "fp16")
    with pytest.raises(ValueError, match="exact"):
        decode(1, Format("wide", 15, 48))


# -- encode and round to nearest even: every code, every tie, every neighbor -------------------------------------------


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("name", SIXTEEN)
def test_sixteen_bits_at_every_code_tie_and_neighbor(name, source):
    x = codes_ties_and_neighbors(decode(np.arange(2**16), name), source)
    rounded = round_to(x, name)
    assert rounded.dtype == source
    codes = encode(x, name)
    assert codes.dtype == np.uint16
    assert_same_bits(decode(codes, name), rounded.astype(np.float64), x)
    if source is np.float32:  # ml_dtypes and torch round float64 twice, by way of float32
        with np.errstate(over="ignore"):
            assert_same_bits(rounded, x.astype(SIXTEEN[name]).astype(source), x)
        dtype = getattr(torch, FORMATS[name].dtype)
        assert_same_bits(rounded, torch.from_numpy(x).to(dtype).float().numpy(), x)
    elif name == "fp16":
        with np.errstate(over="ignore"):
            assert_same_bits(rounded, x.astype(np.float16).astype(source), x)


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("overflow", OVERFLOWS)
@pytest.mark.parametrize("mode", ROUNDINGS[:-1])
@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.bits <= 8), *OWN], ids=lambda f: f.name)
def test_every_mode_is_the_exact_one_at_every_code_tie_and_neighbor(format, mode, overflow, source):
    with np.errstate(over="ignore", under="ignore"):
        values = np.array([float(v) if abs(v) < 2**1000 else np.nan for v in exact(np.arange(2**format.bits), format)])
        x = codes_ties_and_neighbors(values, source)
    if not format.has_nan:
        x = np.abs(x[~np.isnan(x)]) if not format.signed else x[~np.isnan(x)]
    reference = ExactRounding(format)
    if format.name in ("wide_low", "wide_high"):
        return _compare_codes_only(x, format, mode, overflow, reference)
    wanted = np.array([reference(float(v), mode, overflow) for v in x])
    with np.errstate(over="ignore", under="ignore"):
        fits = wanted.astype(source) == wanted
    x, wanted = x[fits | np.isnan(wanted)], wanted[fits | np.isnan(wanted)]
    assert_same_bits(round_to(x, format, mode, overflow), wanted.astype(source), x)
    assert_same_bits(decode(encode(x, format, mode, overflow), format), wanted, x)


def _compare_codes_only(x, format, mode, overflow, reference):
    """For formats whose values lie outside float64: the code must be that of the value the reference picks."""
    info = np.finfo(x.dtype)
    ends = [1.0, info.max, info.smallest_subnormal, info.smallest_normal / 8]
    x = np.concatenate([x, np.array([*ends, *(-end for end in ends)], x.dtype)])
    codes = encode(x, format, mode, overflow)
    for value, code in zip(x.tolist(), codes.tolist(), strict=True):
        if np.isfinite(value) and value:
            negative = value < 0
            away = {"toward_positive": not negative, "toward_negative": negative}.get(mode)
            wanted = reference._magnitude(abs(value), mode, away)
            stops = mode == "toward_zero" or away is False or overflow == "saturate"
            assert code % 2**format.magnitude_bits == (min(wanted, format.max_code) if stops else wanted)


@pytest.mark.parametrize("mode", ROUNDINGS[:-1])
@pytest.mark.parametrize("name", ["fp16", "bf16"])
def test_sixteen_bits_in_every_mode_against_fractions(name, mode):
    x = decision_complete(np.float32, 10)  # 6,144 inputs over the whole range
    reference = ExactRounding(FORMATS[name])
    for overflow in OVERFLOWS:
        wanted = np.array([reference(float(v), mode, overflow) for v in x])
        with np.errstate(over="ignore"):
            assert_same_bits(round_to(x, name, mode, overflow), wanted.astype(np.float32), x)


def test_float64_is_rounded_once_not_by_way_of_float32():
    x = 1 + 2.0**-11 + 2.0**-40  # just above the tie between 1 and 1 + 2**-10
    assert round_to(x, "fp16") == 1 + 2.0**-10
    assert float(np.float16(np.float32(x))) == 1.0  # what rounding twice gives


def test_tf32_fp32_and_fp64():
    x = decision_complete(np.float32, 20)
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same_bits(round_to(x, "fp32"), x)
        assert_same_bits(round_to(x.astype(np.float64), "fp64"), x.astype(np.float64))
    wide = decision_complete(np.float64, 18)
    with np.errstate(over="ignore", invalid="ignore"):
        assert_same_bits(round_to(wide, "fp32"), wide.astype(np.float32).astype(np.float64), wide)
    assert round_to(1 + 2.0**-11, "tf32") == 1.0
    assert round_to(1 + 3 * 2.0**-11, "tf32") == 1 + 2.0**-9


# -- one text, three vocabularies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_numpy_numba_and_torch_agree_bit_for_bit(mode, source, monkeypatch):
    x = decision_complete(source, 13)
    for name in ("fp16", "bf16", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp32"):
        for overflow in OVERFLOWS:
            flush = (name, mode) == ("bf16", "nearest_even")  # each combination costs a compilation
            options = {"rounding": mode, "overflow": overflow, "rng": 3, "flush_output": flush}
            by_numpy, codes = round_to(x, name, **options), encode(x, name, **options)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "COMPILE_FROM", 0)
                assert_same_bits(round_to(x, name, **options), by_numpy, x)
                np.testing.assert_array_equal(encode(x, name, **options), codes)
            with monkeypatch.context() as patch:
                patch.setattr("sixteenbits.arrays._numpy_reaches", lambda tensor: False)
                tensor = torch.from_numpy(x)
                assert_same_bits(round_to(tensor, name, **options).numpy(), by_numpy, x)
                np.testing.assert_array_equal(encode(tensor, name, **options).numpy(), codes)


# -- stochastic rounding -----------------------------------------------------------------------------------------------


def test_stochastic_rounding_needs_a_seed_and_repeats_with_it():
    x = np.random.default_rng(0).standard_normal(1000)
    with pytest.raises(ValueError, match="needs rng"):
        round_to(x, "bf16", "stochastic")
    with pytest.raises(TypeError, match="rng is 'seed'"):
        round_to(x, "bf16", "stochastic", rng="seed")
    first = round_to(x, "bf16", "stochastic", rng=7)
    assert_same_bits(first, round_to(x, "bf16", "stochastic", rng=7))
    assert (first != round_to(x, "bf16", "stochastic", rng=8)).any()
    generator = np.random.default_rng(7)
    assert (round_to(x, "bf16", "stochastic", rng=generator) != round_to(x, "bf16", "stochastic", rng=generator)).any()
    by_torch = [round_to(torch.from_numpy(x), "bf16", "stochastic", rng=torch.Generator().manual_seed(1)) for _ in "ab"]
    assert torch.equal(*by_torch)


# -- what comes in goes out --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_floating_dtypes_and_shapes_are_kept(dtype):
    for shape in [(), (0,), (3,), (2, 0, 3), (2, 3, 4)]:
        x = np.ones(shape, dtype)
        result = round_to(x, "fp8_e4m3fn")
        assert (result.shape, result.dtype) == (shape, np.dtype(dtype))
        assert encode(x, "fp8_e4m3fn").shape == shape


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_stay_tensors(dtype):
    for shape in [(), (0,), (2, 3)]:
        x = torch.full(shape, 1.1, dtype=dtype)
        result = round_to(x, "fp8_e4m3fn")
        assert (result.shape, result.dtype) == (x.shape, dtype)
        assert isinstance(decode(encode(x, "fp8_e4m3fn"), "fp8_e4m3fn"), torch.Tensor)
    assert encode(torch.ones(3), "fp16").dtype == torch.uint16


def test_views_transposes_and_read_only_arrays():
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    wanted = round_to(x, "bf16")
    assert_same_bits(round_to(x.T, "bf16"), wanted.T)
    assert_same_bits(round_to(x[::3, ::-2], "bf16"), wanted[::3, ::-2])
    assert_same_bits(round_to(np.asfortranarray(x), "bf16"), wanted)
    x.flags.writeable = False
    assert_same_bits(round_to(x, "bf16"), wanted)
    tensor = torch.arange(12.0).view(3, 4).t()
    assert torch.equal(round_to(tensor, "fp4_e2m1fn"), tensor.clamp(max=6).where(tensor != 5, 4.0))


def test_big_arrays_take_the_compiled_path_with_the_same_result_in_place_too():
    x = np.random.default_rng(0).standard_normal((3, kernel.COMPILE_FROM)).astype(np.float32)
    wanted = np.stack([round_to(row[:1000], "bf16") for row in x])
    assert_same_bits(round_to(x, "bf16")[:, :1000], wanted)
    assert_same_bits(round_to(x[:, ::-1], "bf16")[:, ::-1][:, :1000], wanted)
    assert round_to(x, "bf16", out=x) is x
    assert_same_bits(x[:, :1000], wanted)


def test_integers_and_python_numbers_become_float64():
    assert round_to([1, 2, 2049], "fp16").tolist() == [1.0, 2.0, 2048.0]
    assert round_to(2**53, "fp64") == 2.0**53
    assert isinstance(round_to(0.1, "bf16"), np.float64)
    assert round_to(torch.tensor([2049]), "fp16").dtype == torch.float64
    assert encode(1, "fp16") == 0x3C00


@pytest.mark.parametrize(("bad", "error", "said"), [
    ("0.1", TypeError, "text '0.1'"),
    (1j, TypeError, "complex"),
    (np.array(["a"]), TypeError, "expected real numbers"),
    (np.array([True]), TypeError, "bool"),
    (None, TypeError, "object"),
    ([1.0, "a"], TypeError, "expected real numbers"),
    ([[1.0], [1.0, 2.0]], ValueError, "rectangular"),
    (2**53 + 1, ValueError, "9007199254740993, which float64 cannot hold exactly"),
    (2**63 - 1, ValueError, "cannot hold exactly"),
    (2**200 + 1, ValueError, "beyond 64 bits"),
    (np.array([1], np.longdouble), TypeError, "float128|longdouble"),
    (torch.tensor([1j]), TypeError, "complex64"),
    (torch.tensor([True]), TypeError, "bool"),
    (torch.tensor([2**53 + 1]), ValueError, "cannot hold exactly"),
])
def test_bad_input_is_named(bad, error, said):
    with pytest.raises(error, match=said):
        round_to(bad, "fp16")
    with pytest.raises(error, match=said):
        encode(bad, "fp16")


def test_unknown_arguments_are_named():
    with pytest.raises(ValueError, match="rounding is 'up'; choose one of nearest_even"):
        round_to(1.0, "fp16", "up")
    with pytest.raises(ValueError, match="overflow is 'wrap'"):
        round_to(1.0, "fp16", overflow="wrap")
    with pytest.raises(ValueError, match="no format is named"):
        round_to(1.0, "half")
    with pytest.raises(ValueError, match="out is float32 of shape"):
        round_to(np.ones(3), "fp16", out=np.ones(3, np.float32))


def test_a_result_that_the_dtype_cannot_hold_is_an_error_not_a_second_rounding():
    with pytest.raises(OverflowError, match=r"65536\.0, does not fit the input's dtype float16"):
        round_to(np.array([65504], np.float16), "bf16")
    with pytest.raises(OverflowError, match=r"65504\.0, does not fit the input's dtype torch.bfloat16"):
        round_to(torch.tensor([1e5], dtype=torch.bfloat16), "fp16", overflow="saturate")


def test_nan_into_a_format_without_nan():
    for x in (np.array([1.0, np.nan]), torch.tensor([1.0, np.nan])):
        with pytest.raises(ValueError, match=r"x holds NaN, and FP4 E2M1 has no code for it.*nan=0.0"):
            round_to(x, "fp4_e2m1fn")
        assert round_to(x, "fp4_e2m1fn", nan=6.0).tolist() == [1.0, 6.0]
    assert encode(np.nan, "fp4_e2m1fn", nan=-0.5) == 0b1001


def test_flushing_subnormals():
    tiny = FORMATS["fp16"].smallest_normal
    x = np.array([tiny, tiny * 0.75, -tiny / 2, tiny * (1 - 2.0**-12)])
    assert_same_bits(round_to(x, "fp16", flush_output=True), np.array([tiny, 0.0, -0.0, tiny]))
    assert_same_bits(round_to(x, "fp16", flush_input=True), np.array([tiny, 0.0, -0.0, 0.0]))
    assert decode([1, 0x8001, 0x0400], "fp16", flush_input=True).tolist() == [0.0, -0.0, tiny]


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_the_gradient_goes_straight_through():
    x = torch.tensor([0.1, 1e6, 1e-9], requires_grad=True)
    y = round_to(x, "fp16")
    assert y.tolist() == [float(np.float16(0.1)), float("inf"), 0.0]
    (y.nan_to_num(posinf=0.0) * torch.tensor([2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 0.0, 4.0]  # the zero comes from nan_to_num, the others pass unchanged
    y = round_to(torch.nn.Parameter(torch.ones(2)), "bf16", "stochastic", rng=0)
    assert y.requires_grad


# -- neighbors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.bits <= 16), *OWN[:6], *OWN[11:]],
                         ids=lambda f: f.name)
def test_neighbors_are_the_next_values_of_the_sorted_table(format):
    value = decode(np.arange(2**format.bits), format)
    values = np.unique(value[~np.isnan(value)])  # -0 and 0 count as one
    assert_close_up(next_up(values[:-1], format), values[1:])
    assert_close_up(next_down(values[1:], format), values[:-1])
    between = (values[:-1] / 2 + values[1:] / 2)[np.isfinite(values[:-1]) & np.isfinite(values[1:])]
    inside = between[~np.isin(between, values)]
    assert_close_up(next_up(inside, format), values[np.searchsorted(values, inside)])
    assert_close_up(next_down(inside, format), values[np.searchsorted(values, inside) - 1])


def assert_close_up(got, wanted):
    np.testing.assert_array_equal(got, wanted)


def test_ends_and_zeros():
    assert np.isnan(next_up(448.0, "fp8_e4m3fn"))
    assert next_up(65504.0, "fp16") == np.inf
    assert next_down(np.inf, "fp16") == 65504.0
    assert next_up(-np.inf, "fp16") == -65504.0
    assert next_up(-1e9, "fp8_e4m3fn") == -448.0
    assert np.isnan(next_up(np.nan, "fp16"))
    assert np.signbit(next_up(-(2.0**-24), "fp16"))
    assert not np.signbit(next_up(-FORMATS["fp8_e4m3fnuz"].smallest_subnormal, "fp8_e4m3fnuz"))
    assert next_up(torch.tensor([1.0]), "bf16").tolist() == [1 + 2.0**-7]


def test_ulp_is_the_spacing_of_numpy():
    with np.errstate(invalid="ignore"):
        x = decision_complete(np.float32, 16).astype(np.float64)
    x = x[np.isfinite(x) & (np.abs(x) <= 65504)]
    half = round_to(x, "fp16", "toward_zero").astype(np.float16)
    # NumPy's spacing of a negative float16 power of two is the gap toward zero; near max it is infinite.
    inside = np.abs(half) < 32768
    wanted = np.spacing(np.abs(half[inside])).astype(np.float64)
    np.testing.assert_array_equal(ulp(half[inside], "fp16"), wanted)
    assert np.isnan(ulp(np.inf, "fp16"))


def test_table_lists_every_code():
    columns = table("fp8_e4m3fn")
    assert {k: len(v) for k, v in columns.items()} == dict.fromkeys(
        ["code", "sign", "exponent", "mantissa", "value", "kind", "below", "above", "ulp"], 256)
    kinds, counts = np.unique(columns["kind"], return_counts=True)
    wanted = {"nan": 2, "normal": 238, "subnormal": 14, "zero": 2}
    assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == wanted
    with pytest.raises(ValueError, match="2\\*\\*32 codes"):
        table("fp32")
