"""What emulation has to know about PyTorch's operations, as data.

Most of it PyTorch says itself: an operation's schema tells which results are views of an operand and which operands it
writes to. What no schema says stands in the tables below.
"""

from __future__ import annotations

import difflib
import functools
from typing import NamedTuple

import torch

#: Results that are only chosen from the operands' values, moved, negated or replaced by 0 or 1: if a format holds the
#: operands, it holds them. Names with an overload (`where.self`) mean that one alone.
EXACT = frozenset("""
    abs abs_ amax amin cat clone copy copy_ diag_embed embedding flip gather index index_select masked_select max
    max_pool2d_with_indices maximum min minimum msort neg neg_ new_ones new_zeros ones ones_like permute_copy relu relu_
    repeat roll select_backward select_scatter slice_backward slice_scatter sort split_with_sizes_copy stack take
    threshold_backward topk tril tril_ triu triu_ where.self zero_ zeros zeros_like
""".split())  # noqa: SIM905

#: Results that say nothing yet: their memory has not been written.
EMPTY = frozenset(["empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided",
                   "resize_"])

#: Operations that do not read what they overwrite, beside those with `out`.
OVERWRITING = frozenset(["bernoulli_", "cauchy_", "copy_", "exponential_", "fill_", "geometric_", "log_normal_",
                         "normal_", "random_", "uniform_", "zero_"])

