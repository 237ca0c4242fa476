"""How many values one step of an expression would make, judged by its arguments before anything is made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

_ALL = 99
#: Function -> at which of its arguments the shape begins that it fills; `_ALL`: every argument is a part of it.
_SHAPE_AT = {"zeros": _ALL, "ones": _ALL, "randn": _ALL, "rand": _ALL, "full": 0, "randint": -1,
             "linspace": 2, "logspace": 2, "geomspace": 2, "normal": 2, "uniform": 2, "lognormal": 2, "laplace": 2,
             "exponential": 1, "standard_t": 1, "standard_normal": 0, "standard_cauchy": 0}
_SHAPE_NAMES = ("size", "shape", "num", "steps")
_GRIDS = {"linspace", "logspace", "geomspace"}  # one grid for each pair of ends


def call_size(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> float:
    """The most values that a call of the function makes; 0 where it cannot make more than it is given."""
    given = [*args, *options.values()]
    made = _made_size(name, args, options)
    if name in _GRIDS:
        made *= max(1, broadcast_size(given))
    joined = sum(math.prod(part.shape) for arg in given if isinstance(arg, list | tuple) for part in flattened(arg)
                 if isinstance(part, np.ndarray | torch.Tensor))
    return max(made, joined, broadcast_size(given))


def _made_size(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> float:
    if name == "arange":
        return _arange_size(args, options)
    if name not in _SHAPE_AT:
        return 0
    at = _SHAPE_AT[name]
    shape = args if at == _ALL else args[-1:] if at == -1 else args[at:at + 1]
    shape = [*shape, *(options[key] for key in _SHAPE_NAMES if key in options)]
    return math.prod(abs(n) for part in shape for n in _numbers(part))


def _arange_size(args: Sequence[Any], options: Mapping[str, Any]) -> float:
    given = [number for arg in args for number in _numbers(arg)]
    ends = dict(zip(("stop",) if len(given) == 1 and "stop" not in options else ("start", "stop", "step"), given,
                    strict=False))
    for key, value in options.items():
        ends.update(dict.fromkeys(["stop" if key == "end" else key], *_numbers(value)[:1]))
    start, stop, step = ends.get("start", 0), ends.get("stop", 0), ends.get("step", 1)
    return math.ceil(abs((stop - start) / step)) if step else 0


def _numbers(part: Any) -> list[int | float]:
    """The numbers in an argument, however they are packed: a shape may come as an array or a NumPy scalar."""
    if isinstance(part, np.ndarray | np.generic | torch.Tensor):
        part = part.tolist() if math.prod(part.shape) <= 64 else []
    return [n for n in flattened(part) if isinstance(n, int | float) and not isinstance(n, bool)]


def flattened(part: Any) -> Iterator[Any]:
    """What nested lists and tuples hold; anything else as it is."""
    if isinstance(part, list | tuple):
        for item in part:
            yield from flattened(item)
    else:
        yield part


def broadcast_size(args: Sequence[Any]) -> int:
    """How many values arithmetic on the arrays among the arguments makes."""
    shapes = [tuple(arg.shape) for arg in args if isinstance(arg, np.ndarray | torch.Tensor)]
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0  # the function itself will say that the shapes do not fit


def matmul_size(left: Any, right: Any) -> int:
    """How many values `left @ right` makes."""
    shapes = [tuple(getattr(side, "shape", ())) for side in (left, right)]
    rows, columns = shapes[0][-2:-1], shapes[1][-1:] if len(shapes[1]) > 1 else ()
    try:
        return math.prod([*np.broadcast_shapes(shapes[0][:-2], shapes[1][:-2]), *rows, *columns])
    except ValueError:
        return 0


def indexed_size(owner: Any, index: Any) -> int:
    """How many values `owner[index]` copies at most, where arrays of whole numbers choose them; 0 where none do."""
    parts = [part for part in (index if isinstance(index, tuple) else (index,))
             if isinstance(part, np.ndarray | torch.Tensor) and "bool" not in str(part.dtype)]
    if not parts or not isinstance(owner, np.ndarray | torch.Tensor):
        return 0
    kept = sorted(owner.shape)[len(parts):]
    return math.prod(kept) * broadcast_size(parts)
