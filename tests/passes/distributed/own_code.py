"""A model with code of its own: an operator that it registers with torch, and a branch that depends on the data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


@torch.library.custom_op("espalier_tests::squash", mutates_args=())
def squash(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (1 + x.abs())


@squash.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _saved(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])


def _gradient(ctx: Any, gradient: Tensor) -> Tensor:
    (x,) = ctx.saved_tensors
    return gradient / (1 + x.abs()) ** 2


squash.register_autograd(_gradient, setup_context=_saved)


class Own(nn.Module):
    """Two layers around the operator and the branch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(64, 16), nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, 1, 8, 8] → scores [batch, 10]."""
        x = squash(self.first(x.flatten(1)))
        return self.head(torch.cond(x.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (x,)))


def own() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """An Own and an example."""
    torch.manual_seed(6)
    return Own(), (torch.randn(4, 1, 8, 8),)
