"""LoRA adapters in a built model: s·B·A·dropout(x) is added to the layer's result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.graph.graph import Node
from espalier.model.graph.meta import Adapter
from espalier.model.torch.layers import Compressed


class LowRank(nn.Module):
    """s·B·A·dropout(x), computed in the dtype of A and B, as PEFT does."""

    def __init__(self, node: Node, adapter: Adapter, a: nn.Parameter, b: nn.Parameter) -> None:
        super().__init__()
        self.op, self.scaling, self.dropout = node.op, adapter.scaling, adapter.dropout
        self.a, self.b = a, b

    def forward(self, x: Tensor, layer: nn.Module | None = None) -> Tensor:
        """x: the layer's input. `layer`: the convolution or embedding, whose strides or padding apply to A too."""
        if isinstance(layer, nn.Embedding):
            rows = F.embedding(x, self.a.T, layer.padding_idx, layer.max_norm, layer.norm_type)
            return (rows @ self.b.T) * self.scaling
        x = x.to(self.a.dtype)
        if self.dropout:
            x = F.dropout(x, self.dropout, self.training)
        if isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            narrow = layer._conv_forward(x, self.a, None)  # pyright: ignore[reportPrivateUsage]
            widen = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[self.a.dim() - 2]
            return widen(narrow, self.b) * self.scaling
        return F.linear(F.linear(x, self.a), self.b) * self.scaling

    def extra_repr(self) -> str:
        """Rank, scaling and dropout, for print(model)."""
        return f"rank {self.a.shape[0]}, scaling {self.scaling:g}, dropout {self.dropout:g}"


class Adapted(nn.Module):
    """A leaf, or a function over stored weights, with an adapter."""

    def __init__(self, base: nn.Module | Callable[..., Any], adapter: LowRank) -> None:
        super().__init__()
        self.base, self.adapter = base, adapter

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """The base's result plus the adapter's, added in place to preserve dtype and layout."""
        y: Tensor = self.base(x, *args, **kwargs)
        return y.add_(self.adapter(x, innermost(self)))


def innermost(module: nn.Module) -> nn.Module:
    """The plain leaf inside its adapter and compression wrappers."""
    if isinstance(module, Adapted) and isinstance(module.base, nn.Module):
        return innermost(module.base)
    return module.inner if isinstance(module, Compressed) else module
