"""Numbers in text: find them, count their digits, and say whether a printed number bears them out.

Which numbers have to be borne out (`Number.is_claim`):

- any with three or more significant digits: 65,504; 0.125; 1.18e-38; `1.18 × 10^{-38}`; 0x3c00; bit patterns.
  Zeros at the end of a whole number do not count (1,000 has one digit), zeros after a decimal point do (0.500);
- in scientific notation two are enough (6.1e-5), since the exponent is a claim too;
- powers of a base other than ten whose exponent has two or more digits (2^-24, 2^-149).

Which are no numbers: digits inside a name (FP16, E4M3, `fp8_e4m3fn`), years (1940 to 2035, written without a comma),
dates, versions (1.2.3, Python 3.11), IEEE 754, arXiv numbers, and what follows chapter, section, table, figure,
equation, exercise, claim or page.

A printed number bears one out if it rounds to it at the precision in which the text writes it. Signs are compared in
exponents only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

MAX_EXPONENT = 20_000  # beyond it nothing in this book is a number; guards against computing 10**(10**9)
YEARS = range(1940, 2036)  # holds no power of two, so that 2048 stays a number

_SUPERSCRIPTS = re.compile("[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_TO_ASCII = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺−", "0123456789-+-")
_REWRITES = [(re.compile(pattern), to) for pattern, to in [
    (r"</?su[bp]>|\\(?:left|right|[dt]?frac|pm|approx|text|mathrm|mathtt|texttt|operatorname)\b", " "),
    (r"\{,\}", ","),
    (r"(?<=\d)(?:\\[,;: ]|[\u2009\u202f\u00a0])(?=\d{3})", ","),          # 65\,504 and thin spaces
    (r"\\?_(?:\{[^{}]*\}|\d+)(?=\W|$)(?<!\d_\d{3})", " "),                 # subscripts, not 65_504
    (r"\\(?:times|cdot)(?![a-zA-Z])|[·⋅]", "×"),
    (r"\*\*", "^"),
    (r"\^\s*[{(]\s*([-+]?\d+)\s*[})]", r"^\1"),
    (r"(?<=[\d.])\s*×\s*10\s*\^\s*([-+]?\d+)", r"e\1"),
]]
_NOT_NUMBERS = re.compile(r"""
    \d{4}-\d{2}-\d{2}(?:T[\d:.]+Z?)?                          # dates
  | \bv?\d+\.\d+\.\d+[\w.]* | \b(?:Python|PyTorch|torch|NumPy|Altair|CUDA|version)\s+\d+(?:\.\d+)+  # versions
  | \bIEEE[\s-]*(?:Std\s*)?\d+(?:-\d{4})? | \b754(?:-\d{4})?  # the standard
  | \barXiv:\s*[\w./-]+ | \bhttps?://\S+ | \bdoi:\S+
  | \b(?:chapter|section|table|figure|fig\.|equation|exercise|claim|page|part|appendix|clause|§)s?\s*
    \d+(?:\.\d+)*(?:\s*(?:,|and|to|–|-)\s*\d+(?:\.\d+)*)*
