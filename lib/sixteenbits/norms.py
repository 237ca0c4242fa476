"""Softmax, cross-entropy, variance and norms as a machine computes them: every intermediate result held in one format.

Each function has a naive form, written as the formula stands in a textbook, and a stable one, which is the same formula
rearranged so that no intermediate is much larger than the result. In exact arithmetic all forms agree.

    >>> softmax([12.0, 11.0], "fp16", form="naive")
    array([nan,  0.])
    >>> softmax([12.0, 11.0], "fp16", form="stable")
    array([0.73095703, 0.26879883])

Shapes: the functions work along the last axis and take any number of rows, (..., n). They return float64 arrays (or
numbers) that are values of the format. Sums go through `accumulate`: `accumulator` and `order` are its own (no
stochastic one). The results of exp and log are those of float64, rounded to the format. NaN and infinities go as in the
machine: inf - inf is NaN, and NaN spreads.

All functions raise ValueError for an unknown form, and for a format of more than 25 mantissa bits: up to that, rounding
float64's result to the format is the same as rounding the exact result (Figueroa, SIGNUM Newsletter 30(3), 1995).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sixteenbits import accumulate
from sixteenbits.accumulate import Accumulator, Order
from sixteenbits.formats import Format, as_format

#: The forms of each function, naive first.
FORMS = {
    "softmax": ("naive", "stable"),
    "logsumexp": ("naive", "stable"),
    "cross_entropy": ("naive", "log_of_softmax", "stable"),
    "variance": ("naive", "stable", "welford"),
    "layer_norm": ("naive", "stable", "scaled"),
    "rms_norm": ("naive", "scaled"),
}


@dataclass(frozen=True)
class Machine:
    """Holds every result in one format; sums are made in an accumulator, in an order."""

    format: Format
    accumulator: Accumulator
    order: Order

    def hold(self, x) -> np.ndarray:
        return accumulate.rounded(x, self.format)

    def mean(self, x: np.ndarray) -> np.ndarray:
        total = accumulate.sum(x, self.format, self.accumulator, self.order, result=self.accumulator.format)
        return self._divided(total, x)

    def mean_square(self, x: np.ndarray) -> np.ndarray:
        total = accumulate.dot(x, x, self.format, self.accumulator, self.order, result=self.accumulator.format)
        return self._divided(total, x)

    def sum(self, x: np.ndarray) -> np.ndarray:
        return accumulate.sum(x, self.format, self.accumulator, self.order)[..., None]

    def _divided(self, total: np.ndarray, x: np.ndarray) -> np.ndarray:
        """total / n, rounded in the accumulator and only then to the format; shape (..., 1)."""
        return self.hold(accumulate.rounded(total / x.shape[-1], self.accumulator.format))[..., None]


def _start(function: str, form: str, x, format, accumulator, order) -> tuple[Machine, np.ndarray]:
    """The machine, and x held in its format."""
    if form not in FORMS[function]:
        raise ValueError(f"form is {form!r}; {function} has the forms {', '.join(FORMS[function])}")
    format = as_format(format)
    if format.mantissa_bits > 25:
        raise ValueError(f"{format} has {format.mantissa_bits} mantissa bits; the norms are computed in float64, which "
                         "leaves room for formats of up to 25")
    machine = Machine(format, accumulate.as_accumulator(accumulator, format), accumulate.as_order(order))
    return machine, machine.hold(accumulate.values(x))


def failed_rows(result, exact, tolerance: float = 0.1) -> dict[str, float]:
    """Which share of the rows of a result, shape (..., n), is useless, and whether one would notice.

    Returns:
        "NaN": rows with NaN or infinity. "silent": rows without, in which some element is off by more than `tolerance`.
    """
    result, exact = np.asarray(result), np.asarray(exact)
    loud = ~np.isfinite(result).all(axis=-1)
    with np.errstate(invalid="ignore"):
        silent = ~loud & (np.abs(result - exact) > tolerance).any(axis=-1)
    return {"NaN": float(loud.mean()), "silent": float(silent.mean())}


# -- exponentials ------------------------------------------------------------------------------------------------------


def _exponentials(machine: Machine, x: np.ndarray, form: str) -> tuple[np.ndarray, np.ndarray]:
    """x, less its largest element in all forms but the naive one, and what exp makes of it."""
    with np.errstate(all="ignore"):
        shifted = x if form == "naive" else machine.hold(x - x.max(axis=-1, keepdims=True))
        return shifted, machine.hold(np.exp(shifted))


def softmax(x, format, form="stable", accumulator="same", order="sequential"):
    """exp(x) / sum(exp(x)) along the last axis; the stable form subtracts the largest element of x first."""
    machine, x = _start("softmax", form, x, format, accumulator, order)
    _, powers = _exponentials(machine, x, form)
    with np.errstate(all="ignore"):
        return machine.hold(powers / machine.sum(powers))


def logsumexp(x, format, form="stable", accumulator="same", order="sequential"):
    """log(sum(exp(x))) along the last axis; the stable form adds the largest element after the logarithm."""
    machine, x = _start("logsumexp", form, x, format, accumulator, order)
    _, powers = _exponentials(machine, x, form)
    with np.errstate(all="ignore"):
        log = machine.hold(np.log(machine.sum(powers)))
        return (log if form == "naive" else machine.hold(x.max(axis=-1, keepdims=True) + log))[..., 0][()]


def cross_entropy(logits, target, format, form="stable", accumulator="same", order="sequential"):
    """-log(softmax(logits)[target]) for each row of logits, shape (..., n): an array of shape (...).

    Args:
        target: integers of shape (...), from 0 to n - 1.
        form: "naive" takes the logarithm of the naive softmax, "log_of_softmax" that of the stable one. "stable" is
            log(sum(exp(x - max))) - (x[target] - max), which never divides and never takes the log of a small number.
    """
    machine, x = _start("cross_entropy", form, logits, format, accumulator, order)
    target = np.asarray(target)[..., None]
    shifted, powers = _exponentials(machine, x, form)
    with np.errstate(all="ignore"):
        if form == "stable":
            log = machine.hold(np.log(machine.sum(powers)))
            return machine.hold(log - np.take_along_axis(shifted, target, -1))[..., 0][()]
        chosen = machine.hold(np.take_along_axis(powers, target, -1) / machine.sum(powers))
        return -machine.hold(np.log(chosen))[..., 0][()]


# -- squares -----------------------------------------------------------------------------------------------------------


def variance(x, format, form="stable", accumulator="same", order="sequential"):
    """The mean of the squared distances from the mean, along the last axis (divided by n, as layer norm does).

    Args:
        form: "naive", in one pass: mean(x**2) - mean(x)**2. "stable", in two passes: mean((x - mean(x))**2). "welford":
            one pass that corrects mean and sum of squares with each element (Welford, Technometrics 4(3), 1962); it has
            no separate sum, so accumulator and order do not matter to it.
    """
    machine, x = _start("variance", form, x, format, accumulator, order)
    return _variance(machine, x, machine.mean(x), form)[..., 0][()]


def _variance(machine: Machine, x: np.ndarray, mean: np.ndarray, form: str) -> np.ndarray:
    hold = machine.hold
    with np.errstate(all="ignore"):
        if form == "naive":
            return hold(machine.mean_square(x) - hold(mean * mean))
        if form == "stable":
            return machine.mean_square(hold(x - mean))
        mean, squares = np.zeros_like(mean), np.zeros_like(mean)
        for count in range(1, x.shape[-1] + 1):
            term = x[..., count - 1, None]
            distance = hold(term - mean)
            mean = hold(mean + hold(distance / count))
            squares = hold(squares + hold(distance * hold(term - mean)))
        return hold(squares / x.shape[-1])


def layer_norm(x, format, form="stable", accumulator="same", order="sequential", *, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(variance + eps) along the last axis, times weight plus bias where given (shape (n,)).

    Args:
        form: "naive" takes the one-pass variance, "stable" the two-pass one. "scaled" divides x by a power of two above
            its largest element, which changes no digit and leaves no square above 1, and eps by the square of that; the
            result is the same. If eps then rounds to zero, the smallest number of the format stands for it.
    """
    machine, x = _start("layer_norm", form, x, format, accumulator, order)
    x, eps = _scaled(machine, x, eps) if form == "scaled" else (x, machine.hold(eps))
    mean = machine.mean(x)
    with np.errstate(all="ignore"):
        centered = machine.hold(x - mean)
        spread = _variance(machine, x, mean, "naive" if form == "naive" else "stable")
        return _normed(machine, centered, spread, eps, weight, bias)


