"""A weight store for one trial: it reads from another store, and its own tensors are freed with the trial."""

from __future__ import annotations

from collections.abc import Callable

from espalier.model.graph.meta import TensorKey
from espalier.model.store.weights import Tensor, WeightStore


class OverlayStore(WeightStore):
    """Its own tensors over those of `below`, which is only read."""

    def __init__(self, below: WeightStore) -> None:
        super().__init__(below.folder)
        self.below = below

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.below

    def get(self, key: TensorKey) -> Tensor:
        """The tensor, from this store or from `below`."""
        return super().get(key) if super().__contains__(key) else self.below.get(key)

    def reader(self) -> Callable[[TensorKey], Tensor]:
        """As `get`, with writable values."""
        reader, below = super().reader(), self.below.reader()
        contains = super().__contains__
        return lambda key: reader(key) if contains(key) else below(key)
