"""A tensor of the graph on its way through the design: which wire, and which element travels where."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from espalier.verilog.design.netlist import Wire
from espalier.verilog.design.stream import Stream
from espalier.verilog.numbers.fixed import Fixed


@dataclass(frozen=True, slots=True, eq=False)
class Signal:
    """One sample of shape `shape`; place p of the stream carries element `index[p]` of the flattened tensor.

    Views, transposes and slices change `shape` and `index` and cost nothing until a reader wants another order.
    `repeated` [elements], where the tensor has elements several times: the place of each; `index` says nothing then.
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
        """The tensor that holds element `picked[…]` of this one at each of its places; all of this one's are picked."""
        if self.repeated is not None or picked.size > self.index.size:
            return replace(self, shape=picked.shape, repeated=self.places[picked.reshape(-1)])
        place = np.empty(picked.size, np.int64)
        place[picked.reshape(-1)] = np.arange(picked.size)
        return replace(self, shape=picked.shape, index=place[self.index])

    @property
    def places(self) -> np.ndarray:
        """The place in the stream of each element of the flattened tensor."""
        if self.repeated is not None:
            return self.repeated
        found = np.empty(self.index.size, np.int64)
        found[self.index] = np.arange(self.index.size)
        return found

    @property
    def plain(self) -> bool:
        """Whether the elements travel in their own order."""
        return bool((self.index == np.arange(self.index.size)).all())


def arranged(shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, size) of a tensor whose last axis is a row."""
    size = shape[-1] if shape else 1
    return int(np.prod(shape[:-1], dtype=np.int64)), size
