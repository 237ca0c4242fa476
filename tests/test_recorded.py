"""The small network whose tensors the book looks at."""

import math

import pytest
import torch

from sixteenbits.data import batch, python_topics
from sixteenbits.model import Transformer
from sixteenbits.recorded import ROLES, record


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def short():
    return record(steps=12, at_most=5000)


def test_every_role_is_there_and_finite(short):
    assert list(short.tensors) == list(ROLES)
    for tensor in short.tensors.values():
        assert tensor.dtype == torch.float32
        assert tensor.shape == (5000,)
        assert torch.isfinite(tensor).all()


def test_it_learns(short):
    assert short.losses[0] > 3.9
    assert short.losses[-1] < short.losses[0] - 0.5


def test_a_run_repeats_itself_bit_for_bit(short):
    again = record(steps=12, at_most=5000)
    assert again.losses == short.losses
    assert all(torch.equal(again.tensors[role], short.tensors[role]) for role in ROLES)


def test_the_roles_hold_what_they_say():
    recording = record(steps=1, at_most=10**9)
    model, tensors = recording.model, recording.tensors
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    assert torch.equal(tensors["weight gradients"], gradient)
    assert torch.allclose(tensors["first moments"], 0.1 * gradient, rtol=1e-6)  # the first step: m = (1 - beta1) g
    assert torch.allclose(tensors["second moments"], 0.05 * gradient**2, rtol=1e-5, atol=1e-37)
    assert torch.equal(tensors["updates"], after - tensors["weights"])
    attention = tensors["attention weights"].view(-1, 64)
    assert torch.allclose(attention.sum(1), torch.ones(len(attention)), atol=1e-5)
    assert (attention == 0).float().mean() == pytest.approx(63 / 128)  # the future is masked
    logits = tensors["logit gradients"].view(16 * 64, -1)
    assert torch.allclose(logits.sum(1), torch.zeros(len(logits)), atol=1e-7)  # softmax minus one-hot


def test_samples_of_parameters_are_taken_at_the_same_places():
    whole, part = record(steps=1, at_most=10**9), record(steps=1, at_most=500)
    pairs = set(zip(whole.tensors["weights"].tolist(), whole.tensors["updates"].tolist(), strict=True))
    sampled = zip(part.tensors["weights"].tolist(), part.tensors["updates"].tolist(), strict=True)
    assert set(sampled) <= pairs


def test_no_hook_stays_behind(short):
    assert not any(layer._forward_hooks for layer in short.model.modules())


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"at_most": 0}])
def test_nothing_to_record_is_refused(wrong):
    with pytest.raises(ValueError, match="1 or more"):
        record(**wrong)


def test_the_model_does_not_see_the_future():
    model = Transformer(11, width=16, layers=2, heads=2, context=8, generator=torch.Generator().manual_seed(0))
    ids = torch.randint(11, (1, 8), generator=torch.Generator().manual_seed(1))
    other = ids.clone()
    other[0, 5:] = (other[0, 5:] + 1) % 11
    assert torch.allclose(model(ids)[0, :5], model(other)[0, :5], atol=1e-6)
    assert not torch.allclose(model(ids)[0, 5:], model(other)[0, 5:], atol=1e-3)


def test_an_untrained_model_guesses():
    model = Transformer(107, init_std=0.02, generator=torch.Generator().manual_seed(0))
    ids, symbols = python_topics()
    x, y = batch(ids, 4, 64, torch.Generator().manual_seed(0))
    loss = torch.nn.functional.cross_entropy(model(x % 107).flatten(0, 1), (y % 107).flatten())
    assert loss.item() == pytest.approx(math.log(107), abs=0.1)
    assert 90 < symbols < 256


def test_batches_are_consecutive_text():
    ids = torch.arange(1000)
    x, y = batch(ids, 5, 7, torch.Generator().manual_seed(0))
    assert x.shape == y.shape == (5, 7)
    assert torch.equal(y, x + 1)
    assert torch.equal(x[:, 1:], y[:, :-1])
