"""Small tables: plain text where text is shown, HTML with proper headers where a page or a notebook shows it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
        head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in self.columns)
        body = "".join(f"<tr>{self._cells(row)}</tr>" for row in self.rows)
        caption = f"<caption>{html.escape(self.caption)}</caption>" if self.caption else ""
        return (f'<div style="overflow-x: auto"><table class="table">{caption}<thead><tr>{head}</tr></thead>'
                f"<tbody>{body}</tbody></table></div>")

    def _cells(self, row: Mapping[str, Any]) -> str:
        first, *rest = (html.escape(str(row[name])) for name in self.columns)
        return f'<th scope="row">{first}</th>' + "".join(f"<td>{content}</td>" for content in rest)


def percent(share: float) -> str:
    """A share of 0 to 1 in percent, three digits; "0 %" is none at all and "100 %" all. A dash for NaN."""
    if share != share:
        return "–"
    if 0 < share < 0.00001:
        return "< 0.001 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    return f"{100 * share:.3g} %"
