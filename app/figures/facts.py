"""Facts of the inspector on a node, several nodes, or the model. No Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from espalier.app.figures.captions import shape_text, tail, title
from espalier.app.number_text import count, mebibytes, plural, scaled
from espalier.app.translation import tr
from espalier.model.document.document import Document
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Weight
from espalier.model.graph.node import Arg, Slice, TorchConst
from espalier.model.graph.ops import arg_port, kind, macs, spec
from espalier.passes.transform.pack_mx import packed_bytes

NO_SELECTION = tr("Select a node on the canvas or in the outline to see and change it.")
_DULL = ("class", "bias", "in_features", "out_features", "num_embeddings", "embedding_dim", "normalized_shape",
         "in_channels", "out_channels", "kernel_size", "_weight", "_freeze")  # fmt: skip


class Fact(NamedTuple):
    """A row of the inspector; `full`: tooltip of an elided value."""

    name: str
    value: str
    full: str = ""


def node_title(node: Node) -> str:
    """The title that a user gave it, the last part of its path, or its operation."""
    if node.annotation.title:
        return node.annotation.title
    return tail(node.target) if node.call in ("call_module", "placeholder", "get_attr") else title(node.op)


def node_path(node: Node) -> str:
    """Path of the node in the model."""
    if node.call == "call_module":
        return node.target
    return f"{node.module_path} · {node.id}" if node.module_path else node.id


def node_facts(node: Node, graph: Graph) -> list[Fact]:
    """All facts of one node."""
    facts = [Fact(str(node.attrs.get("class") or title(node.op)), _size(node) or kind_text(node), kind_text(node))]
    facts += _annotation(node)
    facts += _ports(node, "data_in", "input") + _ports(node, "data_out", "output")
    weights = _weights(node, graph)
    if weights:
        trained = sum(w.elements for w in weights if w.role == "parameter")
        kinds = ", ".join(dict.fromkeys(w.dtype for w in weights))
        facts.append(
            Fact("parameters", count(trained) + _type(kinds), tr("{} elements, stored as {}", count(trained), kinds))
        )
    facts += _packed(node, graph) + _work(node, graph)
    facts += _attributes(node)
    if node.source:
        file = node.source.split()[0].rpartition("/")[2]
        facts.append(Fact("source", file, node.source))
    return facts


def _annotation(node: Node) -> list[Fact]:
    """What a user wrote on it."""
    written = node.annotation
    first = written.note.partition("\n")[0]
    facts = [Fact("note", first, written.note)] if written.note else []
    facts += [Fact("tag", written.colour)] if written.colour else []
    return facts + ([Fact("muted", tr("an identity stands for it"))] if written.muted else [])


def kind_text(node: Node) -> str:
    """The kind of its operation, in words."""
    return kind(node).replace("_", " ")


def _size(node: Node) -> str:
    weight = node.ports.get("weight")
    if weight is None or (node.call == "call_function" and spec(node.op).category == "matmul"):
        return ""
    shape, bias = weight.shape, tr(", bias") if "bias" in node.ports else ""
    if node.op == "linear" and len(shape) == 2:
        first, last = (0, 1) if node.attrs.get("class") == "Conv1D" else (1, 0)
        return f"{shape[first]} → {shape[last]}{bias}"
    if node.op.startswith("conv") and len(shape) > 2:
        return f"{shape[1]} → {shape[0]}, {' × '.join(map(str, shape[2:]))}{bias}"
    return " × ".join(count(d) if isinstance(d, int) else d for d in shape) + bias


def _ports(node: Node, port: str, name: str) -> list[Fact]:
    metas = [m for p, m in node.ports.items() if p == port or p.startswith(port + "_")]
    facts = [Fact(f"{name} {i + 1}" if len(metas) > 1 else name, f"{shape_text(m)}{_type(m.dtype)}")
             for i, m in enumerate(metas[:4])]  # fmt: skip
    return facts + ([Fact("", tr("and {} more", len(metas) - 4))] if len(metas) > 4 else [])


def _type(dtype: str) -> str:
    return "" if dtype == "float32" else f" {dtype}"


def _weights(node: Node, graph: Graph) -> list[Weight]:
    names = dict.fromkeys(node.weights.values())
    return [graph.weights[n] for n in names if n in graph.weights]


def _packed(node: Node, graph: Graph) -> list[Fact]:
    """Memory of a weight that is stored as codes while the model runs."""
    weight = graph.weights.get(node.weights.get("weight", ""))
    if not node.packed or weight is None or "weight" not in node.precision:
        return []
    packed, plain = packed_bytes(node, weight.shape), weight.elements * weight.float_bits // 8
    tooltip = tr(
        "The weight is stored as codes while the model runs: {} in place of {}", mebibytes(packed), mebibytes(plain)
    )
    return [Fact("in memory", tr("{} of {}", mebibytes(packed), mebibytes(plain)), tooltip)]


def _work(node: Node, graph: Graph) -> list[Fact]:
    number = macs(node, graph.symbols)
    if not number:
        return []
    sizes = " · ".join(f"{name} {size}" for name, size in graph.symbols.items())
    text = count(number) if number < 1_000_000 else scaled(number)
    return [Fact("MACs", text, tr("{} multiply–accumulates at {}", count(number), sizes or tr("fixed sizes")))]


def _attributes(node: Node) -> list[Fact]:
    shown = {k: v for k, v in node.attrs.items() if k not in _DULL and v is not None and v is not False}
    if not shown:
        return []
    text = ", ".join(k if v is True else f"{k} {arg_text(v)}" for k, v in shown.items())
    return [Fact("attributes", text, "\n".join(f"{k} = {arg_text(v)}" for k, v in node.attrs.items()))]


def arg_text(arg: Arg) -> str:
    """Format an argument as Python code."""
    match arg:
        case Ref(node, output):
            return node if not output else f"{node}[{output}]"
        case Slice(start, stop, step):
            return ":".join("" if a is None else arg_text(a) for a in (start, stop, step))
        case TorchConst(_, name):
            return name
        case tuple():
            return f"({', '.join(map(arg_text, arg))})"
        case float():
            return f"{arg:g}"
        case _:
            return str(arg)


def many_facts(nodes: Sequence[Node], graph: Graph) -> list[Fact]:
    """Common facts and sums of several nodes."""
    ops = Counter(title(n.op) for n in nodes)
    kinds = ", ".join(f"{name} ×{number}" if number > 1 else name for name, number in ops.most_common(3))
    more = f", {plural(len(ops) - 3, 'other kind')}" if len(ops) > 3 else ""
    names = {name for n in nodes for name in n.weights.values()}
    parameters = sum(
        graph.weights[n].elements for n in names if n in graph.weights and graph.weights[n].role == "parameter"
    )
    facts = [Fact("operations", kinds + more, "\n".join(f"{k} ×{v}" for k, v in ops.most_common()))]
    sizes = {_size(n) for n in nodes}
    if len(sizes) == 1 and (size := sizes.pop()):
        facts.append(Fact("size", size))
    if parameters:
        facts.append(Fact("parameters", count(parameters), tr("each shared weight once")))
    work = sum(macs(n, graph.symbols) for n in nodes)
    if work:
        facts.append(Fact("MACs", count(work) if work < 1_000_000 else scaled(work)))
    return facts


def common_path(nodes: Sequence[Node]) -> str:
    """The common module path of nodes."""
    paths = [(n.target if n.call == "call_module" else n.module_path).split(".") for n in nodes]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(p for p in shared if p) or tr("several modules")


def model_facts(document: Document) -> list[Fact]:
    """Facts of the model while nothing is selected."""
    graph, source = document.graph, document.project.source
    parameters = sum(w.elements for w in graph.weights.values() if w.role == "parameter")
    inputs = ", ".join(n.target for n in graph.placeholders)
    layers = sum(1 for n in graph if spec(n.op).category == "linear" and n.weights)
    sizes = " · ".join(f"{name} {size}" for name, size in graph.symbols.items())
    return [
        Fact("source", source.spec, source.spec),
        Fact("parameters", count(parameters)),
        Fact("nodes", count(len(graph))),
        Fact("layers", count(layers)),
        Fact("inputs", inputs, inputs),
        *([Fact("traced at", sizes)] if sizes else []),
    ]


# -- weights of ports


def weight_of(node: Node, port: str, graph: Graph) -> Weight | None:
    """The tensor of a port: the node's own, or a function's constant input."""
    if port in node.weights:
        return graph.weights.get(node.weights[port])
    for i, arg in enumerate(node.args):
        if isinstance(arg, Ref) and (arg_port(node.op, i) or "") == port:
            return _constant(arg, graph)
    return None


def _constant(ref: Ref, graph: Graph, depth: int = 4) -> Weight | None:
    """Follow views and transposes back to a get_attr, since they change no values."""
    source = graph.nodes.get(ref.node)
    if source is None or not depth:
        return None
    if source.call == "get_attr":
        return graph.weights.get(source.target)
    refs = source.inputs
    if (
        source.op in ("t", "transpose", "permute", "view", "reshape", "detach", "contiguous", "alias")
        and len(refs) == 1
    ):
        return _constant(refs[0], graph, depth - 1)
    return None


def pruned_text(zeros: int, elements: int) -> str:
    """Text of a pruned share: `30 % · 4 915 of 16 384`."""
    share = 100 * zeros / max(elements, 1)
    text = f"{share:.0f}" if abs(share - round(share)) < 0.05 else f"{share:.1f}"
    return tr("{}\u2009% · {} of {}", text, count(zeros), count(elements))
