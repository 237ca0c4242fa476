"""How other libraries round, as values and as codes: the few lines of each that a user would write.

A library that is not installed raises ImportError; one that has no such format, `Absent`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import logging
import os
import warnings
from collections.abc import Callable
from types import ModuleType

import numpy as np

from sixteenbits import codec
from sixteenbits.formats import Format

#: The libraries that are asked, by the name of their module, and their names in prose.
PEERS = {"ml_dtypes": "ml_dtypes", "torch": "PyTorch", "numpy": "NumPy", "gfloat": "gfloat", "torchao": "torchao"}
OURS = "sixteenbits"


class Absent(Exception):
    """The library has no such format or no such function."""


def load(peer: str) -> ModuleType:
    """The module, without what it prints while it is imported.

    Raises:
        ImportError: it is not installed.
    """
    with warnings.catch_warnings(), open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        try:
            return importlib.import_module(peer)
        finally:
            logging.disable(logging.NOTSET)


def versions() -> dict[str, str | None]:
    """The installed version of each peer; None where it is missing."""
    found = {}
    for peer in PEERS:
        try:
            found[peer] = importlib.metadata.version(peer)
        except importlib.metadata.PackageNotFoundError:
            found[peer] = None
    return found


# -- casts: a NumPy array to a format, as values and as codes ----------------------------------------------------------


def _ours(x: np.ndarray, format: Format):
    return codec.round_to(x.astype(np.float64), format), codec.encode(x, format)


def _numpy(x: np.ndarray, format: Format):
    if format.name != "fp16":
        raise Absent
    return x.astype(np.float16), x.astype(np.float16).view(np.uint16)


def _ml_dtypes(x: np.ndarray, format: Format):
    if format.name == "fp16" or not hasattr(load("ml_dtypes"), format.dtype or ""):
        raise Absent
    y = x.astype(getattr(load("ml_dtypes"), format.dtype))
    return y.astype(np.float64), y.view(f"u{y.itemsize}")


def _torch(x: np.ndarray, format: Format):
    torch = load("torch")
    if not hasattr(torch, format.dtype or ""):
        raise Absent
    dtype, column = getattr(torch, format.dtype), torch.from_numpy(np.stack([x, x], axis=1))[:, 0]  # with a stride
    y = torch.cat([torch.from_numpy(x).to(dtype), column.to(dtype)])
    return y.double().numpy(), y.view(torch.uint8).numpy().view(f"u{y.element_size()}")


_GFLOAT = {"fp64": "binary64", "fp32": "binary32", "fp16": "binary16", "bf16": "bfloat16", "e8m0fnu": "ocp_e8m0",
           "fp8_e4m3fn": "ocp_e4m3", "fp8_e5m2": "ocp_e5m2", "fp6_e3m2fn": "ocp_e3m2", "fp6_e2m3fn": "ocp_e2m3",
           "fp4_e2m1fn": "ocp_e2m1"}


def gfloat_info(format: Format):
    if format.name not in _GFLOAT:
        raise Absent
    return getattr(importlib.import_module("gfloat.formats"), f"format_info_{_GFLOAT[format.name]}")


def _gfloat(x: np.ndarray, format: Format):
    gfloat, info = load("gfloat"), gfloat_info(format)
    value = gfloat.round_float(info, float(x[0]), sat=not format.has_nan)
    return np.array([value]), np.array([gfloat.encode_float(info, value)])


def _torchao(x: np.ndarray, format: Format):
    if format.name not in ("fp6_e3m2fn", "fp6_e2m3fn", "fp4_e2m1fn"):
        raise Absent
    if x.dtype != np.float32:
        raise Absent  # it takes float32 alone
    load("torchao")
    torch, functions = load("torch"), importlib.import_module("torchao.prototype.custom_fp_utils")
    bits = format.exponent_bits, format.mantissa_bits
    codes = functions._f32_to_floatx_unpacked(torch.from_numpy(x), *bits)
    return functions._floatx_unpacked_to_f32(codes, *bits).double().numpy(), codes.numpy()


CASTS: dict[str, Callable] = {OURS: _ours, "ml_dtypes": _ml_dtypes, "torch": _torch, "numpy": _numpy,
                              "gfloat": _gfloat, "torchao": _torchao}
