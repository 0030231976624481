"""Connect an input of a node to another result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.errors import GraphError, nearest
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.node import map_arg
from espalier.model.graph.operands import named_op, operands
from espalier.passes.edits.base import EDITS, Edit, finished

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("rewire")
@dataclass(frozen=True, slots=True)
class Rewire(Edit):
    """The node takes the result `output` of `source` at `port`."""

    tag: ClassVar[str] = "rewire"
    title: ClassVar[str] = "Connect"

    port: str = field(default="data_in", metadata={"help": "input port of the node: data_in, data_in_1, weight, …"})
    source: str = field(default="", metadata={"help": "id of the node whose result it takes"})
    output: int = field(default=0, metadata={"min": 0, "help": "number of that result"})

    def describe(self) -> str:
        """`data_in ← gelu`."""
        return f"{self.port} ← {self.source}"

    def able(self, node: Node, graph: Graph) -> bool:
        """Calls, and the output of the model."""
        return node.call in ("call_module", "call_function", "output")

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError for a port or source that is not there, a cycle, or shapes that do not fit."""
        place = _position(target, self.port, graph)
        if out_port(self.output) not in graph[self.source].ports:
            raise GraphError(f"{self.source} gives no tensor {self.output}.", "Choose another source.", self.source)
        if self.source == target.id:
            raise GraphError(f"{target.id} cannot take its own result.", "Choose another source.", target.id)
        counter = iter(range(len(target.inputs)))

        def swap(ref: Ref) -> Ref:
            return Ref(self.source, self.output) if next(counter) == place else ref

        args = tuple(map_arg(a, swap) for a in target.args)
        kwargs = {k: map_arg(a, swap) for k, a in target.kwargs.items()}
        node = replace(target, args=args, kwargs=kwargs)
        return finished(replace(graph, nodes={**graph.nodes, target.id: node}), [target.id])


def input_sources(node: Node, graph: Graph) -> list[tuple[str, Ref]]:
    """(port, result that flows into it) of a node's references in order; the port is empty where that is no tensor."""
    found = operands(named_op(node), node.args, node.kwargs, graph.nodes)
    return [(port[0] if port else "", ref) for port, ref in zip(found, node.inputs, strict=True)]


def _position(node: Node, port: str, graph: Graph) -> int:
    """Which of the node's references flows into a port."""
    ports = [name for name, _ in input_sources(node, graph)]
    if port not in ports:
        raise GraphError(f"{node.id} takes nothing at {port}.", nearest(port, [p for p in ports if p]), node.id)
    return ports.index(port)
