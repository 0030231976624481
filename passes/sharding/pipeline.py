"""Pipeline stages along the first axis of a mesh: a chain cut where one tensor crosses, by dynamic programming."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Sharding
from espalier.model.graph.node import out_port
from espalier.passes.sharding.collectives import shards
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions, batch_symbols, sizes_of
from espalier.passes.sharding.planned import Plan, Stage, amount
from espalier.passes.sharding.planner import Planner

SHARES = (1.0, 0.85, 0.7, 0.5)  # of the memory of all stages: stages are not equally full


def pipelined(graph: Graph, mesh: Mesh, device: Device, options: ShardPlanOptions, folded: bool = True) -> Plan:
    """The plan of a pipeline; raises OptionsError where the stages or micro-batches do not divide, or nothing fits.

    A step of m micro-batches through p stages takes (m + p − 1) times the slowest stage, of which the bubble is
    (p − 1)/(m + p − 1), for GPipe (Y. Huang et al., NeurIPS 2019) as for 1F1B (D. Narayanan et al., SC 2021). 1F1B
    keeps the activations of at most p micro-batches, which is what is counted.
    """
    start = time.perf_counter()
    small = _checked(graph, mesh, options)
    inner, alive = Mesh((1, *mesh.shape[1:])), min(options.micro_batches, options.stages)
    planner = Planner(graph, inner, device, small, folded, options.micro_batches, alive)
    plan, stages = _cut(planner, device, options)
    slowest, m, p = max(stages, key=lambda s: s.seconds), options.micro_batches, options.stages
    fullest = max(stages, key=lambda s: s.memory)
    shardings = {n: Sharding(mesh.shape, {port: at[: len(mesh.shape)] for port, at in s.ports.items()})
                 for n, s in plan.shardings.items()}  # fmt: skip
    return replace(
        plan, mesh=mesh, device=device, options=options, shardings=shardings, stages=stages,
        compute=m * slowest.compute, communication=m * slowest.communication, bubble=(p - 1) * slowest.seconds,
        state=fullest.memory, activations=0.0, bound=0.0, planning=time.perf_counter() - start,
    )  # fmt: skip


def _cut(planner: Planner, device: Device, options: ShardPlanOptions) -> tuple[Plan, tuple[Stage, ...]]:
    """A plan of the whole model in the memory of all stages, or in less where no cut of it fits; and its stages."""
    for share in SHARES:
        try:
            plan = planner.plan(share * options.stages * device.memory)
            return plan, _Chain(planner, plan, device, options).stages()
        except OptionsError:
            if share == SHARES[-1]:
                raise
    raise AssertionError


def _checked(graph: Graph, mesh: Mesh, options: ShardPlanOptions) -> ShardPlanOptions:
    """The options of a micro-batch; raises OptionsError."""
    if mesh.shape[0] != options.stages:
        raise OptionsError(f"{options.stages} stages do not match a first axis of {mesh.shape[0]} devices.",
                           f"Give --stages {mesh.shape[0]}, or a mesh such as "
                           f"{Mesh((options.stages, *mesh.shape[1:]))}.")  # fmt: skip
    if not batch_symbols(graph):
        raise OptionsError("This model has a fixed batch, so it has no micro-batches.",
                           "Trace it with a batch of at least 2, or give stages=1.")  # fmt: skip
    batch = sizes_of(options, graph)[min(batch_symbols(graph))]
    if batch % options.micro_batches:
        raise OptionsError(f"{options.micro_batches} micro-batches do not divide a batch of {batch}.",
                           f"Give a batch_size that is a multiple of {options.micro_batches}.")  # fmt: skip
    return replace(options, stages=1, batch_size=batch // options.micro_batches)


@dataclass(frozen=True, slots=True)
class _Cut:
    """After node number `at`, where a tensor of `size` bytes crosses on each rank."""

    at: int
    size: float


class _Chain:
    """The nodes of a plan in order, with running sums of seconds and bytes."""

    def __init__(self, planner: Planner, plan: Plan, device: Device, options: ShardPlanOptions) -> None:
        self.device, self.options, self.planner, self.plan = device, options, planner, plan
        self.names = list(plan.strategies)
        self.number = {n: i for i, n in enumerate(self.names)}
        self.ways = 2 if options.training else 1  # a tensor forward, its gradient backward
        moved = np.zeros(len(self.names))
        for move in plan.moves:
            owner = move.reader if move.reader in self.number else move.source
            moved[self.number.get(owner, len(self.names) - 1)] += move.seconds(device, options.micro_batches)
        self.compute = _running([plan.node_seconds[n] for n in self.names])
        self.moved = _running(moved)
        self.kept = _running([plan.node_bytes[n] + self._weights(n) for n in self.names])
        self.peak = 0.0 if options.training else plan.activations
        self.cuts = [_Cut(-1, 0.0), *self._cuts(), _Cut(len(self.names) - 1, 0.0)]

    def _weights(self, name: str) -> float:
        """Bytes on a rank of the weights that a node reads."""
        node, call = self.planner.sizing.graph.nodes[name], self.planner.network.calls[name]
        read = (self.planner.sizing.graph.nodes[ref.node] for _, ref in call.inputs)
        names = {*node.weights.values(), *(n.weights["value"] for n in read if n.call == "get_attr")}
        return sum(self.plan.weight_bytes.get(w, 0.0) for w in names)

    def _cuts(self) -> list[_Cut]:
        """Where only one tensor crosses, apart from constants, which every rank makes."""
        last: dict[tuple[str, str], int] = {}
        for name, at in self.number.items():
            for _, ref in self.planner.network.calls[name].inputs:
                if ref.node in self.number:
                    last[ref.node, out_port(ref.output)] = at
        found, crossing = list[_Cut](), dict[tuple[str, str], int]()
        for at, name in enumerate(self.names[:-1]):
            crossing = {k: end for k, end in crossing.items() if end > at}
            crossing |= {k: end for k, end in last.items() if k[0] == name and end > at}
            if len(crossing) == 1:
                found.append(_Cut(at, self._size(*next(iter(crossing)))))
        return found

    def _size(self, source: str, out: str) -> float:
        """Bytes of a result on a rank."""
        whole = self.planner.sizing.port_bytes(self.planner.sizing.graph.nodes[source], out)
        return whole / shards(self.plan.shardings[source].ports[out], self.plan.mesh.shape)

    def stages(self) -> tuple[Stage, ...]:
        """The stages whose slowest is quickest; raises OptionsError."""
        p, count = self.options.stages, len(self.cuts)
        if count - 1 < p:
            raise OptionsError(f"The model can be cut into {count - 1} stages at most, not {p}.",
                               f"Give at most {count - 1} stages.")  # fmt: skip
        ends = np.array([c.at + 1 for c in self.cuts])
        sent = np.array([self._sending(c) for c in self.cuts])
        spent = self.compute[ends] + self.moved[ends]
        table = spent[None, :] - spent[:, None] + sent[None, :]
        held = self.kept[ends][None, :] - self.kept[ends][:, None] + self.peak
        table = np.where((held > self.device.memory) | (ends[:, None] >= ends[None, :]), np.inf, table)
        best, back = table[0], list[NDArray[np.int64]]()
        for _ in range(p - 1):
            worst = np.maximum(best[:, None], table)
            back.append(worst.argmin(0))
            best = worst.min(0)
        if math.isinf(best[-1]):
            raise OptionsError(f"No cut into {p} stages fits devices of {amount(self.device.memory)}.",
                               "Give more stages, more devices or a smaller batch.")  # fmt: skip
        chosen = [count - 1]
        for step in reversed(back):
            chosen.insert(0, int(step[chosen[0]]))
        return tuple(self._stage(self.cuts[a], self.cuts[b]) for a, b in itertools.pairwise([0, *chosen]))

    def _sending(self, cut: _Cut) -> float:
        return self.ways * (self.device.latency[0] + cut.size / self.device.rate[0]) if cut.size else 0.0

    def _stage(self, first: _Cut, last: _Cut) -> Stage:
        a, b = first.at + 1, last.at + 1
        return Stage(
            tuple(self.names[a:b]), float(self.compute[b] - self.compute[a]),
            float(self.moved[b] - self.moved[a]) + self._sending(last), math.ceil(self.ways * last.size),
            float(self.kept[b] - self.kept[a]) + self.peak,
        )  # fmt: skip


def _running(values: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums up to each position, from 0."""
    return np.concatenate([[0.0], np.cumsum(np.asarray(values, np.float64))])
