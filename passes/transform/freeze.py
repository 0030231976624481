"""Freeze parameters of nodes, and let them train again: what training leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from espalier.model.graph import Graph, Node
from espalier.model.ports import weights_of
from espalier.passes.base import Context, Report, transform
from espalier.passes.select import Select, chosen

Part = Literal["all", "own", "weights", "biases", "adapters"]


@dataclass(frozen=True, slots=True)
class FreezeOptions:
    """Which nodes, and which of their parameters."""

    select: Select = field(default=Select(), metadata={"help": "which nodes"})
    part: Part = field(default="all", metadata={"help": "which of their parameters; own: all but adapters"})


@transform("freeze", "Freeze", FreezeOptions, instant=True)
def freeze(graph: Graph, options: FreezeOptions, context: Context) -> tuple[Graph, Report]:
    """Parameters of the selected nodes stay as they are in training. A parameter that nodes share is frozen for all."""
    return _set(graph, options, False)


@transform("unfreeze", "Unfreeze", FreezeOptions, instant=True)
def unfreeze(graph: Graph, options: FreezeOptions, context: Context) -> tuple[Graph, Report]:
    """Parameters of the selected nodes train (again), beside adapters too."""
    return _set(graph, options, True)


def trained_by(node: Node, graph: Graph, part: Part = "all") -> Iterator[str]:
    """The parameters of a node, scales of its formats and its adapters' matrices among them."""
    adapters = {name for x in node.adapters.values() for name in (x.a, x.b)}
    stored = {name: port for port, name in weights_of(node, graph)} | dict.fromkeys(node.tensors, "")
    stored |= {name: port for port, name in node.weights.items()}
    for name, port in stored.items():
        kind = "adapters" if name in adapters else "biases" if port == "bias" else "weights"
        kinds = ("all", kind) if kind == "adapters" else ("all", "own", kind)
        if graph.weights[name].role == "parameter" and part in kinds:
            yield name


def _set(graph: Graph, options: FreezeOptions, trainable: bool) -> tuple[Graph, Report]:
    verb = "frozen" if not trainable else "trained"
    part = options.part
    nodes = chosen(graph, options.select, lambda n: any(trained_by(n, graph, part)), verb)
    owner = {name: n.id for n in reversed(nodes) for name in trained_by(n, graph, part)}
    changed = {k: replace(w, trainable=trainable, rests=False) for k in owner
               if (w := graph.weights[k]).trainable != trainable or w.rests}  # fmt: skip
    rows = tuple({"node": owner[k], "parameter": k, "elements": w.elements} for k, w in changed.items())
    summary = {"parameters": len(rows), "elements": sum(w.elements for w in changed.values())}
    return graph.with_weights(changed), Report("unfreeze" if trainable else "freeze", rows, summary)
