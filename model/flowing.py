"""Pruning of activations while they flow: a rule for each tensor that comes, where weights have a mask.

A sample is an entry of the first axis. What is no number (NaN) is never dropped, so that it stays seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.meta import Sparsity


@dataclass(frozen=True, slots=True)
class Flowing:
    """Which values of an activation go, under a Sparsity that `flows`."""

    chosen: Sparsity

    def __call__(self, x: Tensor) -> Tensor:
        """`x` with what goes at 0; the gradient passes for what stays."""
        return torch.where(self.dropped(x.detach()), 0.0, x)

    def dropped(self, x: Tensor) -> Tensor:
        """Where `x` is dropped: bool, in its shape."""
        if self.chosen.pattern == "threshold":
            return x.abs() <= (0.0 if self.chosen.threshold is None else self.chosen.threshold)
        samples = len(x) if x.dim() > 1 else 1
        drop = round(self.chosen.ratio * (x.numel() // max(samples, 1)))
        if not x.numel() or not drop:
            return torch.zeros_like(x, dtype=torch.bool)
        rows = x.reshape(samples, -1)
        ranked = self._places(rows) if self.chosen.method == "random" else rows.abs().float()
        return smallest(ranked, drop).expand(len(rows), -1).reshape(x.shape)

    def _places(self, rows: Tensor) -> Tensor:
        """One random order of the places of a sample, the same for all of them."""
        generator = torch.Generator().manual_seed(self.chosen.seed % 2**63)
        return torch.rand(1, rows.shape[1], generator=generator).to(rows.device)


def smallest(rows: Tensor, drop: int) -> Tensor:
    """Where the `drop` smallest of each row are: bool [rows, row]; of equal ones those that come first."""
    limit = rows.kthvalue(drop, dim=1, keepdim=True).values
    gone, level = rows < limit, rows == limit
    wanted = drop - gone.sum(1, keepdim=True)
    if bool((level.sum(1, keepdim=True) > wanted).any()):
        level &= level.cumsum(1) <= wanted
    return gone | level
