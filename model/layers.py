"""The modules that a build puts in: a tensor's effective value (mask, then format), and leaves that use it."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.formats.base import Format


class Effective(nn.Module):
    """x → format(x·mask). Values of parameters are computed once and kept until the parameter is written."""

    mask: Tensor | None

    def __init__(self, fmt: Format | None, mask: Tensor | None = None) -> None:
        super().__init__()
        self.format = fmt
        self.register_buffer("mask", mask, persistent=False)
        self._cached: tuple[tuple[Any, ...], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape and dtype."""
        if type(x) is not nn.Parameter or (torch.is_grad_enabled() and x.requires_grad):
            return self._compute(x)
        stamp = (id(x), x._version, x.data_ptr(), x.dtype)
        if self._cached is None or self._cached[0] != stamp:
            self._cached = stamp, self._compute(x).detach()
        return self._cached[1]

    def _compute(self, x: Tensor) -> Tensor:
        pruned = x if self.mask is None else x * self.mask
        return pruned if self.format is None else self.format.quantize(pruned)

    def extra_repr(self) -> str:
        """Format and mask, for print(model)."""
        return f"{self.format or 'float'}{', masked' if self.mask is not None else ''}"


class Compressed(nn.Module):
    """A leaf module whose weight and bias pass through `Effective` first."""

    def __init__(self, inner: nn.Module, op: str, effective: dict[str, Effective]) -> None:
        super().__init__()
        self.inner = inner
        self.op = op
        self.effective = nn.ModuleDict(effective)

    @property
    def weight(self) -> Tensor:
        """The stored weight, before mask and format."""
        return cast("Tensor", self.inner.weight)

    @property
    def bias(self) -> Tensor | None:
        """The stored bias."""
        return cast("Tensor | None", self.inner.bias)

    def tensor(self, port: str) -> Tensor | None:
        """The effective tensor of a port."""
        value = cast("Tensor | None", getattr(self.inner, port))
        return self.effective[port](value) if value is not None and port in self.effective else value

    def forward(self, x: Tensor) -> Tensor:
        """As the inner module, on effective tensors."""
        weight, bias = cast("Tensor", self.tensor("weight")), self.tensor("bias")
        if isinstance(self.inner, nn.Linear):
            return F.linear(x, weight, bias)
        if isinstance(self.inner, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            return self.inner._conv_forward(x, weight, bias)  # pyright: ignore[reportPrivateUsage]
        values: dict[str, Any] = {"weight": weight} | ({} if bias is None else {"bias": bias})
        return torch.func.functional_call(self.inner, values, (x,))  # type: ignore[no-any-return]


def unpack_mask(packed: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Bool mask from numpy.packbits bytes (uint8, one bit an element, most significant first)."""
    shifts = torch.arange(7, -1, -1, dtype=torch.uint8)
    bits = (packed.unsqueeze(1) >> shifts) & 1
    count = 1
    for size in shape:
        count *= size
    return bits.reshape(-1)[:count].reshape(shape).bool()


def pack_mask(mask: Tensor) -> Tensor:
    """numpy.packbits bytes of a bool mask."""
    import numpy as np

    return torch.from_numpy(np.packbits(mask.reshape(-1).numpy()))
