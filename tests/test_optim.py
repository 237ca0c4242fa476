"""AdamW and SGD for 16-bit weights: against torch in FP32, against the codec in 16 bits; saving; every way to run."""

import copy
import io

import numpy as np
import pytest
import torch

from sixteenbits import fused_updates, updates
from sixteenbits.codec import round_to
from sixteenbits.optim import SGD, AdamW

U = 2.0**-24  # unit roundoff of FP32
VARIANTS = {
    "nearest": {"update": "nearest"},
    "stochastic": {"update": "stochastic", "moment_rounding": "stochastic", "seed": 7},
    "kahan": {"update": "kahan"},
    "master": {"update": "master", "moments": "fp32"},
    "mixed moments": {"update": "stochastic", "moments": ("bf16", "fp32"), "seed": 3},
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def parameters(dtype=torch.bfloat16, shapes=((5, 7), (11,), ()), seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in shapes]


def run(optimizer, params, steps, first=0):
    """Steps on gradients that depend on the number of the step alone."""
    for step in range(first, first + steps):
        generator = torch.Generator().manual_seed(1000 + step)
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(p.dtype)
        optimizer.step()


def everything(optimizer, params):
    return [*params, *(value for p in params for value in optimizer.state[p].values())]


def assert_same_bits(ours, expected):
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=0, equal_nan=True)
        assert torch.equal(torch.signbit(a) & ~torch.isnan(a), torch.signbit(b) & ~torch.isnan(b))


# -- FP32, against torch -----------------------------------------------------------------------------------------------


def after(make, steps, seed=0):
    params = parameters(torch.float32, seed=seed)
    run(make(params), params, steps)
    return params


@pytest.mark.parametrize("implementation", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.0, "betas": (0.9, 0.95)}, {"eps": 1e-3, "lr": 0.1}],
                         ids=str)
def test_adamw_in_fp32_is_torchs(implementation, options):
    steps, options = 20, {"lr": 1e-2, "weight_decay": 0.1} | options
    beta1, beta2 = options.get("betas", (0.9, 0.999))
    # A step's change is at most lr (1 - beta1) / sqrt(1 - beta2) (Kingma and Ba, section 2.1). Its relative error grows
    # by at most 8 roundings a step, as the moments carry theirs on; adding it to a weight below 8 costs one more.
    largest = options["lr"] * max(1.0, (1 - beta1) / (1 - beta2) ** 0.5)
    bound = 2 * steps * (8 * U + 8 * steps * U * largest)
    ours = after(lambda p: AdamW(p, **options), steps)
    theirs = after(lambda p: torch.optim.AdamW(p, **options, **implementation), steps)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=bound)


@pytest.mark.parametrize("options", [{"momentum": 0.0}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True},
                                     {"momentum": 0.8, "weight_decay": 0.1}], ids=str)
def test_sgd_in_fp32_is_torchs(options):
    steps, lr = 20, 0.05
    # The buffer is at most 10 times the largest gradient, about 4 here: changes below 2, weights below 16.
    bound = 2 * steps * U * (16 + 8 * steps * 2)
    ours = after(lambda p: SGD(p, lr=lr, **options), steps)
    theirs = after(lambda p: torch.optim.SGD(p, lr=lr, **options), steps)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=bound)


