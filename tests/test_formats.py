"""The constants of the named formats, against torch.finfo, ml_dtypes.finfo and NumPy; impossible descriptions."""

import ml_dtypes
import numpy as np
import pytest
import torch

from sixteenbits.formats import BF16, FORMATS, FP16, FP32, TF32, Format, as_format

NAMED = [f for f in FORMATS.values() if f.dtype]


@pytest.mark.parametrize("format", NAMED, ids=lambda f: f.name)
def test_constants_agree_with_ml_dtypes_finfo(format):
    info = ml_dtypes.finfo(format.dtype)
    assert format.bits == info.bits
    assert format.max == float(info.max)
    assert format.smallest_normal == float(info.smallest_normal)
    assert format.smallest_subnormal == float(info.smallest_subnormal)
    assert format.eps == float(info.eps)
    assert format.mantissa_bits == info.nmant
    assert format.exponent_bits == info.nexp


#: float8_e5m2fnuz: torch 2.13 gives eps 0.125; the value above 1 is 1.25.
TORCH_EPS_IS_WRONG = {"float8_e5m2fnuz"}


@pytest.mark.parametrize("format", [f for f in NAMED if hasattr(torch, f.dtype)], ids=lambda f: f.name)
def test_constants_agree_with_torch_finfo(format):
    info = torch.finfo(getattr(torch, format.dtype))
    assert (format.bits, format.max, format.smallest_normal) == (info.bits, info.max, info.smallest_normal)
    if format.dtype in TORCH_EPS_IS_WRONG:
        assert (info.eps, format.eps) == (0.125, 0.25)
    else:
        assert format.eps == info.eps


def test_tf32_has_the_range_of_fp32_and_the_precision_of_fp16():
    assert (TF32.emin, TF32.emax, TF32.eps) == (FP32.emin, FP32.emax, FP16.eps)
    assert TF32.bits == 19


def test_unit_roundoff_is_half_of_eps():
    assert BF16.unit_roundoff == 2.0**-8


def test_every_named_format_names_its_source():
    assert all(f.source for f in FORMATS.values())


@pytest.mark.parametrize(("fields", "named"), [
    ({"exponent_bits": 0, "mantissa_bits": 3}, "exponent_bits is 0"),
    ({"exponent_bits": 16, "mantissa_bits": 3}, "exponent_bits is 16"),
    ({"exponent_bits": 4, "mantissa_bits": 53}, "mantissa_bits is 53"),
    ({"exponent_bits": 4.0, "mantissa_bits": 3}, "exponent_bits is 4.0"),
    ({"exponent_bits": True, "mantissa_bits": 3}, "exponent_bits is True"),
    ({"exponent_bits": 4, "mantissa_bits": 3, "bias": 1.5}, "bias is 1.5"),
    ({"exponent_bits": 4, "mantissa_bits": 3, "nan": "some"}, "nan is 'some'"),
    ({"exponent_bits": 5, "mantissa_bits": 0}, "mantissa_bits is 0"),
    ({"exponent_bits": 5, "mantissa_bits": 2, "nan": "fnuz", "signed": False}, "signed is False"),
    ({"exponent_bits": 5, "mantissa_bits": 2, "zero": False}, "zero is False"),
    ({"exponent_bits": 5, "mantissa_bits": 2, "zero": False, "subnormals": False, "nan": "fnuz"}, "zero is False"),
    ({"exponent_bits": 1, "mantissa_bits": 0, "nan": "fn"}, "no finite number is left"),
])
def test_impossible_descriptions_are_refused_and_the_field_is_named(fields, named):
    with pytest.raises(ValueError, match=named):
        Format("own", **fields)


def test_the_code_of_nan_is_a_quiet_one_with_and_without_infinities():
    assert [Format("own", 4, m, infinities=i).nan_code for m in (1, 3) for i in (True, False)] == [31, 31, 124, 124]


def test_constants_beyond_float64_are_refused_not_rounded():
    wide = Format("wide", 15, 52)
    with pytest.raises(OverflowError, match="max of wide"):
        _ = wide.max
    with pytest.raises(OverflowError, match="smallest_subnormal of wide"):
        _ = wide.smallest_subnormal


def test_as_format_takes_names_and_formats():
    assert as_format("bf16") is BF16
    assert as_format(BF16) is BF16
    with pytest.raises(ValueError, match=r"no format is named 'fp17'.*fp16"):
        as_format("fp17")
    with pytest.raises(TypeError, match="expected a Format or the name"):
        as_format(16)


def test_a_format_without_infinity_or_nan_uses_every_code():
    fp4 = as_format("fp4_e2m1fn")
    assert (fp4.max_code, fp4.infinity_code, fp4.nan_code) == (7, None, None)
    assert np.isclose(fp4.max, 6.0, atol=0)
