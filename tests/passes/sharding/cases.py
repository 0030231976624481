"""Small networks and devices for plans."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.sharding.mesh import Device, Mesh


class Pair(nn.Module):
    """Two layers: what Megatron splits by columns, then by rows."""

    def __init__(self, width: int = 8, inner: int = 16) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x)))


class Residual(nn.Module):
    """A tensor that is read twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(8, 8, bias=False), nn.LayerNorm(8, elementwise_affine=False)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x)
        return self.norm(y + self.layer(y))


class Tied(nn.Module):
    """An embedding and a head with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 4), nn.Linear(4, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids))


class Convolutions(nn.Module):
    """Convolutions, a batch norm and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.deep = (
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.Conv2d(8, 8, 3, groups=4),
        )
        self.head = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.deep(torch.relu(self.norm(self.first(image)))).mean((2, 3)))


class Odd(nn.Module):
    """Sizes that 2 does not divide."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(7, 9), nn.Linear(9, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


EXAMPLES: dict[type[nn.Module], dict[str, Tensor]] = {
    Pair: {"x": torch.zeros(4, 8)}, Residual: {"x": torch.zeros(4, 8)}, Odd: {"x": torch.zeros(3, 7)},
    Tied: {"ids": torch.zeros(4, 6, dtype=torch.long)}, Convolutions: {"image": torch.zeros(4, 3, 8, 8)},
}  # fmt: skip


@cache
def graph_of(kind: type[nn.Module]) -> Graph:
    """The graph of a network."""
    torch.manual_seed(1)
    return trace(kind().eval(), dict(EXAMPLES[kind]), WeightStore(Path(tempfile.mkdtemp()))).graph


def device(mesh: Mesh, memory: float = 1e12, rate: float = 1e6, flops: float = 1e6) -> Device:
    """A device so slow that small networks are worth splitting."""
    axes = len(mesh.shape)
    return Device("slow", flops, memory, 1e7, (1e-6, 3e-6)[:axes], (rate, rate / 2)[:axes])
