"""The gradient of rounding is straight-through: that of the identity, whatever the format, the mode and the value."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from sixteenbits.codec import ROUNDINGS, round_to
from sixteenbits.formats import FORMATS


def leaf(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_where_rounding_changes_nothing_gradcheck_holds():
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert gradcheck(lambda x: round_to(x, "fp64"), x)
    assert gradgradcheck(lambda x: round_to(x, "fp64") ** 2, x)


@pytest.mark.parametrize("mode", ROUNDINGS[:-1])
def test_over_whole_steps_of_the_grid_the_slope_is_the_gradient(mode):
    # Rounding is a staircase: flat almost everywhere, and on the whole as steep as the identity. gradcheck compares the
    # gradient with (f(x + h) - f(x - h)) / 2h, and for h a whole number of steps that is exactly 1.
    x = leaf([1.3, 1.4999, 1.75, -1.3])
    assert gradcheck(lambda x: round_to(x, "bf16", mode), x, eps=32 * FORMATS["bf16"].eps, atol=1e-12, rtol=0)


def test_the_gradient_is_not_the_slope_of_the_staircase():
    x = leaf([1.3])
    flat = round_to(x + 1e-6, "bf16") - round_to(x - 1e-6, "bf16")
    assert flat.item() == 0.0
    assert torch.autograd.grad(round_to(x, "bf16"), x)[0].item() == 1.0


@pytest.mark.parametrize("overflow", ["ieee", "saturate"])
@pytest.mark.parametrize("format", ["fp16", "fp8_e4m3fn", "fp4_e2m1fn", "bf16"])
def test_it_is_one_at_zeros_subnormals_ties_saturated_and_infinite_values(format, overflow):
    f = FORMATS[format]
    values = [0.0, -0.0, f.smallest_subnormal / 2, f.smallest_normal, 1 + f.eps / 2, f.max, 2.0 * f.max, 1e30, -np.inf]
    x = leaf(values)
    y = round_to(x, format, overflow=overflow)
    given = torch.arange(1.0, len(values) + 1, dtype=torch.float64)
    (gradient,) = torch.autograd.grad(y, x, given)
    assert torch.equal(gradient, given)  # in particular it is not cut off where the value saturates


def test_every_mode_passes_the_gradient_on_unrounded():
    for mode in ROUNDINGS:
        x = leaf([0.1, 2.7, -3.3])
        (gradient,) = torch.autograd.grad(round_to(x, "fp4_e2m1fn", mode, rng=0), x, torch.tensor([0.1, 1e9, np.nan]))
        assert gradient[:2].tolist() == [np.float32(0.1), 1e9]
        assert gradient[2].isnan()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_shape_and_dtype_of_the_gradient_are_those_of_the_input(dtype):
    x = torch.ones(2, 0, 3, dtype=dtype, requires_grad=True)
    round_to(x, "fp8_e5m2").sum().backward()
    assert (x.grad.shape, x.grad.dtype) == (x.shape, dtype)
    x = torch.ones(3, 2, dtype=dtype, requires_grad=True)
    round_to(x.t(), "fp8_e5m2").sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))


def test_a_chain_of_roundings_and_a_loss_give_the_gradient_of_the_chain_without_roundings():
    weights = torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(2), requires_grad=True)
    rounded = round_to(round_to(x, "bf16") @ weights, "fp8_e4m3fn")
    rounded.backward(torch.ones_like(rounded))
    assert torch.equal(x.grad, torch.ones(4, 3) @ weights.t())


def test_what_needs_no_gradient_gets_none():
    x = torch.nn.Parameter(torch.ones(2))
    with torch.no_grad():
        assert not round_to(x, "bf16").requires_grad
    assert not round_to(torch.ones(2), "bf16").requires_grad
    y = round_to(x, "bf16", "stochastic", rng=0)
    assert y.requires_grad
    assert y.grad_fn is not None
