"""The edits offered for the selected nodes, and the reasons why one is impossible. No Qt, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from espalier.app.translation import error_text, tr
from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph, Node, Ref, out_port
from espalier.model.graph.meta import TensorMeta
from espalier.model.graph.ops import category
from espalier.model.torch.leaf_names import class_of_name
from espalier.passes.edits.base import Edit, flowing
from espalier.passes.edits.bypass import Bypass
from espalier.passes.edits.insert_after import InsertAfter
from espalier.passes.edits.leaves import SHARED
from espalier.passes.edits.mute import Mute
from espalier.passes.edits.outputs import AddOutput
from espalier.passes.edits.replace import Replace
from espalier.passes.edits.rewire import input_sources
from espalier.passes.edits.set_attr import FIXED

ACTIVATIONS = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU", "tanh": "Tanh", "sigmoid": "Sigmoid",
               "leaky_relu": "LeakyReLU", "hardswish": "Hardswish"}  # fmt: skip
NORMS = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm"}
RECORDED = tr("This model was recorded from a run. Its graph cannot be edited.")


@dataclass(frozen=True, slots=True)
class Offer:
    """One row of the menu: its title, the edit, and the reason if it is impossible."""

    title: str
    edit: Edit
    reason: str = ""


def bypass(graph: Graph, ids: Sequence[str]) -> Offer:
    """Bypass the nodes."""
    return Offer(tr("Bypass"), Bypass(), next((r for r in (_held(graph, i) for i in ids) if r), ""))


def mute(graph: Graph, ids: Sequence[str]) -> Offer:
    """Replace the nodes by identities; muted ones are unchanged."""
    several = next((i for i in ids if out_port(1) in graph.nodes[i].ports), "")
    reason = tr("{} gives several results. Bypass it instead.", several) if several else ""
    return Offer(tr("Mute"), Mute(), reason or next((r for r in (_held(graph, i) for i in ids) if r), ""))


def _held(graph: Graph, name: str) -> str:
    """The reason why a node cannot be bypassed; empty if it can."""
    node = graph.nodes[name]
    if node.call not in ("call_module", "call_function"):
        kinds = {"placeholder": tr("an input"), "output": tr("the output"), "get_attr": tr("a stored tensor")}
        return tr("{} is {}, so it stays. Select an operation.", name, kinds.get(node.call, "code of its own"))
    try:
        flowing(node, graph)
    except GraphError as error:
        return error_text(error)
    return ""


def replacements(nodes: Sequence[Node]) -> list[Offer]:
    """The possible replacements of nodes of one category."""
    kinds = {category(n) for n in nodes}
    if kinds == {"activation"}:
        titles = {w: t for w, t in ACTIVATIONS.items() if {n.op for n in nodes} != {w}}
        return [Offer(t, Replace(op=w)) for w, t in titles.items()] + [Offer(tr("Identity"), Replace(op="identity"))]
    if kinds == {"norm"}:
        return [Offer(t, Replace(op=w)) for w, t in NORMS.items() if {n.op for n in nodes} != {w}]
    if {n.op for n in nodes} == {"linear"} and all(n.call == "call_module" for n in nodes):
        ranks = [r for r in (4, 8, 16, 32, 64, 128) if all(2 * r <= _width(n) for n in nodes)]
        return [Offer(tr("Two Linears of rank {}", r), Replace(op="low_rank", rank=r)) for r in ranks]
    if all(_separable(n) for n in nodes):
        return [Offer(tr("Depthwise and pointwise Conv2d"), Replace(op="depthwise_separable"))]
    return []


def _separable(node: Node) -> bool:
    """Whether a depthwise and a pointwise convolution can replace the node."""
    meta = node.ports.get("weight")
    large = meta is not None and len(meta.shape) == 4 and meta.shape[2:] != (1, 1)
    return large and node.op == "conv2d" and node.call == "call_module" and node.attrs.get("groups", 1) == 1


def _width(node: Node) -> int:
    """The smaller side of a Linear's weight."""
    meta = node.ports.get("weight")
    return min((d for d in meta.shape if isinstance(d, int)), default=0) if meta else 0


def insertions(graph: Graph, nodes: Sequence[Node]) -> list[Offer]:
    """The modules that can be inserted after the nodes."""
    metas = [n.out for n in nodes]
    if not all(m is not None and m.dtype.startswith(("float", "bfloat")) for m in metas):
        return []
    titles = {**ACTIVATIONS, **NORMS, "dropout": "Dropout", "identity": "Identity"}
    offers = [Offer(title, InsertAfter(op=op)) for op, title in titles.items()]
    return [*offers, Offer(tr("Linear (identity)"), InsertAfter(op="linear", init="identity"))]


def output(graph: Graph, node: Node) -> Offer:
    """Make the result an output of the model."""
    is_output = any(r.node == node.id for r in graph.output.inputs)
    reason = tr("The result of {} is an output already.", node.id) if is_output else ""
    return Offer(tr("Add as output"), AddOutput(), reason or ("" if node.out else tr("{} gives no tensor.", node.id)))


def wire_takers(graph: Graph, source: str) -> dict[str, tuple[str, ...]]:
    """Nodes that can take the result of `source`, with the input ports that take a tensor of this shape now.

    Nodes on which `source` depends are excluded, as they would form a cycle.
    """
    source_type = graph[source].out
    if source_type is None or graph.runs == "module":
        return {}
    before, ref = graph.feeding(source), Ref(source)
    takers = dict[str, tuple[str, ...]]()
    for node in graph:
        if node.id in before or node.call not in ("call_module", "call_function", "output"):
            continue
        if not any(_meta(graph, r) == source_type for r in node.inputs):
            continue
        ports = tuple(p for p, r in input_sources(node, graph) if p and r != ref and _meta(graph, r) == source_type)
        if ports:
            takers[node.id] = ports
    return takers


def _meta(graph: Graph, ref: Ref) -> TensorMeta | None:
    return graph.nodes[ref.node].ports.get(out_port(ref.output))


def duplicate(graph: Graph, node: Node) -> Offer:
    """Insert a module of the same class and arguments after the node."""
    name = str(node.attrs.get("class", ""))
    if node.call != "call_module" or class_of_name(name) is None:
        return Offer(tr("Duplicate"), InsertAfter(), tr("{} is not a module that can be duplicated.", node.id))
    existing = graph.nodes[node.inputs[0].node].ports.get(out_port(node.inputs[0].output)) if node.inputs else None
    if existing != node.out:
        return Offer(tr("Duplicate"), InsertAfter(), tr("{} gives another shape than it takes.", node.id))
    attrs = {k: v for k, v in node.attrs.items() if k not in ("class", *SHARED)}
    return Offer(tr("Duplicate"), InsertAfter(op=name, attrs=attrs))


def attributes(nodes: Sequence[Node]) -> dict[str, object]:
    """Constructor arguments that can be changed, with their value in the first node."""
    first = nodes[0]
    alike = all(n.call == "call_module" and n.attrs.get("class") == first.attrs.get("class") for n in nodes)
    names = [k for k in first.attrs if k not in FIXED and k != "inplace"] if alike else []
    return {k: first.attrs[k] for k in names}