#: Results that share the memory of an operand although the schema does not say so.
VIEWS = frozenset(["_unsafe_view", "lift_fresh", "set_", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"])

#: Results at these places stay inside a kernel or are kept for its backward pass; real kernels keep them in FP32.
AUXILIARY = {
    "native_layer_norm": (1, 2), "native_group_norm": (1, 2), "_fused_rms_norm": (1,),
    "native_batch_norm": (1, 2), "_native_batch_norm_legit": (1, 2), "_native_batch_norm_legit_no_training": (1, 2),
    "_batch_norm_with_update": (1, 2, 3), "cudnn_batch_norm": (1, 2, 3),
    "nll_loss_forward": (1,), "nll_loss2d_forward": (1,), "_ctc_loss": (1,),
    "_scaled_dot_product_flash_attention_for_cpu": (1,), "_scaled_dot_product_flash_attention": (1,),
    "_scaled_dot_product_efficient_attention": (1,), "_scaled_dot_product_cudnn_attention": (1,),
}

#: Operands at these places are running statistics that stay in FP32, and that some of these write to without saying so.
STATISTICS = dict.fromkeys(
    ["native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "_batch_norm_with_update",
     "cudnn_batch_norm", "miopen_batch_norm", "native_batch_norm_backward", "cudnn_batch_norm_backward",
     "batch_norm_backward", "miopen_batch_norm_backward"], (3, 4))

#: Matrix products: the places of their factors, and the axis along which each factor is summed. None: more than one
#: sum, or a sum over several axes.
PRODUCTS = {
    "mm": {0: 1, 1: 0}, "addmm": {1: 1, 2: 0}, "_addmm_activation": {1: 1, 2: 0}, "linear": {0: -1, 1: -1},
    "bmm": {0: 2, 1: 1}, "baddbmm": {1: 2, 2: 1}, "addbmm": {1: None, 2: None}, "mv": {0: 1, 1: 0},
    "addmv": {1: 1, 2: 0}, "dot": {0: 0, 1: 0}, "vdot": {0: 0, 1: 0},
    "convolution": {0: None, 1: None}, "convolution_backward": {0: None, 1: None, 2: None},
    "_scaled_dot_product_flash_attention_for_cpu": {0: None, 1: None, 2: None},
    "_scaled_dot_product_flash_attention_for_cpu_backward": {0: None, 1: None, 2: None, 3: None},
    "_scaled_dot_product_flash_attention": {0: None, 1: None, 2: None},
    "_scaled_dot_product_flash_attention_backward": {0: None, 1: None, 2: None, 3: None},
    "_scaled_dot_product_efficient_attention": {0: None, 1: None, 2: None},
    "_scaled_dot_product_efficient_attention_backward": {0: None, 1: None, 2: None, 3: None},
}

#: Families whose kernels in main memory round a Python number (`x + 0.1`) to the dtype of the tensor. Others, such as
#: mul and div, take it as it is.
ROUND_NUMBERS = frozenset(["add", "fmod", "pow", "remainder", "rsub", "sub"])

#: Operations that run a whole layer: too much happens inside for its result to stand for it. -> what to do instead.
OPAQUE = {
    "mkldnn_rnn_layer": "switch oneDNN off around it: with torch.backends.mkldnn.flags(enabled=False)",
    "_cudnn_rnn": "switch cuDNN off around it: with torch.backends.cudnn.flags(enabled=False)",
    "miopen_rnn": "switch cuDNN off around it: with torch.backends.cudnn.flags(enabled=False)",
    "_native_multi_head_attention": "torch.backends.mha.set_fastpath_enabled(False)",
    "_transformer_encoder_layer_fwd": "torch.backends.mha.set_fastpath_enabled(False)",
}

#: Names for several operations at once.
GROUPS = {"matmul": frozenset(PRODUCTS), "cross_entropy": frozenset(["log_softmax", "nll_loss", "nll_loss2d"]),
          "attention": frozenset(name for name in PRODUCTS if "attention" in name),
          "batch_norm": frozenset(name for name in AUXILIARY if "batch_norm" in name)}


class Facts(NamedTuple):
    """What is known of one operation.

    Attributes:
        name: as PyTorch has it, without namespace and overload: `"_softmax_backward_data"`.
        family: the same for the forward, the backward and the in-place form: `"softmax"`.
        free: it computes nothing; its results are views, or not tensors.
        empty, exact, opaque: see the tables.
        overwrites: it does not read the operands that it writes to.
        written: places (or names) of the operands that it writes to.
        apart: places of operands that are neither rounded nor read in the format.
        auxiliary: places of its results that are not rounded.
        factors: place -> axis, for matrix products.
    """

    name: str
    family: str
    free: bool
    empty: bool
    exact: bool
    opaque: str | None
    overwrites: bool
    written: tuple[int | str, ...]
    apart: tuple[int, ...]
    auxiliary: tuple[int, ...]
    factors: dict[int, int | None]


@functools.cache
def facts(operation: torch._ops.OpOverload) -> Facts:
    """What is known of an operation."""
    schema = operation._schema
    name = schema.name.partition("::")[2]
    apart = STATISTICS.get(name, ())
    written = tuple(argument.name if argument.kwarg_only else place for place, argument in enumerate(schema.arguments)
                    if argument.alias_info is not None and argument.alias_info.is_write and place not in apart)
    aliases = [result.alias_info is not None for result in schema.returns]
    tensors = any("Tensor" in str(result.type) for result in schema.returns)
    free = name in VIEWS or (not written and (not tensors or all(aliases)))
    exact = name in EXACT or f"{name}.{schema.overload_name}" in EXACT
    overwrites = name in OVERWRITING or any(isinstance(place, str) for place in written)
    return Facts(name, family(name), free, name in EMPTY, exact, OPAQUE.get(name), overwrites, written, apart,
                 AUXILIARY.get(name, ()), PRODUCTS.get(name, {}))


def family(name: str) -> str:
    """The name that the forms of an operation have in common: `"_softmax_backward_data"` gives `"softmax"`."""
    name = name.strip("_").removeprefix("foreach_").removeprefix("native_").removeprefix("safe_")
    for ending in ("_data", "_backward", "_forward", "_dense"):
        name = name.removesuffix(ending)
    return name.strip("_")


def families(names: str | tuple[str, ...]) -> frozenset[str]:
    """The families that names of operations or groups mean.

    Raises:
        ValueError: there is no such operation.
    """
    found = set()
    for name in [names] if isinstance(names, str) else names:
        if name in GROUPS:
            found |= {family(member) for member in GROUPS[name]}
        elif (plain := family(name)) in _known():
            found.add(plain)
        else:
            near = difflib.get_close_matches(name, [*_known(), *GROUPS], 3)
            raise ValueError(f"PyTorch has no operation {name!r}; "
                             f"{'perhaps ' + ' or '.join(near) if near else 'names are those of torch.ops.aten'}, "
                             f"or one of the groups {', '.join(GROUPS)}")
    return frozenset(found)


@functools.cache
def _known() -> frozenset[str]:
    names = torch._C._dispatch_get_all_op_names()
    return frozenset(family(name.removeprefix("aten::").partition(".")[0]) for name in names if name[:6] == "aten::")


# -- operands and results ----------------------------------------------------------------------------------------------


#: What emulation rounds; narrower numbers are only stored, never computed with.
DTYPES = frozenset([torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128])


def is_rounded(x: torch.Tensor) -> bool:
    """Whether a tensor is one that emulation rounds: dense, of floating numbers that have values."""
    return x.dtype in DTYPES and x.layout == torch.strided and not x.is_meta


def operands(args: list, kwargs: dict):
    """(place or name of the operand, where it stands, under which key) of each tensor to round.

    Lists of tensors among the operands are replaced by copies, so that what stands in them can be replaced too.
    """
    for holder, items in ((args, enumerate(args)), (kwargs, [*kwargs.items()])):
        for at, value in items:
            if isinstance(value, torch.Tensor):
                if is_rounded(value):
                    yield at, holder, at
            elif isinstance(value, list | tuple) and any(isinstance(item, torch.Tensor) for item in value):
                holder[at] = copied = list(value)
                yield from ((at, copied, i) for i, item in enumerate(copied)
                            if isinstance(item, torch.Tensor) and is_rounded(item))


def results(returned):
    """(place, tensor) of each tensor to round among what an operation returned; lists of tensors have one place."""
    for at, value in enumerate(returned if isinstance(returned, list | tuple) else [returned]):
        for tensor in value if isinstance(value, list | tuple) else [value]:
            if isinstance(tensor, torch.Tensor) and is_rounded(tensor):
                yield at, tensor


def sparse(returned) -> bool:
    """Whether an operation returned floating numbers in a layout that cannot be rounded."""
    return any(isinstance(x, torch.Tensor) and x.is_floating_point() and x.layout != torch.strided
               for x in (returned if isinstance(returned, list | tuple) else [returned]))


def written(known: Facts, args, kwargs):
    """The tensors to round among those that an operation writes to."""
    for at in known.written:
        value = kwargs.get(at) if isinstance(at, str) else args[at] if at < len(args) else None
        yield from (tensor for _, tensor in results(value))
