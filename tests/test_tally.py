"""Rounding in place with counts: the compiled loop, the way for other devices, every layout in memory."""

import numpy as np
import pytest
import torch

from oracles import assert_same_bits
from sixteenbits.blocks import BLOCK_FORMATS, round_to_blocks
from sixteenbits.codec import OVERFLOWS, ROUNDINGS, round_to
from sixteenbits.formats import FORMATS, Format
from sixteenbits.tally import Counts, Rounder, count

FORMATS_TRIED = [*(f for f in FORMATS.values() if f.name != "e8m0fnu"), Format("own", 3, 4, bias=9),
                 Format("infinite", 4, 2, nan="fnuz", infinities=True), Format("no_subnormals", 5, 3, subnormals=False)]


def values(dtype, seed=0):
    """Numbers of all sizes, with infinities, NaN and zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(2000) * 2.0 ** rng.integers(-40, 40, 2000)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 65520.0, 464.0]
    return torch.from_numpy(x.astype(dtype))


def counted(x, y, format, mode):
    """The counts by their definitions, with NumPy. Directed and random roundings overflow where they say so."""
    x, y = x.numpy().astype(np.float64), y.numpy().astype(np.float64)
    finite, gap = np.isfinite(x), 2.0 ** (format.emax - format.mantissa_bits)
    limit = format.max + (gap / 2 if mode.startswith("nearest") else gap)
    beyond = np.abs(x) > limit if mode == "nearest_even" and format.max_code % 2 == 0 else np.abs(x) >= limit
    return Counts(x.size, int((finite & (beyond | ~np.isfinite(y))).sum()), int(((x != 0) & (y == 0)).sum()),
                  int(np.isnan(y).sum()), int(np.isinf(x).sum()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("mode", [mode for mode in ROUNDINGS if mode != "stochastic"])
def test_every_format_is_rounded_as_the_codec_does_and_counted(mode, dtype):
    for format in FORMATS_TRIED:
        if format.name == "fp64" and dtype == np.float32:
            continue
        for overflow in OVERFLOWS:
            x = values(dtype)
            rounder = Rounder(format, mode, overflow, nan=None if format.has_nan else 5.0)
            y = x.clone()
            counts = rounder(y)
            right = torch.from_numpy(round_to(x.numpy(), format, mode, overflow,
                                              nan=None if format.has_nan else np.float64(5.0)))
            assert_same_bits(y.numpy(), right.numpy(), x.numpy())
            unfilled = right.where(~x.isnan(), torch.nan)
            assert counts == counted(x, unfilled, format, mode)
            if rounder.loops:  # the way that other devices go
                slow = Rounder(format, mode, overflow, nan=rounder.nan)
                slow.loops = {}
                z = x.clone()
                assert slow(z) == counts
                assert_same_bits(z.numpy(), y.numpy())


def test_ties_at_the_end():
    x = torch.tensor([464.0, np.nextafter(np.float32(464), np.float32(999)), 448.0])
    assert Rounder(FORMATS["fp8_e4m3fn"])(x).overflows == 1  # a tie goes to the even 448
    x = torch.tensor([65520.0, np.nextafter(np.float32(65520), np.float32(0))])
    assert Rounder(FORMATS["fp16"])(x).overflows == 1
    x = torch.tensor([7.0, 5.5])
    assert Rounder(FORMATS["fp4_e2m1fn"])(x).overflows == 1
    assert x.tolist() == [6.0, 6.0]


def layouts():
    x = torch.randn(6, 4, 8, 2, generator=torch.Generator().manual_seed(0))
    return {"contiguous": x, "transposed": x.transpose(0, 2), "channels last": x.to(memory_format=torch.channels_last),
            "slice": x[:, 1:3, ::2], "column": x[:, 1, 3, 0], "number": x[0, 0, 0, 0], "empty": x[:0],
            "of one": x[:1, :1, :1, :1].transpose(0, 3)}


@pytest.mark.parametrize("name", layouts())
def test_every_layout_is_rounded_where_it_stands(name):
    for mode in ("nearest_even", "stochastic"):
        base = layouts()[name]
        whole = base.clone(memory_format=torch.preserve_format)
        rng = np.random.default_rng(0) if mode == "stochastic" else None
        counts = Rounder(FORMATS["fp8_e5m2"], mode, rng=rng)(base)
        assert counts.values == base.numel()
        if mode == "nearest_even":
            assert_same_bits(base.numpy(), round_to(whole.numpy(), "fp8_e5m2"))
        else:
            assert_same_bits(round_to(base.numpy(), "fp8_e5m2"), base.numpy())
    x = torch.zeros(4, 4) + 0.3
    Rounder(FORMATS["fp8_e5m2"])(x[1:3, ::2])
    assert (x != 0.3).sum() == 4


def test_random_bits_are_those_of_the_codec():
    x = values(np.float32)[8:]
    keys = np.random.default_rng(1)
    rounder = Rounder(FORMATS["bf16"], "stochastic", rng=np.random.default_rng(1))
    keys.integers(2**64, dtype=np.uint64)  # the arguments were checked with one
    for _ in range(3):
        y = x.clone()
        rounder(y)
        key = int(keys.integers(2**64, dtype=np.uint64))
        assert_same_bits(y.numpy(), round_to(x.numpy(), "bf16", "stochastic", rng=key))
    y, z = x.clone(), x.clone()
    rounder.deterministic()(y)
    assert_same_bits(y.numpy(), round_to(x.numpy(), "bf16"))
    torch_rounder = Rounder(FORMATS["bf16"], "stochastic", rng=torch.Generator().manual_seed(0))
    torch_rounder(z)
    assert not torch.equal(y, z)


def test_narrow_and_complex_tensors():
    x = torch.randn(50, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float16, torch.bfloat16):
        y = x.to(dtype)
        Rounder(FORMATS["fp8_e4m3fn"])(y)
        assert_same_bits(y.float().numpy(), round_to(x.to(dtype).float().numpy(), "fp8_e4m3fn"))
    with pytest.raises(TypeError, match=r"a torch\.bfloat16 tensor cannot hold FP16"):
        Rounder(FORMATS["fp16"])(x.bfloat16())
    with pytest.raises(TypeError, match=r"a torch\.float16 tensor cannot hold BF16"):
        Rounder(FORMATS["bf16"])(x.half())
    z = torch.complex(x, 2 * x)
    Rounder(FORMATS["bf16"])(z)
    assert_same_bits(z.imag.numpy(), round_to(2 * x.numpy(), "bf16"))


def test_blocks():
    x = torch.randn(8, 40, generator=torch.Generator().manual_seed(0))
    x[0, 0] = 1e-30
    for axis in (-1, 0):
        y = x.clone()
        counts = Rounder(BLOCK_FORMATS["mxfp4"])(y, axis)
        assert_same_bits(y.numpy(), round_to_blocks(x, "mxfp4", axis=axis).numpy())
        assert counts.underflows == int(((x != 0) & (y == 0)).sum()) > 0
        assert counts.overflows == 0


def test_nan_where_the_format_has_none():
    x = torch.tensor([1.0, np.nan])
    with pytest.raises(ValueError, match=r"1 of 2 values are NaN, and FP6 E3M2 has no code for it; say what"):
        Rounder(FORMATS["fp6_e3m2fn"])(x)
    x = torch.tensor([1.0, np.nan])
    assert Rounder(FORMATS["fp6_e3m2fn"], nan=2.0)(x).nans == 1
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])  # the last one as other devices do
def test_counts_of_two_tensors(dtype):
    x = torch.tensor([60000, 1e-6, np.nan, np.inf, 0.0, -60000, 3.0]).to(dtype)
    y = torch.tensor([np.inf, 0.0, np.nan, np.inf, 0.0, -57344, 3.0]).to(dtype)
    assert count(x, y, 59392.0) == Counts(7, 2, 1, 1, 1)
    assert count(x[::2], y[::2], 59392.0) == Counts(4, 1, 0, 1, 0)
