"""Rounds a module's weights once, as in a deployed model, so that runs do not round them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from torch import nn


def round_weights(module: nn.Module) -> Any:
    """Apply masks and formats to the weights of a built module's leaves, in place.

    Stochastic formats stay in the forward pass, and so do those of tensors that functions read.
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
            is_parameter = isinstance(getattr(inner, port), nn.Parameter)
            setattr(inner, port, nn.Parameter(value, requires_grad=False) if is_parameter else value)
            del leaf.effective[port]
    return module
