"""RoundingExplorer: a number on a line, and where each rounding mode and each format sends it."""

from __future__ import annotations

from fractions import Fraction

import traitlets

from sixteenbits import codec
from sixteenbits.formats import Format, as_format
from sixteenbits.widgets.bit_explorer import MAX_BITS, MAX_EXPONENT
from sixteenbits.widgets.explorer import Explorer, FormatTrait, bundle, record, stylesheet
from sixteenbits.widgets.number_text import as_text, read_number

ZOOMS = range(-4, 10)


class RoundingExplorer(Explorer):
    """One number and the stretch of a format's number line around it, under all six rounding modes.

        RoundingExplorer("fp8_e4m3fn", value=0.3)
        RoundingExplorer("bf16", value="257/256", rounding="nearest_away", others=["fp16", "fp32"])

    Args:
        format: a Format of at most 32 bits, FP64, or the name of one: the values on the line.
        value: the number to round, exactly: an int, a Fraction, a Decimal, a text such as `"1/3"` or `"2^-24"`. A float
            stands for the decimal that Python prints for it.
        rounding: the mode that colors the line, one of `codec.ROUNDINGS`.
        overflow: `"ieee"`, the format's own rule, or `"saturate"`.
        others: further formats, which round the same number below the line.
        zoom: how much wider than eight gaps the window is, as a power of two, from -4 to 9.
        seed: the key of the stochastic draws: draw i of the page is element i of `codec.round_to(..., rng=seed)`.

    Each argument but `value` is a trait of its name, in step with the page where a kernel runs; `value` becomes the
    trait `number`, a text.

    Raises:
        TraitError: a format that is too wide, a text that is no number, an unknown mode or rule.
        TypeError: a value of the wrong kind.
    """

    format = FormatTrait("fp8_e4m3fn")
    others = traitlets.List(help="further formats").tag(
        sync=True, to_json=lambda formats, _: [record(f) for f in formats], from_json=lambda records, _: records)
    number = traitlets.Unicode("0.3").tag(sync=True)
    rounding = traitlets.Enum(codec.ROUNDINGS, "nearest_even").tag(sync=True)
    overflow = traitlets.Enum(codec.OVERFLOWS, "ieee").tag(sync=True)
    zoom = traitlets.Int(0, min=ZOOMS.start, max=ZOOMS.stop - 1).tag(sync=True)
    seed = traitlets.Int(0, min=0, max=2**53 - 1).tag(sync=True)

    _esm = bundle("rounding_explorer.js")
    _css = stylesheet("base.css", "rounding_explorer.css")

    def __init__(self, format: Format | str = "fp8_e4m3fn", *, value=0.3, **kwargs):
        super().__init__(format=format, number=as_text(value), **kwargs)

    @property
    def value(self) -> Fraction | float:
        """The number to round, exactly; infinities, NaN and -0.0 as floats."""
        return read_number(self.number)

    @traitlets.validate("format")
    def _check_format(self, proposal):
        return _shown(proposal["value"], "format")

    @traitlets.validate("others")
    def _check_others(self, proposal):
        try:
            formats = [Format(**f) if isinstance(f, dict) else as_format(f) for f in proposal["value"]]
        except (TypeError, ValueError) as problem:
            raise traitlets.TraitError(f"others: {problem}") from None
        return [_shown(f, "others") for f in formats]

    @traitlets.validate("number")
    def _check_number(self, proposal):
        try:
            read_number(proposal["value"])
        except ValueError as problem:
            raise traitlets.TraitError(f"number: {problem}") from None
        return proposal["value"]


def _shown(format: Format, name: str) -> Format:
    """The format, if the page can show it."""
    if format.bits > MAX_BITS and format.name != "fp64":
        raise traitlets.TraitError(f"{name}: {format} has {format.bits} bits; own formats go up to {MAX_BITS} here")
    if max(abs(format.emax), abs(format.emin - format.mantissa_bits)) > MAX_EXPONENT:
        raise traitlets.TraitError(f"{name}: {format} with bias {format.bias} reaches beyond 2**{MAX_EXPONENT}")
    return format
