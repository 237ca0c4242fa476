"""BitExplorer's Python side: what it takes, what it refuses, and how its traits keep step."""

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from traitlets import TraitError

from sixteenbits import codec
from sixteenbits.figures_bits import FIELD_COLORS
from sixteenbits.formats import BF16, FP16, FP32, FP64, Format
from sixteenbits.widgets import BitExplorer
from sixteenbits.widgets.explorer import bundle


@pytest.mark.parametrize(("value", "code"), [
    (0.1, 0x2E66), ("0.1", 0x2E66), (Fraction(1, 3), 0x3555), (Decimal("1e-7"), 0x0002), (1, 0x3C00), (-2, 0xC000),
    (np.float32(0.5), 0x3800), (10**30, 0x7C00), ("2^-24", 0x0001), ("-inf", 0xFC00), (float("nan"), 0x7E00),
    (-0.0, 0x8000), (1e-30, 0), (1e22, 0x7C00),
])
def test_values(value, code):
    assert BitExplorer("fp16", value=value).code == code


def test_a_value_is_rounded_once():
    just_above_the_tie = "1.0004882812500000000000001"  # float64 reads it as the tie itself
    assert BitExplorer("fp16", value=float(just_above_the_tie)).code == 0x3C00
    assert BitExplorer("fp16", value=just_above_the_tie).code == 0x3C01


def test_defaults():
    explorer = BitExplorer()
    assert (explorer.format, explorer.second, explorer.code, explorer.value) == (FP16, None, 0x3C00, 1.0)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"format": "fp17"}, "no format is named 'fp17'"),
    ({"format": 16}, "expected a Format or the name of one"),
    ({"format": Format("wide", 8, 24)}, "has 33 bits"),
    ({"format": Format("far", 5, 10, bias=10**6)}, r"reaches beyond 2\*\*20000"),
    ({"second": "fp17"}, "second: no format is named"),
    ({"code": 70000}, r"code is 70000; FP16 has 16 bits: 0 to 0xffff"),
    ({"code": -1}, "code is -1"),
    ({"code": 1.5}, "code"),
    ({"value": "one tenth"}, "'one tenth' is not a number that is read here; accepted: a decimal"),
    ({"value": "0x3c00"}, "not a number"),
])
def test_what_is_refused(arguments, message):
    with pytest.raises(TraitError, match=message):
        BitExplorer(**arguments)


@pytest.mark.parametrize("arguments", [{"value": 1, "code": 1}, {"value": [1]}, {"value": True}, {"value": 1j}])
def test_what_is_no_argument(arguments):
    with pytest.raises(TypeError, match="value"):
        BitExplorer(**arguments)


@pytest.mark.parametrize("change", [{"code": 2**16}, {"number": "one"}, {"format": "fp17"}, {"format": None}])
def test_a_refused_change_leaves_everything(change):
    explorer = BitExplorer("fp16", value=0.1, second="bf16")
    before = explorer.get_state()
    with pytest.raises(TraitError):
        explorer.set_trait(*next(iter(change.items())))
    assert explorer.get_state() == before


def test_a_new_format_keeps_the_number():
    explorer = BitExplorer("fp16", value=0.1)
    explorer.format = "bf16"
    assert (explorer.format, explorer.code, explorer.number) == (BF16, 0x3DCD, "0.1")
    explorer = BitExplorer("fp16", code=0x3C01)
    explorer.format = "bf16"
    assert (explorer.code, explorer.number) == (0x3F80, "1.0009765625")
    explorer.format = FP32
    assert explorer.value == 1.0009765625


def test_a_new_code_forgets_the_number():
    explorer = BitExplorer("fp16", value=0.1)
    explorer.code = 0x3C00
    assert (explorer.number, explorer.value) == ("", 1.0)
    explorer.number = "1/3"
    assert explorer.code == 0x3555
    explorer.code = 0x3555  # what the number rounds to: it stays
    assert explorer.number == "1/3"


def test_state_travels_as_json():
    explorer = BitExplorer(FP64, code=0x7FEFFFFFFFFFFFFF, second=Format("own", 4, 3, nan="none"))
    state = explorer.get_state()
    assert state["code"] == "0x7fefffffffffffff"  # JavaScript's numbers end at 2**53
    assert state["second"]["nan"] == "none"
    twin = BitExplorer()
    twin.set_state({name: state[name] for name in ("format", "second", "code", "number")})
    assert (twin.format, twin.second, twin.code) == (explorer.format, explorer.second, explorer.code)


def test_the_page_is_followed_as_it_is():
    """The page sends format, code and number that agree; whatever the order, nothing is recomputed."""
    explorer = BitExplorer("fp16", value=0.1)
    bf16 = BitExplorer("bf16").get_state()["format"]
    explorer.set_state({"format": bf16, "code": "0x7f81", "number": ""})
    assert (explorer.format, explorer.code, explorer.number) == (BF16, 0x7F81, "")
    explorer.code = 0x3F80  # and from Python again
    assert explorer.value == 1.0


@pytest.mark.parametrize("state", [{"code": "0x10000"}, {"code": "zz"}, {"number": "one"}, {"format": {"name": "x"}}])
def test_the_page_cannot_send_nonsense(state):
    explorer = BitExplorer("fp16", value=1)
    with pytest.raises((TraitError, ValueError)):
        explorer.set_state(state)
    assert (explorer.format, explorer.code) == (FP16, 0x3C00)
    explorer.number = "2"  # still in step
    assert explorer.code == 0x4000


def test_wide_own_formats():
    wide = Format("e15m16", 15, 16)
    explorer = BitExplorer(wide, value="2^-16000")
    assert codec.exact_value(explorer.code, wide) == Fraction(1, 2**16000)
    assert BitExplorer(wide, value="1e5000").code == wide.infinity_code


def test_fields_have_the_colors_of_the_figures():
    for color in FIELD_COLORS:
        assert f"-fill: {color};" in BitExplorer._css


def test_one_module_comes_out():
    module = bundle("bit_explorer.js")
    assert not re.search("^import ", module, re.MULTILINE)
    assert module.count("export default") == 1
    assert module.index("export function describe") < module.index("export function readNumber")
