"""The small Transformer that the book trains: a decoder that reads bytes and predicts the next one.

Small enough for one CPU core (0.12 million parameters with the defaults), and built from the same parts as the
large ones. Softmax and GELU are modules, so that a forward hook sees every tensor that flows through.
"""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """Causal self-attention, then a two-layer perceptron, each added to the residual stream."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.softmax = nn.Softmax(dim=-1)
        self.up, self.gelu, self.down = (
            nn.Linear(width, 4 * width, bias=False), nn.GELU(), nn.Linear(4 * width, width, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.down(self.gelu(self.up(self.norm2(x))))

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, width / heads)
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = self.softmax(scores.masked_fill(future, float("-inf")))  # (batch, heads, length, length)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Transformer(nn.Module):
    """Token ids (batch, length) in, logits (batch, length, symbols) out.

    Args:
        symbols: size of the alphabet.
        width, layers, heads, context: the usual sizes; `context` is the longest length.
        init_std: standard deviation of the initial weights; those that write into the residual stream get
            `init_std / sqrt(2 * layers)`, as in GPT-2 (Radford et al., 2019).
        generator: source of the initial weights; None means torch's global one.
    """

    def __init__(self, symbols: int, width: int = 64, layers: int = 2, heads: int = 4, context: int = 64,
                 init_std: float = 0.1, generator: torch.Generator | None = None):
        super().__init__()
        self.token, self.position = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                into_residual = name.endswith(("proj.weight", "down.weight"))
                std = init_std / (2 * layers) ** 0.5 if into_residual else init_std
                nn.init.normal_(weight, 0.0, std, generator=generator)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
