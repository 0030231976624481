"""A store for what one trial makes: it sees what lies below and goes with the trial, so that searches stay small."""

from __future__ import annotations

from collections.abc import Callable

from espalier.model.graph.meta import TensorKey
from espalier.model.store.weights import Tensor, WeightStore


class OverlayStore(WeightStore):
    """Tensors of its own over those of `below`, which it only reads."""

    def __init__(self, below: WeightStore) -> None:
        super().__init__(below.folder)
        self.below = below

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self.below

    def get(self, key: TensorKey) -> Tensor:
        """The tensor, from here or from below."""
        return super().get(key) if super().__contains__(key) else self.below.get(key)

    def reader(self) -> Callable[[TensorKey], Tensor]:
        """As `get`, for values that may be written."""
        here, below = super().reader(), self.below.reader()
        own = super().__contains__
        return lambda key: here(key) if own(key) else below(key)
