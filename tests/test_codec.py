"""encode, decode and round_to against NumPy, torch, ml_dtypes and exact fractions; what comes in and out; errors."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
import torch

from oracles import assert_same_bits, codes_ties_and_neighbors, decision_complete
from own_formats import OWN as ALL_OWN
from sixteenbits import kernel, rounding
from sixteenbits.codec import decode, encode, exact, next_down, next_up, round_to, table, ulp
from sixteenbits.formats import FORMATS, Format

SIXTEEN = {"fp16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
EIGHT = ["fp8_e5m2", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp8_e4m3fnuz"]
SMALL = ["fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn"]
OWN = [f for f in ALL_OWN if not f.name.startswith(("wide", "below", "eleven", "biased_down"))]


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


@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.bits <= 16), *OWN], ids=lambda f: f.name)
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


def test_foreign_byte_order_is_read_as_what_it_is_and_kept():
    x = np.random.default_rng(0).standard_normal(kernel.COMPILE_FROM)
    for dtype in (np.float16, np.float32, np.float64):
        native, foreign = x.astype(dtype), x.astype(np.dtype(dtype).newbyteorder())
        for n in (100, x.size):
            wanted = round_to(native[:n], "fp8_e4m3fn").astype(foreign.dtype)
            assert_same_bits(round_to(foreign[:n], "fp8_e4m3fn"), wanted)
            np.testing.assert_array_equal(encode(foreign[:n], "fp8_e4m3fn"), encode(native[:n], "fp8_e4m3fn"))
    codes = encode(x.astype(np.float32), "fp16")
    assert_same_bits(decode(codes.astype(">u2"), "fp16"), decode(codes, "fp16"))


@pytest.mark.parametrize("size", [1000, kernel.COMPILE_FROM])
def test_out_may_overlap_the_input_and_need_not_be_contiguous(size):
    buffer = np.random.default_rng(0).standard_normal(size + 1).astype(np.float32)
    wanted = round_to(buffer[:-1], "bf16")
    round_to(buffer[:-1], "bf16", out=buffer[1:])
    assert_same_bits(buffer[1:], wanted)
    columns = np.zeros((size, 2), np.float32)
    result = round_to(wanted, "fp4_e2m1fn", out=columns[:, 1])
    assert_same_bits(columns[:, 1], round_to(wanted, "fp4_e2m1fn"))
    assert np.shares_memory(result, columns)
    assert not columns[:, 0].any()


def test_out_that_cannot_hold_a_result_is_an_error():
    wide = Format("wide", 11, 3)
    x = np.array([float(np.finfo(np.float32).max)])
    assert round_to(x, wide) == 2.0**128
    for out in (None, np.empty(1, np.float32)):
        with pytest.raises(OverflowError, match="does not fit the input's dtype float32"):
            round_to(x.astype(np.float32), wide, out=out)


def test_a_value_that_float64_cannot_hold_is_an_error_and_its_code_is_right():
    tiny = Format("tiny", 12, 2, nan="fn", subnormals=False, zero=False)  # smallest value 2**-2047, no zero
    assert encode([0.0, -0.0, 1.0], tiny).tolist() == [0, 1 << 14, 2047 << 2]
    assert round_to([1.1, -1e-300, 5e-324], tiny).tolist() == [1.0, -float(np.ldexp(1.25, -997)), 5e-324]
    with pytest.raises(OverflowError, match="does not fit float64; encode gives its code"):
        round_to([1.0, 0.0], tiny)


def test_signaling_nans_pass_without_a_warning():
    signaling = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    for format in ("bf16", "e8m0fnu", "fp64", Format("beyond", 12, 3)):
        assert np.isnan(round_to(signaling, format)[0])
        encode(signaling, format)
    assert round_to(signaling, "fp4_e2m1fn", nan=0.0).tolist() == [0.0, 1.0]
    assert np.isnan(round_to(np.array([0x7C01], np.uint16).view(np.float16), "fp8_e5m2")[0])


def test_threads_get_the_same_results():
    x = np.random.default_rng(0).standard_normal((16, kernel.COMPILE_FROM)).astype(np.float32)
    wanted = round_to(x, "fp8_e5m2", "toward_positive")
    kernel.compiled_rounding.cache_clear()  # all threads meet at the compiler
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda row: round_to(row, "fp8_e5m2", "toward_positive"), x))
    assert_same_bits(np.stack(rows), wanted)


@pytest.mark.parametrize("format", FORMATS)
def test_no_more_memory_than_twice_that_of_input_and_output(format):
    x = np.abs(np.random.default_rng(0).standard_normal(1 << 21).astype(np.float32))
    for function in (round_to, encode):
        function(x[: 1 << 19], format)  # compiles
        tracemalloc.start()  # NumPy reports its arrays to it
        result = function(x, format)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert x.nbytes + peak <= 2 * (x.nbytes + result.nbytes) + (16 << 20)  # and the pieces, however large x is


def test_nothing_grows_with_the_number_of_seeds():
    before = rounding._grid.cache_info().currsize
    for seed in range(100):
        round_to(0.1, "fp16", "stochastic", rng=seed)
        round_to(0.1, "fp4_e2m1fn", nan=float(seed))
    assert rounding._grid.cache_info().currsize <= before + 2


def test_a_processor_that_flushes_subnormals_flushes_ours_and_makes_no_nan():
    # torch.set_flush_denormal sets the processor's mode for the thread, so NumPy and numba obey it too.
    normal = decision_complete(np.float32, 13)
    normal = normal[~((np.abs(normal) < 2.0**-126) & (normal != 0))]
    tiny = np.array([1, 2**22, 2**23 - 1], np.uint32).view(np.float32)
    wanted = {name: round_to(normal, name) for name in ("bf16", "fp16", "fp8_e4m3fn")}
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no mode that flushes subnormals")
    try:
        got = {name: (round_to(normal, name), encode(normal, name)) for name in wanted}
        flushed, codes = round_to(tiny, "bf16"), encode(tiny, "bf16")
    finally:
        torch.set_flush_denormal(False)
    for name in wanted:
        assert_same_bits(got[name][0], wanted[name], normal)
        assert_same_bits(decode(got[name][1], name), wanted[name].astype(np.float64), normal)
    assert not flushed.view(np.uint32).any()
    assert not codes.any()


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
    with pytest.raises(ValueError, match="nan is NaN; expected the number"):
        round_to(1.0, "fp4_e2m1fn", nan=np.nan)
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


# -- neighbors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.bits <= 16), *OWN],
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
    assert next_up(torch.tensor(1.0), "bf16").shape == ulp(torch.tensor(1.0), "bf16").shape == ()
    assert next_up(np.finfo(np.float64).max, "fp64") == np.inf
    assert ulp(0.0, "fp16") == 2.0**-24
    assert ulp(0.0, "e8m0fnu") == 2.0**-127


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
