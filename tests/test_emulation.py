"""Emulation against PyTorch's own 16-bit dtypes, and what it must not touch."""

import threading
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.optim.optimizer import _global_optimizer_pre_hooks
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack
from torch.utils.checkpoint import checkpoint

from oracles import assert_same_bits
from sixteenbits.block_formats import BLOCK_FORMATS
from sixteenbits.blocks import round_to_blocks
from sixteenbits.codec import round_to
from sixteenbits.emulation import emulate
from sixteenbits.formats import FORMATS, Format
from sixteenbits.model import Transformer

HALVES = {"fp16": torch.float16, "bf16": torch.bfloat16}
aten = torch.ops.aten


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
    assert not _get_current_dispatch_mode_stack()


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def numbers(x):
    """A tensor as an array: what is done with it then cannot be emulated."""
    x = torch.as_tensor(x).detach()
    return (x if x.dtype in (torch.float32, torch.float64) else x.float()).numpy()


def held(x, format):
    """Whether a format holds every number in x."""
    x = numbers(x)
    return np.array_equal(round_to(x, format, nan=0.0), x, equal_nan=True)


def assert_equal(got, wanted):
    assert_same_bits(numbers(got).astype(np.float64), numbers(wanted).astype(np.float64))


class Seen(TorchDispatchMode):
    """The operations that pass."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.names.append(operation._schema.name.removeprefix("aten::"))
        return operation(*args, **(kwargs or {}))


def small_transformer():
    generator = torch.Generator().manual_seed(0)
    model = Transformer(11, width=16, layers=2, heads=2, context=8, generator=generator)
    ids = torch.randint(0, 11, (2, 9), generator=generator)
    return model, lambda: F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


# -- PyTorch's own dtypes ----------------------------------------------------------------------------------------------

# What IEEE 754 defines, and what only chooses among values: equal on every machine.
EXACT = """add / add number / add alpha / sub / number sub / mul / mul number / mul tensor of one / div / div number /
number div / reciprocal / square / fmod / relu / leaky relu / abs / neg / clamp / maximum / where / where number /
masked fill / addcmul / addcdiv / max / amax / cat / embedding""".replace("\n", " ").split(" / ")
SAME = {
    "add": lambda x, y: x + y, "add number": lambda x, y: x + 0.1, "add alpha": lambda x, y: torch.add(x, y, alpha=0.3),
    "sub": lambda x, y: x - y, "number sub": lambda x, y: 1.1 - x, "mul": lambda x, y: x * y,
    "mul number": lambda x, y: x * 0.1, "mul tensor of one": lambda x, y: x * torch.tensor(0.1),
    "div": lambda x, y: x / y, "div number": lambda x, y: x / 0.3, "number div": lambda x, y: 0.7 / x,
    "reciprocal": lambda x, y: x.reciprocal(), "exp": lambda x, y: x.exp(), "expm1": lambda x, y: x.expm1(),
    "log": lambda x, y: x.abs().log(), "log2": lambda x, y: x.abs().log2(), "log1p": lambda x, y: x.abs().log1p(),
    "sqrt": lambda x, y: x.abs().sqrt(), "rsqrt": lambda x, y: x.abs().rsqrt(), "pow": lambda x, y: x.abs().pow(1.7),
    "pow tensor": lambda x, y: x.abs().pow(y), "square": lambda x, y: x**2, "number pow": lambda x, y: 1.3**x,
    "sin": lambda x, y: x.sin(), "cos": lambda x, y: x.cos(), "atan2": torch.atan2, "fmod": torch.fmod,
    "tanh": lambda x, y: x.tanh(), "sigmoid": lambda x, y: x.sigmoid(), "silu": lambda x, y: F.silu(x),
    "gelu": lambda x, y: F.gelu(x), "gelu tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "softplus": lambda x, y: F.softplus(x), "relu": lambda x, y: x.relu(), "leaky relu": lambda x, y: F.leaky_relu(x),
    "elu": lambda x, y: F.elu(x, 1.1), "mish": lambda x, y: F.mish(x), "abs": lambda x, y: x.abs(),
    "neg": lambda x, y: -x,
    "clamp": lambda x, y: x.clamp(-0.3, 0.7), "maximum": torch.maximum, "where": lambda x, y: torch.where(x > y, x, y),
    "where number": lambda x, y: torch.where(x > 0, x, 0.1),
    "masked fill": lambda x, y: x.masked_fill(y > 0, -float("inf")),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3), "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.3),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y, value=0.3), "sum": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: x.sum(-1), "sum of columns": lambda x, y: x.sum(0), "mean": lambda x, y: x.mean(),
    "mean of rows": lambda x, y: x.mean(-1), "var": lambda x, y: x.var(), "var of rows": lambda x, y: x.var(-1),
    "std of rows": lambda x, y: x.std(-1), "norm": lambda x, y: x.norm(), "max": lambda x, y: x.max(),
    "amax": lambda x, y: x.amax(-1), "cumsum": lambda x, y: x.cumsum(-1), "cumprod": lambda x, y: x.cumprod(-1),
    "softmax": lambda x, y: x.softmax(-1), "softmax of columns": lambda x, y: x.softmax(0),
    "cat": lambda x, y: torch.cat([x, y]), "embedding": lambda x, y: F.embedding(torch.arange(5), x),
    "avg_pool": lambda x, y: F.avg_pool1d(x, 4),
}

CHAINS = {
    "in place": lambda x, y: x.clone().mul_(y).add_(0.1).div_(y), "residual": lambda x, y: x + (x * y).relu() * 0.5,
    "moments": lambda x, y: (x - x.mean(-1, keepdim=True)) * y + x,
}


def units(x, name):
    """The gap between two neighbors of a format where x lies."""
    return torch.from_numpy(np.spacing(x.abs().numpy())) * 2.0 ** (23 - FORMATS[name].mantissa_bits)


def assert_same_rounding(got, wanted, before, name):
    """Equal. But where a function has no exact definition, kernels may use approximations that differ by some units of
    float32: then, and only where the number before rounding is that close to a tie, results may be neighbors."""
    differ = (got != wanted) & ~(got.isnan() & wanted.isnan()) & got.isfinite()
    tie = (got[differ].double() + wanted[differ].double()) / 2
    assert ((before[differ] - tie).abs() <= 4 * 2.0**-23 * tie.abs()).all()
    neighbors = (got - wanted)[differ].abs() <= units(wanted[differ], name)
    assert (neighbors | wanted[differ].isinf()).all()
    assert differ.double().mean() <= 0.002


@pytest.mark.parametrize("operation", SAME)
@pytest.mark.parametrize("name", HALVES)
def test_results_are_those_of_the_real_dtype(name, operation):
    for seed, scale in ((1, 1.0), (2, 40.0)):
        x, y = (scale * normal(64, 64, seed=seed + i) for i in (0, 10))
        x, y = x.to(HALVES[name]), y.to(HALVES[name])
        with emulate(name):
            got = SAME[operation](x.float(), y.float())
        wanted = SAME[operation](x, y).float()
        if operation in EXACT:
            assert_equal(got, wanted)
        else:
            assert_same_rounding(got, wanted, SAME[operation](x.float(), y.float()).double(), name)


def test_numbers_of_python_are_what_the_real_dtype_makes_of_them():
    half, bits = torch.tensor([3.0, 100.0]).half(), torch.tensor([3, 100])
    with emulate("fp16"):
        got = half.float() + 4097, half.float() - 4099.0, half.float() * 0.1, bits + 4097, bits + 0.1
        zero_dimensional = torch.tensor(0.1) * 1.0
    for one, wanted in zip(got, (half + 4097, half - 4099.0, half * 0.1), strict=False):
        assert_equal(one, wanted)
    assert got[3].tolist() == [4100, 4197]
    assert_equal(got[4], round_to(np.array([3.1, 100.1], np.float32), "fp16"))
    assert zero_dimensional.item() == round_to(0.1, "fp16")


@pytest.mark.parametrize("operation", CHAINS)
@pytest.mark.parametrize("name", HALVES)
def test_results_of_results_are_those_of_the_real_dtype(name, operation):
    x, y = (normal(64, 64, seed=i).to(HALVES[name]) for i in (0, 1))
    with emulate(name):
        got = CHAINS[operation](x.float(), y.float())
    assert_equal(got, CHAINS[operation](x, y))


@pytest.mark.parametrize("operation", [
    "add", "mul", "mul number", "div", "exp", "log", "tanh", "silu", "gelu", "softplus", "relu", "addcmul", "maximum",
    "square", "softmax", "sum of rows", "cumsum", "cat", "embedding"])
@pytest.mark.parametrize("name", HALVES)
def test_gradients_are_those_of_the_real_dtype(name, operation):
    x, y = (normal(64, 64, seed=i).to(HALVES[name]).requires_grad_() for i in (0, 1))
    wide = [t.detach().float().requires_grad_() for t in (x, y)]
    real = SAME[operation](x, y)
    gradient = normal(*real.shape, seed=3).to(HALVES[name])
    real.backward(gradient)
    with emulate(name):
        SAME[operation](*wide).backward(gradient.float())
    for got, wanted in zip(wide, (x, y), strict=True):
        if wanted.grad is None:
            continue
        if operation in EXACT:
            assert_equal(got.grad, wanted.grad)
        else:
            right = wanted.grad.float()
            assert (got.grad != right).double().mean() <= 0.002  # near ties, as above
            assert ((got.grad - right).abs() <= units(right, name)).all()


# Where PyTorch's kernels in main memory round inside, or add up in another order: by no more than one unit in the last
# place, in this share of the elements.
CLOSE = {
    "layer_norm adds up in another order": (lambda x, y: F.layer_norm(x, (64,), y[0], y[1]), 0.01),
    "erf has another approximation": (lambda x, y: x.erf(), 0.01),
    "x**3 is rounded twice in BF16": (lambda x, y: x**3, 0.4),
    "log_softmax keeps its sum in 16 bits": (lambda x, y: x.log_softmax(-1), 0.4),
    "logsumexp is several operations": (lambda x, y: x.logsumexp(-1), 0.4),
}


@pytest.mark.parametrize("operation", CLOSE)
@pytest.mark.parametrize("name", HALVES)
def test_what_differs_from_the_real_dtype_and_by_how_much(name, operation):
    function, share = CLOSE[operation]
    x, y = (normal(64, 64, seed=i).to(HALVES[name]) for i in (0, 1))
    with emulate(name):
        got = function(x.float(), y.float())
    wanted = function(x, y).float()
    assert ((got - wanted).abs() <= units(wanted, name)).all()
    assert (got != wanted).float().mean() <= share


@pytest.mark.parametrize("name", HALVES)
def test_a_rounding_float32_arithmetic_cannot_lose(name):
    # Once rounded to float32 and once to the format: harmless for + - * / and sqrt of 11 bits or fewer (2p + 2 <= 24).
    x, y = (normal(1 << 14, seed=i).to(HALVES[name]).double() for i in (4, 5))
    for function in (torch.add, torch.sub, torch.mul, torch.div):
        with emulate(name):
            narrow, wide = function(x.float(), y.float()), function(x, y)
        for got in (narrow, wide):
            assert_equal(got, round_to(function(x, y), name))


@pytest.mark.parametrize("shape", [(64, 300, 48), (5, 1000, 3)])
@pytest.mark.parametrize("name", HALVES)
def test_matrix_products_differ_where_the_sum_lies_near_a_tie(name, shape):
    """The bound: both are sums of k products in float32, each within k * 2**-24 * sum(|a| |b|) of the exact one, then
    rounded to nearest. The results differ by no more than both errors and one gap of the format."""
    rows, k, columns = shape
    a, b = normal(rows, k).to(HALVES[name]), normal(k, columns, seed=1).to(HALVES[name])
    with emulate(name):
        got = a.float() @ b.float()
    native = (a @ b).float()
    bound = units(native, name) + 2 * k * 2.0**-24 * (a.float().abs() @ b.float().abs())
    assert ((got - native).abs() <= bound).all()
    assert (got != native).float().mean() < 0.01


# -- the gradient ------------------------------------------------------------------------------------------------------


def test_the_forward_pass_is_rounded_and_the_gradient_goes_straight_through():
    x = torch.tensor([0.3, 1.7, -2.2], requires_grad=True)
    w = torch.tensor([1.1, -0.6, 0.7], requires_grad=True)
    with emulate("fp8_e4m3fn"):
        y = (x * w).exp()
        y.sum().backward()
    xr, wr = round_to(x.detach(), "fp8_e4m3fn"), round_to(w.detach(), "fp8_e4m3fn")
    yr = round_to(round_to(xr * wr, "fp8_e4m3fn").exp(), "fp8_e4m3fn")
    assert_equal(y, yr)
    assert_equal(x.grad, round_to(yr * wr, "fp8_e4m3fn"))
    assert_equal(w.grad, round_to(yr * xr, "fp8_e4m3fn"))


@pytest.mark.parametrize(("forward", "backward"), [("fp8_e4m3fn", "fp8_e5m2"), ("bf16", "fp16"), ("fp16", None)])
def test_every_result_is_held_by_its_format(forward, backward):
    model, loss = small_transformer()
    results, gradients = [], []
    for module in model.modules():
        module.register_forward_hook(lambda module, given, result: results.append(result))
        if module is not model and not isinstance(module, nn.Embedding):
            module.register_full_backward_hook(lambda module, given, result: gradients.extend(given + result))
    with emulate(forward, backward=backward, overflow="saturate"):
        value = loss()
        value.backward()
    assert all(held(result, forward) for result in results)
    everything = [g for g in gradients if g is not None] + [p.grad for p in model.parameters()]
    assert len(everything) > 60
    if backward:
        assert all(held(g, backward) for g in everything)
    else:
        assert not all(held(g, "bf16") for g in everything)
    assert not held(model.head.weight, forward)  # the parameters stay what they are


def test_the_backward_pass_is_seen():
    """Every operation of the backward pass that makes floating numbers is in the log: it runs under the same mode."""
    _, loss = small_transformer()
    with Seen() as forward:
        value = loss()
    with Seen() as backward:
        value.backward()
    with emulate("bf16") as log:
        value = loss()
        before = sum(log.calls.values())
        value.backward()
    assert before > 40
    counts = {row["operation"]: row["calls"] for row in log.rows("operation", "phase", "what")
              if row["phase"] == "backward" and row["what"] == "result"}
    for name in ("mm", "bmm", "gelu_backward", "_softmax_backward_data", "native_layer_norm_backward", "masked_fill"):
        results = 3 if name == "native_layer_norm_backward" else 1
        assert counts[name] == results * backward.names.count(name) > 0
    assert forward.names.count("mm") == 9


def test_a_backward_pass_in_another_thread_is_not_emulated():
    x = torch.tensor([0.3], requires_grad=True)
    with emulate("bf16"):
        y = x * 0.7
        thread = threading.Thread(target=y.backward)
        thread.start()
        thread.join()
    assert_equal(x.grad, torch.tensor([0.7]))


# -- roles -------------------------------------------------------------------------------------------------------------


def test_parameters_alone():
    layer = nn.Linear(8, 4)
    x = normal(3, 8)
    with emulate(None, parameters="fp8_e4m3fn") as log:
        y = layer(x)
        y.sum().backward()
    weight, bias = (round_to(p.detach(), "fp8_e4m3fn") for p in (layer.weight, layer.bias))
    assert_equal(y, F.linear(x, weight, bias))
    assert_equal(layer.weight.grad, torch.ones(4, 1) * x.sum(0))
    assert {(row["operation"], row["what"]) for row in log.rows()} == {("addmm", "operand")}


def test_factors_of_products_by_kind():
    """Weights and activations in one format, gradients in another; results stay in FP32: FP8 training."""
    layer = nn.Linear(8, 4, bias=False)
    x, g = normal(3, 8).requires_grad_(), normal(3, 4, seed=1)
    with emulate(matmul_inputs="fp8_e4m3fn", matmul_gradients="fp8_e5m2") as log:
        y = layer(x)
        y.backward(g)
    xr, wr = (round_to(t.detach(), "fp8_e4m3fn") for t in (x, layer.weight))
    gr = round_to(g, "fp8_e5m2")
    assert_equal(y, xr @ wr.t())
    assert_equal(x.grad, gr @ wr)
    assert_equal(layer.weight.grad, gr.t() @ xr)
    assert {row["what"] for row in log.rows()} == {"factor"}


def test_blocks_lie_along_the_sum():
    layer = nn.Linear(64, 48, bias=False)
    x, g = normal(32, 64).requires_grad_(), normal(32, 48, seed=1)
    with emulate(matmul_inputs="mxfp8_e4m3", matmul_gradients="mxfp8_e5m2"):
        y = layer(x)
        y.backward(g)
    w, z = layer.weight.detach(), x.detach()
    assert_equal(y, round_to_blocks(z, "mxfp8_e4m3") @ round_to_blocks(w, "mxfp8_e4m3").t())
    assert_equal(x.grad, round_to_blocks(g, "mxfp8_e5m2") @ round_to_blocks(w, "mxfp8_e4m3", axis=0))
    assert_equal(layer.weight.grad,
                 round_to_blocks(g, "mxfp8_e5m2", axis=0).t() @ round_to_blocks(z, "mxfp8_e4m3", axis=0))
    with emulate("mxfp4"):
        y = x * 1.0
    assert_equal(y, round_to_blocks(z, "mxfp4"))
    a, b = normal(2, 5, 40), normal(2, 40, 3, seed=2)
    with emulate(matmul_inputs="nvfp4"):
        y = a @ b
    assert_equal(y, round_to_blocks(a, "nvfp4") @ round_to_blocks(b, "nvfp4", axis=1))
    with emulate(matmul_inputs="mxfp4"), pytest.raises(NotImplementedError, match="convolution has no single axis"):
        F.conv1d(normal(1, 2, 8), normal(3, 2, 3))
    with emulate(matmul_inputs="fp8_e4m3_scaled"):
        got = F.conv1d(normal(1, 2, 8), normal(3, 2, 3))
    wanted = F.conv1d(*(round_to_blocks(t, "fp8_e4m3_scaled") for t in (normal(1, 2, 8), normal(3, 2, 3))))
    assert_equal(got, wanted)


@pytest.mark.parametrize("every", [1, 4, 100])
def test_a_chosen_accumulator(every):
    a, b, bias = normal(3, 10), normal(10, 5, seed=1), normal(5, seed=2)
    a, b, bias = (round_to(t, "fp16") for t in (a, b, bias))

    def product(start):
        total = start
        for k in range(0, 10, every):
            total = round_to(total + a[:, k:k + every] @ b[k:k + every], "bf16")
        return total

    plain, biased, half = (round_to(product(start), "fp16") for start in (torch.zeros(3, 5), bias, 0.5 * bias))
    with emulate("fp16", accumulate="bf16", accumulate_every=every) as log:
        assert_equal(a @ b, plain)
        assert_equal(F.linear(a, b.t().contiguous(), bias), biased)
        assert_equal(torch.addmm(bias, a, b, beta=0.5, alpha=1), half)
        assert_equal(torch.bmm(a[None], b[None])[0], plain)
        with torch.inference_mode():
            assert_equal(F.linear(a, b.t().contiguous(), bias), biased)
        with pytest.raises(NotImplementedError, match="accumulate is not known for convolution"):
            F.conv1d(normal(1, 2, 8), normal(3, 2, 3))
    assert {row["what"] for row in log.rows()} == {"sum", "result", "operand"}
    with emulate(None, accumulate="fp16"):
        assert torch.mm(torch.ones(2, 0), torch.ones(0, 3)).tolist() == [[0.0] * 3] * 2
        assert float(torch.ones(1, 5000) @ torch.ones(5000, 1)) == 2048.0  # 2048 + 1 is a tie: it stays


def test_optimizers_are_left_alone_unless_asked():
    for options in ({}, {"foreach": True}, {"fused": True}):
        model = nn.Linear(4, 4)
        twin = nn.Linear(4, 4)
        twin.load_state_dict(model.state_dict())
        for one in (model, twin):
            one.weight.grad, one.bias.grad = normal(4, 4), normal(4, seed=1)
        torch.optim.AdamW(twin.parameters(), **options).step()
        with emulate("fp8_e5m2") as log:
            torch.optim.AdamW(model.parameters(), **options).step()
        assert_equal(model.weight, twin.weight)
        assert not log.rows()
    model = nn.Linear(4, 4)
    model.weight.grad, model.bias.grad = normal(4, 4), normal(4, seed=1)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    with emulate("bf16", optimizer="bf16") as log:
        optimizer.step()
    assert held(model.weight, "bf16")
    assert all(held(value, "bf16") for state in optimizer.state.values() for value in state.values())
    assert {row["phase"] for row in log.rows()} == {"optimizer"}


# -- what is kept ------------------------------------------------------------------------------------------------------


def test_kept_operations_read_and_write_fp32_forward_and_backward():
    x = normal(4, 8).requires_grad_()
    scale = torch.tensor(1.1)
    with emulate("fp8_e4m3fn", keep="softmax") as log:
        p = x.softmax(-1)
        y = p + p
        y.backward(torch.ones(4, 8) * scale)
    assert_equal(p, x.softmax(-1))
    assert_equal(y, round_to(2 * round_to(p.detach(), "fp8_e4m3fn"), "fp8_e4m3fn"))
    assert not held(x.grad, "fp8_e4m3fn")
    assert not [row for row in log.rows() if "softmax" in row["operation"]]


def test_only_products():
    _, loss = small_transformer()
    with emulate("bf16", only="matmul") as log:
        loss().backward()
    names = {row["operation"] for row in log.rows("operation")}
    assert names == {"mm", "bmm"}


def test_kept_modules():
    _, loss = small_transformer()
    with emulate("bf16", keep_modules=("blocks.0", "blocks.1.norm*")) as log:
        loss().backward()
    modules = {row["module"] for row in log.rows("module")}
    assert not [name for name in modules if name.startswith(("blocks.0", "blocks.1.norm"))]
    assert {"blocks.1.qkv", "blocks.1.softmax", "norm", "head", "token", "Transformer", "blocks.1"} <= modules
    both = {(row["module"], row["phase"]) for row in log.rows("module", "phase")}
    assert {("blocks.1.qkv", "forward"), ("blocks.1.qkv", "backward")} <= both


def test_names_that_mean_nothing():
    with pytest.raises(ValueError, match="PyTorch has no operation 'sofmax'; perhaps softmax"):
        emulate("bf16", keep="sofmax")
    with pytest.raises(ValueError, match=r"no format is named 'fp9'; the named ones are fp64, .*mxfp4, nvfp4"):
        emulate("fp9")
    with pytest.raises(ValueError, match="there is no role 'forwards'"):
        emulate("bf16", rounding={"forwards": "stochastic"})
    with pytest.raises(ValueError, match="rounding is 'up'"):
        emulate("bf16", rounding="up")
    with pytest.raises(ValueError, match="accumulate_every is 0"):
        emulate("bf16", accumulate="bf16", accumulate_every=0)
    with pytest.raises(ValueError, match="needs rng"):
        emulate("bf16", rounding="stochastic")
    with pytest.raises(TypeError, match="expected a Format"):
        emulate(16)


# -- views, places in memory, what is no number ------------------------------------------------------------------------


def test_views_stay_views():
    x = normal(4, 6)
    with emulate("bf16") as log:
        base = x * 1.0
        for view in (base.t(), base.view(-1), base[1:3], base.detach(), base.reshape(6, 4), base.transpose(0, 1)[2:],
                     base.chunk(2)[1], base.unbind()[0], base.expand(2, 4, 6), base.squeeze(), base.permute(1, 0)):
            assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        assert sum(row["calls"] for row in log.rows() if row["what"] == "result") == 1
        base[1].add_(0.1)
        base.t()[0] = 0.3
    assert held(base, "bf16")
    assert_equal(base[1, 1:], round_to(round_to(x[1, 1:], "bf16") + round_to(0.1, "bf16"), "bf16"))
    assert_equal(base[:, 0], torch.full((4,), round_to(0.3, "bf16")))
    assert_equal(base[2, 1:], round_to(x[2, 1:], "bf16"))


def test_in_place_and_out_and_lists():
    x = normal(4, 6)
    with emulate("bf16"):
        y = x.clone()
        same = y.mul_(0.3).sigmoid_()
        assert same is y
        assert held(y, "bf16")
        out = torch.empty(4, 6)
        assert torch.exp(x, out=out) is out
        tensors = [x.clone(), 2 * x]
        torch._foreach_add_(tensors, 0.1)
        assert all(held(t, "bf16") for t in tensors)
        more = torch._foreach_mul(tensors, 0.3)
        assert all(held(t, "bf16") for t in more)
        outside = normal(3, seed=9)
        outside += 1
        assert held(outside, "bf16")
        part = torch.zeros(4)
        part[:2].copy_(torch.tensor([0.1, 0.2]))
        part.index_add_(0, torch.tensor([3]), torch.tensor([0.3]))
        assert held(part, "bf16")
        u = torch.empty(100).uniform_()
        assert held(u, "bf16")
    assert u.unique().numel() > 20
    assert_equal(out, round_to(round_to(x, "bf16").exp(), "bf16"))
    assert not held(x, "bf16")


def test_what_holds_nothing_or_no_floats_is_left_alone():
    with emulate("fp4_e2m1fn") as log:  # garbage that is NaN would be an error
        for make in (torch.empty, torch.zeros, torch.ones):
            make(1000)
        torch.full((3,), 7)
        i = torch.arange(5) * 300
        mask = i > 500
        assert i.tolist() == [0, 300, 600, 900, 1200]
        assert mask.tolist() == [False, False, True, True, True]
        assert torch.tensor([3.0, 1.0, 2.0]).argsort().tolist() == [1, 2, 0]
        assert torch.tensor(0.1).item() == pytest.approx(0.1, abs=1e-7)
    assert not log.rows("operation")[0]["values"] > 10 if log.rows("operation") else True


def test_what_kernels_keep_for_themselves_is_not_rounded():
    """nll_loss also returns the number of its terms, 1024 here, beyond E4M3: rounded to NaN it would spoil the loss."""
    x = normal(1024, 16).requires_grad_()
    with emulate("fp8_e4m3fn"):
        loss = F.cross_entropy(x, torch.arange(1024) % 16)
        loss.backward()
    assert 2 < loss.item() < 4
    assert x.grad.isfinite().all()
    with emulate("fp8_e4m3fn", backward=None):
        result, mean, deviation = torch.native_layer_norm(x, (16,), None, None, 1e-5)
    assert held(result, "fp8_e4m3fn")
    assert not held(mean, "fp8_e4m3fn")
    assert not held(deviation, "fp8_e4m3fn")


def test_complex_numbers_are_rounded_by_parts():
    with emulate("bf16"):
        z = torch.fft.fft(normal(16))
    assert held(torch.view_as_real(z), "bf16")


def test_sparse_tensors_are_refused():
    table = nn.Embedding(5, 3, sparse=True)
    with emulate("bf16"), pytest.raises(NotImplementedError, match="sparse"):
        table(torch.tensor([1, 2])).sum().backward()
    with emulate("bf16", keep="embedding"):
        table(torch.tensor([1, 2])).sum().backward()


# -- contexts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_with_and_without_gradients(context):
    model, _ = small_transformer()
    ids = torch.arange(8)[None]
    with emulate("bf16"):
        wanted = model(ids)
    with context(), emulate("bf16"):
        first = model(ids)
    with emulate("bf16"), context():
        second = model(ids)
    layer, x = nn.Linear(5, 3), normal(2, 5)
    with emulate("fp8_e5m2"), context():
        y = layer(x)
    rounded = (round_to(t.detach(), "fp8_e5m2") for t in (x, layer.weight, layer.bias))
    assert_equal(y, round_to(F.linear(*rounded), "fp8_e5m2"))
    for got in (first, second):
        assert_equal(got.clone().detach(), wanted.detach())


def test_the_inner_context_decides():
    x = normal(50)
    with emulate("fp8_e5m2") as outer:
        with emulate("fp16") as inner:
            y = x * 1.0
            with emulate(None):
                z = x * 0.3
        assert sum(outer.calls.values()) == 0
        assert sum(inner.calls.values()) == 2
        again = y * 1.0
    assert_equal(y, round_to(x, "fp16"))
    assert_equal(z, x * 0.3)
    assert_equal(again, round_to(y, "fp8_e5m2"))
    assert_equal(x * 1.0, x)


def test_an_error_leaves_nothing_behind():
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    steps = _global_optimizer_pre_hooks
    before = len(hooks), len(steps), torch.backends.mha.get_fastpath_enabled()
    emulation, layer = emulate("bf16"), nn.Linear(3, 2)
    with emulate("fp16") as outer:
        with pytest.raises(ZeroDivisionError), emulation:
            1 / 0  # noqa: B018
        torch.ones(2) * 0.3
        assert outer.rows()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), emulation:
        layer(torch.ones(4))
    assert (len(hooks), len(steps), torch.backends.mha.get_fastpath_enabled()) == before
    with emulation as log:  # and it can be used again
        y = layer(torch.ones(3))
    assert held(y, "bf16")
    assert {row["module"] for row in log.rows("module")} == {"Linear"}
    with emulation, pytest.raises(RuntimeError, match="active already"), emulation:
        pass


def test_a_failing_optimizer_does_not_stay_the_current_phase():
    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ZeroDivisionError

    model = nn.Linear(2, 2)
    emulation = emulate("bf16")
    with pytest.raises(ZeroDivisionError), emulation:
        Failing(model.parameters(), lr=1).step()
    with emulation:
        y = model(torch.ones(2))
    assert held(y, "bf16")


# -- layers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention(training):
    layer = nn.MultiheadAttention(16, 2, batch_first=True).train(training)
    x = normal(2, 5, 16)
    with emulate("bf16") as log, torch.set_grad_enabled(training):
        y, weights = layer(x, x, x)
    assert held(y, "bf16")
    assert held(weights, "bf16")
    names = {row["operation"] for row in log.rows("operation")}
    assert {"bmm", "_softmax", "addmm"} - names <= {"bmm"}
    assert "_native_multi_head_attention" not in names


def test_fused_attention_is_one_operation_unless_it_is_taken_apart():
    q, k, v = (normal(1, 2, 6, 8, seed=i).requires_grad_() for i in range(3))
    fused = "_scaled_dot_product_flash_attention_for_cpu"
    with emulate("fp8_e4m3fn", overflow="saturate") as log:
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y.sum().backward()
    assert [row["operation"] for row in log.rows("operation", "what") if row["what"] == "result"] == [
        fused, "sum", fused + "_backward"]
    assert held(y, "fp8_e4m3fn")
    assert all(held(t.grad, "fp8_e4m3fn") for t in (q, k, v))
    rounded = [round_to(t.detach(), "fp8_e4m3fn") for t in (q, k, v)]
    assert_equal(y, round_to(F.scaled_dot_product_attention(*rounded, is_causal=True), "fp8_e4m3fn"))
    with emulate("fp8_e4m3fn", overflow="saturate") as log, sdpa_kernel(SDPBackend.MATH):
        F.scaled_dot_product_attention(q, k, v).sum().backward()
    names = {row["operation"] for row in log.rows("operation")}
    assert {"bmm", "_safe_softmax", "mul", "_softmax_backward_data"} <= names


def test_convolution_embedding_norms_dropout():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 12), nn.Unflatten(1, (3, 2, 2)), nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4),
                          nn.Dropout(0.2), nn.GroupNorm(2, 4), nn.Flatten(), nn.LayerNorm(4), nn.RMSNorm(4))
    with emulate("bf16") as log:
        model(torch.arange(7)).square().sum().backward()
    assert all(held(p.grad, "bf16") for p in model.parameters())
    assert not held(model[3].running_var, "bf16")
    assert {"0", "2", "3", "4", "5", "7", "8"} <= {row["module"] for row in log.rows("module", "phase")
                                                   if row["phase"] == "backward"}


def test_layers_in_one_operation_are_refused():
    lstm, x = nn.LSTM(4, 3), normal(2, 1, 4)
    with emulate("bf16"), pytest.raises(NotImplementedError, match=r"mkldnn_rnn_layer runs a whole layer.*mkldnn\.fl"):
        lstm(x)
    with emulate("bf16", keep="mkldnn_rnn_layer"):
        lstm(x)
    with warnings.catch_warnings(), emulate("bf16") as log:
        warnings.simplefilter("ignore")  # torch warns of its own other flag
        with torch.backends.mkldnn.flags(enabled=False):
            y, _ = lstm(x)
        y.sum().backward()
    assert held(y, "bf16")
    assert {"sigmoid_", "tanh"} & {row["operation"] for row in log.rows("operation")}
    encoder = nn.TransformerEncoderLayer(16, 2, batch_first=True).eval()
    with emulate("bf16") as log, torch.no_grad():
        encoder(normal(2, 5, 16))
    assert len(log.rows("operation")) > 4


def test_what_a_checkpoint_computes_anew_is_forward():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))
    x = normal(4, 8)

    def gradients(run):
        model.zero_grad()
        with emulate("fp8_e4m3fn", backward="bf16") as log:
            run(x).sum().backward()
        return [p.grad for p in model.parameters()], log

    plain, _ = gradients(model)
    saved, log = gradients(lambda x: checkpoint(model, x, use_reentrant=False))
    for got, wanted in zip(saved, plain, strict=True):
        assert_equal(got, wanted)
    calls = {row["phase"]: row["calls"] for row in log.rows("operation", "phase", "what")
             if row["operation"] == "gelu" and row["what"] == "result"}
    assert calls == {"forward": 2}


def test_autocast_and_narrow_tensors():
    layer, x = nn.Linear(8, 8), normal(4, 8)
    with emulate("fp8_e4m3fn"), torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    assert held(y.float(), "fp8_e4m3fn")
    with emulate("bf16"), torch.autocast("cpu", torch.bfloat16):
        layer(x).sum().backward()
    refused = r"_to_copy in Linear, forward: a torch\.bfloat16 tensor cannot hold FP16; keep the tensors"
    with emulate("fp16"), torch.autocast("cpu", torch.bfloat16), pytest.raises(TypeError, match=refused):
        layer(x)
    with emulate("bf16"):
        narrow = torch.ones(3, dtype=torch.bfloat16) * 0.3
        wide = normal(5).double() * 1.0
    assert_equal(narrow, (torch.ones(3) * 0.3).bfloat16())
    assert_equal(wide, round_to(normal(5).double(), "bf16"))


def test_compiled_modules():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.GELU()), normal(4, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(model, backend="aot_eager")
        loss = compiled(x).sum()
        with emulate("bf16"), pytest.raises(RuntimeError, match="this backward pass was compiled"):
            loss.backward()
        with emulate("bf16"):
            wanted = model(x)
        with emulate("bf16") as log:
            got = compiled(x)
        assert_equal(got, wanted)
        assert {"addmm", "gelu"} <= {row["operation"] for row in log.rows("operation")}

        @torch.compile(backend="eager")
        def function(x):
            with emulate("bf16"):
                return x * 0.3

        try:
            result = function(x)
        except Exception as problem:
            assert "emulate" in str(problem)  # noqa: PT017
        else:
            assert_equal(result, round_to(round_to(x, "bf16") * 0.3, "bf16"))


# -- the log -----------------------------------------------------------------------------------------------------------


def test_every_overflow_and_underflow_is_counted():
    x = torch.tensor([1e-9, 3e-8, 1.0, 65519.0, 65520.0, -1e9, 0.0])
    with emulate("fp16", parameters=None) as log:
        y = x * 1.0
    assert y.tolist()[3:6] == [65504.0, float("inf"), -float("inf")]
    operand, result = log.rows()
    assert operand == {"phase": "forward", "module": "", "operation": "mul", "what": "operand", "calls": 1, "values": 7,
                       "overflows": 2, "underflows": 1, "nans": 0, "infinities": 0}
    assert (result["overflows"], result["underflows"], result["infinities"]) == (0, 0, 2)
    assert (log.overflows, log.underflows, log.values) == (2, 1, 14)
    assert str(log.first_overflow) == "mul (operand), forward"
    assert "2 overflowed, 1 became zero" in str(log)
    with pytest.raises(AttributeError, match="its totals are values, overflows"):
        log.nothing  # noqa: B018
    with pytest.raises(ValueError, match="'layer' is no field of a source"):
        log.rows("layer")


def test_infinities_that_an_operation_makes_are_overflows_and_those_it_is_given_are_not():
    x = torch.tensor([1.0, 200.0])
    with emulate("bf16") as log:
        x.exp()
    assert log.overflows == 1
    with emulate("bf16") as log:
        x.masked_fill(x > 2, -float("inf")).softmax(-1)
        (x + torch.tensor([float("inf"), 0.0])).relu()
    assert log.overflows == 0


def test_the_first_nan_is_found():
    class Bad(nn.Module):
        def forward(self, x):
            infinite = x * torch.tensor([float("inf"), 1.0])
            return infinite - infinite

    model = nn.Sequential(nn.Linear(2, 2), Bad(), nn.Tanh())
    with emulate("bf16") as log:
        model(torch.tensor([[1e30, 1.0]])).sum().backward()
    assert str(log.first_nan) == "sub (result) in 1, forward"
    with emulate("fp8_e4m3fn") as log:
        nn.Sequential(nn.Linear(2, 2), nn.Tanh())(torch.tensor([[1e6, 1.0]]))
    assert (log.first_nan.operation, log.first_nan.module) == ("addmm", "0")
    assert log.first_overflow == log.first_nan


def test_nan_in_a_format_without_nan():
    x = torch.tensor([0.0, 1.0])
    with emulate("fp4_e2m1fn"), pytest.raises(ValueError, match=r"div, forward: 1 of 2 values are NaN, and FP4 E2M1"):
        x / x.new_tensor([0.0, 1.0])
    with emulate("fp4_e2m1fn", nan=0.0):
        assert (x / x.new_tensor([0.0, 1.0])).tolist() == [0.0, 1.0]


# -- random rounding ---------------------------------------------------------------------------------------------------


def test_stochastic_rounding():
    x = torch.full((40_000,), 1.0 + 0.3 * 2.0**-7)
    one = torch.ones(40_000)
    with emulate("bf16", forward="bf16", rounding="stochastic", rng=1, keep="mul"):
        y = x * one
        up = (y + 0.0) > 1  # what is read is rounded to nearest: 1; so nothing moves
        assert not up.any()
        a = one * (1 + 0.3 * 2.0**-7)
    with emulate("bf16", rounding="stochastic", rng=1):
        first = one / (1 / (1 + 0.3 * 2.0**-7))
        second = one / (1 / (1 + 0.3 * 2.0**-7))
    with emulate("bf16", rounding="stochastic", rng=1):
        again = one / (1 / (1 + 0.3 * 2.0**-7))
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    share = (first > 1).double().mean().item()
    assert abs(share - 0.3) < 5 * (0.21 / 40_000) ** 0.5
    both = ((first > 1) & (second > 1)).double().mean().item()
    assert abs(both - 0.09) < 5 * (0.09 * 0.91 / 40_000) ** 0.5
    assert a.shape == one.shape


def test_rounding_by_role():
    x = torch.full((1000,), 1.0 + 0.3 * 2.0**-7).requires_grad_()
    seeds = torch.Generator().manual_seed(0)
    with emulate("bf16", rounding={"backward": "stochastic"}, rng=seeds):
        y = x * 1.0
        assert (y == 1).all()
        (y * (1 + 0.4 * 2.0**-7)).sum().backward()
    assert 300 < int((x.grad > 1).sum()) < 500


# -- odd machines ------------------------------------------------------------------------------------------------------


def test_flushed_subnormals_do_no_harm():
    x = torch.tensor([1e-40, 1e-39, 1.0, 1e-38])
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no mode that flushes subnormals")
    try:
        with emulate("bf16") as log:
            y = x * 1.0
        assert not y.isnan().any()
        assert log.nans == 0
        with emulate("fp16"):
            z = torch.tensor([6e-8, 1.0]) * 1.0
        assert z[0] == 2.0**-24
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("format", [*(f for f in FORMATS.values() if f.name not in ("fp64", "e8m0fnu")),
                                    Format("own", 3, 4), Format("no_subnormals", 5, 3, subnormals=False)],
                         ids=lambda f: f.name)
def test_any_format(format):
    x = normal(20, 30) * 3
    with emulate(format, overflow="saturate"):
        y = (x * 1.3).t()
    assert held(y, format)
    assert_equal(y.t(), round_to(round_to(x, format, overflow="saturate") * 1.3, format, overflow="saturate"))


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_any_block_format(name):
    x = normal(20, 40)
    with emulate(name):
        y = x * 1.3
    assert_equal(y, round_to_blocks(round_to_blocks(x, name) * 1.3, name))


def test_a_whole_training_run():
    """A few steps in emulated BF16 with FP32 weights follow those in FP32; emulated FP4 does not."""
    losses = {}
    for name, format in (("fp32", None), ("bf16", "bf16"), ("fp4", "fp4_e2m1fn")):
        model, loss = small_transformer()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        with emulate(format, overflow="saturate", nan=0.0):
            for _ in range(15):
                optimizer.zero_grad()
                value = loss()
                value.backward()
                optimizer.step()
        losses[name] = loss().item()
    assert losses["fp32"] < 1.5
    assert abs(losses["bf16"] - losses["fp32"]) < 0.1
    assert losses["fp4"] > losses["fp32"] + 0.3
