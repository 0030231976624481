"""Fast ways with MX weights, by device, that register from above; without one the plain definition runs. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from espalier.model.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from espalier.model.torch.mx_weights import MXWeight

VALUES: Registry[str, Callable[[MXWeight, torch.dtype], Tensor]] = Registry("fast reading of MX weights on")
PRODUCTS: Registry[str, Callable[[Tensor, MXWeight, Tensor | None], Tensor]] = Registry("fast MX product on")
