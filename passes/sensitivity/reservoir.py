"""Priority sampling of rows from a stream (Duffield, Lund, Thorup, J. ACM 54, 2007).

Rows with the largest priority weight/u, u uniform, are kept; each represents max(weight, τ)/weight rows, where τ is the
largest priority not kept, so that sums over all rows are estimated without bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.1  # weight of a row without gradient, relative to the mean of the first rows: values need such rows too


class Reservoir:
    """A sample of at most `count` rows [n, row] with their further arrays."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self._random = np.random.default_rng(seed)
        self._kept: list[NDArray[Any]] = []
        self._weights = np.zeros(0)
        self._priorities = np.zeros(0)
        self._level: float | None = None
        self.peak: NDArray[np.float32] = np.zeros(0, np.float32)

    def add(self, gradients: NDArray[np.float32], *parts: NDArray[Any]) -> None:
        """Add rows: gradients and further arrays; rows of another length are ignored."""
        if self._kept and any(k.shape[1:] != p.shape[1:] for k, p in zip(self._kept, (gradients, *parts), strict=True)):
            return
        weights = np.einsum("ij,ij->i", gradients, gradients, dtype=np.float64)
        if self._level is None:
            self._level = LEVEL * float(weights.mean()) or 1.0 if len(weights) else None
        weights = np.where(np.isfinite(weights), weights, 0.0) + (self._level or 1.0)
        priorities = weights / np.maximum(self._random.random(len(weights)), 1e-300)
        least = self._priorities.min() if len(self._priorities) > self.count else 0.0
        new = np.flatnonzero(priorities > least)
        fresh = [p[new] for p in (gradients, *parts)]
        if self._kept:
            fresh = [np.concatenate([k, f]) for k, f in zip(self._kept, fresh, strict=True)]
        weights, priorities = (
            np.concatenate([self._weights, weights[new]]),
            np.concatenate([self._priorities, priorities[new]]),
        )
        if len(weights) > self.count + 1:
            best = np.argpartition(priorities, len(priorities) - self.count - 1)[-self.count - 1 :]
            fresh, weights, priorities = [f[best] for f in fresh], weights[best], priorities[best]
        self._kept, self._weights, self._priorities = fresh, weights, priorities

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """(arrays, other state) for `restore`."""
        kept = {f"kept{i}": part for i, part in enumerate(self._kept)}
        facts = {"level": self._level, "random": self._random.bit_generator.state}
        return {**kept, "weights": self._weights, "priorities": self._priorities, "peak": self.peak}, facts

    def restore(self, arrays: dict[str, NDArray[Any]], facts: dict[str, Any]) -> None:
        """Restore the result of `state`."""
        self._kept = [arrays[name] for i in range(len(arrays)) if (name := f"kept{i}") in arrays]
        self._weights, self._priorities, self.peak = arrays["weights"], arrays["priorities"], arrays["peak"]
        self._level = facts["level"]
        self._random.bit_generator.state = facts["random"]

    def sample(self) -> tuple[NDArray[np.float32], list[NDArray[Any]]]:
        """(number of rows that each sampled row represents, [gradients, further arrays])."""
        if not self._kept:
            return np.zeros(0, np.float32), []
        weights, priorities, kept = self._weights, self._priorities, self._kept
        if len(weights) <= self.count:
            return np.ones(len(weights), np.float32), kept
        least = int(priorities.argmin())
        stay = np.arange(len(weights)) != least
        shares = np.maximum(weights, priorities[least]) / weights
        return shares[stay].astype(np.float32), [k[stay] for k in kept]
