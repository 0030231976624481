"""Functions ↔ qualified names, as an allow-list: a graph can only call operators on tensors and sizes."""

from __future__ import annotations

import importlib
import math
import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from espalier.model.errors import ProjectError
from espalier.model.graph.operators import REGISTERED_BY

_PYTHON: dict[str, Callable[..., Any]] = {
    **{f"_operator.{n}": getattr(operator, n) for n in (
        "add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "neg", "getitem", "eq", "ne", "lt", "le", "gt", "ge",
        "and_", "or_", "not_", "index")},
    **{f"math.{n}": getattr(math, n) for n in ("ceil", "floor", "trunc", "sqrt", "log2")},
    **{f"torch.{n}": getattr(torch, n) for n in (
        "sym_float", "sym_int", "sym_max", "sym_min", "sym_not", "sym_ite", "sym_sum", "_sym_sqrt")},
}  # fmt: skip
_NAMES: dict[Any, str] = {f: n for n, f in _PYTHON.items()}
OpOverload = type(torch.ops.aten.add.Tensor)
_FILES = re.compile(r"file|path|dir|url|uri")  # names of arguments by which an operator accesses files
_NAMESPACES = ("prim", "debugprims", "profiler", "inductor", "c10d", "_c10d_functional", "symm_mem", "static_runtime")


def name_of(target: Any) -> str | None:
    """`aten.add.Tensor`, `_operator.mul`, …; None for a function that is not allowed."""
    if isinstance(target, OpOverload):
        return str(target)
    try:
        return _NAMES.get(target)
    except TypeError:
        return None


@cache
def function_of(name: str) -> Callable[..., Any]:
    """The function called `name`; raises ProjectError for one that is unknown or not allowed."""
    if name in _PYTHON:
        return _PYTHON[name]
    parts = name.split(".")
    function: Any = None
    if len(parts) == 3 and parts[0] not in _NAMESPACES:
        function = _operator(*parts)
        if function is None and parts[0] in REGISTERED_BY:
            importlib.import_module(REGISTERED_BY[parts[0]])
            function = _operator(*parts)
    if not isinstance(function, OpOverload) or _accesses_files(function):
        raise ProjectError(f"The graph calls {name!r}, which this version does not know.",
                           "Update Espalier, or open the model's source again.")  # fmt: skip
    return function


def _operator(namespace: str, name: str, overload: str) -> Any:
    """An operator that is registered with torch; None for any other."""
    return getattr(getattr(getattr(torch.ops, namespace, None), name, None), overload, None)


def _accesses_files(function: Any) -> bool:
    """Whether an operator has a path argument: packages that the user loads may add such, as torchvision does."""
    return any("str" in str(a.type) and _FILES.search(a.name.lower()) for a in function._schema.arguments)
