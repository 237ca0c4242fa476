"""Binary floating-point formats, described by data.

A `Format` says how many bits a number has, what they mean, and which codes at the top of the range are
reserved. Everything else (the largest value, the gaps, how to round) follows from those few fields. A new
format is a new row of `FORMATS`, never new code.

Vocabulary. A *code* is the integer that the bits spell. Below the sign bit it is the *magnitude code*: the
exponent field above, the mantissa field below. Larger magnitude code, larger value; that is why the special
values can sit at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

NAN_RULES = ("ieee", "fn", "fnuz", "none")


@dataclass(frozen=True)
class Format:
    """One binary floating-point format.

    Args:
        name: what the book, the charts and the URLs call it, for example `"fp16"`.
        exponent_bits: width of the exponent field, 1 to 15 bits.
        mantissa_bits: stored bits of the significand, 0 to 52. The hidden bit is not counted: the
            significand precision of a normal number is `mantissa_bits + 1` bits.
        bias: what is subtracted from the exponent field; `None` means `2**(exponent_bits - 1) - 1`.
        nan: which codes mean NaN. `"ieee"`: the top exponent with a mantissa that is not zero. `"fn"`: the
            largest magnitude code alone. `"fnuz"`: the code of minus zero, so there is no minus zero.
            `"none"`: no NaN at all.
        infinities: whether the largest magnitude code that is not NaN means infinity. `None` means yes for
            `"ieee"`, no for the others.
        subnormals: whether exponent field 0 holds subnormal numbers. If not, every code with exponent
            field 0 means zero (or, where `zero` is false, an ordinary number).
        signed: whether the top bit is a sign.
        zero: whether code 0 means zero. Only a format without subnormals can do without.
        title: the name in prose, for example `"FP16"`; `None` means `name`.
        dtype: the name of the same format in ml_dtypes and, where it exists, NumPy and torch.
        source: the document that defines the format.

    Raises:
        ValueError: a field is out of range or contradicts another; the message names the field.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int | None = None
    nan: str = "ieee"
    infinities: bool | None = None
    subnormals: bool = True
    signed: bool = True
    zero: bool = True
    title: str | None = None
    dtype: str | None = None
    source: str | None = None

    def __post_init__(self):
        for field, low, high in [("exponent_bits", 1, 15), ("mantissa_bits", 0, 52)]:
            _require_int(self, field)
            if not low <= (given := getattr(self, field)) <= high:
                raise ValueError(f"{field} is {given}; a Format takes {low} to {high}")
        if self.nan not in NAN_RULES:
            raise ValueError(f"nan is {self.nan!r}; choose one of {', '.join(NAN_RULES)}")
        if self.bias is None:
            object.__setattr__(self, "bias", 2 ** (self.exponent_bits - 1) - 1)
        if self.infinities is None:
            object.__setattr__(self, "infinities", self.nan == "ieee")
        if self.title is None:
            object.__setattr__(self, "title", self.name)
        _require_int(self, "bias")
        if self.nan == "ieee" and self.mantissa_bits == 0:
            raise ValueError('mantissa_bits is 0, but nan="ieee" needs a mantissa bit to tell NaN from infinity')
        if self.nan == "fnuz" and not self.signed:
            raise ValueError('signed is False, but nan="fnuz" stores NaN in the code of minus zero')
        if self.nan == "fnuz" and not self.zero:
            raise ValueError('zero is False, but nan="fnuz" stores NaN in the code of minus zero')
        if not self.zero and self.subnormals:
            raise ValueError("zero is False, but subnormals needs a zero to count up from: set subnormals=False")
        if self.max_code < (self._first_nonzero_code if self.zero else 0):
            raise ValueError(f"exponent_bits is {self.exponent_bits} and mantissa_bits {self.mantissa_bits}: "
                             "every code is taken by zero, infinity and NaN, no finite number is left")

    # -- codes ---------------------------------------------------------------------------------------------

    @property
    def bits(self) -> int:
        """Bits of a code: sign, exponent and mantissa together."""
        return self.signed + self.exponent_bits + self.mantissa_bits

    @property
    def magnitude_bits(self) -> int:
        """Bits below the sign."""
        return self.exponent_bits + self.mantissa_bits

    @property
    def nan_codes_at_top(self) -> int:
        """How many of the largest magnitude codes mean NaN."""
        return {"ieee": 2**self.mantissa_bits - 1, "fn": 1, "fnuz": 0, "none": 0}[self.nan]

    @property
    def has_nan(self) -> bool:
        """Whether any code means NaN."""
        return self.nan != "none"

    @property
    def has_minus_zero(self) -> bool:
        """Whether -0 has a code of its own."""
        return self.signed and self.zero and self.nan != "fnuz"

    @property
    def max_code(self) -> int:
        """Code of the largest finite value."""
        return 2**self.magnitude_bits - 1 - self.nan_codes_at_top - self.infinities

    @property
    def infinity_code(self) -> int | None:
        """Code of +infinity, or None."""
        return self.max_code + 1 if self.infinities else None

    @property
    def nan_code(self) -> int | None:
        """The code that NaN is encoded to: the quiet NaN without payload, or None.

        IEEE 754-2019, 6.2.1: the first mantissa bit set means quiet.
        """
        return {
            "ieee": 2**self.magnitude_bits - 2**self.mantissa_bits + 2 ** max(self.mantissa_bits - 1, 0),
            "fn": 2**self.magnitude_bits - 1,
            "fnuz": 2**self.magnitude_bits,
            "none": None,
        }[self.nan]

    @property
    def _first_nonzero_code(self) -> int:
        return 1 if self.subnormals else 2**self.mantissa_bits

    # -- exponents and values ------------------------------------------------------------------------------

    @property
    def emin(self) -> int:
        """Exponent of the smallest normal number: it is `2**emin`."""
        return (1 if self.zero else 0) - self.bias

    @property
    def emax(self) -> int:
        """Exponent of the largest finite number: `2**emax <= max < 2**(emax + 1)`."""
        return max(self.max_code >> self.mantissa_bits, 1 if self.zero else 0) - self.bias

    @property
    def eps(self) -> float:
        """The gap just above 1, as in `torch.finfo`: 2**-mantissa_bits. (1 is a normal number of every named format.)

        The relative error of rounding to nearest is at most half of it, the *unit roundoff*.
        """
        return 2.0**-self.mantissa_bits

    @property
    def unit_roundoff(self) -> float:
        """Half of `eps`: no rounding to nearest in the normal range has a larger relative error."""
        return self.eps / 2

    @property
    def max(self) -> float:
        """The largest finite value.

        Raises:
            OverflowError: it lies beyond float64 (exponent fields of more than 11 bits, or an own bias).
        """
        field, fraction = divmod(self.max_code, 2**self.mantissa_bits)
        hidden = 2**self.mantissa_bits if field or not self.zero else 0
        return self._float(hidden + fraction, self.emax - self.mantissa_bits, "max")

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with full precision, 2**emin."""
        return self._float(1, self.emin, "smallest_normal")

    @property
    def smallest_subnormal(self) -> float:
        """The smallest positive number; without subnormals this is `smallest_normal`."""
        exponent = self.emin - (self.mantissa_bits if self.subnormals else 0)
        return self._float(1, exponent, "smallest_subnormal")

    def _float(self, significand: int, exponent: int, what: str) -> float:
        exact = significand * Fraction(2) ** exponent
        try:
            if (value := float(exact)) == exact:
                return value
        except OverflowError:
            pass
        raise OverflowError(f"{what} of {self.name} is {significand} * 2**{exponent}, which float64 cannot hold; "
                            "codec.exact gives the values of such a format as fractions")

    def __str__(self) -> str:
        return self.title


def _require_int(format: Format, field: str) -> None:
    given = getattr(format, field)
    if isinstance(given, bool) or not isinstance(given, int):
        raise ValueError(f"{field} is {given!r}; a Format takes a whole number")


_IEEE = "IEEE 754-2019, table 3.5"
_OFP8 = "OCP 8-bit Floating Point Specification (OFP8) 1.0, 2023"
_FNUZ = "Noune et al., 8-bit Numerical Formats for Deep Neural Networks, arXiv:2206.02915, 2022"
_MX = "OCP Microscaling Formats (MX) Specification 1.0, 2023"

#: The named formats, widest first. Fields: name, exponent bits, mantissa bits, then what departs from IEEE.
FORMATS: dict[str, Format] = {f.name: f for f in [
    Format("fp64", 11, 52, title="FP64", dtype="float64", source=_IEEE),
    Format("fp32", 8, 23, title="FP32", dtype="float32", source=_IEEE),
    Format("tf32", 8, 10, title="TF32",
           source="NVIDIA A100 Tensor Core GPU Architecture whitepaper, 2020"),
    Format("fp16", 5, 10, title="FP16", dtype="float16", source=_IEEE),
    Format("bf16", 8, 7, title="BF16", dtype="bfloat16",
           source="Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training, arXiv:1905.12322, 2019"),
    Format("fp8_e5m2", 5, 2, title="FP8 E5M2", dtype="float8_e5m2", source=_OFP8),
    Format("fp8_e4m3fn", 4, 3, nan="fn", title="FP8 E4M3", dtype="float8_e4m3fn", source=_OFP8),
    Format("fp8_e5m2fnuz", 5, 2, bias=16, nan="fnuz", title="FP8 E5M2 FNUZ", dtype="float8_e5m2fnuz",
           source=_FNUZ),
    Format("fp8_e4m3fnuz", 4, 3, bias=8, nan="fnuz", title="FP8 E4M3 FNUZ", dtype="float8_e4m3fnuz",
           source=_FNUZ),
    Format("fp6_e3m2fn", 3, 2, nan="none", title="FP6 E3M2", dtype="float6_e3m2fn", source=_MX),
    Format("fp6_e2m3fn", 2, 3, nan="none", title="FP6 E2M3", dtype="float6_e2m3fn", source=_MX),
    Format("fp4_e2m1fn", 2, 1, nan="none", title="FP4 E2M1", dtype="float4_e2m1fn", source=_MX),
    Format("e8m0fnu", 8, 0, nan="fn", subnormals=False, signed=False, zero=False, title="E8M0",
           dtype="float8_e8m0fnu", source=_MX),
]}

FP64, FP32, TF32, FP16, BF16, FP8_E5M2, FP8_E4M3FN = list(FORMATS.values())[:7]
FP8_E5M2FNUZ, FP8_E4M3FNUZ, FP6_E3M2FN, FP6_E2M3FN, FP4_E2M1FN, E8M0FNU = list(FORMATS.values())[7:]


def as_format(format: Format | str) -> Format:
    """The `Format` that is meant: itself, or the row of `FORMATS` with that name.

    Raises:
        ValueError: no format has that name; the message lists those that exist.
        TypeError: neither a Format nor a string.
    """
    if isinstance(format, Format):
        return format
    if not isinstance(format, str):
        raise TypeError(f"format is {format!r}; expected a Format or the name of one, such as 'fp16'")
    if format not in FORMATS:
        raise ValueError(f"no format is named {format!r}; the named ones are {', '.join(FORMATS)}")
    return FORMATS[format]
