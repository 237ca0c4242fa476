"""Loss scaling against torch.amp.GradScaler and the frameworks' own counting; the order of a step; saving; replay."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sixteenbits.formats import FP16
from sixteenbits.optim import AdamW
from sixteenbits.replay import StepGradients, gradients_of, replay
from sixteenbits.scaling import (
    POLICIES,
    DynamicScaler,
    LossScaler,
    Policy,
    StaticScaler,
    all_finite,
    as_policy,
    first_state,
    next_state,
    static,
)


def weight(*values, dtype=torch.float32):
    return torch.nn.Parameter(torch.tensor(values or (1.0, -2.0, 3.0), dtype=dtype))


# -- the same as torch.amp.GradScaler ----------------------------------------------------------------------------------

GRADIENTS = st.sampled_from([0.0, 1e-3, -0.37, 2.5, 1e30, float("inf"), float("-inf"), float("nan")])
NUMBERS = {"init_scale": st.sampled_from([1.0, 3.7, 2.0**16, 2.0**126, 2.0**-140]),
           "growth_factor": st.sampled_from([2.0, 1.5, 4.0]), "backoff_factor": st.sampled_from([0.5, 0.3, 2.0**-100]),
           "growth_interval": st.integers(1, 4)}


def one_step(scaler, optimizer, parameter, gradients, clip):
    """The gradients arrive as if the backward pass had made them: multiplied by the scale, in FP32."""
    optimizer.zero_grad()
    scaler.scale((parameter * 0).sum()).backward()
    parameter.grad = torch.tensor(gradients) * torch.tensor(scaler.get_scale())
    if clip:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    scaler.step(optimizer)
    scaler.update()


@given(st.fixed_dictionaries(NUMBERS), st.lists(st.tuples(GRADIENTS, GRADIENTS, GRADIENTS), min_size=1, max_size=12),
       st.booleans())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_step_for_step_equal_to_torchs_grad_scaler(numbers, gradients, clip):
    ours, theirs = DynamicScaler("pytorch", **numbers), torch.amp.GradScaler("cpu", **numbers)
    theirs._lazy_init_scale_growth_tracker(torch.device("cpu"))
    mine, other = weight(), weight()
    with_ours, with_theirs = torch.optim.SGD([mine], lr=0.1), torch.optim.SGD([other], lr=0.1)
    for step in gradients:
        one_step(ours, with_ours, mine, step, clip)
        one_step(theirs, with_theirs, other, step, clip)
        assert (ours.get_scale(), ours.state.good_steps) == (theirs.get_scale(), theirs._get_growth_tracker())
        assert torch.equal(mine.view(torch.int32), other.view(torch.int32))
        assert torch.equal(mine.grad.view(torch.int32), other.grad.view(torch.int32))


def test_defaults_are_those_of_torch():
    theirs = torch.amp.GradScaler("cpu")
    ours = POLICIES["pytorch"]
    assert (ours.init_scale, ours.growth_factor, ours.backoff_factor, ours.growth_interval) == (
        theirs._init_scale, theirs.get_growth_factor(), theirs.get_backoff_factor(), theirs.get_growth_interval())


# -- the presets, against the way each framework counts ----------------------------------------------------------------


class CountsIterations:
    """DeepSpeed and fairseq: growth when a whole number of intervals lies behind the last overflow."""

    def __init__(self, policy):
        self.policy, self.scale, self.now, self.last, self.left = policy, policy.init_scale, 0, -1, policy.hysteresis

    def step(self, overflow):
        if overflow:
            if self.left == 1:
                if self.scale <= self.policy.minimum:
                    raise FloatingPointError
                self.scale = max(self.scale / 2, self.policy.minimum)
            else:
                self.left -= 1
            self.last = self.now
        else:
            good = self.now - self.last - self.policy.uncounted
            if good > 0 and good % self.policy.growth_interval == 0:
                self.scale, self.left = self.scale * 2, self.policy.hysteresis
        self.now += 1


class CountsUnskipped:
    """Apex: steps since the last overflow, up to a largest scale."""

    def __init__(self, policy):
        self.policy, self.scale, self.unskipped = policy, policy.init_scale, 0

    def step(self, overflow):
        self.scale, self.unskipped = (self.scale / 2, 0) if overflow else (self.scale, self.unskipped + 1)
        if self.unskipped == self.policy.growth_interval:
            self.scale, self.unskipped = min(2.0**24, self.scale * 2), 0


@pytest.mark.parametrize(("name", "counts", "init"), [
    ("deepspeed", CountsIterations, 8.0), ("apex", CountsUnskipped, 2.0**23), ("fairseq", CountsIterations, 2.0**-10)])
@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_presets_count_as_their_frameworks(name, counts, init, overflows, interval):
    policy = replace(POLICIES[name], init_scale=init, growth_interval=interval)
    state, reference = first_state(policy), counts(policy)
    for overflow in overflows:
        try:
            reference.step(overflow)
        except FloatingPointError:
            with pytest.raises(FloatingPointError, match="minimum"):
                next_state(policy, state, overflow)
            return
        state = next_state(policy, state, overflow)
        assert state.scale == reference.scale


def test_deepspeed_tolerates_one_overflow_and_needs_one_step_more():
    policy = POLICIES["deepspeed"]
    state = next_state(policy, first_state(policy), True)
    assert state.scale == 2.0**16
    state = next_state(policy, state, True)
    assert state.scale == 2.0**15
    for _ in range(1000):
        state = next_state(policy, state, False)
    assert state.scale == 2.0**15
    assert next_state(policy, state, False).scale == 2.0**16


def test_hysteresis_can_be_refilled_by_every_good_step():
    policy = Policy("consecutive", hysteresis=2, refill="good step")
    state = first_state(policy)
    for overflow in [True, False] * 5:
        state = next_state(policy, state, overflow)
    assert state.scale == 2.0**16


def test_a_static_scale_stays():
    state = first_state(static(128.0))
    for overflow in [True, False, False]:
        state = next_state(static(128.0), state, overflow)
    assert state.scale == 128.0


def test_the_minimum_holds_and_without_one_the_scale_falls_to_zero():
    floor, none = Policy("floor", minimum=4.0), Policy("none")
    at_floor, fallen = first_state(floor), first_state(none)
    for _ in range(200):
        at_floor, fallen = next_state(floor, at_floor, True), next_state(none, fallen, True)
    assert (at_floor.scale, fallen.scale) == (4.0, 0.0)


@pytest.mark.parametrize(("field", "value"), [
    ("init_scale", 0.0), ("init_scale", float("inf")), ("growth_factor", 0.5), ("growth_interval", 0),
    ("backoff_factor", 0.0), ("backoff_factor", 2.0), ("hysteresis", 0), ("refill", "never"), ("minimum", -1.0),
    ("at_minimum", "panic"), ("maximum", 1.0), ("uncounted", -1)])
def test_impossible_policies_are_refused(field, value):
    with pytest.raises(ValueError, match=field):
        Policy("wrong", **{field: value})


def test_unknown_policy():
    with pytest.raises(ValueError, match="deepspeed"):
        as_policy("megatron")


# -- the order of a step -----------------------------------------------------------------------------------------------


def trained(order, scale=1024.0):
    """The weight after one SGD step (rate 1) on a gradient of 3, 4 in two micro-batches, clipped to norm 1."""
    p = weight(0.0, 0.0)
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), StaticScaler(scale)
    order(p, optimizer, scaler)
    scaler.update()
    return p.detach()


def micro_batches(p):
    yield 3 * p[0]
    yield 4 * p[1]


def right(p, optimizer, scaler):
    for loss in micro_batches(p):
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)


def clipped_before_unscaling(p, optimizer, scaler):
    for loss in micro_batches(p):
        scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_([p], 1.0)
    scaler.step(optimizer)


def test_unscale_clip_step_is_right_under_every_scale():
    for scale in (1.0, 8.0, 1024.0):
        torch.testing.assert_close(trained(right, scale), torch.tensor([-0.6, -0.8]), rtol=0, atol=1e-5)


def test_clipping_before_unscaling_shrinks_the_step_by_the_scale():
    torch.testing.assert_close(trained(clipped_before_unscaling), torch.tensor([-0.6, -0.8]) / 1024, rtol=0, atol=1e-8)


def test_unscaling_between_micro_batches_is_refused_and_would_be_wrong():
    p = weight(0.0, 0.0)
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), StaticScaler(1024.0)
    first, second = micro_batches(p)
    scaler.scale(first).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Accumulate first"):
        scaler.scale(second)
    (second * 1024.0).backward()  # what torch's scaler would let pass
    assert p.grad.tolist() == [3.0, 4096.0]


def test_updating_between_micro_batches_is_refused_and_would_mix_scales():
    p = weight(0.0, 0.0)
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), DynamicScaler(init_scale=4.0, growth_interval=1)
    first, second = micro_batches(p)
    scaler.scale(first).backward()
    with pytest.raises(RuntimeError, match="before step"):
        scaler.update()
    scaler.state = next_state(scaler.policy, scaler.state, False)  # what it would have done
    scaler.scale(second).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.5, 4.0]  # the first micro-batch counts half


def test_steps_out_of_order_are_refused():
    p = weight()
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), StaticScaler(2.0)
    with pytest.raises(RuntimeError, match="no parameter"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="before step"):
        scaler.update()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="twice"):
        scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="before step"):
        scaler.update()
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already called"):
        scaler.step(optimizer)
    assert scaler.update() is False


def test_an_overflow_in_any_micro_batch_skips_the_step():
    p = weight(1.0, 1.0)
    optimizer, scaler = torch.optim.SGD([p], lr=1.0), DynamicScaler(init_scale=2.0**10)
    scaler.scale(p[0] * float("inf")).backward()
    scaler.scale(p[1]).backward()
    scaler.step(optimizer)
    assert scaler.update() is True
    assert (p.tolist(), scaler.get_scale()) == ([1.0, 1.0], 2.0**9)


def test_two_optimizers_share_a_scaler_and_each_is_skipped_alone():
    p, q = weight(1.0), weight(1.0)
    first, second, scaler = torch.optim.SGD([p], lr=1.0), torch.optim.SGD([q], lr=1.0), DynamicScaler(init_scale=4.0)
    scaler.scale(p.sum() * float("inf") + q.sum()).backward()
    scaler.step(first)
    scaler.step(second)
    assert (p.item(), q.item(), scaler.update(), scaler.get_scale()) == (1.0, 0.0, True, 2.0)


# -- FP16 gradients ----------------------------------------------------------------------------------------------------


def test_fp16_losses_and_gradients():
    loss = torch.tensor(3.0, dtype=torch.float16)
    assert StaticScaler(2.0**16).scale(loss) == 3 * 2.0**16  # infinite in FP16
    p = weight(1.0, dtype=torch.float16)
    scaler, optimizer = StaticScaler(2.0**10), torch.optim.SGD([p], lr=1.0)
    p.grad = torch.full_like(p, 2.0**-20)
    with pytest.raises(ValueError, match="underflow again"):
        scaler.unscale_(optimizer)


def test_an_optimizer_that_divides_in_fp32_keeps_what_fp16_would_lose():
    p = weight(0.0, dtype=torch.float16)
    scaler, optimizer = StaticScaler(2.0**16), AdamW([p], lr=0.5, eps=0.0, weight_decay=0.0, moments="fp32")
    p.grad = torch.full_like(p, 2.0**-12)  # 2**-28 of the true gradient: zero in FP16
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.state[p]["exp_avg"].item() == pytest.approx(0.1 * 2.0**-28)
    assert p.item() == -0.5
    assert not hasattr(optimizer, "grad_scale")


def test_torchs_scaler_and_fused_optimizers_take_part():
    p, q = weight(), weight()
    ours, fused = AdamW([p], lr=0.1), torch.optim.AdamW([q], lr=0.1, fused=True)
    theirs, mine = torch.amp.GradScaler("cpu", init_scale=256.0), DynamicScaler(init_scale=256.0)
    for step in range(3):
        for parameter, optimizer, scaler in [(p, ours, theirs), (q, fused, mine)]:
            optimizer.zero_grad()
            scaler.scale((parameter**2).sum() * (float("inf") if step == 1 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert (theirs.get_scale(), mine.get_scale()) == (128.0, 128.0)
    assert ours.state[p]["step"] == 2
    torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)


def test_all_finite():
    assert all_finite([torch.ones(3), torch.zeros(2, 2)])
    assert not all_finite([torch.ones(3), torch.tensor([float("nan")])])


# -- saving ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_restored_scaler_goes_on_as_if_nothing_had_happened(name):
    policy = replace(POLICIES[name], growth_interval=3)
    overflows = np.random.default_rng(0).random(40) < 0.15
    states = [first_state(policy)]
    for overflow in overflows:
        states.append(next_state(policy, states[-1], bool(overflow)))
    saved = LossScaler(policy)
    saved.state = states[17]
    resumed = LossScaler("pytorch")
    resumed.load_state_dict(saved.state_dict())
    assert resumed.policy == policy
    state = resumed.state
    for overflow, expected in zip(overflows[17:], states[18:], strict=True):
        state = next_state(resumed.policy, state, bool(overflow))
        assert state == expected


# -- replay ------------------------------------------------------------------------------------------------------------


def test_recorded_gradients():
    step = gradients_of([torch.tensor([0.0, 6.0, -3.0]), torch.tensor([[1.0]])], scale=4.0)
    assert step == StepGradients(1.5, {-2: 1, -1: 1, 0: 1}, 1)
    assert np.isnan(gradients_of([torch.tensor([float("nan"), 1.0])]).largest)


def test_replay_tells_what_happened():
    trace = [StepGradients(1.0, {0: 1}, 0)] * 6
    rows = replay(trace, Policy("short", init_scale=2.0**17, growth_interval=2))
    assert [(row["scale"], row["event"]) for row in rows] == [
        (2.0**17, "backed off"), (2.0**16, "backed off"), (2.0**15, ""), (2.0**15, "grown"), (2.0**16, "backed off"),
        (2.0**15, "")]


def test_replay_knows_where_fp16_ends():
    trace = [StepGradients(65519.0, {15: 1}, 0), StepGradients(65520.0, {15: 1}, 0), StepGradients(np.nan, {}, 0)]
    assert [row["overflow"] for row in replay(trace, 1.0)] == [False, True, True]
    assert [row["overflow"] for row in replay(trace, 1.0, "bf16")] == [False, False, True]


def test_replay_stops_where_the_policy_does():
    rows = replay([StepGradients(np.inf, {}, 0)] * 100, "deepspeed")
    assert rows[0]["event"] == "skipped"
    assert (rows[-1]["event"], rows[-1]["scale"], len(rows)) == ("stopped", 1.0, 18)


def test_replay_counts_what_fp16_loses():
    gradients = torch.cat([torch.full((6,), 1.5 * 2.0**-26), torch.full((3,), 2.0**-20), torch.ones(1), torch.zeros(5)])
    trace = [gradients_of([gradients])]
    lost = {scale: (row["zero"], row["subnormal"]) for scale in (1.0, 2.0, 2.0**12)
            for row in replay(trace, scale, FP16)}
    assert lost == {1.0: (0.6, 0.3), 2.0: (0.0, 0.9), 2.0**12: (0.0, 0.0)}


def test_replay_is_what_the_scaler_does_live():
    generator = torch.Generator().manual_seed(0)
    steps = [torch.randn(50, generator=generator) * 2.0 ** float(torch.randint(-4, 6, (), generator=generator))
             for _ in range(60)]
    rows = replay([gradients_of([g]) for g in steps], Policy("short", growth_interval=4))
    p, scaler = weight(*[0.0] * 50), DynamicScaler(growth_interval=4)
    optimizer = torch.optim.SGD([p], lr=0.0)
    for row, gradient in zip(rows, steps, strict=True):
        p.grad = (gradient * scaler.get_scale()).half().float()
        assert row["scale"] == scaler.get_scale()
        scaler.step(optimizer)
        assert scaler.update() == row["overflow"]
