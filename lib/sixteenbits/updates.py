"""One step of an optimizer as arithmetic, written once.

Every step has two halves. A *rule* (`adamw`, `sgd`) turns a gradient and the moments into new moments and a change. An
*update* (`rounded`, `compensated`, `from_master`) adds the change to a 16-bit weight, and decides what becomes of the
part that the weight is too coarse to take. All of it is computed in FP32, whatever is stored.

As in `kernel`, the text is written over a small vocabulary. torch runs it on whole tensors, on any device and under
torch.compile, here; numba compiles it to one call over all tensors of an optimizer, in `fused_updates`. Both give the
same bits. The rounding, nearest and stochastic, is the kernel's.
"""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from sixteenbits.formats import FP32, Format
from sixteenbits.kernel import Grid, _random64, as_int64, numpy_ops, rounding, torch_ops
from sixteenbits.rounding import _grid, how_to_round

ROLES = ("weight", "first", "second")  # what is rounded, in the order of its keys


class Numbers(NamedTuple):
    """What a step needs besides tensors: FP32 scalars."""

    unscale: float = 1.0  # 1 / loss scale
    rate: float = 0.0  # learning rate; for Adam divided by its bias correction 1 - beta1**t
    keep: float = 1.0  # share of the weight that decoupled weight decay leaves
    coupled: float = 0.0  # share of the weight that is added to the gradient (L2 regularization)
    first: float = 0.0  # 1 - beta1; for SGD the momentum
    beta2: float = 0.0
    second: float = 0.0  # 1 - beta2
    root: float = 1.0  # sqrt(1 - beta2**t)
    eps: float = 0.0
    nesterov: float = 0.0  # 1 for Nesterov's momentum, else 0


# -- rules: (w, g, m, v, numbers) -> (m, v, change) ------------------------------------------------------------------


def adamw(ops):
    """Adam (Kingma and Ba, arXiv:1412.6980); eps as in algorithm 1, in the order of torch.optim.AdamW's operations."""
    sqrt = ops.sqrt

    def rule(w, g, m, v, n):
        m = m + n.first * (g - m)
        v = v * n.beta2 + n.second * g * g
        return m, v, -(n.rate * m) / (sqrt(v) / n.root + n.eps)

    return rule


def sgd(ops):
    """Stochastic gradient descent with momentum, as torch.optim.SGD without dampening."""

    def rule(w, g, m, v, n):
        g = g + n.coupled * w
        m = n.first * m + g
        return m, v, -n.rate * ((1 - n.nesterov) * m + n.nesterov * (g + n.first * m))

    return rule


# -- updates: (w, carry, change, key, index, grid, numbers) -> (w, carry) --------------------------------------------


def rounded(round_one):
    """The sum, rounded. To nearest, a change of less than half a gap is lost; stochastically, it is kept on average."""

    def update(w, carry, change, key, index, grid, n):
        return round_one(w * n.keep + change, key, index, grid), carry

    return update


def compensated(round_one):
    """Kahan's summation: what rounding has taken from the weight is carried, and added to the next change.

    Zamirai et al., Revisiting BFloat16 Training, arXiv:2010.06192, algorithm 3. Each line is rounded once here.
    """

    def update(w, carry, change, key, index, grid, n):
        owed = carry + (change + (w * n.keep - w))
        new = round_one(w + owed, key, index, grid)
        return new, round_one((w - new) + owed, key, index, grid)

    return update


def from_master(round_one):
    """The change goes to an FP32 copy of the weight, the carry; the weight is that copy, rounded.

    Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.1.
    """

    def update(w, carry, change, key, index, grid, n):
        carry = carry * n.keep + change
        return round_one(carry, key, index, grid), carry

    return update


RULES = {"adamw": adamw, "sgd": sgd}
UPDATES = {"nearest": rounded, "stochastic": rounded, "kahan": compensated, "master": from_master}


