"""A plan, its baselines and the redistributed tensors as plain values, for charts and for the graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Node
from espalier.model.graph.ports import choice
from espalier.passes.sharding.apply import resharding_at
from espalier.passes.sharding.collectives import Collective
from espalier.passes.sharding.planned import Move, Plan

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """A collective as it is drawn. `bytes`: with which each rank calls it; `wire`: the same in the format; `times`:
    calls in a step."""

    collective: str
    bytes: int
    wire: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Moved:
    """A tensor that is redistributed: the result of `source` before `user`, or before all its users if that is empty.

    `weight`: what `user` stores or reads, instead. `gradient`: collectives of its gradient. `format`: of the values on
    the wire, where it is not that of the tensor.
    """

    source: str
    user: str
    port: str
    before: str
    after: str
    sent: tuple[Sent, ...]
    gradient: tuple[Sent, ...] = ()
    weight: str = ""
    format: str = ""

    @property
    def bytes(self) -> int:
        """Of all collectives of a rank."""
        return sum(s.bytes * s.times for s in (*self.sent, *self.gradient))


@dataclass(frozen=True, slots=True)
class Drawn:
    """What the window draws of a plan."""

    compared: tuple[Row, ...]
    moved: tuple[Moved, ...]


def drawn(plan: Plan, graph: Graph) -> Drawn:
    """The rows that compare a plan with its baselines, and the tensors that it moves."""
    return Drawn(compared_rows(plan), tuple(planned_moves(plan, graph)))


def compared_rows(plan: Plan) -> tuple[Row, ...]:
    """A row for the plan and for each baseline: milliseconds of a step and its parts, bytes per rank.

    `limit_bytes`: memory of a device. `problem`: why a baseline splits nothing; then it has no figures.
    """
    return (_row("plan", plan), *(_row(name, other) for name, other in plan.baselines.items()))


def _row(name: str, plan: Plan | str) -> Row:
    if isinstance(plan, str):
        return {"plan": name, "problem": plan}
    return {
        "plan": name, "step_ms": plan.seconds * 1e3, "compute_ms": plan.compute * 1e3,
        "communication_ms": plan.communication * 1e3, "bubble_ms": plan.bubble * 1e3, "memory_bytes": plan.memory,
        "state_bytes": plan.state, "activation_bytes": plan.activations, "limit_bytes": plan.device.memory,
        "moved_bytes": plan.bytes, "wire_bytes": plan.wire, "fits": plan.fits, "problem": "",
    }  # fmt: skip


def planned_moves(plan: Plan, graph: Graph) -> Iterator[Moved]:
    """The moves of a plan that need a collective, by the nodes between which they are drawn."""
    output = next((n.id for n in graph if n.call == "output"), "")
    readers = {m.source: m.reader for m in reversed(plan.moves) if m.stored and m.reader}
    first: dict[str, Node] = {}  # user of each result
    for node in graph:
        for ref in node.inputs:
            first.setdefault(ref.node, node)
    for move in plan.moves:
        if not move.collectives:
            continue
        user = output if move.reader.startswith("result ") else move.reader
        if move.stored:
            user = user or readers.get(move.source, "")
        yield Moved(
            "" if move.stored else move.source, user, move.port, " ".join(move.before), " ".join(move.after),
            _sent(move.forward, move.times), _sent(move.backward), move.source if move.stored else "",
            _format(move, graph.nodes.get(user) or first.get(move.source)),
        )  # fmt: skip


def _sent(collectives: Sequence[Collective], times: int = 1) -> tuple[Sent, ...]:
    return tuple(Sent(c.kind.replace("_", "-"), c.bytes, c.wire, times) for c in collectives)


def _format(move: Move, user: Node | None) -> str:
    """The format in which a move of quantised values travels: that of its user, of a shared tensor its first one."""
    chosen = choice(user, move.port) if user and any(c.wire != c.bytes for c in move.forward) else None
    return chosen.label if chosen else ""


def placed_moves(graph: Graph) -> tuple[Moved, ...]:
    """What a forward run of a graph with shardings redistributes, at the traced sizes. Values travel as they are."""
    return tuple(move for node in graph for move in moves_at(node, graph))


def moves_at(node: Node, graph: Graph) -> Iterator[Moved]:
    """Those before a node and of its result, from the node, its inputs and the sizes of the symbols alone."""
    whole = groupby(resharding_at(node, graph, graph.symbols), lambda r: (r.source, r.port, r.before, r.after))
    for (source, port, before, after), parts in whole:
        sent = tuple(Sent(p.collective.replace("_", "-"), p.bytes, p.bytes) for p in parts)
        own = source == node.id  # its weight before use, or its own result
        weight = node.weights.get(port, "") if own and port != "data_out" else ""
        user = "" if own and not weight else node.id
        yield Moved("" if weight else source, user, port, " ".join(before), " ".join(after), sent, (), weight)
