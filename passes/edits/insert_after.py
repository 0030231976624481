"""Put a new module on an edge, or behind a node for all of its users."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import GraphError, nearest
from espalier.model.graph.graph import Graph, Node, Ref, map_refs
from espalier.passes.edits.base import EDITS, Edit, finished, path_of
from espalier.passes.edits.leaves import Init, new_module

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("insert_after")
@dataclass(frozen=True, slots=True)
class InsertAfter(Edit):
    """A new module takes the node's result, and its users take the module's."""

    tag: ClassVar[str] = "insert_after"
    title: ClassVar[str] = "Insert after"

    op: str = field(default="identity", metadata={"help": "operation or class: relu, layer_norm, Linear, BatchNorm2d"})
    attrs: dict[str, Any] = field(default_factory=dict, metadata={"help": "constructor arguments besides the sizes"})
    init: Init = field(default="default", metadata={"help": "of Linear and convolutions: torch's own values, an "
                                                            "identity, or zeros"})  # fmt: skip
    user: str = field(default="", metadata={"help": "this user alone takes the new result; empty: all users"})

    def describe(self) -> str:
        """`then layer_norm`."""
        return f"then {self.op}" + (f" before {self.user}" if self.user else "")

    def able(self, node: Node, graph: Graph) -> bool:
        """Behind whatever gives a tensor."""
        return "data_out" in node.ports and node.call != "output"

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError where the module cannot be made for this shape, or the users cannot take its result."""
        source = Ref(target.id)
        users = [n.id for n in graph if source in n.inputs]
        if self.user and self.user not in users:
            raise GraphError(f"{self.user} does not take the result of {target.id}.", nearest(self.user, users))
        wish = f"{path_of(target)}_{self.op.lower()}"
        graph, node = new_module(graph, wish, source, self.op, self.attrs, self.init, context)
        users = [self.user] if self.user else users
        moved = [map_refs(graph.nodes[u], lambda r: Ref(node.id) if r == source else r) for u in users]
        nodes = {**graph.nodes, **{n.id: n for n in moved}}
        place = list(nodes).index(target.id) + 1
        ordered = [*list(nodes.items())[:place], (node.id, node), *list(nodes.items())[place:]]
        return finished(replace(graph, nodes=dict(ordered)), [node.id, *users])
