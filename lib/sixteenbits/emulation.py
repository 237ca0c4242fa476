"""Run any PyTorch code, forward and backward, as if the machine kept its numbers in another format.

    with emulate("fp8_e4m3fn", backward="fp8_e5m2", overflow="saturate", keep=("softmax", "layer_norm")) as log:
        model(x).sum().backward()
    print(log)

The tensors stay float32. Each operation computes in float32 what it always computes; then its result is rounded to the
format. Autograd sees nothing of it: the forward pass is rounded, and the gradient goes straight through, each gradient
operation rounding in its turn. Parameters, inputs and everything else that comes from outside is rounded when it is
read, and stays what it is.

What is emulated, then, is a machine that computes each operation with FP32 inside and rounds once at the end, as GPUs
and most of PyTorch's CPU kernels do for 16-bit tensors. For FP16 and BF16 the results of element-wise operations,
softmax and reductions are those of PyTorch's own dtypes, bit for bit; tests/test_emulation.py has the list. But:

* Matrix products add up in another order. Both sums lie within FP32's roundoff times the number of terms of the exact
  one, so the rounded results differ where the sum lies that close to a tie: for 40 to 4,000 terms in 0.02 to 0.4 % of
  the elements in FP16 and a tenth of that in BF16, by one unit in the last place; more where terms cancel. `fast_half`
  computes products as the emulation does.
* Some CPU kernels round inside (log_softmax, logsumexp, prod, cubes in BF16), or add up in another order (layer_norm):
  one unit. What a kernel keeps for its backward pass (mean and deviation in layer_norm, the log-sum-exp of attention)
  and the running statistics of batch_norm stay in FP32 here, as on GPUs.
* What PyTorch runs in one piece is rounded once, at its end, and what it composes of operations is rounded after each.
  `scaled_dot_product_attention` is one piece unless `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)` takes it apart;
  `rms_norm` is several, which `keep_modules` can spare. Operations that run a whole layer are refused with a hint; the
  fast path of nn.MultiheadAttention is switched off inside.

Views, reshapes, detach and clone cost nothing. Optimizer steps are left alone unless a format is given for them, so
that FP32 master weights stay what they are. torch.compile: a compiled module runs uncompiled inside; a backward pass
that was compiled outside is refused. Under autocast the narrow tensors are rounded a second time, from what they hold;
formats that they cannot hold are refused. `codec` and `blocks` compute exactly inside, too, for tensors in main memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sixteenbits.block_formats import BLOCK_FORMATS, BlockFormat
from sixteenbits.emulation_log import Log
from sixteenbits.emulation_mode import Emulation
from sixteenbits.fast_half import fast_half
from sixteenbits.formats import FORMATS, Format, as_format
from sixteenbits.operations import families
from sixteenbits.tally import Rounder

__all__ = ["ROLES", "Emulation", "Log", "emulate", "fast_half"]

#: What a format can be given for.
ROLES = {
    "forward": "results of operations in the forward pass",
    "backward": "results of operations in the backward pass: gradients",
    "optimizer": "results of operations in optimizer steps",
    "parameters": "parameters, where an operation reads them",
    "matmul_inputs": "factors of matrix products, where the product reads them: weights and activations",
    "matmul_gradients": "factors of matrix products that are gradients",
    "accumulate": "the running sum of a matrix product",
}


def emulate(format=None, *, forward="same", backward="same", parameters="same", optimizer=None, matmul_inputs=None,
            matmul_gradients="same", accumulate=None, accumulate_every=1, keep=(), only=(), keep_modules=(),
            rounding="nearest_even", overflow="ieee", rng=None, nan=None) -> Emulation:
    """A context in which operations leave numbers of a format; `with` gives the log of what rounding did.

    Args:
        format: for results and parameters: a Format or BlockFormat, the name of one, or None: no rounding.
        forward, backward, parameters: instead of `format`, for that role, see `ROLES`. `parameters` follows `forward`.
        optimizer: likewise; optimizer steps are not rounded unless a format is given here.
        matmul_inputs, matmul_gradients: to what matrix products round their factors before they multiply, whatever
            else those hold. A block format lies along the axis that is summed. Gradients follow `matmul_inputs`.
        accumulate: the format of the running sum in mm, bmm, addmm, baddbmm and linear, which else is FP32.
        accumulate_every: how many products are added in FP32 before the running sum is rounded.
        keep: operations whose operands and results are left alone: names as in torch.ops.aten, which stand for their
            backward and in-place forms too ("softmax"), or the groups "matmul", "attention", "cross_entropy" and
            "batch_norm".
        only: the operations to emulate; all others are kept.
        keep_modules: modules inside which everything is kept: names as in `named_modules()` of the outermost module,
            with the wildcards of a shell ("blocks.*.norm1").
        rounding, overflow: as in `codec.round_to`; or a dict from roles to that, where a role that is missing has the
            default. With stochastic rounding, what is read from outside is still rounded to nearest, so that a weight
            has one value in the whole step.
        rng: for stochastic rounding: an int seed, or a NumPy or torch Generator.
        nan: what NaN becomes in a format that has none.

    Raises:
        ValueError, TypeError: here, an unknown name; inside, NaN where the format has none, or a tensor of a dtype that
            cannot hold the format. The message names operation and module.
        NotImplementedError: inside, an operation that cannot be emulated.
        RuntimeError: under torch.compile.

    Nested contexts: inside the inner one, that one alone decides.
    """
    if isinstance(rng, int | np.integer):
        rng = np.random.default_rng(rng)
    forward = format if forward == "same" else forward
    formats = {
        "forward": forward, "backward": format if backward == "same" else backward, "optimizer": optimizer,
        "parameters": forward if parameters == "same" else parameters, "matmul_inputs": matmul_inputs,
        "matmul_gradients": matmul_inputs if matmul_gradients == "same" else matmul_gradients,
        "accumulate": accumulate,
    }
    modes, rules = _by_role(rounding, "nearest_even"), _by_role(overflow, "ieee")
    rounders = {role: one and Rounder(_as_any_format(one), modes[role], rules[role],
                                      rng if modes[role] == "stochastic" else None, nan)
                for role, one in formats.items()}
    if not (isinstance(accumulate_every, int) and accumulate_every >= 1):
        raise ValueError(f"accumulate_every is {accumulate_every!r}; expected a number of products, 1 or more")
    patterns = (keep_modules,) if isinstance(keep_modules, str) else tuple(keep_modules)
    return Emulation(rounders, accumulate_every, families(keep), families(only), patterns)


def _by_role(given: str | Mapping[str, str], default: str) -> dict[str, str]:
    if not isinstance(given, Mapping):
        return dict.fromkeys(ROLES, given)
    if unknown := set(given) - set(ROLES):
        raise ValueError(f"there is no role {unknown.pop()!r}; the roles are {', '.join(ROLES)}")
    return {role: given.get(role, default) for role in ROLES}


def _as_any_format(format: Any) -> Format | BlockFormat:
    if isinstance(format, BlockFormat):
        return format
    if isinstance(format, str) and format not in FORMATS:
        if format in BLOCK_FORMATS:
            return BLOCK_FORMATS[format]
        raise ValueError(f"no format is named {format!r}; the named ones are {', '.join([*FORMATS, *BLOCK_FORMATS])}")
    return as_format(format)
