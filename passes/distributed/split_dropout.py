"""Dropout of split tensors with the random numbers of one process: every rank draws those of the whole tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.overrides import TorchFunctionMode

from espalier.passes.distributed.placements import full, settled, whole_call

SCALING = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, torch.dropout, torch.feature_dropout,
           torch.ops.aten.dropout.default, torch.ops.aten.feature_dropout.default)  # fmt: skip
OTHERS = (F.alpha_dropout, F.feature_alpha_dropout, torch.alpha_dropout, torch.feature_alpha_dropout,
          torch.ops.aten.alpha_dropout.default, torch.ops.aten.feature_alpha_dropout.default)  # fmt: skip

DRAWING = ("rand_like", "randn_like", "randint_like", "bernoulli", "multinomial", "rrelu", "uniform", "normal_")


@cache
def draws(function: Any) -> bool:
    """Whether a function draws numbers of its own, other than dropout."""
    return any(name in str(function) for name in DRAWING)


def dropout(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """A dropout function of a DTensor: the mask of the whole tensor is drawn, and this rank's part of it applied."""
    x, *others = args
    x = settled(x)
    # Numbers are drawn in the order of memory.
    order = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
    values = torch.empty_like(order, device=x.to_local().device)
    if function in OTHERS:
        return whole_call(function, (values.copy_(full(x)), *others), kwargs)
    mask = function(values.fill_(1), *others, **{k: v for k, v in kwargs.items() if k != "inplace"})
    return x * distribute_tensor(mask, x.device_mesh, x.placements, src_data_rank=None)


class WholeDropout(TorchFunctionMode):
    """Dropout called by modules, such as nn.Dropout and adapters."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in SCALING + OTHERS and args and isinstance(args[0], DTensor):
            return dropout(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))