def rms_norm(x, format, form="scaled", accumulator="same", order="sequential", *, weight=None, eps=1e-6):
    """x / sqrt(mean(x**2) + eps) along the last axis, times weight; "scaled" as for `layer_norm`.

    Zhang and Sennrich, arXiv:1910.07467, 2019.
    """
    machine, x = _start("rms_norm", form, x, format, accumulator, order)
    x, eps = _scaled(machine, x, eps) if form == "scaled" else (x, machine.hold(eps))
    return _normed(machine, x, machine.mean_square(x), eps, weight, None)


def _scaled(machine: Machine, x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(all="ignore"):
        power = np.ldexp(1.0, np.frexp(np.abs(x).max(axis=-1, keepdims=True))[1])
        tiny = machine.hold(eps / power**2)
    return machine.hold(x / power), np.maximum(tiny, machine.format.smallest_subnormal if eps else 0.0)


def _normed(machine: Machine, x: np.ndarray, spread: np.ndarray, eps, weight, bias) -> np.ndarray:
    hold = machine.hold
    with np.errstate(all="ignore"):
        result = hold(x * hold(1 / hold(np.sqrt(hold(spread + eps)))))
        if weight is not None:
            result = hold(result * hold(accumulate.values(weight, "weight")))
        return result if bias is None else hold(result + hold(accumulate.values(bias, "bias")))
