"""Arguments of torch.fx nodes as a graph holds them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from espalier.model.graph.node import Arg, Slice, TorchConst


def arg_of(value: object, ref: Callable[[fx.Node], Arg]) -> Arg:
    """`value` as an argument of a graph node; `ref` maps a contained fx node to its reference."""
    match value:
        case fx.Node():
            return ref(value)
        case list() | tuple():
            return tuple(arg_of(v, ref) for v in value)  # pyright: ignore[reportUnknownVariableType]
        case slice():
            return Slice(arg_of(value.start, ref), arg_of(value.stop, ref), arg_of(value.step, ref))
        case torch.dtype() | torch.layout() | torch.memory_format():
            return TorchConst(type(value).__name__, str(value).removeprefix("torch."))  # type: ignore[arg-type]
        case torch.device():
            return TorchConst("device", str(value))
        case _:
            return value  # type: ignore[return-value]
