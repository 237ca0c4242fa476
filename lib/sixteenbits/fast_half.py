"""Matrix products of 16-bit tensors at a usable speed, on processors that have no instructions for them.

PyTorch multiplies FP16 matrices on such a processor about a hundred times slower than FP32 ones, and BF16 matrices
likewise. Inside `fast_half` a product takes its factors to FP32 (exact), multiplies there, and rounds the result once:

    with fast_half(), torch.autocast("cpu", torch.float16):
        loss = model(x)
        loss.backward()

That is what matrix units do, too. Everything else runs as ever: the dtypes, autocast and GradScaler stay the real
ones. Against PyTorch's own slow kernels, sums come in another order. Both are within FP32's roundoff times the number
of terms of the exact sum before they are rounded, so some elements fall on the other side of a tie and differ by one
unit in the last place, where terms cancel by more: for 40 to 4,000 terms 0.02 to 0.4 % of them in FP16, a tenth of that
in BF16.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sixteenbits.operations import facts, operands, results

SLOW = (torch.float16, torch.bfloat16)


def slow_dtypes() -> tuple[torch.dtype, ...]:
    """The 16-bit dtypes whose matrix products this processor has no instructions for."""
    native = {torch.float16: torch.ops.mkldnn._is_mkldnn_fp16_supported,
              torch.bfloat16: torch.ops.mkldnn._is_mkldnn_bf16_supported}
    return tuple(dtype for dtype in SLOW if not native[dtype]())


class fast_half(TorchDispatchMode):
    """A context in which products of 16-bit matrices in main memory are computed in FP32 and rounded once.

    It covers mm, bmm, addmm, baddbmm, mv, dot, linear, convolutions and fused attention (whose probabilities then stay
    in FP32 until the end), forward and backward, but not their in-place and `out` forms. `products` counts them.

    Args:
        dtypes: torch.float16, torch.bfloat16 or both; None means `slow_dtypes()`.
    """

    def __init__(self, dtypes: tuple[torch.dtype, ...] | None = None):
        super().__init__()
        self.dtypes = slow_dtypes() if dtypes is None else tuple(dtypes)
        if unknown := set(self.dtypes) - set(SLOW):
            raise ValueError(f"dtypes has {unknown.pop()}; expected torch.float16, torch.bfloat16 or both")
        self.products = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        known = facts(operation)
        if not known.factors or known.written or (dtype := self._dtype(args)) is None:
            return operation(*args, **kwargs)
        self.products += 1
        args, kwargs = [*args], {**kwargs}
        for _, holder, key in operands(args, kwargs):
            if holder[key].dtype == dtype:
                holder[key] = holder[key].float()
        returned = operation(*args, **kwargs)
        narrow = {id(x): x.to(dtype) for at, x in results(returned) if at not in known.auxiliary}
        if isinstance(returned, torch.Tensor):
            return narrow[id(returned)]
        return tuple(narrow.get(id(x), x) for x in returned)

    def _dtype(self, args) -> torch.dtype | None:
        """The dtype of the factors if it is one of ours, in main memory."""
        first = next((x for x in args if isinstance(x, torch.Tensor)), None)
        return first.dtype if first is not None and first.device.type == "cpu" and first.dtype in self.dtypes else None
