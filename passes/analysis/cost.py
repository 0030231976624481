"""The cost of one sample per node at the example's sizes: multiply–accumulates, operations, bytes."""

from __future__ import annotations

import math

from espalier.model.graph.adapters import adapter_macs
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import BITS
from espalier.model.graph.ops import CELLS, RECURRENT, category, macs
from espalier.model.graph.ports import choice, weights_of
from espalier.model.graph.products import elementwise_flops
from espalier.passes.base import Context, NoOptions, Report, Row, analysis
from espalier.passes.score import node_bitops, one_sample
from espalier.passes.uncounted import uncounted_fields

# Operations per output element, as in common counters (e.g. DeepSpeed's).
_PER_ELEMENT = {"activation": 1, "add": 1, "norm": 5}
_PER_ELEMENT_OP = {"softmax": 5, "log_softmax": 5}
Sizes = dict[str, int]


@analysis("cost", "Cost", instant=True)
def cost(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """MACs, FLOPs, BitOPs and bytes of each node for one sample, at the sizes in the summary.

    FLOPs: 2 per MAC, 1 per element of a bias, an addition or an activation, 5 of a norm or softmax; recurrent layers
    have those of all their steps. Experts of a mixture count tokens × k × the matrices of one expert, for k experts per
    token. Adapters are included. `uncounted` names nodes whose multiplications are not known. BitOPs: MACs × weight
    bits × activation bits, float32 = 32. Bytes: inputs, outputs and weights, each once, in their formats.
    """
    sizes = one_sample(graph)
    rows = tuple(_row(n, sizes, graph) for n in graph if n.call not in ("placeholder", "get_attr", "output"))
    total = {k: sum(r[k] for r in rows) for k in ("macs", "flops", "bitops", "weight_bytes", "bytes")}
    return graph, Report("cost", rows, {**total, "symbols": sizes, **uncounted_fields(graph)})


def _row(node: Node, sizes: Sizes, graph: Graph) -> Row:
    count = macs(node, sizes) + sum(adapter_macs(node, sizes))
    moved = {p: _bytes(node, p, sizes) for p in node.ports}
    adapters = sum(4 * graph.weights[name].elements for x in node.adapters.values() for name in (x.a, x.b))
    read = {p for p, name in weights_of(node, graph) if graph.weights[name].role == "parameter"} | node.weights.keys()
    weights = sum(b for p, b in moved.items() if p in read) + adapters
    total = sum(moved.values()) + adapters
    flops = _flops(node, count, sizes)
    return {
        "node": node.id,
        "op": node.op,
        "macs": count,
        "flops": flops,
        "bitops": node_bitops(node, sizes),
        "weight_bytes": weights,
        "bytes": total,
        "intensity": flops / total if total else 0.0,
    }


def _flops(node: Node, count: int, sizes: Sizes) -> int:
    out = node.out.elements(sizes) if node.out else 0
    if node.op in (*RECURRENT, *CELLS):
        return 2 * count + elementwise_flops(node, sizes)
    if count:
        return 2 * count + (out if "bias" in node.ports else 0)
    return out * _PER_ELEMENT_OP.get(node.op, _PER_ELEMENT.get(category(node), 0))


def _bytes(node: Node, port: str, sizes: Sizes) -> int:
    meta, chosen = node.ports[port], choice(node, port)
    bits = chosen.format.bits if chosen else BITS.get(meta.dtype, 32)
    return math.ceil(_accessed(node, port, sizes) * bits / 8)


def _accessed(node: Node, port: str, sizes: Sizes) -> int:
    """Elements read or written; an embedding reads only the indexed rows."""
    if node.op == "embedding" and port == "weight" and node.out:
        return node.out.elements(sizes)
    return node.ports[port].elements(sizes)
