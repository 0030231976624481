"""Functions ↔ their qualified names, on an allow-list: a graph can only call operators on tensors and sizes."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from espalier.model.errors import ProjectError

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
_FILES = re.compile(r"file|path|dir|url|uri")  # arguments by which an operator, of whatever package, reaches files
_NAMESPACES = ("prim", "debugprims", "profiler", "inductor", "c10d", "_c10d_functional", "symm_mem", "static_runtime")


def name_of(target: Any) -> str | None:
    """`aten.add.Tensor`, `_operator.mul`, … or None for a function that a graph may not call."""
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
    found: Any = None
    if len(parts) == 3 and parts[0] not in _NAMESPACES:
        packet = getattr(getattr(torch.ops, parts[0], None), parts[1], None)
        found = getattr(packet, parts[2], None)
    if not isinstance(found, OpOverload) or _reaches_files(found):
        raise ProjectError(f"The graph calls {name!r}, which this version does not know.",
                           "Update Espalier, or open the model's source again.")  # fmt: skip
    return found


def _reaches_files(function: Any) -> bool:
    """Packages that the user's own code loads add operators, as `image.write_file` of torchvision."""
    return any("str" in str(a.type) and _FILES.search(a.name.lower()) for a in function._schema.arguments)
