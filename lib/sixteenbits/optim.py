"""AdamW and SGD with momentum for 16-bit weights.

Each differs from torch's only in what is stored and how the weight is rounded:

    ==========  =====================================================  =================================
    update      what becomes of a change smaller than half a gap       bytes a parameter beyond the rest
    ==========  =====================================================  =================================
    nearest     it is lost                                             0
    stochastic  it moves the weight by a whole gap, rarely enough      0
    kahan       it is remembered, and added to the next one            2 (the compensation)
    master      it changes the FP32 copy of the weight                 4 (the copy)
    ==========  =====================================================  =================================

Arithmetic is FP32 throughout, as in the fused AdamW of torch; torch's own AdamW with `foreach=True` or
`foreach=False` rounds to the weight's dtype after every operation, which is another algorithm for 16-bit weights.

    >>> weight = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
    >>> optimizer = AdamW([weight], lr=1e-3, update="stochastic", seed=0)
    >>> weight.grad = torch.ones_like(weight)
    >>> optimizer.step()
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch

from sixteenbits import fused_updates, updates
from sixteenbits.formats import BF16, FP16, FP32
from sixteenbits.recipes import Recipe
from sixteenbits.updates import UPDATES, Kind, Numbers

STORED = {torch.float32: FP32, torch.bfloat16: BF16, torch.float16: FP16}
DTYPES = {format.name: dtype for dtype, format in STORED.items()}
MOMENT_ROUNDINGS = ("nearest_even", "stochastic")


class LowPrecisionOptimizer(torch.optim.Optimizer):
    """What AdamW and SGD share: the states, how a step is gathered and run, saving and loading.

    The parameters of a step are worked through in one compiled call where they lie in main memory, and tensor by tensor
    elsewhere (GPU, few or not contiguous ones), where torch.compile can make one kernel of it. The bits are the same.
    """

    rule: str
    moment_names: tuple[str, ...]
    _step_supports_amp_scaling = True  # torch.amp.GradScaler hands over the scale; step() divides in FP32

    def add_param_group(self, param_group):
        """Add a group; its options override the optimizer's.

        Raises:
            ValueError: an option has no such value, or contradicts the dtype of a parameter.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        _check_choice("update", group["update"], tuple(UPDATES))
        _check_choice("moment_rounding", group["moment_rounding"], MOMENT_ROUNDINGS)
        for name in _pair(group["moments"]):
            _check_choice("moments", name, (None, *DTYPES))
        for p in group["params"]:
            _check_weight(p, group["update"])

    @torch.no_grad()
    def step(self, closure=None):
        """One step over all parameters that have a gradient.

        With the attribute `grad_scale` (set by a loss scaler) gradients are divided by it in FP32, so that small FP16
        ones do not underflow again; with `found_inf` set and not zero, nothing happens.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        if found_inf is not None and float(found_inf):
            return loss
        for function, arguments in self._work(1.0 if scale is None else 1.0 / float(scale)):
            function(*arguments)
        return loss

    @torch.compiler.disable
    def _work(self, unscale: float) -> list[tuple]:
        """What is to be called, and with what: everything of a step that is not arithmetic on tensors."""
        return [call for kind, jobs in self._jobs().items() for call in self._calls(_kind(*kind), jobs, unscale)]

    def _jobs(self) -> dict[tuple, list]:
        """What a compiled step depends on -> (group, number, parameter) of those that have a gradient."""
        jobs, number = {}, 0
        for group in self.param_groups:
            first, second = _pair(group["moments"])
            options = self.rule, group["update"], first, second, group["moment_rounding"]
            for p in group["params"]:
                if p.grad is not None:
                    jobs.setdefault((*options, p.dtype, p.grad.dtype), []).append((group, number, p))
                number += 1
        return jobs

    def _calls(self, kind: Kind, jobs: list, unscale: float) -> list[tuple]:
        states = [self._state(p, kind) for _, _, p in jobs]
        torch._foreach_add_([state["step"] for state in states], 1)
        steps = [int(state["step"]) for state in states]
        known = {}
        for (group, _, _), t in zip(jobs, steps, strict=True):
            if (id(group), t) not in known:
                known[id(group), t] = self._numbers(group, t)._replace(unscale=unscale)
        numbers = [known[id(group), t] for (group, _, _), t in zip(jobs, steps, strict=True)]
        if "stochastic" in kind.modes():
            keys = updates.keys([g["seed"] for g, _, _ in jobs], [number for _, number, _ in jobs], steps)
        else:
            keys = np.zeros((len(jobs), len(updates.ROLES)), np.uint64)
        tensors = [(p, p.grad, *(state.get(name) for name in (*self.moment_names, _CARRY[kind.update])))
                   for (_, _, p), state in zip(jobs, states, strict=True)]
        if _compilable(tensors):
            return [(_run_compiled, (kind, tensors, numbers, keys))]
        return [updates.step_tensors(kind, *one) for one in zip(tensors, numbers, keys, strict=True)]

    def _state(self, p: torch.Tensor, kind: Kind) -> dict:
        state = self.state[p]
        if not state:
            if p.grad.is_sparse:
                raise ValueError("a gradient is sparse, which this optimizer does not take: build the embedding with "
                                 "sparse=False")
            state["step"] = torch.tensor(0.0)
            for name, format in zip(self.moment_names, (kind.first, kind.second), strict=True):
                if name:
                    state[name] = torch.zeros(p.shape, dtype=DTYPES[format.name], device=p.device)
            if kind.update == "kahan":
                state["compensation"] = torch.zeros(p.shape, dtype=p.dtype, device=p.device)
            if kind.update == "master":
                state["master"] = p.detach().float().contiguous()
        return state

    def _numbers(self, group: dict, step: int) -> Numbers:
        raise NotImplementedError

    def load_state_dict(self, state_dict):
        """As torch's, but every state keeps the dtype it was saved in.

        torch converts states to the dtype of their parameter: FP32 moments and master weights of a 16-bit model would
        come back in 16 bits.
        """
        super().load_state_dict(state_dict)
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        own = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(saved, own, strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                if torch.is_tensor(value):
                    device = "cpu" if name == "step" else p.device
                    self.state[p][name] = value.detach().to(device, copy=True).contiguous()


class AdamW(LowPrecisionOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101).

    Args:
        params: parameters in FP32, BF16 or FP16, or parameter groups; every option below can be a group's.
        lr: learning rate; schedulers set it in `param_groups`.
        betas, eps, weight_decay: as in torch.optim.AdamW.
        update: `"nearest"`, `"stochastic"`, `"kahan"` or `"master"`, see the module.
        moments: format that both moments are stored in, or a pair, one for each: `"fp32"`, `"bf16"`, `"fp16"`; None is
            the format of the weight.
        moment_rounding: `"nearest_even"` or `"stochastic"`. To nearest, a BF16 second moment never decays where beta2
            is .999: the decay is less than half a gap.
        seed: of stochastic rounding. The random numbers are a function of seed, the parameter's place, its step and the
            element, so that what `state_dict` holds anyway, seed and steps, is all the state they have.

    States: `step`, `exp_avg`, `exp_avg_sq`, and `compensation` or `master`. In FP32 the steps are those of
    torch.optim.AdamW in each of its implementations (`foreach`, `fused`, neither), to within rounding. They are not the
    same bits among themselves: a plain CPU square root of torch is MKL's, a fused step multiplies and adds in one.

    Raises:
        ValueError: an option has no such value, or contradicts the dtype of a parameter.
    """

    rule, moment_names = "adamw", ("exp_avg", "exp_avg_sq")

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, *, update="nearest",
                 moments=None, moment_rounding="nearest_even", seed=0):
        _check_range(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas is {betas}; expected two numbers from 0 up to, not including, 1")
        super().__init__(params, {
            "lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
            "update": update, "moments": moments, "moment_rounding": moment_rounding, "seed": seed})

    def _numbers(self, group, step):
        lr, (beta1, beta2) = float(group["lr"]), group["betas"]
        return Numbers(rate=lr / (1 - beta1**step), keep=1 - lr * group["weight_decay"], first=1 - beta1, beta2=beta2,
                       second=1 - beta2, root=math.sqrt(1 - beta2**step), eps=group["eps"])


class SGD(LowPrecisionOptimizer):
    """Stochastic gradient descent with momentum, as torch.optim.SGD without dampening.

    Args:
        params, lr, update, moments, moment_rounding, seed: see `AdamW`. `moments` is the format of the one moment.
        momentum: 0 up to, not including, 1; the moment is stored even if it is 0.
        weight_decay: added to the gradient, as in torch.optim.SGD.
        nesterov: Nesterov's momentum.

    States: `step`, `momentum_buffer`, and `compensation` or `master`.
    """

    rule, moment_names = "sgd", ("momentum_buffer", None)

    def __init__(self, params, lr=1e-3, momentum=0.9, weight_decay=0.0, nesterov=False, *, update="nearest",
                 moments=None, moment_rounding="nearest_even", seed=0):
        _check_range(lr=lr, momentum=momentum, weight_decay=weight_decay)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": bool(nesterov),
            "update": update, "moments": moments, "moment_rounding": moment_rounding, "seed": seed})

    def _numbers(self, group, step):
        return Numbers(rate=float(group["lr"]), coupled=group["weight_decay"], first=group["momentum"],
                       nesterov=float(group["nesterov"]))


