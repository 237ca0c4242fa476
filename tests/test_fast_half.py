"""Products of 16-bit tensors by way of FP32: exactly one rounding, and close to PyTorch's own."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from oracles import assert_same_bits
from sixteenbits.emulation import emulate
from sixteenbits.fast_half import SLOW, fast_half, slow_dtypes
from sixteenbits.model import Transformer

BITS = {torch.float16: 10, torch.bfloat16: 7}


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


PRODUCTS = {
    "mm": (lambda a, b, c: a @ b, [(9, 40), (40, 7), (1,)]),
    "mv": (lambda a, b, c: a @ b, [(9, 40), (40,), (1,)]),
    "dot": (lambda a, b, c: a @ b, [(40,), (40,), (1,)]),
    "bmm": (lambda a, b, c: a @ b, [(3, 9, 40), (3, 40, 7), (1,)]),
    "addmm": (lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2), [(9, 40), (40, 7), (7,)]),
    "baddbmm": (lambda a, b, c: torch.baddbmm(c, a, b), [(3, 9, 40), (3, 40, 7), (3, 9, 7)]),
    "linear": (lambda a, b, c: F.linear(a, b, c), [(2, 9, 40), (7, 40), (7,)]),
    "convolution": (lambda a, b, c: F.conv2d(a, b, c), [(2, 3, 8, 8), (4, 3, 3, 3), (4,)]),
    "attention": (lambda a, b, c: F.scaled_dot_product_attention(a, b, c), [(1, 2, 9, 8)] * 3),
}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("dtype", SLOW)
def test_a_product_is_the_float32_product_rounded_once(product, dtype):
    function, shapes = PRODUCTS[product]
    narrow = [normal(*shape, seed=i).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]
    wide = [x.detach().float().requires_grad_() for x in narrow]
    with fast_half(SLOW) as mode:
        result = function(*narrow)
    assert result.dtype == dtype
    wanted = function(*wide)
    assert torch.equal(result, wanted.to(dtype))
    gradient = normal(*result.shape, seed=9).to(dtype)
    with mode:
        result.backward(gradient)
    wanted.backward(gradient.float())
    assert mode.products >= 1 + (product != "dot")
    for x, y in zip(narrow, wide, strict=True):
        if x.grad is not None:
            assert x.grad.dtype == dtype
            if product in ("mm", "mv", "bmm", "convolution"):  # of the others it is more than one operation
                torch.testing.assert_close(x.grad.float(), y.grad, rtol=2.0 ** -BITS[dtype], atol=1e-3)


@pytest.mark.parametrize("k", [40, 1000])
@pytest.mark.parametrize("dtype", SLOW)
def test_close_to_the_slow_kernels(dtype, k):
    """Both add up in float32, each within k * 2**-24 * sum(|a| |b|) of the exact sum, and round to nearest."""
    a, b = normal(50, k).to(dtype), normal(k, 30, seed=1).to(dtype)
    with fast_half(SLOW):
        fast = (a @ b).float()
    slow = (a @ b).float()
    unit = torch.from_numpy(np.spacing(slow.abs().numpy())) * 2.0 ** (23 - BITS[dtype])
    assert ((fast - slow).abs() <= unit + 2 * k * 2.0**-24 * (a.float().abs() @ b.float().abs())).all()
    assert (fast != slow).float().mean() < 0.01
    with emulate("fp16" if dtype == torch.float16 else "bf16"):
        emulated = a.float() @ b.float()
    assert_same_bits(emulated.numpy(), fast.numpy())


@pytest.mark.parametrize("dtype", SLOW)
def test_autocast_and_the_loss_scaler_stay_the_real_ones(dtype):
    model = Transformer(11, width=16, layers=1, heads=2, context=8, generator=torch.Generator().manual_seed(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    ids = torch.randint(0, 11, (4, 9), generator=torch.Generator().manual_seed(1))
    dtypes, losses = set(), []
    model.blocks[0].qkv.register_forward_hook(lambda module, given, result: dtypes.add(result.dtype))
    with fast_half(SLOW) as mode:
        for _ in range(4):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype):
                logits = model(ids[:, :-1])
                loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
    assert dtypes == {dtype}
    assert losses[-1] < losses[0]
    assert scaler.get_scale() == 2.0**10
    assert mode.products == 4 * 3 * 7  # qkv, q k, (q k) v, proj, up, down, head: forward and twice backward


def test_everything_else_runs_as_ever():
    x = normal(8, 8)
    half = x.half()
    with fast_half(SLOW) as mode:
        assert torch.equal(x @ x, torch.mm(x, x))
        assert (x.double() @ x.double()).dtype == torch.float64
        total = half + half
        out = torch.empty(8, 8, dtype=torch.float16)
        torch.mm(half, half, out=out)
    assert mode.products == 0
    assert torch.equal(total, half + half)
    with fast_half((torch.bfloat16,)) as mode:
        half @ half
        half.bfloat16() @ half.bfloat16()
    assert mode.products == 1
    with fast_half(SLOW) as mode, torch.inference_mode():
        assert nn.Linear(8, 8).half()(half).dtype == torch.float16
    assert mode.products == 1


def test_dtypes():
    assert set(slow_dtypes()) <= set(SLOW)
    assert fast_half().dtypes == slow_dtypes()
    with pytest.raises(ValueError, match=r"dtypes has torch\.float32; expected torch\.float16, torch\.bfloat16"):
        fast_half((torch.float32,))
