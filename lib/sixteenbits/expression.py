"""Work out a one-line NumPy or torch expression that a reader types, and nothing else.

The line is parsed, not run: only arithmetic, indexing and the functions listed here are done. It cannot touch files,
import modules or call what is not listed, and it is refused before it makes a tensor too large for memory. That
guards against slips; it is no sandbox against somebody who already has the notebook's kernel.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from sixteenbits.expression_sizes import broadcast_size, call_size, flattened, indexed_size, matmul_size

LARGEST = 2**26  # values that one step of an expression may produce

_SHARED = ["zeros", "ones", "full", "arange", "linspace", "logspace", "exp", "exp2", "log", "log2", "log10", "sqrt",
           "abs", "sign", "sin", "cos", "tan", "tanh", "maximum", "minimum", "where", "stack", "float16",
           "float32", "float64", "int8", "int32", "int64", "pi", "inf", "nan", "e", "isfinite", "square"]
_DRAWS = ["normal", "standard_normal", "uniform", "lognormal", "laplace", "exponential", "standard_t",
          "standard_cauchy"]
FUNCTIONS = {
    "numpy": [*_SHARED, "array", "asarray", "geomspace", "power", "clip", "concatenate", "random", "newaxis"],
    "numpy.random": ["default_rng", "randn", "rand", *_DRAWS],
    "torch": [*_SHARED, "tensor", "bfloat16", "randn", "rand", "randint", "relu", "sigmoid", "softmax", "pow", "clamp",
              "cat", "manual_seed"],
}
METHODS = ["abs", "astype", "to", "float", "double", "half", "bfloat16", "exp", "log", "log2", "sqrt", "square",
           "pow", "tanh", "sigmoid", "relu", "softmax", "clamp", "clip", "reshape", "ravel", "flatten",
           "view", "T", "mean", "sum", "std", "max", "min", "grad", "data", "detach", "cpu", "numpy",
           "shape", "size", "dtype", *_DRAWS]
OPERATORS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}
DEVICES = ("cpu", "cuda", "mps", "xpu")


class ExpressionError(ValueError):
    """The expression cannot be worked out; the message says what was found and what is possible."""


def evaluate(text: str, names: Mapping[str, Any] | None = None) -> Any:
    """The value of the expression.

    Args:
        text: for example `"np.random.default_rng(0).lognormal(-8, 4, 10_000)"` or `"2 * weights[0]"`.
        names: what else it may name: tensors, arrays, numbers and torch modules; the rest is left aside. None of the
            arrays is written to.

    Raises:
        ExpressionError: not one expression; something that is not allowed; too large; or what NumPy or torch said.
    """
    if not text.strip():
        raise ExpressionError("there is no expression yet. Try np.logspace(-12, 6, 1000), or the name of a tensor")
    try:
        tree = ast.parse(text.strip(), mode="eval")
        with np.errstate(all="ignore"):  # infinities and NaN are among the things to look at
            result = _Evaluator({k: _read_only(v) for k, v in (names or {}).items() if is_usable(v)}).visit(tree.body)
    except SyntaxError as problem:
        raise ExpressionError(f"{text.strip()!r} is not one Python expression ({problem.msg}). "
                              "Give what stands right of the =, in one line") from None
    except ExpressionError:
        raise
    except (RecursionError, MemoryError) as problem:
        if isinstance(problem, MemoryError) and str(problem):
            raise ExpressionError(f"there is no memory for it: {problem}") from None
        raise ExpressionError("the expression is nested too deeply; write it in steps in a cell") from None
    except Exception as problem:
        raise ExpressionError(f"NumPy or torch refused it: {type(problem).__name__}: {problem}") from None
    if isinstance(result, torch.nn.Module):
        raise ExpressionError(f"that is a layer ({type(result).__name__}), not a tensor; it has {_parts(result)}")
    if not is_usable(result) and not isinstance(result, str):
        raise ExpressionError(f"that gives {'nothing' if result is None else type(result).__name__}, not a tensor")
    return result


def is_usable(value: Any) -> bool:
    """Whether an expression may name this value."""
    return isinstance(value, int | float | list | tuple | np.ndarray | np.generic | torch.Tensor | torch.nn.Module)


def _read_only(value: Any) -> Any:
    """The same array behind a view that cannot be written to: NumPy takes `out` as a plain argument, too."""
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False
    return value


class _Evaluator(ast.NodeVisitor):
    """Walks the tree. A kind of node that has no method here is not allowed."""

    def __init__(self, names: Mapping[str, Any]):
        self.names = {"np": np, "numpy": np, "torch": torch, "abs": abs, **names}

    def generic_visit(self, node):
        raise ExpressionError(f"{ast.unparse(node)!r} ({type(node).__name__}) is not possible here: an expression "
                              "has numbers, arithmetic, indexing, your tensors, and functions of np and torch")

    def visit_Constant(self, node):
        return node.value

    def visit_Name(self, node):
        if node.id not in self.names:
            known = [name for name in self.names if name not in ("numpy", "abs")]
            raise ExpressionError(f"nothing usable is named {node.id!r} in this notebook. Known here: "
                                  f"{', '.join(known[:12])}{', ...' if len(known) > 12 else ''}")
        return self.names[node.id]

    def visit_List(self, node):
        return [self.visit(item) for item in node.elts]

    def visit_Tuple(self, node):
        return tuple(self.visit_List(node))

    def visit_Slice(self, node):
        return slice(*(None if part is None else self.visit(part) for part in (node.lower, node.upper, node.step)))

    def visit_Subscript(self, node):
        owner, index = self.visit(node.value), self.visit(node.slice)
        _refuse_large(indexed_size(owner, index))
        return owner[index]

    def visit_Attribute(self, node):
        return _attribute(self.visit(node.value), node.attr)

    def visit_UnaryOp(self, node):
        return self._operate(node, [node.operand])

    def visit_BinOp(self, node):
        return self._operate(node, [node.left, node.right])

    def visit_Compare(self, node):
        if len(node.ops) > 1:
            self.generic_visit(node)
        return self._operate(node, [node.left, *node.comparators], node.ops[0])

    def _operate(self, node, operands, op=None):
        apply = OPERATORS.get(type(op or node.op))
        if apply is None:
            self.generic_visit(node)
        args = [self.visit(operand) for operand in operands]
        if any(isinstance(arg, str | list | tuple) for arg in args):
            raise ExpressionError(f"{ast.unparse(node)!r} does arithmetic on a list or text: "
                                  "put lists into np.array([...]) first")
        if apply is operator.pow and _is_endless_power(*args):
            raise ExpressionError(f"{ast.unparse(node)!r} is a whole number of more than a thousand digits; "
                                  "write 2.0 in place of 2")
        for arg in args:
            _refuse_objects(arg)
        _refuse_large(matmul_size(*args) if apply is operator.matmul else broadcast_size(args))
        return apply(*args)

    def visit_Call(self, node):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        function = self.visit(node.func)
        args = [self.visit(arg) for arg in node.args]
        options = {self._option(keyword): self.visit(keyword.value) for keyword in node.keywords}
        if not callable(function) or isinstance(function, torch.nn.Module):
            raise ExpressionError(f"{ast.unparse(node.func)!r} is not a function that can be called here")
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            raise ExpressionError(f"{name} takes {function.nin} arguments here; to write into an array is not possible")
        for arg in flattened([*args, *options.values()]):
            _check_argument(arg)
        _refuse_large(call_size(name, args, options))
        result = function(*args, **options)
        _refuse_objects(result)
        return result

    def _option(self, keyword):
        if keyword.arg is None or keyword.arg == "out":
            raise ExpressionError("** and out= are not possible here")
        return keyword.arg


def _attribute(owner: Any, name: str) -> Any:
    """owner.name, where it is listed; of a torch module: its parameters, buffers and layers."""
    if isinstance(owner, ModuleType):
        return _listed(owner, name, FUNCTIONS.get(owner.__name__, []), f"{owner.__name__}.{name}")
    if not isinstance(owner, torch.nn.Module):
        return _listed(owner, name, METHODS, f".{name}")
    found = None if name.startswith("_") else getattr(owner, name, None)
    if not isinstance(found, torch.Tensor | torch.nn.Module):
        raise ExpressionError(f"{type(owner).__name__} has no tensor or layer {name!r}; it has {_parts(owner)}")
    return found


def _parts(module: torch.nn.Module) -> str:
    parts = [name for name, _ in [*module.named_parameters(recurse=False), *module.named_children()]]
    return ", ".join(parts) or "none"


def _listed(owner: Any, name: str, allowed: list[str], shown: str) -> Any:
    if name not in allowed:
        raise ExpressionError(f"{shown} is not possible here; possible are {', '.join(allowed)}")
    return getattr(owner, name)


def _check_argument(arg: Any) -> None:
    """Refuse what would have NumPy compute on Python objects: text, and whole numbers without an end."""
    if isinstance(arg, str | bytes) and not _names_numbers(arg):
        raise ExpressionError(f"{arg!r} is text; expected real numbers. Text may name their dtype, such as "
                              f"'float16', or a device, such as '{DEVICES[0]}'")
    if isinstance(arg, int) and abs(arg) >= 2**64:
        raise ExpressionError("a whole number beyond 64 bits is not possible in a function or an array; "
                              "write 2.0**100 in place of 2**100")


def _names_numbers(text: str | bytes) -> bool:
    if isinstance(text, bytes) or text.split(":")[0] in DEVICES:
        return isinstance(text, str)
    if not text[:1].isalpha() or not text.isalnum() or text[0] in "aOSUVMm":
        return False
    try:
        return np.dtype(text).kind in "biufc"
    except TypeError:
        return False


def _refuse_objects(value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "OSUMm":
        raise ExpressionError(f"that is an array of {value.dtype}, not of real numbers")


def _is_endless_power(base: Any, exponent: Any) -> bool:
    return isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * base.bit_length() > 4096


def _refuse_large(size: float) -> None:
    if size > LARGEST:
        raise ExpressionError(f"that would make about {size:.1e} values; at most {LARGEST:,} are possible here. "
                              "A sample shows the same picture")
