"""SumExplorer: a sum that grows term by term, in a chosen format and way of adding, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import traitlets

from sixteenbits import accumulate, charts
from sixteenbits.accumulate import ACCUMULATORS, ORDERS
from sixteenbits.formats import FORMATS, Format, as_format
from sixteenbits.widgets.explorer import Explorer, bundle, record, stylesheet

MAX_TERMS = 4096
#: The formats that can be chosen, wide ones first.
SHOWN = ("fp32", "tf32", "fp16", "bf16", "fp8_e5m2", "fp8_e4m3fn")
VIEWS = ("error", "sum")


@dataclass(frozen=True)
class Way:
    """A way of adding: an order and an accumulator of `accumulate`, and how its line is drawn."""

    name: str
    title: str
    order: str
    accumulator: str
    dash: tuple[int, ...]


WAYS: dict[str, Way] = {way.name: way for way in [
    Way("sequential", "one after the other", "sequential", "same", (1, 0)),
    Way("stochastic", "one after the other, stochastic rounding", "sequential", "stochastic", (2, 3)),
    Way("chunks", "chunks of 32", "chunks_of_32", "same", (8, 3)),
    Way("pairwise", "pairwise", "pairwise", "same", (5, 2, 1, 2)),
    Way("kahan", "Kahan", "kahan", "same", (10, 2, 2, 2)),
    Way("fp32", "one after the other, FP32 accumulator", "sequential", "fp32", (3, 2)),
]}


def default_terms(seed: int = 0) -> dict[str, np.ndarray]:
    """The data that the explorer brings: three times 4096 multiples of 2**-11, so that FP16 holds each of them."""
    random, n = np.random.default_rng(seed), MAX_TERMS
    return {
        "positive, 0 to 1": random.integers(1, 2048, n) / 2048,
        "both signs, -1 to 1": random.integers(-2047, 2048, n) / 2048,
        "1, then only 1/1024": np.array([1.0] + [2.0**-10] * (n - 1)),
    }


class SumExplorer(Explorer):
    """The sum of 1 to 4096 terms, and its error, against the number of terms.

        SumExplorer("bf16")
        SumExplorer("fp16", way="pairwise", data="both signs, -1 to 1", length=1024)
        SumExplorer("bf16", terms={"mine": activations[:4096]})

    Args:
        format: one of `SHOWN`: it holds the terms, the result and, if the way says nothing else, the running total.
        data: which of the terms, by name; None means the first.
        way: the name of one of `WAYS`.
        length: how many terms, 1 to 4096.
        view: "error" or "sum": what the chart shows.
        terms: name -> numbers, 1 to 4096; None means `default_terms()`.
        seed: the key of stochastic rounding, as `rng` of `accumulate.sum`.

    Each but `terms` is a trait, in step with the page where a kernel runs.

    Raises:
        TraitError: an unknown name, or a number out of range.
        ValueError: terms that are not 1 to 4096 finite numbers, or span too many binades to be handed over exactly.
    """

    format = traitlets.Unicode("bf16").tag(sync=True)
    data = traitlets.Unicode().tag(sync=True)
    way = traitlets.Enum(list(WAYS), "sequential").tag(sync=True)
    length = traitlets.Int(MAX_TERMS, min=1, max=MAX_TERMS).tag(sync=True)
    view = traitlets.Enum(VIEWS, "error").tag(sync=True)
    seed = traitlets.Int(0, min=0, max=2**53 - 1).tag(sync=True)
    ways = traitlets.List(traitlets.Dict(), help="the table WAYS, as the page needs it").tag(sync=True)
    sets = traitlets.List(traitlets.Dict(), help="the terms, as whole numbers of a unit").tag(sync=True)

    _esm = bundle("sum_explorer.js")
    _css = stylesheet("base.css", "sum_explorer.css")

    def __init__(self, format: Format | str = "bf16", *, terms: Mapping | None = None, data: str | None = None,
                 **kwargs):
        terms = {name: _checked(x, name) for name, x in (default_terms() if terms is None else terms).items()}
        self._terms = terms
        super().__init__(format=as_format(format).name, data=next(iter(terms)) if data is None else data,
                         sets=[{"name": name, **_whole(x, name)} for name, x in terms.items()], **kwargs)

    @property
    def result(self) -> float:
        """The sum that the page shows, computed by `accumulate.sum`."""
        way = WAYS[self.way]
        return float(accumulate.sum(self._terms[self.data][:self.length], self.format, way.accumulator, way.order,
                                    rng=self.seed))

    @traitlets.default("formats")
    def _shown_formats(self):
        return [record(FORMATS[name]) for name in SHOWN]

    @traitlets.default("ways")
    def _way_records(self):
        return [way_record(way, color) for way, color in zip(WAYS.values(), charts.CATEGORIES, strict=True)]

    @traitlets.validate("format")
    def _check_format(self, proposal):
        if proposal["value"] not in SHOWN:
            raise traitlets.TraitError(f"format is {proposal['value']!r}; choose one of {', '.join(SHOWN)}")
        return proposal["value"]

    @traitlets.validate("data")
    def _check_data(self, proposal):
        if proposal["value"] not in self._terms:
            names = ", ".join(map(repr, self._terms))
            raise traitlets.TraitError(f"data is {proposal['value']!r}; choose one of {names}")
        return proposal["value"]


def way_record(way: Way, color: str) -> dict:
    """A way as the JavaScript side gets it."""
    order, accumulator = ORDERS[way.order], ACCUMULATORS[way.accumulator]
    return {"name": way.name, "title": way.title, "color": color, "dash": list(way.dash), "scheme": order.scheme,
            "chunk": order.chunk, "rounding": accumulator.rounding,
            "format": accumulator.format and record(accumulator.format)}


def _checked(x, name: str) -> np.ndarray:
    x = accumulate.values(x, name).reshape(-1)
    if not 1 <= x.size <= MAX_TERMS or not np.isfinite(x).all():
        raise ValueError(f"{name!r} holds {x.size} numbers, {np.isfinite(x).sum()} of them finite; expected 1 to "
                         f"{MAX_TERMS}, all finite")
    return x


def _whole(x: np.ndarray, name: str) -> dict:
    """The numbers as multiples of a power of two, which JSON carries exactly and shortly."""
    unit = 1.0 / max(Fraction(value).denominator for value in x.tolist())
    with np.errstate(over="ignore"):
        steps = x / unit
    if not (np.abs(steps) < 2.0**53).all():
        raise ValueError(f"{name!r} spans too many binades: the smallest bit is {unit:g}, the largest number "
                         f"{np.abs(x).max():g}; round it to a 16-bit format first")
    return {"unit": unit, "steps": [int(n) for n in steps]}
