"""A tensor of the graph as a stream of the design: its wire and the order of its elements."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """One sample of shape `shape`; position p of the stream carries element `index[p]` of the flattened tensor.

    Views, transposes and slices change `shape` and `index` and cost nothing until a reader needs another order.
    `repeated` [elements]: for tensors with repeated elements, the position of each element; `index` is unused then.
    """

    wire: Wire
    stream: Stream
    shape: tuple[int, ...]
    index: np.ndarray
    repeated: np.ndarray | None = None

    @property
    def fixed(self) -> Fixed:
        """The format on the wire."""
        return self.stream.fixed

    def viewed(self, picked: np.ndarray) -> Signal:
        """The tensor whose elements are `picked[…]` of this one; every element must be picked at least once."""
        if self.repeated is not None or picked.size > self.index.size:
            return replace(self, shape=picked.shape, repeated=self.places[picked.reshape(-1)])
        position = np.empty(picked.size, np.int64)
        position[picked.reshape(-1)] = np.arange(picked.size)
        return replace(self, shape=picked.shape, index=position[self.index])

    @property
    def places(self) -> np.ndarray:
        """The position in the stream of each element of the flattened tensor."""
        if self.repeated is not None:
            return self.repeated
        positions = np.empty(self.index.size, np.int64)
        positions[self.index] = np.arange(self.index.size)
        return positions

    @property
    def in_order(self) -> bool:
        """Whether the elements are in row-major order."""
        return bool((self.index == np.arange(self.index.size)).all())


def rows_and_size(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, size) of a stream whose rows are the tensor's last axis."""
    size = shape[-1] if shape else 1
    return int(np.prod(shape[:-1], dtype=np.int64)), size
