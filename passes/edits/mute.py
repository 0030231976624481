"""Let an identity stand for a node, for a try: the node keeps its id and its place, and its card says that it is muted.

Undo, or the removal of the edit from the recipe, brings the node back with its weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.errors import GraphError
from espalier.model.graph.annotation import LONGEST_TITLE, MUTED
from espalier.model.graph.graph import Graph, Node, out_port
from espalier.passes.edits.base import EDITS, Edit, finished, flowing, path_of
from espalier.passes.edits.leaves import new_module

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("mute")
@dataclass(frozen=True, slots=True)
class Mute(Edit):
    """The node gives its first input of the same shape and dtype, unchanged."""

    tag: ClassVar[str] = "mute"
    title: ClassVar[str] = "Mute"

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError where no input has the shape of the result, or there are several results."""
        if target.annotation.muted:
            return graph
        if out_port(1) in target.ports:
            raise GraphError(f"{target.id} gives several results, and an identity gives one.",
                             "Bypass it instead.", target.id)  # fmt: skip
        source = flowing(target, graph)
        graph, made = new_module(graph, f"{path_of(target)}_muted", source, MUTED, {}, "default", context)
        path = target.target if target.call == "call_module" and _alone(target, graph) else made.target
        node = replace(made, id=target.id, target=path, module_path=target.module_path, source=target.source,
                       annotation=replace(target.annotation, title=_title(target), muted=True))  # fmt: skip
        return finished(replace(graph, nodes={**graph.nodes, target.id: node}), [target.id])


def _title(node: Node) -> str:
    """What the card is called: as before, though the operation is another."""
    own = node.target.rpartition(".")[2] if node.call == "call_module" else node.op
    return node.annotation.title or own[:LONGEST_TITLE]


def _alone(node: Node, graph: Graph) -> bool:
    """Whether no other node calls the same module, so that its path can stay."""
    return sum(n.call == "call_module" and n.target == node.target for n in graph) == 1
