"""Pruning of activations: a rule that masks each tensor anew, while weights have a stored mask.

A sample is an entry of the first axis. NaN is never dropped, so that it stays visible.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from espalier.model.graph.meta import Sparsity

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64


@dataclass(frozen=True, slots=True)
class ActivationMask:
    """Masks an activation by a Sparsity that `flows`."""

    chosen: Sparsity

    def __call__(self, x: Tensor) -> Tensor:
        """`x` with dropped values at 0; gradients pass for the others."""
        return torch.where(self.dropped(x.detach()), 0.0, x)

    def dropped(self, x: Tensor) -> Tensor:
        """Mask of the dropped values: bool, in the shape of `x`."""
        if self.chosen.pattern == "threshold":
            return x.abs() <= (0.0 if self.chosen.threshold is None else self.chosen.threshold)
        rows = x.reshape(x.shape[0], -1) if x.dim() > 1 and x.numel() else x.reshape(1, -1)
        scores = self._random_order(rows) if self.chosen.method == "random" else rows.abs().float()
        return smallest(scores, self.chosen.ratio).expand(rows.shape[0], -1).reshape(x.shape)

    def _random_order(self, rows: Tensor) -> Tensor:
        """One random order of the indices of a sample, the same for all samples: SplitMix64 of seed and index."""
        start = (self.chosen.seed * _FIRST + _GOLDEN) % 2**63
        z = torch.arange(rows.shape[1], device=rows.device).unsqueeze(0) * _signed(_GOLDEN) + start
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            z = (z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
        return z ^ ((z >> 31) & ((1 << 33) - 1))


def _signed(value: int) -> int:
    """An unsigned 64-bit value as a signed one, as torch's integers wrap around."""
    return value - 2**64 if value >= 2**63 else value


def smallest(rows: Tensor, ratio: float) -> Tensor:
    """Mask of the round(ratio·row) smallest values of each row: bool [rows, row]; of equal ones the first."""
    if torch.compiler.is_compiling():  # sizes may be symbolic, and values are unknown
        ranks = rows.argsort(stable=True, dim=1).argsort(dim=1)
        return ranks < torch.round(torch.ones((), dtype=torch.float64, device=rows.device) * rows.shape[1] * ratio)
    drop = round(ratio * rows.shape[1])
    if not drop or not rows.numel():
        return torch.zeros_like(rows, dtype=torch.bool)
    limit = rows.kthvalue(drop, dim=1, keepdim=True).values
    below, equal = rows < limit, rows == limit
    remaining = drop - below.sum(1, keepdim=True)
    if bool((equal.sum(1, keepdim=True) > remaining).any()):
        equal &= equal.cumsum(1) <= remaining
    return below | equal