def for_recipe(recipe: Recipe, params, optimizer: type[LowPrecisionOptimizer] = AdamW, **options):
    """The optimizer that stores and rounds as the recipe says; options (lr, betas, ...) as for the optimizer itself."""
    return optimizer(params, update="master" if recipe.master_weights else recipe.update_rounding,
                     moments=(recipe.first_moment.name, recipe.second_moment.name),
                     moment_rounding=recipe.moment_rounding, **options)


# -- how a step is run -------------------------------------------------------------------------------------------------

_CARRY = {"nearest": None, "stochastic": None, "kahan": "compensation", "master": "master"}


@functools.cache
def _kind(rule, update, first, second, moment_rounding, weight, gradient) -> Kind:
    stored = [STORED[weight if name is None else DTYPES[name]] for name in (first, second)]
    return Kind(rule, update, STORED[weight], STORED[gradient], *stored, moment_rounding)


def _compilable(tensors: list[tuple]) -> bool:
    """Whether the step can be one compiled call, and is large enough that compiling pays."""
    if sum(p.numel() for p, *_ in tensors) < fused_updates.COMPILE_FROM:
        return False
    return all(type(p) in (torch.nn.Parameter, torch.Tensor) and p.device.type == "cpu" and p.is_contiguous()
               and g.is_contiguous() for p, g, *_ in tensors)


