"""What differs between two masks of one weight: elements that went, and such that came back."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.meta import Sparsity
from espalier.model.store.weights import WeightStore


class Change(NamedTuple):
    """Kept before and dropped now; dropped before and kept now."""

    dropped: int
    restored: int


def change(before: Sparsity | None, after: Sparsity | None, store: WeightStore) -> Change:
    """From one pruning of a weight to another; without a mask all is kept."""
    old, new = _bits(before, store), _bits(after, store)
    if old is None or new is None:
        return Change(
            after.zeros if after and new is not None else 0, before.zeros if before and old is not None else 0
        )
    return Change(_count(old & ~new), _count(new & ~old))


def _bits(held: Sparsity | None, store: WeightStore) -> NDArray[np.uint8] | None:
    return None if held is None or held.mask is None else np.asarray(store.get(held.mask).array)


def _count(bits: NDArray[Any]) -> int:
    """Ones among packed bits; those that fill up the last byte are 0 in both masks."""
    return int(np.bitwise_count(bits).sum(dtype=np.int64))
