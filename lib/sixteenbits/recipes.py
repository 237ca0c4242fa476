"""A training recipe as data: which format each role holds, how weights are rounded, how the loss is scaled.

    >>> RECIPES["bf16-amp"].forward.name
    'bf16'
    >>> bytes_per_parameter("pure-bf16-kahan")["compensation"]
    2

The named recipes, and what frameworks call them, stand in `recipes.toml`. An own combination starts from one of them:
`replace(RECIPES["pure-bf16"], name="mine", second_moment="fp32")`, with `dataclasses.replace`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

from sixteenbits.formats import FORMATS, FP32, Format, as_format
from sixteenbits.scaling import LossScaler, Policy, as_policy

#: Role -> what holds it, in the order of a training step.
ROLES = {
    "weights": "the parameters as the model stores them",
    "master_weights": "a copy of the weights that the optimizer keeps and changes; None: there is none",
    "forward": "what matrix products of the forward pass read",
    "activations": "what layers hand on to each other",
    "reductions": "softmax, norms and the loss",
    "gradients": "what matrix products of the backward pass read: the gradients that flow back",
    "accumulation": "the gradients of the weights, as they are stored and added up over micro-batches",
    "first_moment": "Adam's running mean of the gradients; SGD's momentum",
    "second_moment": "Adam's running mean of their squares",
}
STORED = ("weights", "master_weights", "accumulation", "first_moment", "second_moment")
STORABLE = ("fp32", "bf16", "fp16")
UPDATE_ROUNDINGS = ("nearest", "stochastic", "kahan")
MOMENT_ROUNDINGS = ("nearest_even", "stochastic")
TENSOR_SCALES = ("none", "per_tensor")

#: Operations that autocast runs in FP32 on CUDA whatever the inputs (ATen/autocast_mode.h, PyTorch 2.13), as far as
#: Transformers have them. The CPU's list is another one: softmax, layer_norm, exp and sum stay in low precision there.
FP32_OPERATIONS = (
    "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "exp", "log", "pow", "rsqrt", "reciprocal",
    "softplus", "logsumexp", "sum", "prod", "cumsum", "l1_loss",
    "nll_loss", "mse_loss", "kl_div", "binary_cross_entropy_with_logits",
)


@dataclass(frozen=True)
class Recipe:
    """Which format each role holds in a training run.

    Args:
        name, title: what the code and what charts call it.
        line: one line of what it is and where it is used.
        weights, master_weights, forward, activations, reductions, gradients, accumulation, first_moment,
            second_moment: see `ROLES`; a Format or the name of one.
        update_rounding: how the changed weight is rounded: `"nearest"`, `"stochastic"` or `"kahan"`, see
            `optim`. With master weights the change itself is not rounded.
        moment_rounding: `"nearest_even"` or `"stochastic"`.
        loss_scaling: a `scaling.Policy`, the name of one, or a number for a static scale; None: no scaling.
        fp32_operations: operations that stay in FP32 beside the roles, names of `FP32_OPERATIONS`.
        tensor_scales: `"per_tensor"`: each 8-bit tensor has a scale that brings its largest number to the format's.

    Raises:
        ValueError: an unknown name, or roles that contradict each other; the message says why.
    """

    name: str
    title: str
    line: str
    weights: Format
    forward: Format
    activations: Format
    gradients: Format
    accumulation: Format
    first_moment: Format
    second_moment: Format
    reductions: Format
    master_weights: Format | None = None
    update_rounding: str = "nearest"
    moment_rounding: str = "nearest_even"
    loss_scaling: Policy | None = None
    fp32_operations: tuple[str, ...] = ()
    tensor_scales: str = "none"

    def __post_init__(self):
        for role in ROLES:
            if (given := getattr(self, role)) is not None or role != "master_weights":
                object.__setattr__(self, role, as_format(given))
        if self.loss_scaling is not None:
            object.__setattr__(self, "loss_scaling", as_policy(self.loss_scaling))
        object.__setattr__(self, "fp32_operations", tuple(self.fp32_operations))
        for field, choices in [("update_rounding", UPDATE_ROUNDINGS), ("moment_rounding", MOMENT_ROUNDINGS),
                               ("tensor_scales", TENSOR_SCALES)]:
            if getattr(self, field) not in choices:
                raise ValueError(f"{field} is {getattr(self, field)!r}; choose one of {', '.join(choices)}")
        if unknown := set(self.fp32_operations) - set(FP32_OPERATIONS):
            raise ValueError(f"fp32_operations names {', '.join(sorted(unknown))}; known are "
                             f"{', '.join(FP32_OPERATIONS)}")
        for problem in _contradictions(self):
            raise ValueError(f"recipe {self.name!r} contradicts itself: {problem}")

    @property
    def is_mixed(self) -> bool:
        """Whether matrix products read less than the weights hold: then autocast makes copies."""
        return self.forward != self.weights

    def scaler(self) -> LossScaler | None:
        """A new loss scaler in its first state, or None."""
        return None if self.loss_scaling is None else LossScaler(self.loss_scaling)


def _contradictions(r: Recipe) -> Iterator[str]:
    """Why the roles of a recipe cannot go together."""
    for role in STORED:
        held = getattr(r, role)
        if held is not None and held.name not in STORABLE:
            reason = "is how tensor cores read FP32, not how memory holds it" if held.name == "tf32" else \
                "the optimizers here do not store"
            yield f"{role} is {held}, which {reason}; choose one of {', '.join(STORABLE)}"
    if r.reductions.name not in STORABLE:
        yield f"reductions is {r.reductions}, too coarse to add up in; choose one of {', '.join(STORABLE)}"
    if r.master_weights is not None:
        if r.master_weights == r.weights or not holds(r.master_weights, r.weights):
            yield (f"master_weights is {r.master_weights} and weights {r.weights}: a master copy must hold more than "
                   "the weights made from it")
        if r.update_rounding != "nearest":
            yield (f"update_rounding is {r.update_rounding!r}, but the change goes to master weights in "
                   f"{r.master_weights}, where nothing is lost that it could save")
    elif r.weights == FP32 and r.update_rounding != "nearest":
        yield f"update_rounding is {r.update_rounding!r}, but FP32 weights take every change as it is"
    if r.moment_rounding == "stochastic" and r.first_moment == r.second_moment == FP32:
        yield "moment_rounding is 'stochastic', but both moments are FP32, in which they are computed"
    if not holds(r.weights, r.forward):
        yield (f"forward is {r.forward}, but weights hold only {r.weights}: what they lack cannot come back, or does "
               "not fit")
    if r.tensor_scales != "none" and min(r.forward.bits, r.gradients.bits) > 8:
        yield f"tensor_scales is {r.tensor_scales!r}, but no matrix product reads an 8-bit format"


def remarks(recipe: Recipe | str) -> list[str]:
    """What is allowed and still worth knowing before a run."""
    r = as_recipe(recipe)
    narrow, u = r.gradients.emin > FP32.emin and r.tensor_scales == "none", r.weights.unit_roundoff
    said = [
        (r.loss_scaling is not None and not narrow,
         f"the loss scaler has nothing to do: {r.gradients} reaches as low as FP32, or has a scale of its own"),
        (r.loss_scaling is None and narrow,
         f"no loss scaling: gradients of less than {r.gradients.smallest_subnormal / 2:.1e} become zero"),
        (r.weights.bits == 16 and r.master_weights is None and r.update_rounding == "nearest",
         f"a change of less than {u / 2:.1e} of a weight is always lost, one of less than {u:.1e} often: nearest "
         "rounding leaves the weight where it is"),
        (min(r.forward.bits, r.gradients.bits) == 8 and r.tensor_scales == "none",
         f"no scale for 8-bit tensors: what lies outside {r.forward}'s few binades is lost"),
    ]
    return [text for applies, text in said if applies]


def holds(wide: Format, narrow: Format) -> bool:
    """Whether every finite value of one format is a value of the other."""
    return (wide.mantissa_bits >= narrow.mantissa_bits and wide.emax >= narrow.emax
            and wide.emin - wide.mantissa_bits <= narrow.emin - narrow.mantissa_bits)


# -- memory ------------------------------------------------------------------------------------------------------------


def bytes_per_parameter(recipe: Recipe | str) -> dict[str, int]:
    """Role -> bytes that stay allocated for each parameter, trained with Adam; their sum is the usual number.

    Gradients are counted, as if they were kept from step to step; `zero_grad(set_to_none=True)` frees them in between.
    Not counted: activations, which grow with the batch and not with the parameters, and what `transient_bytes` gives.
    """
    r = as_recipe(recipe)
    roles = {"weights": r.weights, "master weights": r.master_weights, "gradients": r.accumulation,
             "first moment": r.first_moment, "second moment": r.second_moment,
             "compensation": r.weights if r.update_rounding == "kahan" else None}
    return {role: 0 if format is None else format.bits // 8 for role, format in roles.items()}


def transient_bytes(recipe: Recipe | str) -> dict[str, int]:
    """Role -> bytes a parameter that come and go within a step, on top of `bytes_per_parameter`.

    `copies`: the low-precision copies of the weights that matrix products read. PyTorch's autocast keeps them from the
    first use until it is left; the backward pass holds them until it is done. Only the weights of linear layers,
    convolutions and the like are copied, so this is the most it can be. TF32 needs none: the hardware reads FP32.
    """
    r = as_recipe(recipe)
    return {"copies": r.forward.bits // 8 if r.is_mixed and r.forward.name != "tf32" else 0}


# -- the named ones ----------------------------------------------------------------------------------------------------


def _read() -> tuple[dict[str, Recipe], dict[str, dict[str, str]], dict[str, str]]:
    data = tomllib.loads(files("sixteenbits").joinpath("recipes.toml").read_text(encoding="utf-8"))
    rows: dict[str, dict] = {}
    for name, row in data["recipes"].items():
        rows[name] = rows.get(row.pop("like", None), {}) | row
    frameworks = {f["name"]: f["settings"] for f in data["frameworks"]}
    return ({name: Recipe(name=name, **row) for name, row in rows.items()}, frameworks,
            {f["name"]: f["source"] for f in data["frameworks"]})


#: RECIPES: name -> Recipe. FRAMEWORKS: framework -> its setting -> the name of the recipe. SOURCES: framework -> where
#: the settings are documented.
RECIPES, FRAMEWORKS, SOURCES = _read()


def as_recipe(recipe: Recipe | str) -> Recipe:
    """The Recipe that is meant: itself, or the row of `RECIPES` with that name."""
    if isinstance(recipe, Recipe):
        return recipe
    if recipe not in RECIPES:
        hint = "; that is a format, not a recipe" if recipe in FORMATS else ""
        raise ValueError(f"no recipe is named {recipe!r}{hint}; the named ones are {', '.join(RECIPES)}")
    return RECIPES[recipe]


def names_of(recipe: Recipe | str) -> dict[str, list[str]]:
    """Framework -> its settings that mean this recipe."""
    name = as_recipe(recipe).name
    found = {framework: [setting for setting, meant in settings.items() if meant == name]
             for framework, settings in FRAMEWORKS.items()}
    return {framework: settings for framework, settings in found.items() if settings}
