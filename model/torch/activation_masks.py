"""Pruning of activations while they flow: a rule for each tensor that comes, where weights have a mask.

A sample is an entry of the first axis. What is no number (NaN) is never dropped, so that it stays seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from espalier.model.graph.meta import Sparsity

_GOLDEN, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # SplitMix64


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
        rows = x.reshape(x.shape[0], -1) if x.dim() > 1 and x.numel() else x.reshape(1, -1)
        scores = self._places(rows) if self.chosen.method == "random" else rows.abs().float()
        return smallest(scores, self.chosen.ratio).expand(rows.shape[0], -1).reshape(x.shape)

    def _places(self, rows: Tensor) -> Tensor:
        """One random order of the places of a sample, the same for all of them: SplitMix64 of seed and place."""
        start = (self.chosen.seed * _FIRST + _GOLDEN) % 2**63
        z = torch.arange(rows.shape[1], device=rows.device).unsqueeze(0) * _signed(_GOLDEN) + start
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            z = (z ^ ((z >> shift) & ((1 << (64 - shift)) - 1))) * _signed(factor)
        return z ^ ((z >> 31) & ((1 << 33) - 1))


def _signed(value: int) -> int:
    """64 bits as torch's integers have them, which wrap around."""
    return value - 2**64 if value >= 2**63 else value


def smallest(rows: Tensor, ratio: float) -> Tensor:
    """Where the round(ratio·row) smallest of each row are: bool [rows, row]; of equal ones those that come first."""
    if torch.compiler.is_compiling():  # sizes may be free, and values cannot be asked
        ranks = rows.argsort(stable=True, dim=1).argsort(dim=1)
        return ranks < torch.round(torch.ones((), dtype=torch.float64, device=rows.device) * rows.shape[1] * ratio)
    drop = round(ratio * rows.shape[1])
    if not drop or not rows.numel():
        return torch.zeros_like(rows, dtype=torch.bool)
    limit = rows.kthvalue(drop, dim=1, keepdim=True).values
    gone, level = rows < limit, rows == limit
    wanted = drop - gone.sum(1, keepdim=True)
    if bool((level.sum(1, keepdim=True) > wanted).any()):
        level &= level.cumsum(1) <= wanted
    return gone | level
