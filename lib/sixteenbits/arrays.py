"""Numbers in, numbers of the same kind out.

The numeric modules compute on float32 and float64 arrays. This module turns whatever a caller has (NumPy array,
torch tensor, Python number, list) into one of those without rounding, and turns the result back into what came in.
torch is imported only when a tensor arrives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: NumPy's extension dtypes (from ml_dtypes) that float32 holds exactly.
_NARROW = {"bfloat16", "float8_e5m2", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz",
           "float8_e4m3b11fnuz", "float8_e3m4", "float8_e8m0fnu", "float6_e3m2fn", "float6_e2m3fn", "float4_e2m1fn"}


@dataclass(frozen=True)
class Arrived:
    """Values ready to compute on, and the way back.

    Attributes:
        values: a float32 or float64 NumPy array, or a tensor of such a dtype where NumPy cannot reach it.
        leave: turns an array like `values` into what the caller gave: kind, dtype, device, shape.
    """

    values: Any
    leave: Callable[[Any], Any]


def is_tensor(x: Any) -> bool:
    """Whether x is a torch tensor; False without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def floats(x: Any, name: str = "x") -> Arrived:
    """What arrived, as float32 (from float32 and narrower floats) or float64 (from float64, integers, Python numbers).

    Raises:
        TypeError: not real numbers (strings, complex numbers, booleans, objects, long doubles).
        ValueError: an integer that float64 cannot hold exactly, or a ragged list.
    """
    return _from_tensor(x, name) if is_tensor(x) else _from_numpy(x, name)


def _from_numpy(x: Any, name: str) -> Arrived:
    array, scalar = _as_array(x, name), not isinstance(x, np.ndarray)
    dtype = array.dtype
    if dtype.name in ("float32", "float64"):
        values = array.astype(dtype.newbyteorder("="), copy=False)
    elif dtype.name == "float16" or dtype.name in _NARROW:
        values = widen(array, np.float32)
    elif dtype.kind in "iu":
        values, dtype = _exact_integers(array, name), np.dtype(np.float64)
    else:
        raise TypeError(f"{name} holds {dtype} values; expected real numbers: float16, bfloat16, float32, float64 "
                        f"or integers{_remedy(dtype)}")
    def leave(result):
        result = keep_value(np.asarray(result), lambda y: y.astype(dtype, copy=False))
        return result[()] if scalar and result.ndim == 0 else result

    return Arrived(values, leave)


def widen(x: np.ndarray, dtype) -> np.ndarray:
    """x in a wider dtype; a signaling NaN becomes a quiet one without a warning."""
    with np.errstate(invalid="ignore"):
        return x.astype(dtype)


def _as_array(x: Any, name: str) -> np.ndarray:
    if isinstance(x, str | bytes):
        raise TypeError(f"{name} is the text {x!r}; expected real numbers, for example float({x!r})")
    try:
        array = np.asarray(x)
    except (ValueError, OverflowError) as problem:
        raise ValueError(f"{name} is not a rectangular array of numbers: {problem}") from None
    if array.dtype == object and array.size and all(type(v) is int for v in array.flat):
        raise ValueError(f"{name} holds an integer beyond 64 bits, which float64 cannot hold exactly; "
                         "convert it yourself, for example float(value)")
    return array if array.size or array.dtype != object else array.astype(np.float64)


def _remedy(dtype: np.dtype) -> str:
    return {"c": "; take .real and .imag apart", "b": "; write .astype(float) if 0 and 1 are meant",
            "O": "; a list of mixed things is not an array of numbers"}.get(dtype.kind, "")


def _exact_integers(array: np.ndarray, name: str) -> np.ndarray:
    values = array.astype(np.float64)
    if array.dtype.itemsize == 8:
        fits = np.abs(values) < 2.0**63  # so that the way back cannot overflow
        same = np.zeros_like(fits)
        same[fits] = values[fits].astype(array.dtype) == array[fits]
        if not same.all():
            raise ValueError(f"{name} holds the integer {array[~same].flat[0]}, which float64 cannot hold exactly; "
                             "integers up to 2**53 always fit; convert larger ones to float yourself")
    return values


