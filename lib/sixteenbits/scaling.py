"""Loss scaling: multiply the loss so that FP16 gradients do not underflow, divide before the weights are changed.

A `Policy` says how the scale moves; `next_state` moves it, and is the whole of dynamic loss scaling: after an overflow
the step is skipped and the scale goes down, after enough good steps in a row it goes up. The scalers around it do what
`torch.amp.GradScaler` does, in this order:

    for x, y in micro_batches:
        scaler.scale(loss(x, y) / len(micro_batches)).backward()    # one scale for all of them
    scaler.unscale_(optimizer)                                      # before anything that looks at the gradients
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    scaler.step(optimizer)                                          # skipped if a gradient is not finite
    scaler.update()                                                 # once a step

The idea is Micikevicius et al., Mixed Precision Training, arXiv:1710.03740, section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch

# -- the rule ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Policy:
    """How a loss scale moves.

    Args:
        name: what the book calls it.
        init_scale: the first scale.
        growth_factor, growth_interval: the scale is multiplied by the factor after so many good steps in a row.
        backoff_factor: what it is multiplied by after an overflow.
        hysteresis: the scale goes down at this overflow, not before; the first ones only skip the step.
        refill: when the count of tolerated overflows starts anew: at `"growth"` or at every `"good step"`.
        minimum: the scale stays there, or, with at_minimum `"stop"`, training ends when it would have to go lower.
        at_minimum: `"stay"` or `"stop"`.
        maximum: the scale stays there; None is FP32's range, as the scale is an FP32 number.
        uncounted: good steps at the start and after an overflow that do not count toward `growth_interval`.
        source: where the numbers come from.
    """

    name: str
    init_scale: float = 2.0**16
    growth_factor: float = 2.0
    growth_interval: int = 2000
    backoff_factor: float = 0.5
    hysteresis: int = 1
    refill: str = "growth"
    minimum: float = 0.0
    at_minimum: str = "stay"
    maximum: float | None = None
    uncounted: int = 0
    source: str = ""

    def __post_init__(self):
        require = [
            (0 < self.init_scale < math.inf, "init_scale", "a positive, finite number"),
            (self.growth_factor >= 1, "growth_factor", "1 or more"),
            (self.growth_interval >= 1, "growth_interval", "1 step or more"),
            (0 < self.backoff_factor <= 1, "backoff_factor", "a number above 0, at most 1"),
            (self.hysteresis >= 1, "hysteresis", "1 overflow or more"),
            (self.refill in ("growth", "good step"), "refill", "'growth' or 'good step'"),
            (0 <= self.minimum <= self.init_scale, "minimum", f"0 to init_scale ({self.init_scale})"),
            (self.at_minimum in ("stay", "stop"), "at_minimum", "'stay' or 'stop'"),
            (self.maximum is None or self.maximum >= self.init_scale, "maximum", "init_scale or more, or None"),
            (self.uncounted >= 0, "uncounted", "0 or more"),
        ]
        for holds, field, expected in require:
            if not holds:
                raise ValueError(f"{field} is {getattr(self, field)!r}; expected {expected}")


@dataclass(frozen=True)
class ScalerState:
    """All that a scaler remembers from step to step.

    Attributes:
        scale: what the next loss is multiplied by.
        good_steps: steps in a row without overflow that count toward growth.
        tolerance: the overflow at which the scale goes down, counted from now: 1 means the next one.
    """

    scale: float
    good_steps: int
    tolerance: int


def first_state(policy: Policy) -> ScalerState:
    """Where a policy starts."""
    return ScalerState(_fp32(policy.init_scale), -policy.uncounted, policy.hysteresis)


def next_state(policy: Policy, state: ScalerState, overflow: bool) -> ScalerState:
    """The state after a step.

    Args:
        overflow: whether a gradient of the step was infinite or NaN.

    Raises:
        FloatingPointError: the scale would have to fall below a minimum at which the policy stops.
    """
    if overflow:
        if state.tolerance > 1:
            return replace(state, good_steps=-policy.uncounted, tolerance=state.tolerance - 1)
        if policy.at_minimum == "stop" and state.scale <= policy.minimum:
            raise FloatingPointError(f"the loss scale is at its minimum, {policy.minimum}, and gradients still are not "
                                     "finite: a smaller scale does not help; look for what overflows in the forward "
                                     "pass, or lower the learning rate")
        return replace(state, scale=max(_fp32(state.scale * policy.backoff_factor), policy.minimum),
                       good_steps=-policy.uncounted)
    good_steps = state.good_steps + 1
    tolerance = policy.hysteresis if policy.refill == "good step" else state.tolerance
    if good_steps < policy.growth_interval:
        return replace(state, good_steps=good_steps, tolerance=tolerance)
    grown = _fp32(min(state.scale * policy.growth_factor, policy.maximum or math.inf))
    return ScalerState(grown if math.isfinite(grown) else state.scale, 0, policy.hysteresis)


def _fp32(x: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(x))


#: The policies of the frameworks, with their defaults.
POLICIES = {policy.name: policy for policy in [
    Policy("pytorch", source="torch.amp.GradScaler, PyTorch 2.13: torch/amp/grad_scaler.py"),
    Policy("deepspeed", growth_interval=1000, hysteresis=2, minimum=1.0, at_minimum="stop", uncounted=1,
           source="the fp16 section of the configuration, DeepSpeed 0.19.8: deepspeed/runtime/precision_config.py and "
                  "fp16/loss_scaler.py (initial_scale_power 16); older ones count the step after an overflow"),
    Policy("apex", maximum=2.0**24, source="apex.amp, NVIDIA Apex: apex/amp/scaler.py"),
    Policy("fairseq", init_scale=2.0**7, growth_interval=2**14, minimum=2.0**-13, at_minimum="stop",
           source="fairseq: fairseq/optim/dynamic_loss_scaler.py, fp16_optimizer.py and dataclass/configs.py; interval "
                  "2**14 / processes / update frequency; it stops at 1e-4, and 2**-13 is the last scale above"),
]}


def static(scale: float) -> Policy:
    """The policy of a scale that never moves."""
    return Policy("static", init_scale=scale, growth_factor=1.0, backoff_factor=1.0,
                  source="Micikevicius et al., arXiv:1710.03740, section 3.2")


def as_policy(policy: Policy | str | float) -> Policy:
    """The Policy that is meant: itself, the row of `POLICIES` with that name, or a static scale."""
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, int | float):
        return static(float(policy))
    if policy not in POLICIES:
        raise ValueError(f"no policy is named {policy!r}; choose one of {', '.join(POLICIES)}, or give a number for a "
                         "static scale")
    return POLICIES[policy]


# -- the scalers -------------------------------------------------------------------------------------------------------


class LossScaler:
    """A policy at work on a loss and optimizers. Several optimizers may share it; `update` comes after all of them.

    A gradient that is infinite or NaN counts as overflow: the step of its optimizer is skipped, under a static scale
    too. Gradients must be whole when they are looked at: with sharded ones, each process would see its part alone.
    """

    def __init__(self, policy: Policy | str | float):
        self.policy = as_policy(policy)
        self.state = first_state(self.policy)
        self._unscaled: dict[int, bool] = {}  # optimizer -> overflow; gradients are divided, the step is due
        self._stepped: dict[int, bool] = {}  # optimizer -> overflow

    def get_scale(self) -> float:
        """What the next loss is multiplied by."""
        return self.state.scale

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the scale, in FP32: an FP16 loss would overflow right here.

        Raises:
            RuntimeError: gradients were divided already, and the next ones would be added to them undivided.
        """
        if self._unscaled:
            raise RuntimeError("scale() after unscale_(): new gradients would be added, scaled, to those that are "
                               "already divided. Accumulate first: backward for every micro-batch, then unscale_, step "
                               "and update once")
        return loss * torch.tensor(self.state.scale, dtype=torch.float32, device=loss.device)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, in place. Clip after it.

        Raises:
            RuntimeError: done before, or after the step.
            ValueError: FP16 gradients, which would underflow again.
        """
        if id(optimizer) in self._unscaled or id(optimizer) in self._stepped:
            raise RuntimeError("unscale_() was already called for this optimizer since the last update(), by itself or "
                               "by step(); gradients would be divided twice")
        gradients = _gradients(optimizer)
        if any(g.dtype == torch.float16 for g in gradients):
            raise ValueError("FP16 gradients cannot be divided in place: what the scale saved would underflow again. "
                             "Keep the weights in FP32 and use autocast; or let the optimizer divide, in FP32: call "
                             "step() without unscale_() on one that can (sixteenbits.optim, torch's with fused=True)")
        self._unscaled[id(optimizer)] = not all_finite(gradients)
        torch._foreach_mul_(gradients, _fp32(1.0 / self.state.scale) if self.state.scale else math.inf)

    def step(self, optimizer: torch.optim.Optimizer, *args, **kwargs):
        """The optimizer's step on divided gradients, or nothing if one of them is not finite.

        An optimizer that divides by itself (`_step_supports_amp_scaling`, as torch's fused ones) is handed the scale.

        Returns:
            What the optimizer's step returns; None if it is skipped.

        Raises:
            RuntimeError: a second step since the last update().
        """
        if id(optimizer) in self._stepped:
            raise RuntimeError("step() was already called for this optimizer since the last update()")
        divides = id(optimizer) not in self._unscaled and getattr(optimizer, "_step_supports_amp_scaling", False)
        if divides:
            overflow = not all_finite(_gradients(optimizer))
        else:
            if id(optimizer) not in self._unscaled:
                self.unscale_(optimizer)
            overflow = self._unscaled.pop(id(optimizer))
        self._stepped[id(optimizer)] = overflow
        if overflow:
            return None
        return self._step_divided(optimizer, *args, **kwargs) if divides else optimizer.step(*args, **kwargs)

    def _step_divided(self, optimizer, *args, **kwargs):
        device = _gradients(optimizer)[0].device
        optimizer.grad_scale = torch.tensor(self.state.scale, dtype=torch.float32, device=device)
        optimizer.found_inf = torch.zeros((), device=device)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def update(self) -> bool:
        """Move the scale; whether a step was skipped.

        Raises:
            RuntimeError: no step since the last update(), or gradients divided and no step made of them.
            FloatingPointError: the policy stops, see `next_state`.
        """
        if self._unscaled or not self._stepped:
            raise RuntimeError("update() before step(): call scale, backward, unscale_ (to clip), step, then update")
        overflow = any(self._stepped.values())
        self._stepped.clear()
        self.state = next_state(self.policy, self.state, overflow)
        return overflow

    def state_dict(self) -> dict:
        """Policy and state, as plain numbers. Save between update() and the next scale()."""
        return {"policy": asdict(self.policy), "state": asdict(self.state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over what `state_dict` gave, the policy included."""
        self.policy, self.state = Policy(**state_dict["policy"]), ScalerState(**state_dict["state"])


class StaticScaler(LossScaler):
    """A loss scale that never moves."""

    def __init__(self, scale: float):
        super().__init__(static(scale))


class DynamicScaler(LossScaler):
    """A loss scale that follows a policy: a name of `POLICIES` or a Policy, with changes.

        >>> DynamicScaler("deepspeed", init_scale=2.0**10).get_scale()
        1024.0
    """

    def __init__(self, policy: Policy | str = "pytorch", **changes):
        super().__init__(replace(as_policy(policy), **changes))


def _gradients(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if not gradients:
        raise RuntimeError("no parameter of the optimizer has a gradient: call scale(loss).backward() first")
    return [g._values() if g.is_sparse else g for g in gradients]


def all_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether no element is infinite or NaN; one wait for each device."""
    devices: dict[torch.device, list] = {}
    for t in tensors:
        devices.setdefault(t.device, []).append(torch.isfinite(t).all())
    return all(bool(torch.stack(flags).all()) for flags in devices.values())
