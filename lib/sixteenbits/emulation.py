"""Run any PyTorch code, forward and backward, as if the machine kept its numbers in another format.

    with emulate("fp8_e4m3fn", backward="fp8_e5m2", overflow="saturate", keep=("softmax", "layer_norm")) as log:
        model(x).sum().backward()
    print(log)

The tensors stay float32. Each operation computes in float32 what it always computes; then its result is rounded to the
format. Autograd sees nothing of it: the forward pass is rounded, and the gradient goes straight through, each gradient
operation rounding in its turn. Parameters, inputs and everything else that comes from outside is rounded when it is
read, and stays what it is.

What is emulated, then, is a machine that computes each operation with FP32 inside and rounds once at the end, as GPUs
and PyTorch's CPU kernels do for 16-bit tensors. For FP16 and BF16 the results of element-wise operations, softmax and
reductions are those of PyTorch's own dtypes, bit for bit (tests/test_emulation.py has the list). Three things differ:

* Matrix products add up in another order. Both sums are right to FP32's roundoff times the number of terms, so that the
  rounded results differ where the sum lies that close to a tie: about 0.1 % of the elements, by one unit in the last
  place; more where terms cancel. `fast_half` computes products as the emulation does.
* What a kernel keeps for its backward pass (mean and deviation in layer_norm, the log-sum-exp of attention) stays in
  FP32, as on GPUs; PyTorch's CPU kernels may round it.
* An operation that PyTorch runs in one piece is rounded once, at its end. `scaled_dot_product_attention` is one piece
  unless `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` takes it apart. Operations that run a whole layer are refused
  with a hint; the fast path of nn.MultiheadAttention is switched off inside.

Views, reshapes, detach and clone cost nothing. Optimizer steps are left alone unless a format is given for them, so
that FP32 master weights stay what they are. torch.compile: a compiled module runs uncompiled inside; a backward pass
that was compiled outside is refused. Under autocast the narrow tensors are rounded a second time, from what they hold;
formats that they cannot hold are refused.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from sixteenbits.block_formats import BLOCK_FORMATS, BlockFormat
from sixteenbits.codec import round_to
from sixteenbits.emulation_log import Log
from sixteenbits.fast_half import fast_half
from sixteenbits.formats import FORMATS, Format, as_format
from sixteenbits.operations import ROUND_NUMBERS, Facts, facts, families, operands, results, sparse, written
from sixteenbits.origins import KERNEL, Origins
from sixteenbits.tally import Rounder
from sixteenbits.whereabouts import Place, Tracker

__all__ = ["ROLES", "Emulation", "Log", "emulate", "fast_half"]

#: What a format can be given for.
ROLES = {
    "forward": "results of operations in the forward pass",
    "backward": "results of operations in the backward pass: gradients",
    "optimizer": "results of operations in optimizer steps",
    "parameters": "parameters, where an operation reads them",
    "matmul_inputs": "factors of matrix products, where the product reads them: weights and activations",
    "matmul_gradients": "factors of matrix products that are gradients",
    "accumulate": "the running sum of a matrix product",
}


def emulate(format=None, *, forward="same", backward="same", parameters="same", optimizer=None, matmul_inputs=None,
            matmul_gradients="same", accumulate=None, accumulate_every=1, keep=(), only=(), keep_modules=(),
            rounding="nearest_even", overflow="ieee", rng=None, nan=None) -> Emulation:
    """A context in which operations leave numbers of a format; `with` gives the log of what rounding did.

    Args:
        format: for results and parameters: a Format or BlockFormat, the name of one, or None: no rounding.
        forward, backward, parameters: instead of `format`, for that role, see `ROLES`. `parameters` follows `forward`.
        optimizer: likewise; optimizer steps are not rounded unless a format is given here.
        matmul_inputs, matmul_gradients: to what matrix products round their factors before they multiply, whatever
            else those hold. A block format lies along the axis that is summed. Gradients follow `matmul_inputs`.
        accumulate: the format of the running sum in mm, bmm, addmm, baddbmm and linear, which else is FP32.
        accumulate_every: how many products are added in FP32 before the running sum is rounded.
        keep: operations whose operands and results are left alone: names as in torch.ops.aten, which stand for their
            backward and in-place forms too ("softmax"), or the groups "matmul", "attention", "cross_entropy" and
            "batch_norm".
        only: the operations to emulate; all others are kept.
        keep_modules: modules inside which everything is kept: names as in `named_modules()` of the outermost module,
            with the wildcards of a shell ("blocks.*.norm1").
        rounding, overflow: as in `codec.round_to`; or a dict from roles to that, where a role that is missing has the
            default. With stochastic rounding, what is read from outside is still rounded to nearest, so that a weight
            has one value in the whole step.
        rng: for stochastic rounding: an int seed, or a NumPy or torch Generator.
        nan: what NaN becomes in a format that has none.

    Raises:
        ValueError, TypeError: here, an unknown name; inside, NaN where the format has none, or a tensor of a dtype that
            cannot hold the format. The message names operation and module.
        NotImplementedError: inside, an operation that cannot be emulated.
        RuntimeError: under torch.compile.

    Nested contexts: inside the inner one, that one alone decides.
    """
    if isinstance(rng, int | np.integer):
        rng = np.random.default_rng(rng)
    forward = format if forward == "same" else forward
    formats = {
        "forward": forward, "backward": format if backward == "same" else backward, "optimizer": optimizer,
        "parameters": forward if parameters == "same" else parameters, "matmul_inputs": matmul_inputs,
        "matmul_gradients": matmul_inputs if matmul_gradients == "same" else matmul_gradients,
        "accumulate": accumulate,
    }
    modes, rules = _by_role(rounding, "nearest_even"), _by_role(overflow, "ieee")
    rounders = {role: one and Rounder(_as_any_format(one), modes[role], rules[role],
                                      rng if modes[role] == "stochastic" else None, nan)
                for role, one in formats.items()}
    if not (isinstance(accumulate_every, int) and accumulate_every >= 1):
        raise ValueError(f"accumulate_every is {accumulate_every!r}; expected a number of products, 1 or more")
    patterns = (keep_modules,) if isinstance(keep_modules, str) else tuple(keep_modules)
    return Emulation(rounders, accumulate_every, families(keep), families(only), patterns)


def _by_role(given: str | Mapping[str, str], default: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(ROLES, given)
    if unknown := set(given) - set(ROLES):
        raise ValueError(f"there is no role {unknown.pop()!r}; the roles are {', '.join(ROLES)}")
    return {role: given.get(role, default) for role in ROLES}


def _as_any_format(format: Any) -> Format | BlockFormat:
    if isinstance(format, BlockFormat):
        return format
    if isinstance(format, str) and format not in FORMATS:
        if format in BLOCK_FORMATS:
            return BLOCK_FORMATS[format]
        raise ValueError(f"no format is named {format!r}; the named ones are {', '.join([*FORMATS, *BLOCK_FORMATS])}")
    return as_format(format)


class Emulation(TorchDispatchMode):
    """The context that `emulate` makes. `log` holds what it saw, over all its uses."""

    def __init__(self, rounders: dict[str, Rounder | None], accumulate_every: int, keep: frozenset[str],
                 only: frozenset[str], keep_modules: tuple[str, ...]):
        super().__init__()
        self.rounders, self.accumulate_every = rounders, accumulate_every
        self.keep, self.only, self.keep_modules = keep, only, keep_modules
        self.readers = {role: one and one.deterministic() for role, one in rounders.items()}
        self.log, self.tracker, self.origins = Log(), Tracker(), Origins()
        self.outer: list[Emulation] = []
        self.shadowed, self.idle = 0, not any(rounders.values())

    # -- entering and leaving ------------------------------------------------------------------------------------------

    def __enter__(self) -> Log:
        if torch.compiler.is_compiling():
            raise RuntimeError("emulate inside a function that torch.compile compiles would be compiled away; "
                               "call the compiled function inside of emulate instead")
        if self in _get_current_dispatch_mode_stack():
            raise RuntimeError("this emulation is active already; call emulate again for a nested one")
        self.outer = [mode for mode in _get_current_dispatch_mode_stack() if isinstance(mode, Emulation)]
        for mode in self.outer:
            mode.shadowed += 1
        self.fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        self.tracker.start()
        super().__enter__()
        return self.log

    def __exit__(self, *problem) -> None:
        super().__exit__(*problem)
        self.tracker.stop()
        self.origins.forget()
        torch.backends.mha.set_fastpath_enabled(self.fast_path)
        for mode in self.outer:
            mode.shadowed -= 1

    # -- one operation -------------------------------------------------------------------------------------------------

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.shadowed or self.idle:
            return operation(*args, **kwargs)
        known = facts(operation)
        if known.free:
            self.origins.note(args)
            return operation(*args, **kwargs)
        place = self.tracker.place(known.family)
        if not self._concerns(known, place):
            return self._leave_alone(operation, known, args, kwargs, place)
        if known.opaque:
            raise NotImplementedError(f"{known.name} runs a whole layer in one operation, and what happens inside "
                                      f"cannot be rounded: {known.opaque}, or keep={known.name!r}")
        _refuse_compiled(place)
        return self._emulate(operation, known, args, kwargs, place)

    def _concerns(self, known: Facts, place: Place) -> bool:
        """Whether the operation is emulated at all."""
        if self.only and not (known.family in self.only or place.made_by in self.only):
            return False
        if known.family in self.keep or place.made_by in self.keep:
            return False
        if self.keep_modules and place.module and _matches(place.module, self.keep_modules):
            return False
        return place.phase != "optimizer" or self.rounders["optimizer"] is not None

    def _leave_alone(self, operation, known: Facts, args, kwargs, place: Place):
        returned = operation(*args, **kwargs)
        if place.phase != "optimizer":
            for _, holder, key in operands([*args], {**kwargs}):
                self.origins.of(holder[key], place.phase)
        for tensor in (*written(known, args, kwargs), *(tensor for _, tensor in results(returned))):
            self.origins.of(tensor, place.phase).held = None
        return returned

    def _emulate(self, operation, known: Facts, args, kwargs, place: Place):
        args, kwargs = [*args], {**kwargs}
        shared, all_held = set(), True
        for at, holder, key in operands(args, kwargs):
            shared.add(holder[key].untyped_storage()._cdata)
            if at not in known.apart and not (known.overwrites and at in known.written):
                all_held &= self._read(known, place, at, holder, key)
        if known.family in ROUND_NUMBERS:
            self._round_numbers(place, args, kwargs)
        returned = self._compute(operation, known, args, kwargs, place)
        if sparse(returned) and not sparse(args):
            raise NotImplementedError(f"{known.name} makes a sparse tensor, which cannot be rounded; use dense ones, "
                                      f"or keep={known.family!r}")
        unchanged = known.empty or (known.exact and all_held)
        rounder = self.rounders[place.phase]
        for at, result in results(returned):
            if result.untyped_storage()._cdata in shared:
                continue
            origin = self.origins.of(result, place.phase)
            origin.held = KERNEL if at in known.auxiliary else rounder
            if origin.held is rounder is not None and not unchanged:
                self._round(rounder, result, known, place, "result", operands=(args, kwargs))
        for target in written(known, args, kwargs):
            origin = self.origins.of(target, place.phase)
            if not (unchanged and origin.held):
                self._overwrite(origin, target, known, place, (args, kwargs))
        return returned

    def _read(self, known: Facts, place: Place, at, holder, key) -> bool:
        """Round an operand where it has to be; whether it is held by a format then."""
        operand: Tensor = holder[key]
        origin = self.origins.of(operand, place.phase)
        held, change = origin.held, at in known.written  # what is written to must be changed itself, not a copy
        if held is None and _is_number(operand, origin) and known.family not in ROUND_NUMBERS:
            return False
        if held is None and (held := self.readers["parameters" if origin.parameter else origin.phase]) is not None:
            holder[key] = operand = operand if change else operand.detach().clone()
            change = True
            self._round(held, operand, known, place, "operand")
        factor = self.rounders["matmul_gradients" if origin.phase == "backward" else "matmul_inputs"]
        if factor is not None and at in known.factors and not (held and held.format == factor.format):
            holder[key] = operand = operand if change else operand.detach().clone()
            self._round(factor, operand, known, place, "factor", self._axis(factor, known, at))
        return held is not None

    def _round_numbers(self, place: Place, args: list, kwargs: dict) -> None:
        reader, values = self.readers[place.phase], (*args, *kwargs.values())
        if reader is None or reader.blocks or any(x.device.type != "cpu" for x in values if isinstance(x, Tensor)):
            return
        for holder, items in ((args, enumerate(args)), (kwargs, [*kwargs.items()])):
            for at, value in items:
                if isinstance(value, float) and value == value:
                    holder[at] = float(round_to(value, reader.format, reader.mode, reader.overflow))

    def _axis(self, factor: Rounder, known: Facts, at: int) -> int:
        axis = known.factors[at]
        if axis is None and factor.blocks and factor.format.scale is not None:
            raise NotImplementedError(f"{known.name} has no single axis for blocks of {factor.format} to lie along; "
                                      f"keep={known.name!r} leaves it alone, a format without scales of blocks works")
        return -1 if axis is None else axis

    def _compute(self, operation, known: Facts, args: list, kwargs: dict, place: Place):
        if self.rounders["accumulate"] is None or not known.factors:
            return operation(*args, **kwargs)
        if known.name not in ("mm", "bmm", "addmm", "baddbmm", "linear") or known.written:
            raise NotImplementedError(f"accumulate is not known for {known.name}; keep={known.name!r} leaves it alone")
        return self._accumulate(known, args, kwargs, place)

    def _accumulate(self, known: Facts, args: list, kwargs: dict, place: Place) -> Tensor:
        """A matrix product whose running sum is rounded after every few products; a bias is where the sum starts."""
        if known.name == "linear":
            a, b, *bias = args[0], args[1].t(), *(x for x in args[2:] if x is not None)
        else:
            *bias, a, b = args
        total = a.new_zeros(*a.shape[:-1], b.shape[-1])
        total += kwargs.get("beta", 1) * bias[0] if bias else 0
        for start in range(0, a.shape[-1], self.accumulate_every):
            some = slice(start, start + self.accumulate_every)
            total += kwargs.get("alpha", 1) * (a[..., some] @ b[..., some, :])
            self._round(self.rounders["accumulate"], total, known, place, "sum")
        return total

    def _overwrite(self, origin, target: Tensor, known: Facts, place: Place, given) -> None:
        """Round what an operation has written into one of its operands, to the format that this one had, if any."""
        rounder = self.rounders[place.phase] if origin.held in (None, KERNEL) else origin.held
        if rounder is not None:
            if not known.empty:
                self._round(rounder, target, known, place, "result", operands=given)
            if target.numel() * target.element_size() == target.untyped_storage().nbytes():
                origin.held = rounder

    def _round(self, rounder: Rounder, x: Tensor, known: Facts, place: Place, what: str, axis: int = -1,
               operands=None) -> None:
        """Round x where it stands, and note what became of it."""
        try:
            counts = rounder(x.detach(), axis)
        except (ValueError, TypeError) as problem:
            where = f" in {place.module}" if place.module else ""
            raise type(problem)(f"{known.name}{where}, {place.phase}: {problem}") from None
        if counts.infinities and operands is not None and not _any_infinite(known, *operands):
            counts = counts._replace(overflows=counts.overflows + counts.infinities)  # made by the operation itself
        self.log.add(place, known.name, what, counts)


def _is_number(x: Tensor, origin) -> bool:
    """Whether a tensor stands for a number beside other tensors, as in `x * torch.tensor(0.1)`."""
    return x.dim() == 0 and x.device.type == "cpu" and not origin.parameter


def _any_infinite(known: Facts, args: list, kwargs: dict) -> bool:
    """Whether an operation was given infinities."""
    scalars = (*args, *kwargs.values())
    return (any(isinstance(value, float) and abs(value) == np.inf for value in scalars)
            or any(bool(holder[key].isinf().any()) for at, holder, key in operands(args, kwargs)
                   if at not in known.written))


def _refuse_compiled(place: Place) -> None:
    if place.phase == "backward" and not place.made_by:
        node = torch._C._current_autograd_node()
        if node is not None and node.name() == "CompiledFunctionBackward":
            raise RuntimeError("this backward pass was compiled, and most of what it does cannot be seen: run the "
                               "forward pass inside of emulate too, or do not compile the module")


@functools.cache
def _matches(module: str, patterns: tuple[str, ...]) -> bool:
    parts = module.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[:n]), pattern)
               for pattern in patterns for n in range(1, len(parts) + 1))
