"""Put another module in the place of a node: another activation or norm, or two thin Linear layers for one."""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import replace as with_values
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.ops import category
from espalier.passes.edits.base import EDITS, Edit, finished, flowing, path_of
from espalier.passes.edits.factors import FACTORISATIONS, LOW_RANK, factorised
from espalier.passes.edits.leaves import Init, new_module

if TYPE_CHECKING:
    from espalier.passes.base import Context


@EDITS.register("replace")
@dataclass(frozen=True, slots=True)
class Replace(Edit):
    """Another module takes the node's input, under the node's id. A norm keeps the weight and bias that fit.

    `low_rank` replaces a Linear by two, of the best approximation of its weight at `rank` (Eckart and Young 1936).
    `depthwise_separable` replaces a Conv2d by a depthwise and a pointwise one, the best such pair (Guo et al. 2018).
    """

    tag: ClassVar[str] = "replace"
    title: ClassVar[str] = "Replace"

    op: str = field(
        default="relu",
        metadata={
            "help": "operation or class; low_rank: two Linears by SVD; depthwise_separable: two convolutions by SVD"
        },
    )
    attrs: dict[str, Any] = field(default_factory=dict, metadata={"help": "constructor arguments besides the sizes"})
    init: Init = field(default="default", metadata={"help": "of Linear and convolutions"})
    rank: int = field(default=0, metadata={"min": 0, "help": "of low_rank: width between the two layers"})

    def describe(self) -> str:
        """`→ relu`; `→ low_rank 8`."""
        return f"→ {self.op}" + (f" {self.rank}" if self.rank else "")

    def able(self, node: Node, graph: Graph) -> bool:
        """A call with a tensor as its result."""
        return node.call in ("call_module", "call_function") and "data_out" in node.ports

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """Raises GraphError where the module cannot take the node's input, or its users the module's result."""
        self._check_used(target)
        if self.op in FACTORISATIONS:
            return factorised(graph, target, self.op, self.rank, context)
        source = _source(target, graph)
        grown, made = new_module(graph, f"{path_of(target)}_{self.op.lower()}", source, self.op, self.attrs, self.init,
                                 context)  # fmt: skip
        node = with_values(made, id=target.id, module_path=target.module_path, source=target.source,
                           precision=target.precision, parallel=target.parallel,
                           annotation=target.annotation)  # fmt: skip
        if category(target) == category(node) == "norm":
            node = _keeping(node, target, grown)
        nodes = {**grown.nodes, target.id: node}
        return finished(with_values(grown, nodes=nodes), [target.id])

    def _check_used(self, target: Node) -> None:
        """Raises GraphError for an option that this operation would leave aside."""
        if self.rank and self.op != LOW_RANK:
            raise GraphError(f"rank is {self.rank}, and {self.op} has none.", f"Leave it out, or choose {LOW_RANK}.",
                             target.id)  # fmt: skip
        if self.op in FACTORISATIONS and (self.attrs or self.init != "default"):
            name, why = ("attrs", "sizes") if self.attrs else ("init", "weights")
            raise GraphError(f"{self.op} takes no {name}: its {why} follow from {target.id}.",
                             f"Leave {name} out.", target.id)  # fmt: skip


def _source(node: Node, graph: Graph) -> Ref:
    """What the module takes: the one input of a module, the first tensor of a function."""
    tensors = [r for r in dict.fromkeys(node.inputs) if graph.nodes[r.node].call != "get_attr"]
    if node.call == "call_module" or len(tensors) == 1:
        return tensors[0]
    if not tensors:
        raise GraphError(f"{node.id} takes no tensor.", "Choose a node that does.", node.id)
    return flowing(node, graph)


def _keeping(node: Node, before: Node, graph: Graph) -> Node:
    """A norm with the trained weights of the one before it, where the shapes agree."""
    weights = dict(node.weights)
    for port in ("weight", "bias"):
        old, new = before.weights.get(port), weights.get(port)
        if old and new and graph.weights[old].shape == graph.weights[new].shape:
            weights[port] = old
    return with_values(node, weights=weights)
