"""Where the numbers of a tensor come from, for emulation: what they have been rounded to, and in which phase.

A tensor's views share its memory, so all of this is known of memory, not of tensors. PyTorch's weak references keep the
address of a piece of memory from being used again, and tell when it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from sixteenbits.operations import is_rounded

#: Instead of a Rounder: numbers that a kernel keeps for itself, which are never rounded.
KERNEL = SimpleNamespace(format=None)


@dataclass(slots=True)
class Origin:
    """What is known of one piece of memory.

    Attributes:
        storage: weak reference to it.
        phase: in which it was first seen; a parameter is always forward.
        parameter: whether it belongs to an nn.Parameter.
        held: the Rounder that its numbers have been through; KERNEL; None for numbers as they came.
    """

    storage: StorageWeakRef
    phase: str
    parameter: bool
    held: Any = None


class Origins:
    """Origin of each piece of memory that was seen and still exists."""

    def __init__(self):
        self.known: dict[int, Origin] = {}
        self.limit = 4096

    def of(self, x: torch.Tensor, phase: str) -> Origin:
        """The origin of x, which is new in this phase if it has not been seen."""
        storage = x.untyped_storage()
        origin = self.known.get(storage._cdata)
        if origin is None:
            parameter = isinstance(x, torch.nn.Parameter)
            origin = Origin(StorageWeakRef(storage), "forward" if parameter else phase, parameter)
            self.known[storage._cdata] = origin
            self._tidy()
        return origin

    def note(self, args: tuple) -> None:
        """See the operand of a view: that its memory belongs to a parameter cannot be seen in the view."""
        if args and type(args[0]) is torch.nn.Parameter and is_rounded(args[0]):  # isinstance takes longer
            self.of(args[0], "forward")

    def forget(self) -> None:
        """Outside, anything may be written to anything."""
        self.known.clear()

    def _tidy(self) -> None:
        if len(self.known) > self.limit:
            self.known = {key: origin for key, origin in self.known.items() if not origin.storage.expired()}
            self.limit = max(4096, 2 * len(self.known))
