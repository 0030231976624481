"""Let an identity stand for a node, for a try: the node keeps its id and its place, and its card says that it is muted.

Undo, or the removal of the edit from the recipe, brings the node back with its weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.graph.graph import Graph, Node
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
        """Raises GraphError where no input has the shape of the result."""
        source = flowing(target, graph)
        graph, made = new_module(graph, f"{path_of(target)}_muted", source, "identity", {}, "default", context)
        node = replace(made, id=target.id, module_path=target.module_path, source=target.source,
                       annotation=replace(target.annotation, title=_title(target), muted=True))  # fmt: skip
        return finished(replace(graph, nodes={**graph.nodes, target.id: node}), [target.id])


def _title(node: Node) -> str:
    """What the card is called: as before, though the operation is another."""
    own = node.target.rpartition(".")[2] if node.call == "call_module" else node.op
    return node.annotation.title or own
