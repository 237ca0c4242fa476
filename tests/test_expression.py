"""Expressions that a reader types: what is worked out, what is refused, and that nothing else runs."""

import numpy as np
import pytest
import torch

from sixteenbits.expression import ExpressionError, evaluate

LAYER = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
NAMES = {"x": np.arange(6.0), "t": torch.arange(6.0), "layer": LAYER, "secret": open, "n": 3}


@pytest.mark.parametrize("text", [
    "np.logspace(-12, 6, 1000)", "np.random.default_rng(0).lognormal(-8, 4, 100)", "torch.linspace(0, 1, 5) ** 2",
    "np.array([1e-3, 2, 3])", "1e-3 * x[1:] - x[0]", "x[::-1]", "t.half()", "(t / 3).to(torch.bfloat16).float()", "-x",
    "torch.softmax(t, dim=0)", "np.where(x > 2, x, 0.0)", "x.astype(np.float16)", "x[:, np.newaxis] * x", "2**-149",
    "np.log(x)", "x.reshape(2, 3) @ np.ones((3, 2))", "abs(-x)", "np.float32(0.1)", "np.arange(5)",
    "np.arange(2, 8, 2)", "x / 0", "np.full(10_000, 65504)", "np.linspace(0, 65504, 10_000)",
    "np.arange(stop=3, start=1)",
    "np.random.default_rng(0).normal(100, 10, 100_000)", "np.full(3, 10**9)", "np.zeros(0)", "x[np.array([1, 1])]",
    "x.reshape(2, 3) @ np.ones(3)", "np.stack([x, x])", "np.zeros(3, dtype='float16')", "x.astype('f4')",
])
def test_it_gives_what_python_gives(text):
    with np.errstate(all="ignore"):
        expected = eval(text, {"np": np, "torch": torch, **NAMES})
    assert np.array_equal(np.asarray(evaluate(text, NAMES)), np.asarray(expected), equal_nan=True)


def test_a_random_call_may_have_large_numbers_that_are_no_shape():
    assert evaluate("torch.randint(0, 10**9, (1000,))").shape == (1000,)


@pytest.mark.parametrize("text", ["np.exp(x, x)", "np.maximum(x, 9, x)", "np.clip(x, 0, 1, x)"])
def test_the_readers_arrays_are_not_written_to(text):
    x = np.arange(6.0)
    with pytest.raises(ExpressionError):
        evaluate(text, {"x": x})
    assert np.array_equal(x, np.arange(6.0))
    assert x.flags.writeable


def test_draws_differ_only_by_their_seed():
    text = "np.random.default_rng(7).normal(size=5)"
    assert np.array_equal(evaluate(text), evaluate(text))


def test_a_module_gives_its_weights():
    assert evaluate("layer[0].weight", NAMES) is LAYER[0].weight


@pytest.mark.parametrize(("text", "says"), [
    ("", "no expression"), ("  ", "no expression"), ("x =", "not one Python expression"),
    ("x = 1", "not one Python expression"), ("x\ny", "not one Python expression"), ("y", "nothing usable is named 'y'"),
    ("secret", "nothing usable"), ("secret('a')", "nothing usable"), ("open('a')", "nothing usable"),
    ("__import__('os')", "nothing usable"), ("np.load('a')", "numpy.load is not possible"),
    ("torch.load('a')", "torch.load is not possible"), ("x.tofile('a')", ".tofile is not possible"),
    ("np.os", "numpy.os is not possible"), ("x.__class__", "__class__ is not possible"),
    ("layer._parameters", "no tensor or layer '_parameters'; it has 0, 1"), ("layer.forward", "no tensor or layer"),
    ("layer(t)", "not a function"), ("layer", "that is a layer"), ("layer[0]", "it has weight, bias"),
    ("lambda: 1", "Lambda"), ("[i for i in x]", "ListComp"), ("{1: 2}", "Dict"), ("x if n else t", "IfExp"),
    ("0 < x < 1", "Compare"), ("x & 1", "BinOp"), ("f'{x}'", "JoinedStr"), ("np.add(x, x)", "numpy.add"),
    ("np.zeros(3, out=x)", "out="), ("np.zeros(**x)", "out="), ("np", "that gives module"),
    ("layer[0].weight.grad", "gives nothing"), ("np.exp", "that gives ufunc"), ("x + t.reshape(2, 3)", "refused it"),
    ("np.zeros(-1)", "refused it: ValueError"), ("[1, 2] * 3", "list or text"), ("'a' * 9", "list or text"),
    ("(" * 300 + "1" + ")" * 300, "not one Python expression|nested"), ("-" * 3000 + "1", "nested"),
    ("-" * 100_000 + "1", "nested"),
])
def test_what_is_refused_says_why(text, says):
    with pytest.raises(ExpressionError, match=says):
        evaluate(text, NAMES)


@pytest.mark.parametrize("text", [
    "np.zeros(10**12)", "np.ones((10**6, 10**6))", "torch.full((10**5, 10**5), 1.0)", "np.arange(0, 1, 1e-12)",
    "np.arange(1e15)", "torch.randn(99999, 99999)", "np.random.default_rng(0).normal(size=(10**5, 10**5))",
    "np.linspace(0, 1, 10**10)", "np.ones(10**5)[:, np.newaxis] * np.ones(10**5)",
    "np.maximum(np.ones(10**5)[:, np.newaxis], np.ones(10**5))", "np.ones((10**5, 1)) @ np.ones((1, 10**5))",
    "np.zeros(np.int64(10**10))", "np.zeros(np.array([10**10]))", "np.arange(step=1e-9, stop=10)",
    "np.arange(0, stop=10, step=1e-9)", "np.linspace(np.zeros(10**5), 1, 10**5)", "torch.zeros(size=(10**5, 10**5))",
    "np.zeros((1, 10**5))[np.zeros(10**4, np.int64)]", "np.ones((10**4, 1)) @ np.ones((10**4, 1, 1))",
    "np.stack([np.zeros(2**25), np.zeros(2**25), np.zeros(2**25)])", "torch.randint(0, 2, (10**5, 10**5))",
])
def test_what_is_too_large_is_refused_before_it_is_made(text):
    with pytest.raises(ExpressionError, match="at most 67,108,864"):
        evaluate(text, NAMES)


@pytest.mark.parametrize(("text", "says"), [
    ("np.array([10**30]) ** 10**7", "beyond 64 bits"), ("np.power(10**30, 10**7)", "beyond 64 bits"),
    ("np.array([9]).astype('O') ** 10**8", "'O' is text"), ("np.full(3, 9, 'O') ** 10**8", "'O' is text"),
    ("np.zeros(9, [('a', 'U100000000')])", "is text"), ("np.array([1, None])", "array of object"),
    ("objects ** 10**8", "array of object"),
])
def test_nothing_is_computed_on_python_objects(text, says):
    with pytest.raises(ExpressionError, match=says):
        evaluate(text, {"objects": np.array([9], dtype=object)})


@pytest.mark.parametrize("text", ["10**10**10", "7**99999", "2**-99999"])
def test_endless_whole_numbers_are_refused(text):
    with pytest.raises(ExpressionError, match="more than a thousand digits"):
        evaluate(text)
