"""Which parameters train."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ports import weights_of
from espalier.passes.select import Select

Part = Literal["all", "own", "weights", "biases", "adapters"]


@dataclass(frozen=True, slots=True)
class FreezeOptions:
    """Which nodes, and which of their parameters."""

    select: Select = field(default=Select(), metadata={"help": "which nodes"})
    part: Part = field(default="all", metadata={"help": "which parameters; own: all except adapters"})


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