@torch.compiler.disable
def _run_compiled(kind, tensors, numbers, keys):
    addresses = [[p.data_ptr() if t is None else t.data_ptr() for t in (p, *rest)] for p, *rest in tensors]
    fused_updates.step_all(kind, np.array(addresses), np.array([p.numel() for p, *_ in tensors]), numbers, keys)
    torch.autograd.graph.increment_version([p for p, *_ in tensors])  # torch has not seen the change


# -- checks ------------------------------------------------------------------------------------------------------------


def _pair(moments) -> tuple:
    return tuple(moments) if isinstance(moments, tuple | list) else (moments, moments)


def _check_choice(name: str, given, choices: tuple) -> None:
    if given not in choices:
        raise ValueError(f"{name} is {given!r}; choose one of {', '.join(map(repr, choices))}")


def _check_range(**given) -> None:
    for name, value in given.items():
        if not 0 <= float(value) < math.inf:
            raise ValueError(f"{name} is {value}; expected a finite number, 0 or more")


def _check_weight(p: torch.Tensor, update: str) -> None:
    if p.dtype not in STORED:
        raise ValueError(f"a parameter is {p.dtype}; this optimizer takes {', '.join(map(str, STORED))}")
    if p.dtype == torch.float32 and update != "nearest":
        raise ValueError(f"update is {update!r}, but a parameter is in FP32, which takes every change as it is; put "
                         "the FP32 parameters into a group of their own with update='nearest'")
