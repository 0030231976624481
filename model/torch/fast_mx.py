"""Stored MX weights, and registries of fast implementations by device, filled by a higher layer. No torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from espalier.model.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class MXWeight:
    """A matrix [rows, columns] in MXINT: code·2^(exponent − 127 − (width − 2)).

    `codes`: int8 [rows, columns]; of width 4 uint8 [rows, ⌈columns/2⌉], the even column in the low half, in two's
    complement. `exponents`: uint8 [rows, ⌈columns/block⌉].
    """

    codes: Tensor
    exponents: Tensor
    columns: int
    width: int
    block: int

    @property
    def rows(self) -> int:
        """Number of rows: the outputs of a Linear."""
        return self.codes.shape[0]

    @property
    def bytes(self) -> int:
        """Bytes in memory."""
        return self.codes.numel() + self.exponents.numel()


VALUES: Registry[str, Callable[[MXWeight, torch.dtype], Tensor]] = Registry("fast reading of MX weights on")
PRODUCTS: Registry[str, Callable[[Tensor, MXWeight, Tensor | None], Tensor]] = Registry("fast MX product on")
