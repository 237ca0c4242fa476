"""TestFloat's conversion vectors: results in five modes, and the flags they tell (see data/testfloat/README.md)."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from oracles import assert_same_bits
from sixteenbits.codec import decode, encode, round_to
from sixteenbits.formats import FORMATS, Format

FOLDER = Path(__file__).parent / "data" / "testfloat"
MODES = ["nearest_even", "nearest_away", "toward_zero", "toward_positive", "toward_negative"]  # in the files' order
INEXACT, UNDERFLOW, OVERFLOW = 1, 2, 4
CONVERSIONS = [("f32", "f16"), ("f32", "bf16"), ("f64", "f16")]


def vectors(source, target):
    """Inputs as floats, and per mode the codes and the flags of the results."""
    lines = gzip.decompress((FOLDER / f"{source}_to_{target}.txt.gz").read_bytes()).decode().split("\n")[:-1]
    columns = np.array([[int(word, 16) for word in line.split()] for line in lines], np.uint64)
    x = columns[:, 0].astype(f"u{int(source[1:]) // 8}").view(f"f{int(source[1:]) // 8}")
    return x, dict(zip(MODES, ((c >> np.uint64(8), c & np.uint64(255)) for c in columns.T[1:]), strict=True))


@pytest.mark.parametrize(("source", "target"), CONVERSIONS)
def test_codes_values_and_flags_are_those_of_softfloat(source, target):
    format = FORMATS["fp16" if target == "f16" else "bf16"]
    x, answers = vectors(source, target)
    assert x.size > 13_000
    for mode, (codes, flags) in answers.items():
        got, wanted = encode(x, format, mode), decode(codes, format)
        number = ~np.isnan(wanted)
        np.testing.assert_array_equal(got[number], codes[number].astype(np.uint16))
        assert set(got[~number].tolist()) == {format.nan_code}
        rounded = round_to(x, format, mode)
        assert_same_bits(rounded, wanted.astype(x.dtype), x)
        np.testing.assert_array_equal(raised(x[number], rounded[number], format, mode), flags[number])


def raised(x, rounded, format, mode):
    """IEEE 754-2019's flags (7.4 to 7.6), from the value and from what it had been without a limit to the exponent."""
    unlimited = round_to(x.astype(np.float64), Format("unlimited", 11, format.mantissa_bits), mode)
    finite, inexact = np.isfinite(x), rounded != x
    overflow = finite & (np.abs(unlimited) > format.max)
    underflow = inexact & (np.abs(unlimited) < format.smallest_normal)  # tininess is judged after rounding
    return inexact * INEXACT + underflow * UNDERFLOW + overflow * OVERFLOW