""", re.VERBOSE | re.IGNORECASE)
_TOKEN = r"""
    (?<![\w.]) (?:
        (?P<hex>0[xX][0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?(?:[pP][-+]?\d+)?)
      | (?P<bin>0[bB][01_]+)
      | (?P<num>{num}) (?:[eE](?P<e>[-+]?\d+)(?!\w))? (?:\s?\^\s?(?P<power>[-+]?\d+))?
    ) (?P<after>\s?%|…|\.\.\.|\s?\\%|\s?\\(?:ldots|dots)|)
"""
_PROSE_TOKEN = re.compile(_TOKEN.format(num=r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+"), re.VERBOSE)
_CODE_TOKEN = re.compile(_TOKEN.format(num=r"\d+(?:_\d+)*(?:\.\d*)?|\.\d+"), re.VERBOSE)  # "128,256" are two there
_BITS = re.compile(r"(?<![\w.,])[01]+(?:[ _|]{1,3}[01]+)*(?![\w.,]\d|\w)")


@dataclass(frozen=True)
class Number:
    """A number as somebody wrote it.

    Args:
        written: the characters.
        value: its exact value, without sign.
        digits: significant digits; of a bit pattern or a hexadecimal number, the digits.
        unit: the place value of the last significant digit; 0 where the number has to agree exactly.
        exponent: the exponent of a power (`2^-24`: -24), else None.
        bits: the pattern, if it is one ("01111").
        percent: whether a percent sign follows.
        cut: whether an ellipsis follows, so that the digits are cut off, not rounded.
        scientific: whether it has a power of ten.
    """

    written: str
    value: Fraction
    digits: int
    unit: Fraction = Fraction(0)
    exponent: int | None = None
    bits: str | None = None
    percent: bool = False
    cut: bool = False
    scientific: bool = False

    @property
    def is_claim(self) -> bool:
        """Whether the text needs a cell or a source for it."""
        if self.exponent is not None and self.value:
            return len(str(abs(self.exponent))) >= 2 or self.digits >= 3
        return self.digits >= (2 if self.scientific else 3)

    def agrees(self, printed: Number) -> bool:
        """Whether `printed`, from a cell's output, bears this number out."""
        if self.bits is not None:
            return printed.bits is not None and self.bits in printed.bits
        if printed.bits is not None:
            return set(self.written) <= {"0", "1"} and self.written in printed.bits
        if self.exponent is not None:
            return self._agrees_as_power(printed)
        scales = (1, 100) if self.percent else (1,)
        return any(self._agrees_at(printed.value * scale) for scale in scales)

    def _agrees_at(self, value: Fraction) -> bool:
        if self.cut and self.value <= value < self.value + self.unit:
            return True
        return 2 * abs(value - self.value) <= self.unit

    def _agrees_as_power(self, printed: Number) -> bool:
        if printed.exponent is not None:
            return printed.value == self.value
        if printed.value == abs(self.exponent) and printed.digits and not printed.unit % 1 and not printed.scientific:
            return self.exponent > 0 or printed.written.startswith("-")
        return printed.digits >= 3 and printed._agrees_at(self.value)


def normalized(text: str) -> str:
    """`text` with every way of writing an exponent or a thousands separator made one."""
    text = _SUPERSCRIPTS.sub(lambda match: "^" + match[0], text).translate(_TO_ASCII)
    for pattern, to in _REWRITES:
        text = pattern.sub(to, text)
    return text


def _significant(num: str) -> tuple[int, int]:
    """How many significant digits `num` has, and the power of ten of the last one."""
    whole, _, decimals = num.replace(",", "").replace("_", "").partition(".")
    digits = (whole + decimals).lstrip("0")
    if decimals:
        return len(digits), -len(decimals)
    kept = digits.rstrip("0")
    return len(kept), len(digits) - len(kept)


def _number(match: re.Match, signed: str) -> Number | None:
    after = match["after"].strip()
    if match["hex"] or match["bin"]:
        return _coded(match, signed)
    digits, place = _significant(match["num"])
    e, power = int(match["e"] or 0), match["power"]
    if abs(e) > MAX_EXPONENT or (power and abs(int(power)) > MAX_EXPONENT):
        return None
    value = Fraction(match["num"].replace(",", "").replace("_", "")) * Fraction(10) ** e
    if power is not None:
        if not value and int(power) < 0:
            return None
        exponent = None if value == 10 else int(power)
        return Number(signed, value ** int(power), digits, Fraction(0), exponent, scientific=exponent is None)
    return Number(signed, value, digits, Fraction(10) ** (place + e), percent=after.endswith("%"),
                  cut=bool(after) and not after.endswith("%"), scientific=match["e"] is not None)


def _coded(match: re.Match, signed: str) -> Number:
    """A hexadecimal or binary integer, or a hexadecimal float."""
    if match["bin"]:
        pattern = match["bin"][2:].replace("_", "")
        return Number(signed, Fraction(int(pattern, 2)), len(pattern), bits=pattern)
    if "p" in match["hex"].lower() or "." in match["hex"]:
        return Number(signed, Fraction(float.fromhex(match["hex"])), len(match["hex"]) - 2)
    return Number(signed, Fraction(int(match["hex"], 16)), len(match["hex"]) - 2)


def _scan(text: str, token: re.Pattern) -> Iterator[tuple[int, Number]]:
    for match in token.finditer(text):
        start = match.start()
        sign = "-" if start and text[start - 1] == "-" and not text[:start - 1][-1:].isalnum() else ""
        if (number := _number(match, sign + match[0].removesuffix(match["after"]))) is not None:
            yield start, number


def _patterns(text: str, whole: bool) -> Iterator[Number]:
    """Bit patterns: groups of 0 and 1. In prose a group has to begin with 0 to be told from a number."""
    for match in _BITS.finditer(text):
        groups = [re.sub("[ _|]", "", match[0])] if whole else re.split("[ _|]+", match[0])
        for bits in groups:
            if len(bits) >= 3 and (whole or bits.startswith("0")):
                yield Number(match[0] if whole else bits, Fraction(int(bits, 2)), len(bits), bits=bits)


def numbers_in_prose(text: str, kind: str = "text") -> list[Number]:
    """The numbers of a piece of text that need to be borne out. `kind` is `"text"`, `"code"` or `"math"`."""
    text = normalized(text)
    if kind == "text":
        text = _NOT_NUMBERS.sub(" ", text)
    if kind == "code" and re.fullmatch(r"[01]+([ _|][01]+)*", text.strip()) and len(re.sub(r"\D", "", text)) >= 8:
        return list(_patterns(text, whole=True))
    found = [number for _, number in _scan(text, _CODE_TOKEN if kind == "code" else _PROSE_TOKEN)
             if number.is_claim and not (kind == "text" and _is_year(number)) and not _is_pattern(number)]
    return found + list(_patterns(text, whole=False))


def _is_year(number: Number) -> bool:
    return number.written.isdigit() and len(number.written) == 4 and int(number.written) in YEARS


def _is_pattern(number: Number) -> bool:
    """Whether the number begins with 0 as only a bit pattern does ("01111")."""
    return re.fullmatch("0[01]{2,}", number.written) is not None


def numbers_printed(text: str) -> list[Number]:
    """Every number in a cell's output, under each way of reading it."""
    text = normalized(text)
    found = {number: None for token in (_PROSE_TOKEN, _CODE_TOKEN) for _, number in _scan(text, token)}
    return [*found, *_patterns(text, whole=True)]


def borne_out(number: Number, printed: Iterable[Number]) -> bool:
    """Whether one of the printed numbers bears `number` out."""
    return any(number.agrees(other) for other in printed)


def nearest(number: Number, printed: Iterable[Number]) -> str | None:
    """The printed number that comes closest in proportion, as it was printed; None if there is none near."""
    ratios = [(abs(other.value / number.value - 1), other.written)
              for other in printed if other.value and number.value and other.bits is None]
    closest = min(ratios, default=(1, None))
    return closest[1] if closest[0] < Fraction(1, 2) else None