class Kind(NamedTuple):
    """What a compiled step depends on."""

    rule: str
    update: str
    weight: Format
    gradient: Format
    first: Format
    second: Format
    moments: str = "nearest_even"  # how the moments are rounded

    @property
    def carry(self) -> Format:
        """The format of the compensation or of the master weights."""
        return FP32 if self.update == "master" else self.weight

    def modes(self) -> tuple[str, str, str]:
        """How weight, first and second moment are rounded."""
        return "stochastic" if self.update == "stochastic" else "nearest_even", self.moments, self.moments

    def grids(self) -> list[Grid]:
        """What the kernel needs to know of the formats of weight, first and second moment."""
        formats = (self.weight, self.first, self.second)
        return [_grid(how_to_round(f, mode, rng=0), "float32") for f, mode in zip(formats, self.modes(), strict=True)]


def keys(seeds, numbers, steps) -> np.ndarray:
    """The keys of parameters at a step, uint64 of shape (parameters, 3), one for each of `ROLES`.

    They are a function of the arguments and nothing else: the random numbers need no state of their own.

    Args:
        seeds: of the optimizer or the parameter group.
        numbers: the places of the parameters in the optimizer.
        steps: how many steps each parameter has made, this one included.
    """
    draw = _random64(numpy_ops("float32"))
    seeds, numbers, steps = (np.array(x, np.uint64)[:, None] for x in (seeds, numbers, steps))
    with np.errstate(over="ignore"):
        return draw(draw(seeds, numbers), steps * np.uint64(len(ROLES)) + np.arange(len(ROLES), dtype=np.uint64))


def rounder(ops, mode: str, format: Format):
    """The kernel's rounding; FP32 numbers, computed in FP32, are left as they are."""
    return (lambda x, key, index, grid: x) if format == FP32 else rounding(ops, mode, flush=False, one_sided=False)


# -- on torch tensors ------------------------------------------------------------------------------------------------


def step_tensors(kind: Kind, tensors: tuple, numbers: Numbers, three_keys) -> tuple:
    """What changes weight, moments and carry in place: a function of tensors, and its arguments.

    torch.compile can trace that function; everything that it cannot is done here.

    Args:
        tensors: weight, gradient, first moment, second moment, carry; those that do not exist are None.
        numbers: Python floats.
        three_keys: what `keys` gives.
    """
    import torch

    device, shape = tensors[0].device, tensors[0].shape
    row = functools.partial(torch.tensor, dtype=torch.float32, device=device)
    n, grids = Numbers(*row(numbers).unbind()), [Grid(*row(grid).unbind()) for grid in kind.grids()]
    signed = torch.tensor([as_int64(int(key)) for key in three_keys], device=device)
    index = torch.arange(shape.numel(), device=device).view(shape) if "stochastic" in kind.modes() else signed[0]
    return _tensor_function(kind, device.type == "cpu"), (*tensors, n, signed, index, grids)


@functools.cache
def _tensor_function(kind: Kind, in_main_memory: bool):
    ops = _tensor_ops(in_main_memory)
    rule = RULES[kind.rule](ops)
    round_w, *round_moments = [rounder(ops, mode, format) for mode, format in
                               zip(kind.modes(), (kind.weight, kind.first, kind.second), strict=True)]
    update = UPDATES[kind.update](round_w)

    def step(weight, gradient, first, second, carry, n, three_keys, index, grids):
        w, g, m, v, c = (None if t is None else t.float() for t in (weight, gradient, first, second, carry))
        m, v, change = rule(w, g * n.unscale, m, v, n)
        w, c = update(w, c, change, three_keys[0], index, grids[0], n)
        weight.copy_(w)
        if carry is not None:
            carry.copy_(c)
        first.copy_(round_moments[0](m, three_keys[1], index, grids[1]))
        if second is not None:
            second.copy_(round_moments[1](v, three_keys[2], index, grids[2]))

    return step


@functools.cache
def _tensor_ops(in_main_memory: bool) -> SimpleNamespace:
    import torch

    def sqrt(x):  # torch's FP32 square root is not always the nearest number on a CPU (MKL's faster one); this one is
        return x.double().sqrt().float() if in_main_memory else torch.sqrt(x)

    return SimpleNamespace(**vars(torch_ops("float32")), sqrt=sqrt)
