"""Take a node out: its users take what it took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from espalier.model.graph.graph import Graph, Node, Ref
from espalier.passes.edits.base import EDITS, Edit, finished, flowing

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("bypass")
@dataclass(frozen=True, slots=True)
class Bypass(Edit):
    """The users of the node take its first input of the same shape and dtype in place of its result."""

    tag: ClassVar[str] = "bypass"
    title: ClassVar[str] = "Bypass"

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError where no input has the shape of the result."""
        source = flowing(target, graph)
        users = [n.id for n in graph if Ref(target.id) in n.inputs]
        return finished(graph.rewire(Ref(target.id), source), users)
