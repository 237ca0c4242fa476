"""Where an operation of a training step belongs: to which phase, and to which module of the network.

PyTorch numbers the nodes of its graph as the forward pass makes them. Whoever notes which module made which number
knows, in the backward pass, whose gradient is being computed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

PHASES = ("forward", "backward", "optimizer")
REMEMBERED = 200_000  # nodes; a training step of a large Transformer has some ten thousand


class Place(NamedTuple):
    """Where an operation belongs.

    Attributes:
        phase: one of `PHASES`. What a backward pass computes anew (activation checkpoints) is forward.
        module: the name in the outermost module that was called, as in `named_modules()`; the class of that module
            itself; empty outside of modules.
        made_by: in the backward pass the family of the forward operation, see `operations.family`; else empty.
    """

    phase: str
    module: str
    made_by: str


class Tracker:
    """Follows modules, backward passes and optimizer steps between `start` and `stop`."""

    def __init__(self):
        self.stack: list[tuple[str, int]] = []  # module and the backward pass that it was called in, -1 if none
        self.names: dict[nn.Module, str] = {}
        self.nodes: dict[int, tuple[str, str]] = {}
        self.stepping = False
        self.handles: list = []

    def start(self) -> None:
        self.handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(lambda *_: setattr(self, "stepping", True)),
            register_optimizer_step_post_hook(lambda *_: setattr(self, "stepping", False)),
        ]

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.__init__()

    def place(self, family: str) -> Place:
        """Where the operation belongs that is being dispatched."""
        if self.stepping:
            return Place("optimizer", "", "")
        task = torch._C._current_graph_task_id()
        module, called_in = self.stack[-1] if self.stack else ("", -1)
        if task == called_in or task == -1:
            # The first operation after a node was made is the one that made it.
            self.nodes.setdefault(torch.autograd._get_sequence_nr() - 1, (module, family))
            if len(self.nodes) > REMEMBERED:
                self.nodes = dict(list(self.nodes.items())[REMEMBERED // 2:])
            return Place("forward", module, "")
        node = torch._C._current_autograd_node()
        return Place("backward", *self.nodes.get(node._sequence_nr() if node is not None else -1, ("", "")))

    def _enter(self, module: nn.Module, inputs) -> None:
        if not self.stack and self.names.get(module) != type(module).__name__:
            self.names |= {part: name or type(module).__name__ for name, part in module.named_modules()}
        parent = self.stack[-1][0] if self.stack else ""
        name = self.names.get(module) or f"{parent}.{type(module).__name__}"
        self.stack.append((name, torch._C._current_graph_task_id()))

    def _leave(self, module: nn.Module, inputs, output) -> None:
        if self.stack:
            self.stack.pop()
