"""Exact fractions, all decimal digits, shortest decimals."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from sixteenbits.codec import decimal, decode, encode, exact, exact_value, shortest
from sixteenbits.formats import FORMATS, Format


def test_exact_values_of_numbers_that_everybody_knows():
    assert exact_value(0x3C00, "fp16") == 1
    assert exact_value(0x0001, "fp16") == Fraction(1, 2**24)
    assert exact_value(0x7BFF, "fp16") == 65504
    assert math.isinf(exact_value(0xFC00, "fp16"))
    assert math.isnan(exact_value(0x80, "fp8_e4m3fnuz"))
    assert math.copysign(1, exact_value(0x8000, "bf16")) == -1
    assert exact_value(0x00, "e8m0fnu") == Fraction(1, 2**127)
    assert exact([[0, 0x3C00]], "fp16").shape == (1, 2)


def test_values_beyond_float64_are_fractions():
    wide = Format("wide", 15, 48)
    assert exact_value(wide.max_code, wide) == (2**49 - 1) * Fraction(2) ** (wide.emax - 48)


@pytest.mark.parametrize("value", [0.1, -2.0**-149, 65504.0, 1e300, 0.0, -0.0, 5e-324, 3.0])
def test_decimal_writes_all_digits_and_nothing_else(value):
    text = decimal(value)
    assert Decimal(text) == Decimal(value)
    assert not text.endswith(".")


def test_decimal_of_bf16_needs_up_to_96_significant_digits():
    values = decode(np.arange(2**16), "bf16")
    digits = max(len(decimal(v).replace("-", "").replace(".", "").strip("0")) for v in values[np.isfinite(values)])
    assert digits == 96


def test_decimal_refuses_what_has_no_such_expansion():
    assert decimal(Fraction(1, 8)) == "0.125"
    assert decimal(math.inf) == "inf"
    with pytest.raises(ValueError, match="no power of two"):
        decimal(Fraction(1, 3))


def test_shortest_is_what_numpy_prints_for_every_float16():
    for code in range(0, 0x7C00):
        value = np.uint16(code).view(np.float16)
        printed = shortest(code, "fp16")
        assert np.float16(printed) == value
        wanted = np.format_float_scientific(value, unique=True, trim="-")
        assert Fraction(printed) == Fraction(wanted), code


@pytest.mark.parametrize("name", ["bf16", "fp8_e4m3fn", "fp8_e5m2fnuz", "fp4_e2m1fn", "fp6_e3m2fn"])
def test_shortest_reads_back_and_no_shorter_decimal_does(name):
    format = FORMATS[name]
    for code in range(1, format.max_code, 1 if format.bits <= 8 else 37):
        text = shortest(code, name)
        assert encode(float(text), name) == code
        digits = text.split("e")[0].replace(".", "").strip("0")
        if len(digits) > 1:
            rounded = [float(f"{float(exact_value(code, format)):.{len(digits) - 2}e}")]
            assert encode(rounded, name)[0] != code


def test_shortest_of_special_values():
    assert [shortest(c, "fp16") for c in (0, 0x8000, 0x7C00, 0xFC00, 0x7E00)] == ["0.0", "-0.0", "inf", "-inf", "nan"]
    assert shortest(0xBC00, "fp16") == "-1.0"
    assert shortest(1, "fp16") == "6e-8"


def test_decimal_takes_one_element_of_an_array_or_tensor():
    assert decimal(np.float32(0.1)) == decimal(torch.tensor(0.1)) == "0.100000001490116119384765625"
    assert decimal(np.float32("inf")) == "inf"


@pytest.mark.parametrize("code", [-1, 2**16])
def test_what_is_no_code_has_no_value(code):
    for function in [shortest, exact_value]:
        with pytest.raises(ValueError, match="0 to 65535"):
            function(code, "fp16")


@pytest.mark.parametrize("function", [exact_value, shortest])
def test_a_number_in_the_place_of_a_code_is_refused(function):
    with pytest.raises(TypeError, match="expected an integer"):
        function(0.1, "fp16")
