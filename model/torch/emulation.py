"""A module that computes a node with the arithmetic of hardware; gradients are those of the float operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from espalier.model.torch.emulators import Emulation


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, soft: Tensor, hard: Tensor) -> Tensor:
        return hard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class Emulated(nn.Module):
    """(torch's result, sources…) → hardware's result, with a straight-through gradient to the former."""

    def __init__(self, emulation: Emulation) -> None:
        super().__init__()
        self.emulation = emulation

    def forward(self, soft: Tensor, *values: Tensor) -> Tensor:
        """The shape and dtype of `soft`."""
        if self.training and not self.emulation.trains:
            return soft
        with torch.no_grad():
            hard = self.emulation.run(soft, *values)
        return _StraightThrough.apply(soft, hard) if torch.is_grad_enabled() else hard  # type: ignore[no-any-return]