def test_goes_on_from_a_checkpoint_of_torchs_adamw():
    params = parameters(torch.float32)
    theirs = torch.optim.AdamW(params, lr=1e-2, foreach=False)
    run(theirs, params, 5)
    others = copy.deepcopy(params)
    ours = AdamW(others, lr=1e-2)
    state = ours.state_dict()
    state["state"] = theirs.state_dict()["state"]
    ours.load_state_dict(state)
    run(theirs, params, 5, first=5)
    run(ours, others, 5, first=5)
    for a, b in zip(others, params, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


# -- 16 bits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_to_nearest_is_the_fp32_step_rounded_once(dtype):
    params, wide = parameters(dtype, [(2000,)]), parameters(torch.float32, [(2000,)])
    with torch.no_grad():
        wide[0].copy_(params[0])
    run(AdamW(params, lr=1e-2), params, 1)
    wide[0].grad = params[0].grad.float()
    AdamW(wide, lr=1e-2).step()
    assert_same_bits(params, [wide[0].to(dtype)])


@pytest.mark.parametrize("name", ["bf16", "fp16"])
def test_stochastic_rounding_is_the_codecs(name):
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[name]
    params, wide = parameters(dtype, [(3, 500)]), parameters(torch.float32, [(3, 500)])
    with torch.no_grad():
        wide[0].copy_(params[0])
    run(AdamW(params, lr=1e-3, update="stochastic", seed=5), params, 1)
    wide[0].grad = params[0].grad.float()
    AdamW(wide, lr=1e-3).step()
    key = int(updates.keys([5], [0], [1])[0, 0])
    expected = round_to(wide[0].detach(), name, "stochastic", rng=key).to(dtype)
    assert_same_bits(params, [expected])


def constant_gradient(optimizer, p, steps):
    for _ in range(steps):
        p.grad = torch.ones_like(p)
        optimizer.step()


def test_stochastic_rounding_is_unbiased():
    steps, lr, copies = 50, 1e-4, 1 << 14  # a change of 1e-4 is 1/39 of the gap below 1, and 1/78 of the one above
    p = torch.nn.Parameter(torch.full((copies,), 1.5, dtype=torch.bfloat16))
    constant_gradient(AdamW([p], lr=lr, weight_decay=0.0, update="stochastic", moments="fp32"), p, steps)
    moved = (1.5 - p.detach().double())
    # Each step moves by a gap (2**-7) with probability lr / gap: the variance of a copy is below steps * lr * gap.
    assert abs(float(moved.mean()) - steps * lr) < 5 * (steps * lr * 2**-7 / copies) ** 0.5
    assert set(moved.unique().mul(128).tolist()) <= set(range(steps))


def test_what_becomes_of_changes_smaller_than_half_a_gap():
    moved, steps = {}, 400
    for update in ("nearest", "kahan", "master"):
        p = torch.nn.Parameter(torch.full((3,), 1.5, dtype=torch.bfloat16))
        constant_gradient(AdamW([p], lr=1e-4, weight_decay=0.0, update=update, moments="fp32"), p, steps)
        moved[update] = 1.5 - float(p.detach()[0])
    gap = 2.0**-7
    assert moved["nearest"] == 0
    assert moved["kahan"] == pytest.approx(steps * 1e-4, abs=gap / 2 + 1e-4)
    assert moved["master"] == pytest.approx(steps * 1e-4, abs=gap / 2 + 1e-4)


def test_weight_and_compensation_together_follow_fp32():
    p = torch.nn.Parameter(torch.full((3,), 1.5, dtype=torch.bfloat16))
    optimizer = AdamW([p], lr=1e-4, weight_decay=0.0, update="kahan", moments="fp32")
    constant_gradient(optimizer, p, 400)
    both = p.detach().double() + optimizer.state[p]["compensation"].double()
    # What is owed is below half a gap, 2**-8, and is itself rounded by at most 2**-9 of that a step.
    torch.testing.assert_close(both, torch.full_like(both, 1.5 - 0.04), rtol=0, atol=400 * 2.0**-17)


def test_a_bf16_second_moment_decays_only_stochastically():
    kept = {}
    for rounding in ("nearest_even", "stochastic"):
        p = torch.nn.Parameter(torch.ones(1000, dtype=torch.bfloat16))
        optimizer = AdamW([p], moment_rounding=rounding)
        constant_gradient(optimizer, p, 1)
        before = optimizer.state[p]["exp_avg_sq"].double().mean()
        for _ in range(300):
            p.grad = torch.zeros_like(p)
            optimizer.step()
        kept[rounding] = float(optimizer.state[p]["exp_avg_sq"].double().mean() / before)
    assert kept["nearest_even"] == 1.0
    assert kept["stochastic"] == pytest.approx(0.999**300, abs=0.02)


def test_moments_are_stored_as_asked():
    params = parameters()
    optimizer = AdamW(params, moments=("bf16", "fp32"))
    run(optimizer, params, 1)
    state = optimizer.state[params[0]]
    assert (state["exp_avg"].dtype, state["exp_avg_sq"].dtype) == (torch.bfloat16, torch.float32)


# -- saving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [AdamW, SGD])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_resumed_run_equals_the_uninterrupted_one(make, variant):
    through, halves = parameters(), parameters()
    whole = make(through, lr=1e-2, **VARIANTS[variant])
    run(whole, through, 6)
    before = make(halves, lr=1e-2, **VARIANTS[variant])
    run(before, halves, 3)
    file = io.BytesIO()
    torch.save({"optimizer": before.state_dict(), "weights": halves}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = [torch.nn.Parameter(p) for p in saved["weights"]]
    resumed = make(again, lr=5.0, seed=99)  # what was saved wins
    resumed.load_state_dict(saved["optimizer"])
    run(resumed, again, 3, first=3)
    assert_same_bits(everything(resumed, again), everything(whole, through))


def test_seeds_and_parameters_have_their_own_random_numbers():
    keys = updates.keys([0, 0, 0, 1], [0, 1, 0, 0], [1, 1, 2, 1])
    assert len(np.unique(keys)) == keys.size


# -- every way to run a step gives the same bits -----------------------------------------------------------------------

KINDS = [(AdamW, torch.bfloat16, VARIANTS["stochastic"]), (AdamW, torch.float16, VARIANTS["kahan"]),
         (SGD, torch.bfloat16, {"update": "master", "moments": "fp16", "weight_decay": 0.1, "nesterov": True})]


@pytest.mark.parametrize(("make", "dtype", "options"), KINDS, ids=["adamw-bf16", "adamw-fp16", "sgd-bf16"])
def test_compiled_and_on_tensors(make, dtype, options, monkeypatch):
    runs, special = [], torch.tensor([0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, -1e-7, 65504.0, 1e-5])
    for threshold in (0, 1 << 60):
        monkeypatch.setattr(fused_updates, "COMPILE_FROM", threshold)
        params = parameters(dtype, [(5000,), (3, 7), (0,), (2048,)])
        params.append(torch.nn.Parameter(special.to(dtype)))
        optimizer = make(params, lr=1e-2, **options)
        with torch.no_grad():
            run(optimizer, params, 2)
            params[0].grad[:9] = special.to(dtype)
            optimizer.step()
        runs.append(everything(optimizer, params))
    assert_same_bits(*runs)


def test_not_contiguous_ones():
    plain = parameters(shapes=[(6, 4)])
    other = [torch.nn.Parameter(plain[0].detach().t().contiguous().t())]
    assert not other[0].is_contiguous()
    run(AdamW(plain, **VARIANTS["stochastic"]), plain, 2)
    run(AdamW(other, **VARIANTS["stochastic"]), other, 2)
    assert_same_bits(other, plain)


@pytest.mark.filterwarnings("ignore")
def test_under_torch_compile():
    plain, compiled = parameters(), parameters()
    usual, optimizer = AdamW(plain, **VARIANTS["stochastic"]), AdamW(compiled, **VARIANTS["stochastic"])
    run(usual, plain, 3)
    torch._dynamo.utils.counters.clear()
    optimizer.step = torch.compile(optimizer.step, backend="eager")
    run(optimizer, compiled, 3)
    assert torch._dynamo.utils.counters["stats"]["calls_captured"] > 50
    torch._dynamo.reset()
    assert_same_bits(everything(optimizer, compiled), everything(usual, plain))


def test_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    here = parameters()
    there = [torch.nn.Parameter(p.detach().cuda()) for p in here]
    on_cpu, on_gpu = AdamW(here, **VARIANTS["stochastic"]), AdamW(there, **VARIANTS["stochastic"])
    for _ in range(3):
        for p, q in zip(here, there, strict=True):
            p.grad = torch.ones_like(p)
            q.grad = torch.ones_like(q)
        on_cpu.step()
        on_gpu.step()
    assert_same_bits([q.cpu() for q in there], here)


# -- torch.optim.Optimizer in form -------------------------------------------------------------------------------------


def test_groups_and_schedulers():
    p, q = parameters(torch.bfloat16, [(4,)])[0], parameters(torch.float32, [(4,)])[0]
    optimizer = AdamW([{"params": [p], "update": "kahan"}, {"params": [q], "lr": 0.0}], lr=0.1, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    before = q.detach().clone()
    for expected in (0.1, 0.05, 0.025):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(expected)
        run(optimizer, [p, q], 1)
        scheduler.step()
    assert torch.equal(q, before)
    assert "compensation" in optimizer.state[p]
    assert "compensation" not in optimizer.state[q]


def test_parameters_without_gradient_are_left_alone():
    p, q = parameters(shapes=[(3,), (4,)])
    optimizer = AdamW([p, q])
    before = q.detach().clone()
    run(optimizer, [p], 2)
    assert torch.equal(q, before)
    assert q not in optimizer.state
    run(optimizer, [p, q], 1)
    assert [int(optimizer.state[t]["step"]) for t in (p, q)] == [3, 1]


def test_a_closure_is_called_with_gradients_on():
    p = parameters(torch.float32, [(3,)])[0]
    optimizer = SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > (p**2).sum().item()


def test_autograd_sees_that_weights_have_changed(monkeypatch):
    monkeypatch.setattr("sixteenbits.optim._compilable", lambda tensors: True)
    monkeypatch.setattr(fused_updates, "step_all", lambda *arguments: None)
    p = parameters()[0]
    before = p._version
    run(AdamW([p]), [p], 1)
    assert p._version > before


@pytest.mark.parametrize(("dtype", "options", "why"), [
    (torch.bfloat16, {"update": "up"}, "'nearest', 'stochastic', 'kahan', 'master'"),
    (torch.bfloat16, {"moments": "fp8"}, "'fp32'"),
    (torch.bfloat16, {"moment_rounding": "kahan"}, "nearest_even"),
    (torch.float32, {"update": "kahan"}, "group of their own"),
    (torch.float64, {}, "float64"),
    (torch.bfloat16, {"lr": -1.0}, "lr is -1.0"),
    (torch.bfloat16, {"betas": (0.9, 1.0)}, "betas"),
])
def test_wrong_options(dtype, options, why):
    with pytest.raises(ValueError, match=why):
        AdamW(parameters(dtype), **options)


def test_sparse_gradients_are_refused():
    p = torch.nn.Parameter(torch.zeros(4, 2))
    p.grad = torch.sparse_coo_tensor([[1]], torch.ones(1, 2), (4, 2), check_invariants=False)
    with pytest.raises(ValueError, match="sparse=False"):
        AdamW([p]).step()
