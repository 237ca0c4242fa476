"""Small tables: plain text where text is shown, HTML with proper headers where a page or a notebook shows it."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sixteenbits.formats import Format, as_format
from sixteenbits.tensors import Survey


@dataclass(frozen=True)
class Table:
    """Rows of text, all with the same columns.

    Attributes:
        rows: one mapping a row, column heading -> content. The first column heads its row.
        caption: what the table shows.
    """

    rows: Sequence[Mapping[str, Any]]
    caption: str = ""

    @property
    def columns(self) -> list[str]:
        """The column headings, in order."""
        return list(self.rows[0]) if self.rows else []

    def __repr__(self) -> str:
        if not self.rows:
            return self.caption
        lines = [self.columns, *([str(row[name]) for name in self.columns] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]).rstrip() for line in lines]
        return "\n".join(filter(None, [self.caption, *text]))

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col" style="{_cell(i)}">{html.escape(name)}</th>'
                       for i, name in enumerate(self.columns))
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        caption = f'<caption style="text-align: left">{html.escape(self.caption)}</caption>' if self.caption else ""
        # "dataframe" is the class that the theme and Colab know tables of numbers by
        return ('<div style="overflow-x: auto" tabindex="0"><table class="table dataframe" style="font-size: 0.85rem">'
                f"{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>")

    def _cells(self, row: Mapping[str, Any]) -> str:
        first, *rest = (html.escape(str(row[name])) for name in self.columns)
        numbers = "".join(f'<td style="{_cell(1)}; white-space: nowrap">{content}</td>' for content in rest)
        return f'<th scope="row" style="{_cell(0)}; white-space: nowrap">{first}</th>{numbers}'


def _cell(column: int) -> str:
    """The style of a cell: words on the left, numbers on the right, close enough for a phone."""
    return f"text-align: {'right' if column else 'left'}; padding: 0.3rem 0.45rem"


def percent(share: float) -> str:
    """A share of 0 to 1 in percent, three digits; "0 %" is none at all and "100 %" all. A dash for NaN."""
    if share != share:
        return "–"
    if 0 < share < 0.00001:
        return "< 0.001 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.3g} %"


def format_table(formats: Iterable[Format | str]) -> Table:
    """How far and how fine each format is, one row a format.

    `decimal digits` is how many digits of any decimal number survive being stored and read back, in the normal range:
    the C standard's FLT_DIG, floor(mantissa_bits * log10(2)). `decades` is log10(max / smallest_normal).
    """
    return Table([{
        "format": f.title, "bits": f"1+{f.exponent_bits}+{f.mantissa_bits}", "max": f"{f.max:.3g}",
        "smallest normal": f"{f.smallest_normal:.3g}", "smallest subnormal": f"{f.smallest_subnormal:.3g}",
        "eps": f"{f.eps:.3g}", "decimal digits": math.floor(f.mantissa_bits * math.log10(2)),
        "decades": f"{math.log10(f.max) - math.log10(f.smallest_normal):.1f}", "codes": f"2^{f.bits}",
    } for f in map(as_format, formats)])


def survey_table(surveys: Iterable[Survey], caption: str = "", heads: Iterable[str] | None = None) -> Table:
    """One row a survey, headed by its format or by the given heads: what share of the numbers has which fate."""
    surveys = list(surveys)
    heads = [s.format.title for s in surveys] if heads is None else heads
    return Table([{
        "": head, "become zero": percent(s.share("zero")), "become subnormal": percent(s.share("subnormal")),
        "rounded": percent(s.share("rounded")), "exact": percent(s.share("exact")),
        "overflow": percent(s.share("overflow")), "median error": _error(s.median_error),
        "largest error": _error(s.largest_error),
    } for head, s in zip(heads, surveys, strict=True)], caption)


def _error(error: float) -> str:
    return "infinite" if error == math.inf else percent(error)
