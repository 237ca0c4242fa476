"""Recipes: their bytes, what contradicts itself, what frameworks call them; the optimizer and scaler they ask for."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sixteenbits import optim
from sixteenbits.formats import FORMATS
from sixteenbits.recipes import (
    FP32_OPERATIONS,
    FRAMEWORKS,
    RECIPES,
    ROLES,
    SOURCES,
    as_recipe,
    bytes_per_parameter,
    holds,
    names_of,
    remarks,
    transient_bytes,
)

BYTES = {"fp32": 16, "tf32": 16, "fp16-amp-noscale": 16, "fp16-amp": 16, "fp16-amp-static": 16, "bf16-amp": 16,
         "pure-fp16": 8, "pure-fp16-scaled": 8, "pure-bf16": 8, "pure-bf16-sr": 8, "pure-bf16-kahan": 10,
         "bf16-weights-fp32-states": 12, "bf16-master": 16, "fp16-master": 16, "fp8-e4m3": 16, "fp8-hybrid": 16}


def test_bytes_of_every_recipe():
    assert {name: sum(bytes_per_parameter(name).values()) for name in RECIPES} == BYTES


def test_bytes_by_role():
    assert bytes_per_parameter("fp32") == {"weights": 4, "master weights": 0, "gradients": 4, "first moment": 4,
                                           "second moment": 4, "compensation": 0}
    assert bytes_per_parameter("pure-bf16-kahan")["compensation"] == 2
    assert bytes_per_parameter("bf16-master")["master weights"] == 4


def test_copies_that_come_and_go():
    assert {name: transient_bytes(name)["copies"] for name in ("fp32", "tf32", "bf16-amp", "fp8-hybrid", "pure-bf16")} \
        == {"fp32": 0, "tf32": 0, "bf16-amp": 2, "fp8-hybrid": 1, "pure-bf16": 0}


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_optimizer_holds_the_bytes_that_are_predicted(name):
    recipe = RECIPES[name]
    p = torch.nn.Parameter(torch.ones(10, dtype=getattr(torch, recipe.weights.dtype)))
    p.grad = torch.ones(10, dtype=getattr(torch, recipe.accumulation.dtype))
    optimizer = optim.for_recipe(recipe, [p], lr=1e-3)
    optimizer.step()
    tensors = [p, p.grad, *(value for key, value in optimizer.state[p].items() if key != "step")]
    assert sum(t.numel() * t.element_size() for t in tensors) == 10 * BYTES[name]


def test_each_says_in_one_line_what_it_is():
    for recipe in RECIPES.values():
        assert 20 < len(recipe.line) < 120
        assert "\n" not in recipe.line
    assert len({recipe.title for recipe in RECIPES.values()}) == len(RECIPES)


def test_roles_are_explained():
    for role in ROLES:
        assert hasattr(RECIPES["fp32"], role)


def test_scalers():
    scaled = {name: recipe.scaler() for name, recipe in RECIPES.items() if recipe.loss_scaling}
    assert set(scaled) == {"fp16-amp", "fp16-amp-static", "pure-fp16-scaled", "fp16-master"}
    assert scaled["fp16-amp"].get_scale() == 2.0**16
    assert scaled["fp16-amp-static"].policy.growth_factor == 1
    assert RECIPES["fp16-amp"].scaler() is not RECIPES["fp16-amp"].scaler()


# -- own ones ----------------------------------------------------------------------------------------------------------


def test_own_combinations():
    mine = replace(RECIPES["pure-bf16-kahan"], name="mine", second_moment="fp32", loss_scaling=64.0)
    assert sum(bytes_per_parameter(mine).values()) == 12
    assert mine.loss_scaling.init_scale == 64.0


@pytest.mark.parametrize(("start", "changes", "why"), [
    ("fp32", {"weights": "tf32"}, "how tensor cores read"),
    ("fp32", {"second_moment": "fp8_e4m3fn"}, "do not store"),
    ("fp32", {"reductions": "fp8_e5m2"}, "too coarse"),
    ("fp32", {"master_weights": "fp32"}, "must hold more"),
    ("bf16-amp", {"master_weights": "bf16"}, "must hold more"),
    ("bf16-master", {"update_rounding": "kahan"}, "nothing is lost"),
    ("bf16-amp", {"update_rounding": "stochastic"}, "FP32 weights"),
    ("fp32", {"moment_rounding": "stochastic"}, "both moments are FP32"),
    ("pure-bf16", {"forward": "fp16"}, "cannot come back, or does not fit"),
    ("pure-bf16", {"forward": "fp32"}, "cannot come back"),
    ("bf16-amp", {"tensor_scales": "per_tensor"}, "no matrix product"),
])
def test_contradictions_say_why(start, changes, why):
    with pytest.raises(ValueError, match=why):
        replace(RECIPES[start], **changes)


@pytest.mark.parametrize(("field", "value"), [("update_rounding", "up"), ("moment_rounding", "kahan"),
                                              ("tensor_scales", "two"), ("fp32_operations", ("matmul",)),
                                              ("weights", "fp17"), ("loss_scaling", "megatron")])
def test_unknown_names(field, value):
    with pytest.raises(ValueError, match=value[0] if isinstance(value, tuple) else value):
        replace(RECIPES["fp32"], **{field: value})


def test_unknown_recipe():
    with pytest.raises(ValueError, match="that is a format, not a recipe"):
        as_recipe("bf16")


def test_remarks():
    assert remarks("fp32") == remarks("bf16-amp") == remarks("fp16-amp") == remarks("fp8-hybrid") == []
    assert "nothing to do" in remarks(replace(RECIPES["pure-bf16-sr"], loss_scaling="pytorch"))[0]
    assert "become zero" in remarks("fp16-amp-noscale")[0]
    assert "always lost" in remarks("pure-bf16")[0]
    assert "no scale for 8-bit" in remarks(replace(RECIPES["fp8-e4m3"], tensor_scales="none"))[-1]


def test_what_holds_what():
    assert holds(FORMATS["fp32"], FORMATS["bf16"])
    assert holds(FORMATS["bf16"], FORMATS["fp8_e4m3fn"])
    assert not holds(FORMATS["bf16"], FORMATS["fp16"])
    assert not holds(FORMATS["fp16"], FORMATS["bf16"])


# -- frameworks --------------------------------------------------------------------------------------------------------


def test_frameworks_name_recipes_that_exist():
    assert {recipe for settings in FRAMEWORKS.values() for recipe in settings.values()} <= set(RECIPES)
    assert set(SOURCES) == set(FRAMEWORKS)


def test_llama_factorys_four():
    assert FRAMEWORKS["LLaMA-Factory"] == {"fp32": "fp32", "fp16": "fp16-amp", "bf16": "bf16-amp",
                                           "pure_bf16": "pure-bf16"}
    assert names_of("pure-bf16")["LLaMA-Factory"] == ["pure_bf16"]


def test_fp32_operations_are_on_autocasts_list():
    header = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    if not header.exists():
        pytest.skip("this PyTorch comes without its C++ headers")
    text = header.read_text()
    lists = text[text.index("#define AT_FORALL_FP32(_)"):].split("\n\n")[:3]
    listed = set(re.findall(r"_\(([a-z0-9_]+)", "\n".join(lists)))
    assert set(FP32_OPERATIONS) - listed == set()
