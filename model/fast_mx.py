"""Fast ways with MX weights, by device, that register from above; without one the plain definition runs. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from model.mx_weights import MXWeight

VALUES: dict[str, Callable[[MXWeight, torch.dtype], Tensor]] = {}
PRODUCTS: dict[str, Callable[[Tensor, MXWeight, Tensor | None], Tensor]] = {}
