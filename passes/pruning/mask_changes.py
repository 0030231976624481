"""Difference between two masks of one weight: dropped and restored elements."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.meta import Sparsity
from espalier.model.store.weights import WeightStore


class Change(NamedTuple):
    """Numbers of newly dropped and of restored elements."""

    dropped: int
    restored: int


def change(before: Sparsity | None, after: Sparsity | None, store: WeightStore) -> Change:
    """Compare two prunings of a weight; without a mask all elements are kept."""
    old, new = _bits(before, store), _bits(after, store)
    if old is None or new is None:
        return Change(
            after.zeros if after and new is not None else 0, before.zeros if before and old is not None else 0
        )
    return Change(_count(old & ~new), _count(new & ~old))


def _bits(sparsity: Sparsity | None, store: WeightStore) -> NDArray[np.uint8] | None:
    return None if sparsity is None or sparsity.mask is None else np.asarray(store.get(sparsity.mask).array)


def _count(bits: NDArray[Any]) -> int:
    """Number of ones in packed bits; padding of the last byte is 0 in both masks."""
    return int(np.bitwise_count(bits).sum(dtype=np.int64))
