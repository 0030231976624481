"""The module that stands where a node computes with the arithmetic of hardware.

The float operation stays beside it, for the gradient: straight through.
"""

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
    """(what torch computes, sources…) → what hardware computes, with the gradient of the former."""

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
