"""Results of the model: add one, for a probe or another head, or drop one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from espalier.model.errors import GraphError, nearest
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.passes.edits.base import EDITS, Edit, finished, free_name

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("add_output")
@dataclass(frozen=True, slots=True)
class AddOutput(Edit):
    """The node's result also leaves the model; a model with one tensor as its result then gives a tuple."""

    tag: ClassVar[str] = "add_output"
    title: ClassVar[str] = "Add output"

    name: str = field(default="", metadata={"help": "name of the result; empty: that of the node"})

    def able(self, node: Node, graph: Graph) -> bool:
        """Whatever gives a tensor."""
        return "data_out" in node.ports and node.call != "output"

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError where the name is taken or the result leaves already."""
        end = graph.output
        if Ref(target.id) in end.args:
            raise GraphError(f"The result of {target.id} is an output already.", "Choose another node.", target.id)
        names = graph.output_names or ("output",) * len(end.args)
        name = self.name or free_name(target.id, names)
        if name in names:
            raise GraphError(f"There is an output {name} already.", "Give another name.", target.id)
        structure = "tuple" if graph.structure == "tensor" else graph.structure
        nodes = {**graph.nodes, end.id: replace(end, args=(*end.args, Ref(target.id)))}
        return finished(replace(graph, nodes=nodes, output_names=(*names, name), structure=structure), [])


@EDITS.register("remove_output")
@dataclass(frozen=True, slots=True)
class RemoveOutput(Edit):
    """A result no longer leaves the model; what only it needed goes too."""

    tag: ClassVar[str] = "remove_output"
    title: ClassVar[str] = "Remove output"

    name: str = field(default="", metadata={"help": "name of the result"})

    def describe(self) -> str:
        """The name of the result."""
        return self.name

    def targets(self, graph: Graph) -> list[str]:
        """The output node."""
        return [graph.output.id]

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError for an unknown name and for the last result."""
        names = graph.output_names
        if self.name not in names:
            raise GraphError(f"There is no output {self.name!r}.", nearest(self.name, names))
        if len(names) == 1:
            raise GraphError(f"{self.name} is the only output.", "Add another one first.")
        place = names.index(self.name)
        args = tuple(a for i, a in enumerate(target.args) if i != place)
        nodes = {**graph.nodes, target.id: replace(target, args=args)}
        left = tuple(n for i, n in enumerate(names) if i != place)
        return finished(replace(graph, nodes=nodes, output_names=left), [])
