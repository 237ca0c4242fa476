"""Experiments on long sums, repeated over seeds: how the error grows with the number of terms.

Every function takes seeds and gives arrays of shape (seeds, ...), so that a figure can show the spread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from sixteenbits import accumulate
from sixteenbits.formats import FP8_E4M3FN, Format

#: Kinds of terms: (random generator, how many) -> float64 array.
KINDS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "one number, repeated": lambda random, n: np.full(n, random.random()),
    "positive numbers": lambda random, n: random.random(n),
    "numbers of both signs": lambda random, n: random.uniform(-1, 1, n),
    # The vectors of Wang et al., NeurIPS 2018, figure 3: uniform with mean 1 and standard deviation 1.
    "mean 1, deviation 1": lambda random, n: random.uniform(1 - 3**0.5, 1 + 3**0.5, n),
}


def terms(kind: str, n: int, seeds: Iterable[int]) -> np.ndarray:
    """n terms of a kind for each seed: shape (seeds, n).

    Raises:
        ValueError: no kind has that name.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; choose one of {', '.join(map(repr, KINDS))}")
    return np.stack([KINDS[kind](np.random.default_rng(seed), n) for seed in seeds])


def sums(x, lengths: Sequence[int], format, accumulator="same", order="sequential", rng=0) -> np.ndarray:
    """The sums of the first n terms of each row of x, for each n of `lengths`: shape (rows, lengths).

    The other arguments are those of `accumulate.sum`.
    """
    return np.stack([accumulate.sum(x[:, :n], format, accumulator, order, rng=rng) for n in lengths], axis=1)


def errors(x, lengths: Sequence[int], format, accumulator="same", order="sequential", rng=0, result=None) -> np.ndarray:
    """How far these sums are from the exact ones, as a part of the sum of the sizes |x|: shape (rows, lengths).

    The exact sum is that of the terms as the format holds them, so that only the additions are judged.
    """
    def error(part: np.ndarray) -> np.ndarray:
        total = accumulate.sum(part, format, accumulator, order, rng=rng, result=result)
        return np.abs(total - accumulate.exact_sum(part)) / accumulate.exact_sum(np.abs(part))

    held = accumulate.rounded(x, accumulate.as_format(format))
    return np.stack([error(held[:, :n]) for n in lengths], axis=1)


def dot_errors(length: int, accumulator, order, seeds: Iterable[int], inputs: str = "uniform", rows: int = 64,
               format: Format | str = FP8_E4M3FN) -> np.ndarray:
    """Relative errors of dot products of random vectors: shape (seeds, rows).

    Args:
        length: elements of a vector.
        inputs: "uniform", from 0 to 1, or "normal".
        rows: dot products for each seed.
        format: of the vectors. The results are kept in FP32.
    """
    draw = {"uniform": np.random.Generator.random, "normal": np.random.Generator.standard_normal}[inputs]
    found = []
    for seed in seeds:
        random = np.random.default_rng(seed)
        a, b = draw(random, (rows, length)), draw(random, (rows, length))
        computed = accumulate.dot(a, b, format, accumulator, order, result="fp32")
        found.append(accumulate.relative_error(computed, accumulate.exact_dot(a, b, format)))
    return np.stack(found)
