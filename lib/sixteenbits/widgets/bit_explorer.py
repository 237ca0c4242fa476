"""BitExplorer: a number, its bits, its neighbors, and what other formats make of it."""

from __future__ import annotations

import traitlets

from sixteenbits import codec
from sixteenbits.formats import FP64, Format, as_format
from sixteenbits.widgets.explorer import Explorer, FormatTrait, bundle, stylesheet
from sixteenbits.widgets.number_text import as_text, nearest_code, read_number, write_number

MAX_BITS, MAX_EXPONENT = 32, 20000


class BitExplorer(Explorer):
    """The bits of one number in one format, or in two side by side.

        BitExplorer("fp16", value=0.1)
        BitExplorer("fp16", value="1/3", second="bf16")
        BitExplorer("bf16", code=0x3f80)
        BitExplorer(Format("e4m5", 4, 5))

    Args:
        format: a Format of at most 32 bits, FP64, or the name of one.
        value: the number to look at, exactly: an int, a Fraction, a Decimal, a text such as `"1/3"` or `"2^-24"`. A
            float stands for the decimal that Python prints for it: 0.1 is one tenth.
        code: the bits to look at, instead of a value.
        second: a second format, which shows the same number.

    Traits, in step with the page where a kernel runs:
        format, second: Format (a name is taken as well); second may be None.
        code: the bits in `format`, an int.
        number: the number that is held, as text; `""` when it is the value of the code. A number typed by the reader
            need not be a value of the format: `code` is what it rounds to. A new `format` keeps the number.

    Raises:
        TraitError: a format of more than 32 bits, a code out of range, a text that is no number.
        TypeError: value and code both given, or a value of the wrong kind.
    """

    format = FormatTrait("fp16")
    second = FormatTrait(None, allow_none=True)
    code = traitlets.Int(0).tag(sync=True, to_json=lambda code, _: hex(code), from_json=lambda text, _: int(text, 16))
    number = traitlets.Unicode("").tag(sync=True)

    _esm = bundle("bit_explorer.js")
    _css = stylesheet("base.css", "bit_explorer.css")
    _settled = False  # whether a change comes from Python alone, so that the other traits have to follow

    def __init__(self, format: Format | str = "fp16", *, value=None, code: int | None = None,
                 second: Format | str | None = None, **kwargs):
        if value is not None and code is not None:
            raise TypeError("give a value or a code, not both")
        if code is not None:
            kwargs["code"] = code
        else:
            kwargs["number"] = number = as_text(1 if value is None else value)
            kwargs["code"] = _code(number, format)
        super().__init__(format=format, second=second, **kwargs)
        self._settled = True

    @property
    def value(self) -> float:
        """The value that the bits stand for, in float64."""
        return float(codec.decode(self.code, self.format))

    # -- what a trait may be -------------------------------------------------------------------------------------------

    @traitlets.validate("format", "second")
    def _check_format(self, proposal):
        format, name = proposal["value"], proposal["trait"].name
        if format is None or format == FP64:
            return format
        if format.bits > MAX_BITS:
            raise traitlets.TraitError(f"{name}: {format} has {format.bits} bits; own formats go up to {MAX_BITS} here")
        if max(abs(format.emax), abs(format.emin - format.mantissa_bits)) > MAX_EXPONENT:
            raise traitlets.TraitError(f"{name}: {format} with bias {format.bias} reaches beyond 2**{MAX_EXPONENT}")
        return format

    @traitlets.validate("code")
    def _check_code(self, proposal):
        code, format = proposal["value"], self.format
        if not 0 <= code < 2**format.bits:
            raise traitlets.TraitError(f"code is {code}; {format} has {format.bits} bits: 0 to {2**format.bits - 1:#x}")
        return code

    @traitlets.validate("number")
    def _check_number(self, proposal):
        try:
            if proposal["value"]:
                read_number(proposal["value"])
        except ValueError as problem:
            raise traitlets.TraitError(f"number: {problem}") from None
        return proposal["value"]

    # -- keeping format, code and number in step -----------------------------------------------------------------------

    def set_state(self, sync_data):
        """What arrives from the page is in step already."""
        self._settled = False
        try:
            super().set_state(sync_data)
        finally:
            self._settled = True

    @traitlets.observe("format", "code", "number")
    def _keep_in_step(self, change):
        if not self._settled:
            return
        if change["name"] == "format" and not self.number:
            self.number = write_number(codec.exact_value(self.code, change["old"]))
        elif change["name"] == "code" and self.number and _code(self.number, self.format) != self.code:
            self.number = ""
        if self.number:
            self.code = _code(self.number, self.format)


def _code(number: str, format: Format | str) -> int:
    try:
        return nearest_code(read_number(number), as_format(format))
    except (TypeError, ValueError) as problem:
        raise traitlets.TraitError(str(problem)) from None
