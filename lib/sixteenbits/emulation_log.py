"""What emulation saw: every operation that was rounded, each overflow, each underflow, the first NaN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sixteenbits.tally import Counts
from sixteenbits.whereabouts import Place


class Source(NamedTuple):
    """Where a rounding happened.

    Attributes:
        phase, module: see `whereabouts.Place`.
        operation: its name in torch.ops.aten.
        what: `"result"`, `"operand"` (what came from outside and was rounded as it was read), `"factor"` (of a matrix
            product) or `"sum"` (the accumulator of one).
    """

    phase: str
    module: str
    operation: str
    what: str

    def __str__(self) -> str:
        where = f" in {self.module}" if self.module else ""
        return f"{self.operation} ({self.what}){where}, {self.phase}"


@dataclass
class Log:
    """Counts of what rounding did, by source, in the order of first appearance.

    Attributes:
        calls: source -> how many tensors were rounded there.
        counts: source -> what became of their values.
        first_nan, first_overflow: the first source with one, or None.
    """

    calls: dict[Source, int] = field(default_factory=dict)
    counts: dict[Source, Counts] = field(default_factory=dict)
    first_nan: Source | None = None
    first_overflow: Source | None = None

    def add(self, place: Place, operation: str, what: str, counts: Counts) -> None:
        """Note one rounded tensor."""
        source = Source(place.phase, place.module, operation, what)
        before = self.counts.get(source)
        self.calls[source] = self.calls.get(source, 0) + 1
        self.counts[source] = counts if before is None else Counts(*map(int.__add__, before, counts))
        if counts.nans and self.first_nan is None:
            self.first_nan = source
        if counts.overflows and self.first_overflow is None:
            self.first_overflow = source

    def __getattr__(self, name: str) -> int:
        if name not in Counts._fields:
            raise AttributeError(f"Log has no attribute {name!r}; its totals are {', '.join(Counts._fields)}")
        return sum(getattr(counts, name) for counts in self.counts.values())

    def rows(self, *by: str) -> list[dict]:
        """The counts as rows for a table.

        Args:
            by: fields of `Source` to add up over all others, for example `"module", "phase"`; none means all fields.

        Returns:
            One dict a group, in the order of first appearance: the fields, `calls`, and those of `Counts`.
        """
        by = by or Source._fields
        if unknown := set(by) - set(Source._fields):
            raise ValueError(f"{unknown.pop()!r} is no field of a source; choose from {', '.join(Source._fields)}")
        groups: dict[tuple, list] = {}
        for source, counts in self.counts.items():
            group = groups.setdefault(tuple(getattr(source, name) for name in by), [0] * (1 + len(counts)))
            group[:] = map(int.__add__, group, (self.calls[source], *counts))
        names = (*by, "calls", *Counts._fields)
        return [dict(zip(names, (*key, *group), strict=True)) for key, group in groups.items()]

    def __str__(self) -> str:
        lines = [f"{sum(self.calls.values())} tensors, {self.values} values: {self.overflows} overflowed, "
                 f"{self.underflows} became zero, {self.nans} NaN"]
        if self.first_overflow:
            lines.append(f"first overflow: {self.first_overflow}")
        if self.first_nan:
            lines.append(f"first NaN: {self.first_nan}")
        return "\n".join(lines)
