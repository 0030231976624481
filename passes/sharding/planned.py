"""Plans as values: placements, moves of tensors, times and memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.graph.meta import Sharding
from espalier.passes.sharding.collectives import Collective, Placements
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions


@dataclass(frozen=True, slots=True)
class Move:
    """A tensor that is redistributed. `source`: a node, or a weight where `stored`. `reader`: the node (or "result 0")
    that needs it; empty for a move before all readers of a shared tensor. `backward`: collectives of its gradient.

    `times`: runs of the forward collectives in a step: 2 for a stored weight that training gathers again.
    """

    source: str
    output: str
    reader: str
    port: str
    before: Placements
    after: Placements
    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...]
    times: int = 1
    stored: bool = False

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """All of a step."""
        return self.forward * self.times + self.backward

    @property
    def bytes(self) -> int:
        """Bytes with which each rank calls collectives in a step, values as they are."""
        return sum(c.bytes for c in self.collectives)

    @property
    def wire(self) -> int:
        """The same with values in their formats."""
        return sum(c.wire for c in self.collectives)

    def seconds(self, device: Device, accumulated: int = 1) -> float:
        """Of one run; the gradient of a weight is reduced once in `accumulated` runs."""
        once = sum(c.seconds(device) for c in self.backward) / (accumulated if self.stored else 1)
        return sum(c.seconds(device) for c in self.forward) * self.times + once


@dataclass(frozen=True, slots=True)
class Stage:
    """A part of a pipeline: its nodes in order and, of one micro-batch, the seconds of computing and moving. `sent`:
    bytes that it hands on; `memory`: bytes of a rank."""

    nodes: tuple[str, ...]
    compute: float
    communication: float
    sent: int
    memory: float

    @property
    def seconds(self) -> float:
        """Of a micro-batch."""
        return self.compute + self.communication


@dataclass(frozen=True, slots=True)
class Plan:
    """A sharding for every node and what a step costs on each rank. Times in seconds, sizes in bytes.

    `strategies`: of the nodes that compute. `state`: weights, gradients and optimiser state; `activations`: kept for
    the backward pass, or the most that a node needs. `bound`: no choice of strategies takes less. `notes`: what does
    not divide. `node_seconds`: of computing each node; `node_bytes`: that it keeps for the backward pass;
    `weight_bytes`: of each weight on a rank, with its gradient and optimiser state. `baselines`: by name, a plan or why
    there is none. `stages` and `bubble`: of a pipeline, whose compute and communication are those of the slowest stage
    and whose memory, all in `state`, is that of the fullest. Its moves are those of one micro-batch in all stages.
    """

    name: str
    mesh: Mesh
    device: Device
    options: ShardPlanOptions
    shardings: dict[str, Sharding]
    strategies: dict[str, str]
    moves: tuple[Move, ...]
    compute: float
    communication: float
    state: float
    activations: float
    bound: float
    planning: float
    units: int
    notes: tuple[str, ...] = ()
    node_seconds: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    node_bytes: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    weight_bytes: dict[str, float] = field(default_factory=dict)  # type: ignore[assignment]
    baselines: dict[str, Plan | str] = field(default_factory=dict)  # type: ignore[assignment]
    stages: tuple[Stage, ...] = ()
    bubble: float = 0.0

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.compute + self.communication + self.bubble

    @property
    def memory(self) -> float:
        """Of a rank."""
        return self.state + self.activations

    @property
    def fits(self) -> bool:
        """Whether a device has that memory."""
        return self.memory <= self.device.memory

    @property
    def bytes(self) -> int:
        """Bytes with which each rank calls collectives in a step."""
        return sum(m.bytes for m in self.moves)

    @property
    def wire(self) -> int:
        """The same with values in their formats."""
        return sum(m.wire for m in self.moves)


def amount(size: float) -> str:
    """Bytes in words: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:,.0f} {unit}"
        size /= 1024
    raise AssertionError
