"""Collectives that change the placements of a tensor: their steps as torch takes them, their bytes and their time.

Bytes: those of the local tensor with which each rank calls the collective. Time: α–β model of ring algorithms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from espalier.passes.sharding.mesh import Device

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
Placements = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective along an axis of the mesh, of `ranks` ranks. `bytes`: of the local tensor that a rank passes in;
    `wire`: the same with values in their formats."""

    kind: Kind
    axis: int
    ranks: int
    bytes: int
    wire: int

    @property
    def messages(self) -> int:
        """Messages that each rank sends in a ring, one after the other."""
        return (self.ranks - 1) * (2 if self.kind == "all_reduce" else 1)

    def sent(self) -> float:
        """Bytes that each rank sends in a ring, values in their formats: 2(n−1)/n of the tensor in an all-reduce,
        (n−1) parts in an all-gather, (n−1)/n in a reduce-scatter or an all-to-all.

        Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of Collective Communication Operations in MPICH",
        IJHPCA 19(1), 2005.
        """
        n = self.ranks
        return self.wire * {"all_reduce": 2 * (n - 1) / n, "all_gather": n - 1}.get(self.kind, (n - 1) / n)

    def seconds(self, device: Device) -> float:
        """α per message of the ring, and β per byte."""
        return self.messages * device.latency[self.axis] + self.sent() / device.rate[self.axis]


Step = tuple[int, str, str]  # axis, placement before, placement after


def steps(before: Sequence[str], after: Sequence[str]) -> tuple[Step, ...]:
    """Single-axis steps from one placement to another, in the order of DTensor's greedy planner
    (torch.distributed.tensor._redistribute, generate_greedy_transform_infos).
    """
    current, found = list(before), list[Step]()
    if len(current) == 1:
        return ((0, before[0], after[0]),) if before[0] != after[0] else ()
    if any(p[0] == "S" for p in before):
        for axis in reversed(range(len(current))):
            target = after[axis]
            if target[0] == "S" and _outer(current, axis, target) != _outer(after, axis, target):
                target = "R"
            if current[axis] != target:
                found.append((axis, current[axis], target))
                current[axis] = target
    for axis, target in enumerate(after):
        if current[axis] != target:
            found.append((axis, current[axis], target))
            current[axis] = target
    return tuple(found)


def _outer(placements: Sequence[str], axis: int, target: str) -> list[int]:
    """The axes before `axis` that split the same dimension."""
    return [i for i in range(axis) if placements[i] == target]


_KINDS: dict[tuple[str, str], Kind] = {
    ("P", "R"): "all_reduce", ("P", "S"): "reduce_scatter", ("S", "R"): "all_gather", ("S", "S"): "all_to_all",
}  # fmt: skip


def collectives(
    before: Sequence[str], after: Sequence[str], mesh: Sequence[int], size: float, coded: float | None = None
) -> tuple[Collective, ...]:
    """The collectives that redistribute a tensor.

    `size`: bytes of the whole tensor; `coded`: bytes in its format, for steps that move values instead of sums.
    A step from R to S or P needs none: each rank keeps a part of what it has.
    """
    if before == after:
        return ()
    current, found = list(before), list[Collective]()
    for axis, old, new in steps(before, after):
        kind = _KINDS.get((old[0], new[0]))
        if kind and mesh[axis] > 1:
            split = math.prod(n for n, p in zip(mesh, current, strict=True) if p[0] == "S")
            moved = size if coded is None or old == "P" else coded
            found.append(Collective(kind, axis, mesh[axis], math.ceil(size / split), math.ceil(moved / split)))
        current[axis] = new
    return tuple(found)


def seconds(moves: Sequence[Collective], device: Device) -> float:
    """The time of collectives, one after the other."""
    return sum(m.seconds(device) for m in moves)


def possible(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether torch redistributes so: parts of a tensor do not become a partial sum."""
    return not any(a[0] == "S" and b == "P" for a, b in zip(before, after, strict=True))


def shards(placements: Sequence[str], mesh: Sequence[int]) -> int:
    """The number of parts that a tensor is split into."""
    return math.prod(n for n, p in zip(mesh, placements, strict=True) if p[0] == "S")
