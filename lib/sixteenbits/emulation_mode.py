"""The mode behind `emulation.emulate`: what happens at each operation.

PyTorch hands every operation of the forward and the backward pass to the mode, below autograd. The mode rounds the
operands that come from outside (`Origins` knows which), runs the operation, rounds its results where they stand, and
notes in the log what became of them.
"""

from __future__ import annotations

import fnmatch
import functools

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from sixteenbits.codec import round_to
from sixteenbits.emulation_log import Log
from sixteenbits.operations import ROUND_NUMBERS, Facts, facts, operands, results, sparse, written
from sixteenbits.origins import KERNEL, Origin, Origins
from sixteenbits.tally import Rounder
from sixteenbits.whereabouts import Place, Tracker


class Emulation(TorchDispatchMode):
    """The context that `emulate` makes.

    Args:
        rounders: role -> Rounder or None, see `emulation.ROLES`.
        accumulate_every: how many products are added before the accumulator is rounded.
        keep, only: families of operations, see `operations.family`; an empty `only` means all.
        keep_modules: patterns of module names.

    Attributes:
        log: what was seen, over all uses of the context.
    """

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
        given = list(operands(args, kwargs))
        shared = {holder[key].untyped_storage()._cdata for _, holder, key in given}
        # Beside tensors with dimensions, one without stands for a number: `x * torch.tensor(0.1)`.
        numbers = known.family not in ROUND_NUMBERS and any(holder[key].dim() for _, holder, key in given)
        all_held = True
        for at, holder, key in given:
            if at not in known.apart and not (known.overwrites and at in known.written):
                all_held &= self._read(known, place, at, holder, key, numbers)
        if given and known.family in ROUND_NUMBERS:
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
                self._round(rounder, result, known, place, "result", given=(args, kwargs))
        for target in written(known, args, kwargs):
            origin = self.origins.of(target, place.phase)
            if not (unchanged and origin.held):
                self._overwrite(origin, target, known, place, (args, kwargs))
        return returned

    def _read(self, known: Facts, place: Place, at, holder, key, numbers: bool) -> bool:
        """Round an operand where it has to be; whether it is held by a format then."""
        operand: Tensor = holder[key]
        origin = self.origins.of(operand, place.phase)
        held, change = origin.held, at in known.written  # what is written to must be changed itself, not a copy
        if held is None and numbers and operand.dim() == 0 and operand.device.type == "cpu" and not origin.parameter:
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
                if isinstance(value, float | int) and not isinstance(value, bool) and value == value:
                    rounded = float(round_to(float(value), reader.format, reader.mode, reader.overflow))
                    holder[at] = value if rounded == value else rounded  # an int stays one where it can

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

    def _overwrite(self, origin: Origin, target: Tensor, known: Facts, place: Place, given) -> None:
        """Round what an operation has written into one of its operands, to the format that this one had, if any."""
        rounder = self.rounders[place.phase] if origin.held in (None, KERNEL) else origin.held
        if rounder is not None:
            if not known.empty:
                self._round(rounder, target, known, place, "result", given=given)
            if target.numel() * target.element_size() == target.untyped_storage().nbytes():
                origin.held = rounder

    def _round(self, rounder: Rounder, x: Tensor, known: Facts, place: Place, what: str, axis: int = -1,
               given=None) -> None:
        """Round x where it stands, and note what became of it; `given` are the operands that x was made of."""
        try:
            counts = rounder(x.detach(), axis)
        except (ValueError, TypeError) as problem:
            where = f" in {place.module}" if place.module else ""
            raise type(problem)(f"{known.name}{where}, {place.phase}: {problem}") from None
        if counts.infinities and given is not None and not _any_infinite(known, *given):
            counts = counts._replace(overflows=counts.overflows + counts.infinities)  # made by the operation itself
        self.log.add(place, known.name, what, counts)


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
