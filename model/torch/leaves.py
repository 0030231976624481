"""Leaf modules that a graph may name: class ↔ (op, constructor arguments).

An allow-list: a project file can only ever make these, so opening one runs no foreign code.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from torch import nn

from espalier.model.errors import ProjectError
from espalier.model.graph.node import Arg
from espalier.model.torch.leaf_names import OP_OF_CLASS

_SKIPPED = ("self", "device", "dtype", "args", "kwargs")


@cache
def leaf_class(name: str) -> type[nn.Module]:
    """The class called `name`; raises ProjectError for one that is not on the list."""
    if name not in OP_OF_CLASS:
        raise ProjectError(f"The graph names the module {name!r}, which this version does not know.",
                           "Update Espalier, or open the model's source again.")  # fmt: skip
    if name == "Conv1D":
        from transformers.pytorch_utils import Conv1D

        return Conv1D
    if name == "NonDynamicallyQuantizableLinear":
        return nn.Linear
    return getattr(nn, name)  # type: ignore[no-any-return]


def op_of_module(module: nn.Module) -> str | None:
    """The op of a leaf module, or None when it is not one that a graph may name."""
    if getattr(module, "return_indices", False):  # two results: its functions stand in the graph instead
        return None
    return op_of_type(f"{type(module).__module__}.{type(module).__name__}")


def op_of_type(name: str) -> str | None:
    """The op of a leaf class by its full name, "torch.nn.modules.linear.Linear"; None for any other class."""
    home, _, own = name.rpartition(".")
    known = home.startswith(("torch.nn.modules.", "transformers.pytorch_utils"))
    return OP_OF_CLASS.get(own) if known else None


@cache
def parameters(name: str) -> tuple[str, ...]:
    """The names of the constructor's arguments of a leaf class, without device and dtype."""
    found = inspect.signature(leaf_class(name).__init__).parameters
    return tuple(p for p in found if p not in _SKIPPED)


def attributes(module: nn.Module) -> dict[str, Arg]:
    """The constructor's arguments that make `module` again, with its class under "class"."""
    name = type(module).__name__
    found: dict[str, Arg] = {"class": name}
    for key in parameters(name):
        found[key] = _attribute(module, key)
    if "inplace" in found:
        found["inplace"] = False
    return found


def _attribute(module: nn.Module, key: str) -> Arg:
    if key == "bias":
        return getattr(module, "bias", None) is not None
    if key == "nx":
        return int(module.weight.shape[0])  # type: ignore[union-attr,operator]
    if key.startswith("_"):
        return None
    value: Any = getattr(module, key, None)
    if hasattr(value, "shape"):
        return None
    return tuple(value) if isinstance(value, list | tuple) else value


def make(attrs: dict[str, Arg]) -> nn.Module:
    """A leaf module on the meta device; its weights are filled in by the caller. Raises ProjectError."""
    import torch

    name = str(attrs["class"])
    values = {k: v for k, v in attrs.items() if k != "class" and not (k.startswith("_") and v is None)}
    try:
        with torch.device("meta"):
            return leaf_class(name)(**values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ProjectError(f"The graph's {name} cannot be made ({error}).", "Open the model's source again.") from error
