"""Text to train on that needs no download: it comes with Python itself."""

from __future__ import annotations

import pydoc_data.topics

import torch


def python_topics() -> tuple[torch.Tensor, int]:
    """Python's own reference manual, as `help()` shows it: ids (int64, about half a million) and their number.

    Each byte value that occurs gets one id, in byte order. The text differs a little between Python versions,
    and so does everything that is learned from it.
    """
    topics = pydoc_data.topics.topics
    text = torch.frombuffer(bytearray("\n".join(topics[key] for key in sorted(topics)).encode()), dtype=torch.uint8)
    symbols, ids = text.unique(return_inverse=True)
    return ids, len(symbols)


def batch(ids: torch.Tensor, size: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """`size` random pieces of the text and, for each position, the symbol that comes next: two (size, length)."""
    start = torch.randint(len(ids) - length, (size, 1), generator=generator)
    piece = ids[start + torch.arange(length + 1)]  # (size, length + 1)
    return piece[:, :-1], piece[:, 1:]
