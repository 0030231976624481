"""The straight-through estimator: the one place that gives a number format its gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from model.formats.base import Format


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, fmt: Format) -> Tensor:
        ctx.save_for_backward(fmt.inside(x))
        return fmt.forward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (inside,) = ctx.saved_tensors
        return grads[0] * inside, None


def straight_through(fmt: Format, x: Tensor) -> Tensor:
    """`fmt` of `x`; the gradient passes where `fmt.inside(x)` and is 0 elsewhere (Bengio et al. 2013)."""
    if torch.is_grad_enabled() and x.requires_grad:
        return _StraightThrough.apply(x, fmt)  # type: ignore[no-any-return]
    return fmt.forward(x)
