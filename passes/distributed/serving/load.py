"""The load of a served model: when requests arrive, which sample each has, and how many are in a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from espalier.model.graph.graph import Graph
from espalier.passes.running.example import batch_sizes

if TYPE_CHECKING:
    from torch import Tensor


MOST = 1_000_000  # requests of a load; the times of so many batches take 32 MB


@dataclass(frozen=True, slots=True)
class Load:
    """Requests of one sample each, answered in order of arrival in batches of at most `batch_size`.

    With a `rate`, that many arrive per second at random intervals (a Poisson process). Without, `batch_size` clients
    send their next request when they have their answer. `requests`: their number; 0: those of so many `seconds`, but no
    more than MOST.
    `kill_rank`: the rank that is killed `after` seconds; -1: none.
    """

    batch_size: int
    rate: float = 0.0
    seconds: float = 10.0
    requests: int = 0
    seed: int = 0
    kill_rank: int = -1
    after: float = 0.0

    def arrivals(self) -> list[float]:
        """Seconds from the begin to each request; none without a rate."""
        import numpy as np

        if not self.rate:
            return []
        expected = self.rate * self.seconds
        count = self.requests or math.ceil(expected + 10 * math.sqrt(expected) + 10)
        times = np.cumsum(np.random.default_rng(self.seed).exponential(1 / self.rate, count))
        return (times if self.requests else times[times < self.seconds]).tolist()


class Samples:
    """The samples of requests; they repeat after the last one.

    `largest`: run batches of 1, 2, 4, … up to it alone, since DTensor plans each size of a batch anew. `fixed`: the
    size of a model that takes no other. A batch between them is filled up with its last sample.
    """

    def __init__(self, graph: Graph, inputs: Mapping[str, Tensor], largest: int = 0) -> None:
        symbols = batch_sizes(graph, 1)
        shapes = {n.target: n.out.shape for n in graph.placeholders if n.out and n.out.shape and n.target in inputs}
        first = next(iter(shapes.values()), (1,))[0]
        self.fixed = 0 if symbols else int(first)
        self.largest, self.inputs = largest, dict(inputs)
        self.names = [n for n, shape in shapes.items() if shape[0] in symbols or (not symbols and shape[0] == first)]
        self.count = min((len(inputs[n]) for n in self.names), default=1)

    def size(self, count: int) -> int:
        """The size of the batch that is run for so many requests."""
        if self.fixed or not self.largest:
            return self.fixed or count
        return min(1 << (count - 1).bit_length(), self.largest)

    def batch(self, first: int, count: int, device: str) -> dict[str, Tensor]:
        """Inputs for the requests `first`, `first` + 1, …"""
        import torch

        rows = (first + torch.arange(self.size(count)).clamp(max=count - 1)) % self.count
        return {n: (v[rows] if n in self.names else v).to(device) for n, v in self.inputs.items()}

    def empty(self, count: int, device: str) -> dict[str, Tensor]:
        """Tensors of a batch, to be filled."""
        import torch

        shapes = {n: (self.size(count), *self.inputs[n].shape[1:]) for n in self.names}
        return {n: torch.empty(shapes[n], dtype=v.dtype, device=device) if n in shapes else v.to(device)
                for n, v in self.inputs.items()}  # fmt: skip

    def parts(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """Views as bytes of the inputs that differ between batches, since a backend does not send every type."""
        import torch

        return [inputs[n].view(-1).view(torch.uint8) for n in self.names]
