"""Repeated blocks of a graph: their nodes share one decision, so that a deep model is planned like a shallow one."""

from __future__ import annotations

from collections import defaultdict

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.node import Ref, map_arg
from espalier.model.graph.ops import spec
from espalier.model.graph.twins import PATH_NUMBER

LAYERS = 2  # a block has at least so many layers, so that a chain of single layers is planned layer by layer


def classes(graph: Graph) -> dict[str, str]:
    """Node → the first node of its class: that of its own position in the first of equal blocks, or itself.

    Blocks are modules whose path ends with a number and that hold further modules, as `encoder.layer.3`.
    """
    held: dict[str, list[Node]] = defaultdict(list)
    deeper: set[str] = set()
    for node in graph:
        path = node.target if node.call == "call_module" else node.module_path
        if (found := PATH_NUMBER.search(path)) and node.call not in ("placeholder", "output"):
            held[path[: found.end()]].append(node)
            if len(path) > found.end():
                deeper.add(path[: found.end()])
    first: dict[tuple[str, tuple[str, ...]], list[Node]] = {}
    found_classes = {name: name for name in graph.nodes}
    for prefix, nodes in held.items():
        if prefix not in deeper or sum(spec(n.op).macs is not None for n in nodes) < LAYERS:
            continue
        container = prefix.rpartition(".")[0]
        model = first.setdefault((container, tuple(signature(n, graph) for n in nodes)), nodes)
        found_classes.update({n.id: m.id for n, m in zip(nodes, model, strict=True)})
    return found_classes


def signature(node: Node, graph: Graph) -> str:
    """All that decides the strategies and costs of a node, apart from its sources."""
    blank = Ref("")
    args = tuple(map_arg(a, lambda ref: blank) for a in node.args)
    kwargs = sorted((k, map_arg(a, lambda ref: blank)) for k, a in node.kwargs.items())
    weights = [(p, w.shape, w.dtype, w.trainable) for p, name in sorted(node.weights.items())
               if (w := graph.weights.get(name))]  # fmt: skip
    return repr((node.op, node.call, args, kwargs, sorted(node.attrs.items()), sorted(node.ports.items()), weights,
                 sorted(node.precision.items()), node.outputs))  # fmt: skip
