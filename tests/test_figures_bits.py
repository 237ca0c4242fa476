"""The figures of codes and bits: what they draw is what the formats say."""

import altair as alt
import pytest

from sixteenbits import figures_bits as figures
from sixteenbits.codec import ROUNDINGS
from sixteenbits.formats import BF16, E8M0FNU, FORMATS, FP8_E4M3FN, FP16, FP32

CHARTS = {
    "bit_fields": lambda: figures.bit_fields([(format, 0) for format in FORMATS.values()]),
    "number_line": lambda: figures.number_line(FP8_E4M3FN),
    "number_line log": lambda: figures.number_line(FP8_E4M3FN, scale="log"),
    "codes_per_binade": lambda: figures.codes_per_binade([FP16, BF16]),
    "rounding_error": lambda: figures.rounding_error(BF16, ROUNDINGS[:3], 1.0, 1.0625),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
def test_is_valid_and_has_a_text_alternative(chart):
    spec = chart().to_dict(validate=True)
    assert len(spec["description"]) > 40


def rows(chart: alt.TopLevelMixin, column: str) -> list[dict]:
    """The first data table in the chart that has this column, wherever among its layers Altair put it."""
    def tables(node):
        if "data" in node:
            yield node["data"]["values"]
        for layer in node.get("layer", []):
            yield from tables(layer)
    return next(table for table in tables(chart.to_dict()) if column in table[0])


@pytest.mark.parametrize(("format", "code", "fields"), [
    (FP16, 0x4680, {"sign": "0", "exponent": "10001", "mantissa": "1010000000"}),
    (BF16, 0xFF80, {"sign": "1", "exponent": "11111111", "mantissa": "0000000"}),
    (E8M0FNU, 0x7F, {"exponent": "01111111"}),
])
def test_bits_stand_in_their_fields(format, code, fields):
    bits = rows(figures.bit_fields([(format, code)]), "bit")
    found = {name: "".join(bit["bit"] for bit in bits if bit["field"] == name) for name in {b["field"] for b in bits}}
    assert found == fields
    assert [bit["position"] for bit in bits] == list(reversed(range(format.bits)))


def test_titles_name_the_value():
    chart = figures.bit_fields([(FP16, 0x7C00), (FP16, 0xFC00), (FP32, 0x7FC00000)])
    titles = [row["text"] for row in rows(chart, "text")]
    assert titles == ["FP16  0x7c00 = infinity", "FP16  0xfc00 = -infinity", "FP32  0x7fc00000 = NaN"]


def test_number_line_shows_every_positive_finite_number():
    values = [row["value"] for row in rows(figures.number_line(FP8_E4M3FN), "value")]
    assert len(values) == len(set(values)) == FP8_E4M3FN.max_code
    assert (min(values), max(values)) == (FP8_E4M3FN.smallest_subnormal, FP8_E4M3FN.max)


@pytest.mark.parametrize("format", [FP16, BF16], ids=str)
def test_every_normal_binade_holds_as_many_numbers_as_there_are_mantissas(format):
    counts = {row["binade"]: row["count"] for row in rows(figures.codes_per_binade([format]), "end")}
    assert sum(counts.values()) == format.max_code
    assert {counts[k] for k in range(format.emin, format.emax + 1)} == {2**format.mantissa_bits}
    assert min(counts) == format.emin - format.mantissa_bits


def test_rounding_error_stays_within_half_a_step_or_one():
    worst = {}
    for row in rows(figures.rounding_error(BF16, ["nearest_even", "toward_zero"], 1.0, 1.0625), "error"):
        worst[row["rounding"]] = max(worst.get(row["rounding"], 0.0), abs(row["error"]))
    assert worst["nearest even"] == pytest.approx(100 * BF16.unit_roundoff, rel=0.01)
    assert worst["toward zero"] == pytest.approx(100 * BF16.eps, rel=0.01)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: figures.bit_fields([(FP16, 70000)]), "code is 70000; FP16 has 16 bits: 0 to 0xffff"),
    (lambda: figures.number_line(FP8_E4M3FN, scale="logarithmic"), "scale is 'logarithmic'; choose one of linear, log"),
    (lambda: figures.rounding_error(BF16, ["nearest_even"], 2.0, 1.0), "low must be the smaller one"),
])
def test_wrong_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
