"""What a loss-scaling policy would have done on the gradients of a recorded run: growth, overflow, skipped steps.

    >>> trace = [gradients_of([torch.tensor([1e-3, 2.0])])] * 3
    >>> [row["event"] for row in replay(trace, "pytorch")]
    ['backed off', 'backed off', '']
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch

from sixteenbits.formats import FP16, Format, as_format
from sixteenbits.scaling import Policy, ScalerState, as_policy, first_state, next_state
from sixteenbits.tensors import binade, overflows


@dataclass(frozen=True)
class StepGradients:
    """What one step of a run leaves of its gradients, as they are without a scale.

    Attributes:
        largest: the largest magnitude; infinite or NaN if a gradient was, whatever the scale.
        counts: floor(log2 |g|) -> how many gradients.
        zeros: how many were zero.
    """

    largest: float
    counts: dict[int, int]
    zeros: int


def gradients_of(tensors: Iterable[torch.Tensor], scale: float = 1.0) -> StepGradients:
    """Record a step: the gradients of parameters, of activations, or both.

    Args:
        tensors: gradients in FP32 or BF16, where they neither underflow nor overflow.
        scale: what the loss was multiplied by; it is divided out.
    """
    arrays = [t.detach().double().flatten().cpu().numpy() / scale for t in tensors]
    x = np.abs(np.concatenate(arrays)) if arrays else np.zeros(0)
    exponents, counts = np.unique(binade(x[np.isfinite(x) & (x > 0)]), return_counts=True)
    return StepGradients(float(x.max(initial=0)), dict(zip(exponents.tolist(), counts.tolist(), strict=True)),
                         int((x == 0).sum()))


def replay(trace: Iterable[StepGradients], policy: Policy | str | float, format: Format | str = FP16) -> list[dict]:
    """What a policy would have done on recorded gradients.

    The gradients are those of the recorded run: a step that the policy skips is not missing from what follows.

    Returns:
        One row a step: `step`; `scale`, that of the step; `overflow`, whether the largest gradient times the scale
        overflows the format; `event`, one of "", "grown", "skipped", "backed off", "stopped"; `zero` and `subnormal`,
        the shares of the gradients other than zero that become zero or subnormal (exact where the scale is a power of
        two; else it is taken for the one below). After "stopped" there is no further row.
    """
    policy, format = as_policy(policy), as_format(format)
    state, rows = first_state(policy), []
    for step, gradients in enumerate(trace):
        product = gradients.largest * state.scale
        overflow = not math.isfinite(product) or bool(overflows(np.array([product]), format)[0])
        row = {"step": step, "scale": state.scale, "overflow": overflow, **_lost(gradients, state.scale, format)}
        try:
            after = next_state(policy, state, overflow)
        except FloatingPointError:
            rows.append({**row, "event": "stopped"})
            return rows
        rows.append({**row, "event": _event(state, after, overflow)})
        state = after
    return rows


def _event(before: ScalerState, after: ScalerState, overflow: bool) -> str:
    if overflow:
        return "backed off" if after.scale < before.scale else "skipped"
    return "grown" if after.scale > before.scale else ""


def _lost(gradients: StepGradients, scale: float, format: Format) -> dict[str, float]:
    shift = math.floor(math.log2(scale)) if scale else -10_000
    half_smallest = math.log2(format.smallest_subnormal) - 1  # what lies below rounds to zero
    zero = sum(n for e, n in gradients.counts.items() if e + shift < half_smallest)
    small = sum(n for e, n in gradients.counts.items() if half_smallest <= e + shift < format.emin)
    total = max(sum(gradients.counts.values()), 1)
    return {"zero": zero / total, "subnormal": small / total}
