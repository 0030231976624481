"""Leaf modules that a graph may contain: class ↔ (op, constructor arguments).

An allow-list: a project file can create only these, so opening one runs no foreign code.
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
    """The class called `name`; raises ProjectError for one that is not allowed."""
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
    """The op of a leaf module; None if it is not allowed."""
    if getattr(module, "return_indices", False):  # two results: captured as functions instead
        return None
    return op_of_type(f"{type(module).__module__}.{type(module).__name__}")


def op_of_type(name: str) -> str | None:
    """The op of a leaf class by its full name, "torch.nn.modules.linear.Linear"; None for any other class."""
    package, _, cls = name.rpartition(".")
    trusted = package.startswith(("torch.nn.modules.", "transformers.pytorch_utils"))
    return OP_OF_CLASS.get(cls) if trusted else None


@cache
def parameters(name: str) -> tuple[str, ...]:
    """The names of a leaf class' constructor arguments, without device and dtype."""
    return tuple(p for p in inspect.signature(leaf_class(name).__init__).parameters if p not in _SKIPPED)


def attributes(module: nn.Module) -> dict[str, Arg]:
    """The constructor arguments of `module`, with its class under "class"."""
    name = type(module).__name__
    attrs: dict[str, Arg] = {"class": name} | {key: _attribute(module, key) for key in parameters(name)}
    if "inplace" in attrs:
        attrs["inplace"] = False
    return attrs


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
    """A leaf module on the meta device, without weights. Raises ProjectError for invalid arguments."""
    import torch

    name = str(attrs["class"])
    values = {k: v for k, v in attrs.items() if k != "class" and not (k.startswith("_") and v is None)}
    try:
        with torch.device("meta"):
            return leaf_class(name)(**values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ProjectError(f"The graph's {name} is invalid ({error}).", "Open the model's source again.") from error
