"""Real tensors of a small trained network: everything that one training step touches, by the role it plays.

The network is trained when it is asked for, in a few seconds on one thread; nothing is stored. A run repeats itself
bit for bit with the same machine and the same versions. Other processors add in another order, and another Python
brings a slightly different text: shares computed from these tensors then differ in their second or third digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from sixteenbits.data import batch, python_topics
from sixteenbits.model import Transformer

#: Role -> what it is, in the order of a training step.
ROLES = {
    "weights": "the parameters, before the step",
    "activations": "what the layers hand forward",
    "attention weights": "outputs of the softmax (half of them exact zeros: the masked future)",
    "logit gradients": "derivatives of the loss by the logits",
    "activation gradients": "derivatives of the loss by the activations",
    "weight gradients": "derivatives of the loss by the parameters",
    "first moments": "Adam's running mean of the weight gradients",
    "second moments": "Adam's running mean of their squares",
    "updates": "what the step adds to the parameters",
}


@dataclass(frozen=True)
class Recording:
    """The last training step of a network.

    Attributes:
        tensors: role (a key of `ROLES`) -> flat float32 tensor. A role with more values than asked for is a random
            sample of them; roles with equally many values are sampled at the same places, so that element i of
            `updates` belongs to element i of `weights`.
        losses: the training loss of every step, in nats a byte.
        model: the trained network.
    """

    tensors: dict[str, torch.Tensor]
    losses: list[float]
    model: nn.Module


def record(steps: int = 250, at_most: int = 2**16, seed: int = 0) -> Recording:
    """Train the small Transformer in float32 with Adam, and keep what its last step touched.

    Batches of 16 pieces of 64 bytes; learning rate 3e-3 after 50 steps of warm-up, betas (0.9, 0.95), eps 1e-8.

    Args:
        steps: training steps, 1 or more.
        at_most: how many values of a role are kept.
        seed: of the initial weights, the batches and the samples.

    Raises:
        ValueError: steps or at_most is less than 1.
    """
    if steps < 1 or at_most < 1:
        raise ValueError(f"steps is {steps} and at_most {at_most}; both must be 1 or more")
    generator = torch.Generator().manual_seed(seed)
    ids, symbols = python_topics()
    model = Transformer(symbols, generator=generator)
    adam = torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.95), eps=1e-8)
    warmup = torch.optim.lr_scheduler.LinearLR(adam, 1 / 50, total_iters=50)
    losses = []
    for _ in range(steps - 1):
        losses.append(train_step(model, adam, *batch(ids, 16, 64, generator)))
        warmup.step()
    outputs, hooks = watch(model)
    before = flat(model.parameters())
    losses.append(train_step(model, adam, *batch(ids, 16, 64, generator)))
    for hook in hooks:
        hook.remove()
    tensors = by_role(model, adam, outputs, before)
    return Recording({role: sample(tensors[role], at_most, seed) for role in ROLES}, losses, model)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> float:
    """One step of the optimizer on the mean cross-entropy; the loss before it."""
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def watch(model: nn.Module) -> tuple[dict[str, torch.Tensor], list]:
    """From now on keep the output of every layer, with its gradient; the outputs by layer name, and the hooks."""
    outputs = {}

    def hook(name):
        def keep(layer, args, output):
            output.retain_grad()
            outputs[name] = output
        return keep

    leaves = [(name, layer) for name, layer in model.named_modules() if not list(layer.children())]
    return outputs, [layer.register_forward_hook(hook(name)) for name, layer in leaves]


def text(size: int, length: int = 64, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Pieces of the text that the network learns, and what comes after each symbol: two (size, length)."""
    return batch(python_topics()[0], size, length, torch.Generator().manual_seed(seed))


def layer_inputs(model: nn.Module, x: torch.Tensor, *types: type) -> dict[str, torch.Tensor]:
    """What arrives at each layer of the given types when the model sees x: layer name -> tensor."""
    inputs, hooks = {}, []
    for name, layer in model.named_modules():
        if isinstance(layer, types):
            hooks.append(layer.register_forward_pre_hook(
                lambda layer, args, name=name: inputs.__setitem__(name, args[0].detach())))
    with torch.no_grad():
        model(x)
    for hook in hooks:
        hook.remove()
    return inputs


def by_role(model: nn.Module, adam: torch.optim.Adam, outputs: dict, before: torch.Tensor) -> dict[str, torch.Tensor]:
    """Role -> all its values after a step, in one flat tensor."""
    softmax = [y for name, y in outputs.items() if name.endswith("softmax")]
    hidden = [y for name, y in outputs.items() if not name.endswith(("softmax", "head"))]
    states = [adam.state[p] for p in model.parameters()]
    return {
        "weights": before,
        "activations": flat([*hidden, outputs["head"]]),
        "attention weights": flat(softmax),
        "logit gradients": flat([outputs["head"].grad]),
        "activation gradients": flat(y.grad for y in [*hidden, *softmax]),
        "weight gradients": flat(p.grad for p in model.parameters()),
        "first moments": flat(s["exp_avg"] for s in states),
        "second moments": flat(s["exp_avg_sq"] for s in states),
        "updates": flat(model.parameters()) - before,
    }


def flat(tensors) -> torch.Tensor:
    """All values of all tensors in one new vector."""
    return torch.cat([t.detach().flatten() for t in tensors])


def sample(x: torch.Tensor, at_most: int, seed: int) -> torch.Tensor:
    """x itself, or as many of its values as allowed, drawn without replacement. Same length and seed, same places."""
    if len(x) <= at_most:
        return x
    return x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:at_most]]