def _from_tensor(x: Any, name: str) -> Arrived:
    import torch

    dtype = x.dtype
    if dtype in (torch.float32, torch.float64):
        values = x.detach()
    elif dtype.is_floating_point:
        values = x.detach().to(torch.float32)
    elif dtype.is_complex or dtype == torch.bool:
        raise TypeError(f"{name} is a {dtype} tensor; expected real numbers: float16, bfloat16, float32, float64 "
                        "or integers")
    else:
        values, dtype = x.double(), torch.float64
        if x.element_size() == 8 and not torch.equal(values.long(), x.long()):
            raise ValueError(f"{name} holds an integer that float64 cannot hold exactly; integers up to 2**53 always "
                             "fit; convert larger ones to float yourself")
    if not _numpy_reaches(x):
        return Arrived(values, lambda y: keep_value(y, lambda y: y.to(dtype)))
    return Arrived(values.numpy(), lambda y: keep_value(torch.from_numpy(np.asarray(y)), lambda y: y.to(dtype)))


def _numpy_reaches(x: Any) -> bool:
    """Whether the tensor is an ordinary one in main memory: not on a GPU, not traced, not a subclass."""
    import torch
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return (type(x) in (torch.Tensor, torch.nn.Parameter) and x.device.type == "cpu" and x.layout == torch.strided
            and not torch.compiler.is_compiling()
            and not any(mode.is_infra_mode() for mode in _get_current_dispatch_mode_stack()))


def keep_value(y: Any, narrow: Callable) -> Any:
    """y in the caller's dtype, or an error where that dtype would round the result a second time."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result = narrow(y)
    if result is y or result.dtype.itemsize >= y.dtype.itemsize:
        return result
    lost = (result.astype(y.dtype) if isinstance(y, np.ndarray) else result.to(y.dtype)) != y
    if (lost & (y == y)).any():
        example, wider = float(y[lost & (y == y)].reshape(-1)[0]), str(y.dtype).removeprefix("torch.")
        raise OverflowError(f"a result, for example {example!r}, does not fit the input's dtype {result.dtype}: "
                            f"convert the input to {wider} first")
    return result


def through_numpy(x: Any, function: Callable[[np.ndarray], np.ndarray], name: str = "x") -> Any:
    """function(values as float64), handed back as the kind that came in (tensor or array), in float64."""
    arrived = floats(x, name).values
    if not is_tensor(x):
        result = np.asarray(function(widen(np.asarray(arrived), np.float64)))
        return result if isinstance(x, np.ndarray) else result[()]
    import torch

    values = arrived if isinstance(arrived, np.ndarray) else arrived.cpu().numpy()
    result = np.asarray(function(widen(values, np.float64)))
    return torch.from_numpy(np.asarray(result, order="C")).to(x.device)


def integers(codes: Any, bits: int, name: str = "codes") -> np.ndarray:
    """Codes as an int64 (up to 63 bits) or uint64 array, each checked to be one of 2**bits.

    Raises:
        TypeError: not integers.
        ValueError: a code that is negative or too large.
    """
    if bits > 64:
        raise ValueError(f"the format has {bits} bits, and codes are integers of at most 64")
    array = codes.detach().cpu().numpy() if is_tensor(codes) else _as_array(codes, name)
    if array.size == 0 and not isinstance(codes, np.ndarray):
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} holds {array.dtype} values; expected integers. To encode numbers, use codec.encode")
    if array.size and (array.min() < 0 or int(array.max()) >= 2**bits):
        wrong = array.min() if array.min() < 0 else array.max()
        hint = "; view signed storage as unsigned first, for example .view(np.uint16)" if wrong < 0 else ""
        raise ValueError(f"{name} holds {wrong}; the codes of a {bits}-bit format are 0 to {2**bits - 1}{hint}")
    return array.astype(np.int64 if bits < 64 else np.uint64)
