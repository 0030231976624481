"""Change a constructor argument of a module: a rate, a stride, a number of classes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import GraphError, ProjectError, nearest
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Weight
from espalier.passes.edits.base import EDITS, Edit, finished
from espalier.passes.edits.leaves import SHARED, argument, most_parameters

if TYPE_CHECKING:
    from espalier.passes.base import Context

FIXED = (  # the sizes of stored tensors, and whether there are any
    "class", "in_features", "in_channels", "out_channels", "num_features", "num_channels", "normalized_shape",
    "num_embeddings", "embedding_dim", "nf", "nx", "groups", "kernel_size", "bias", "affine", "elementwise_affine",
    "track_running_stats", *SHARED,
)  # fmt: skip


@EDITS.register("set_attr")
@dataclass(frozen=True, slots=True)
class SetAttr(Edit):
    """The module is made with another value; `out_features` of a Linear adds rows of zeros or drops the last ones."""

    tag: ClassVar[str] = "set_attr"
    title: ClassVar[str] = "Set attribute"

    name: str = field(default="", metadata={"help": "constructor argument: p, eps, stride, padding, out_features, …"})
    value: Any = field(default=None, metadata={"help": "its new value"})

    def describe(self) -> str:
        """`p = 0.3`."""
        return f"{self.name} = {self.value}"

    def able(self, node: Node, graph: Graph) -> bool:
        """Modules, whose arguments have names."""
        return node.call == "call_module"

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError for an argument that is not there or sizes a stored tensor, and for an impossible value."""
        from espalier.model.torch.leaves import make

        known = [k for k in target.attrs if k not in FIXED]
        if self.name not in known:
            why = "sizes its weights" if self.name in target.attrs else f"is no attribute of {target.id}"
            raise GraphError(f"{self.name} {why}.", nearest(self.name, known), target.id)
        value = argument(self.name, self.value)
        node = replace(target, attrs={**target.attrs, self.name: value})
        if self.name == "out_features":
            graph, node = _resized(graph, node, value, context)
        try:
            make(node.attrs)
        except ProjectError as error:
            text = f"{target.id} cannot have {self.name} = {value!r}."
            raise GraphError(text, "Give another value.", target.id) from error
        return finished(replace(graph, nodes={**graph.nodes, node.id: node}), [node.id])


def _resized(graph: Graph, node: Node, rows: Any, context: Context) -> tuple[Graph, Node]:
    """A Linear with as many outputs: rows that are new are zero, the last ones go."""
    import numpy as np

    from espalier.model.store.weights import Tensor

    columns = max(w.elements // w.shape[0] for w in map(graph.weights.__getitem__, node.weights.values()) if w.shape[0])
    most = most_parameters(graph) // max(columns, 1)
    if not isinstance(rows, int) or not 1 <= rows <= most:
        raise GraphError(f"out_features is {rows!r}.", f"Give a whole number from 1 to {most}.", node.id)
    fresh = dict[str, Weight]()
    for name in node.weights.values():
        weight = graph.weights[name]
        if sum(name in n.weights.values() for n in graph) > 1:
            raise GraphError(f"{name} is shared with other nodes, so its size stays.", "Choose another.", node.id)
        key = weight.key
        if key is not None:
            old = context.store.get(key)
            array = np.zeros((rows, *old.shape[1:]), old.array.dtype)
            array[: min(rows, old.shape[0])] = old.array[:rows]
            key = context.store.hold(Tensor(array, old.dtype))
        fresh[name] = replace(weight, key=key, shape=(rows, *weight.shape[1:]))
    plain = {p: s for p, s in node.sparsity.items() if p not in node.weights}
    return graph.with_weights(fresh), replace(node, sparsity=plain, adapters={})
