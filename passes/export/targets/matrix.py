"""Layers by targets: what each target holds of a layer's choices, and the formats that it could hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from espalier.model.formats.base import Format, parse_format
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import weight_at
from espalier.passes.export.targets import TARGETS, Unheld, unheld


@dataclass(frozen=True, slots=True)
class Layer:
    """A node with a weight of two or more axes, or with choices. `refused`: by target, what it has no equal of."""

    node: Node
    has_weight: bool
    chosen: bool
    refused: dict[str, tuple[Unheld, ...]]

    @property
    def held_everywhere(self) -> bool:
        """Whether no target refuses a choice."""
        return not any(self.refused.values())


def layers(graph: Graph) -> list[Layer]:
    """The layers of a graph, in its order."""
    found: list[Layer] = []
    for node in graph:
        weight = weight_at(node, "weight", graph)
        has_weight = weight is not None and len(graph.weights[weight].shape) > 1
        chosen = bool(node.precision or node.adapters or any(s.flows for s in node.sparsity.values()))
        if has_weight or chosen:
            refused = {name: unheld(name, node, graph) if chosen else () for name, _ in TARGETS.items()}
            found.append(Layer(node, has_weight, chosen, refused))
    return found


def weight_formats(target: str, node: Node, graph: Graph, formats: Sequence[Format]) -> dict[str, Format]:
    """What `target` holds as the weight of a node: its own formats by its names, then those of `formats`, by label."""
    weight = weight_at(node, "weight", graph)
    if weight is None:
        return {}
    own = TARGETS.get(target).own(graph.weights[weight].dtype)
    named = {name: parse_format(text) for name, text in own.items()}
    named |= {fmt.label: fmt for fmt in formats if fmt not in named.values()}
    return {name: fmt for name, fmt in named.items() if _holds(target, node, graph, fmt)}


def _holds(target: str, node: Node, graph: Graph, fmt: Format) -> bool:
    given = replace(node, precision={"weight": Precision(fmt)}, adapters={})
    return not any(u.port == "weight" for u in unheld(target, given, graph))
