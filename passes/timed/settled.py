"""Weights that are rounded once: what a deployed model would hold, so that no run rounds them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import nn


def settle(module: nn.Module) -> Any:
    """A built module whose leaves hold their weights as their masks and formats leave them; changed in place.

    Formats that round at random stay in the way, and so do those of tensors that functions read.
    """
    import torch
    from torch import nn

    from espalier.model.torch.layers import Compressed, Effective

    for leaf in [m for m in module.modules() if isinstance(m, Compressed)]:
        for port in list(leaf.effective):
            through, inner = cast("Effective", leaf.effective[port]), cast("Any", leaf.inner)
            if through.format is not None and through.format.stochastic:
                continue
            with torch.no_grad():
                value = through(getattr(inner, port)).detach().clone()
            held = isinstance(getattr(inner, port), nn.Parameter)
            setattr(inner, port, nn.Parameter(value, requires_grad=False) if held else value)
            del leaf.effective[port]
    return module
