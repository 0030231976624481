"""Operations on the graph: values with a target that give another graph; `edit_graph` runs a list of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from espalier.model.document.codec import Tagged
from espalier.model.errors import GraphError, OptionsError
from espalier.model.graph.graph import Graph, Node, Ref, named_weights, out_port, sort
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import base_port, quantisable
from espalier.model.registry import Registry
from espalier.passes.select import Select, chosen

if TYPE_CHECKING:
    from espalier.passes.base import Context

EDITS: Registry[str, Any] = Registry("graph edit", OptionsError, ("espalier.passes.edits",))


@dataclass(frozen=True, slots=True)
class Edit(Tagged):
    """One operation. It works on `node` (an id or a module path) or on each node of `select`."""

    title: ClassVar[str] = ""
    writes: ClassVar[bool] = False  # on nodes alone, so that recorded models can have it too

    node: str = field(default="", metadata={"help": "id or module path of the node"})
    select: Select | None = field(default=None, metadata={"help": "several nodes, in place of node"})

    @classmethod
    def kinds(cls) -> Registry[str, Any]:
        """All operations by name."""
        return EDITS

    def describe(self) -> str:
        """What becomes of the target, in a few words."""
        return self.title.lower()

    def able(self, node: Node, graph: Graph) -> bool:
        """Whether the operation is defined for this kind of node; for its shapes `apply` decides."""
        return node.call in ("call_module", "call_function")

    def apply(self, graph: Graph, target: Node, context: Context) -> Graph:
        """The graph after the operation on one node; raises GraphError, which says what would make it possible."""
        raise NotImplementedError

    def targets(self, graph: Graph) -> list[str]:
        """Ids of the nodes that it works on; raises OptionsError, PassError or GraphError for none."""
        if bool(self.node) == (self.select is not None):
            raise OptionsError(f"{self.tag} names {'both a node and a selection' if self.node else 'no node'}.",
                               'Write node = "…" or select = {by = …, values = […]}.')  # fmt: skip
        select = self.select or Select("name", (self.node,))
        return [n.id for n in chosen(graph, select, lambda n: self.able(n, graph), f"edited by {self.tag}")]


def free_name(wish: str, taken: Collection[str]) -> str:
    """`wish`, or `wish_1`, `wish_2`, … where that is taken, as a name or as a prefix of a module path."""
    name, count = wish, 0
    while name in taken or any(t.startswith(f"{name}.") for t in taken):
        count += 1
        name = f"{wish}_{count}"
    return name


def free_id(graph: Graph, wish: str) -> str:
    """An id that no node has."""
    return free_name(wish.replace(".", "_"), graph.nodes)


def free_path(graph: Graph, wish: str) -> str:
    """A module path that neither a module nor a weight has."""
    return free_name(wish, {n.target for n in graph if n.call == "call_module"} | set(graph.weights))


def path_of(node: Node) -> str:
    """Where a module that stands for the node, or beside it, belongs."""
    return node.target if node.call == "call_module" else node.module_path or node.id


def result_of(node: Node, output: int = 0) -> TensorMeta:
    """The tensor that a node gives; raises GraphError where it gives none."""
    meta = node.ports.get(out_port(output))
    if meta is None:
        raise GraphError(f"{node.id} ({node.op}) gives no tensor.", "Choose a node that does.", node.id)
    return meta


def finished(graph: Graph, edited: Iterable[str]) -> Graph:
    """The graph in order, with shapes inferred from the edited nodes on, without what no output uses any more.

    Choices of ports that a node no longer has are dropped. Raises GraphError where the graph cannot run so.
    """
    from espalier.model.torch.infer import inferred

    ordered = replace(graph, nodes=sort(graph.nodes))
    used = ordered.feeding(ordered.output.id, *(n.id for n in ordered.placeholders))
    nodes = {k: n for k, n in ordered.nodes.items() if k in used}
    pruned = replace(ordered, nodes=nodes, weights=named_weights(nodes.values(), ordered.weights))
    after = inferred(pruned, [i for i in edited if i in nodes])
    legal = after.replace(*(with_legal_choices(after.nodes[i]) for i in edited if i in nodes))
    return replace(legal, weights=named_weights(legal, legal.weights))  # scales of dropped formats go too


def with_legal_choices(node: Node) -> Node:
    """The node without formats and masks of ports that it cannot have them on."""
    able = quantisable(node)
    precision = {p: c for p, c in node.precision.items()
                 if p in able or (p in node.ports and base_port(p) in able)}  # fmt: skip
    sparsity = {p: s for p, s in node.sparsity.items() if p in node.ports}
    return replace(node, precision=precision, sparsity=sparsity)


def flowing(node: Node, graph: Graph, output: int = 0) -> Ref:
    """The input of a node that could stand for its result: the first of the same shape and dtype; raises GraphError."""
    meta = result_of(node, output)
    sources = list(dict.fromkeys(node.inputs))
    metas = [graph.nodes[r.node].ports.get(out_port(r.output)) for r in sources]
    for ref, taken in zip(sources, metas, strict=True):
        if taken == meta:
            return ref
    given = f"{shown(meta)} {meta.dtype}"
    takes = ", ".join(f"{shown(m)} {m.dtype}" for m in metas if m) or "no tensor"
    raise GraphError(f"{node.id} gives {given} and takes {takes}, so nothing can stand for its result.",
                     "Replace it by an operation that gives this shape, or edit its users first.", node.id)  # fmt: skip


def shown(meta: TensorMeta) -> str:
    """A shape as messages write it: batch × 8."""
    return " × ".join(map(str, meta.shape)) or "a scalar"
