"""Counts parameters per module; a tied weight counts once, at its first use."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Weight
from espalier.passes.base import Context, NoOptions, Report, Row, analysis


@dataclass(slots=True)
class _Count:
    parameters: int = 0
    trainable: int = 0
    buffers: int = 0
    bytes: float = 0.0
    tied: list[str] = field(default_factory=list)  # type: ignore[assignment]

    def add(self, weight: Weight) -> None:
        self.bytes += weight.elements * weight.float_bits / 8
        if weight.role != "parameter":
            self.buffers += weight.elements
            return
        self.parameters += weight.elements
        self.trainable += weight.elements if weight.trainable else 0


@analysis("parameters", "Parameters", instant=True)
def parameters(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Numbers of parameters, trainable ones and buffers per module, and bytes in the source's dtype.

    A shared weight counts at its first node; the others list it under `tied`.
    """
    counts: dict[str, _Count] = defaultdict(_Count)
    ops: dict[str, str] = {}
    seen: set[str] = set()
    for node in graph:
        if node.weights:
            ops.setdefault(node.target, node.op)
        for name in node.tensors if node.weights else ():
            count = counts[node.target]
            if name not in seen:
                count.add(graph.weights[name])
            elif not name.startswith(node.target + ".") and name not in count.tied:
                count.tied.append(name)
            seen.add(name)
    rows = tuple(_row(path, ops[path], count) for path, count in counts.items())
    return graph, Report("parameters", rows, totals(graph))


def _row(path: str, op: str, count: _Count) -> Row:
    return {
        "module": path,
        "op": op,
        "parameters": count.parameters,
        "trainable": count.trainable,
        "buffers": count.buffers,
        "bytes": round(count.bytes),
        "tied": tuple(count.tied),
    }


def totals(graph: Graph) -> Row:
    """Parameters of the whole graph, each once."""
    weights = [w for w in graph.weights.values() if w.role == "parameter"]
    total, trainable = sum(w.elements for w in weights), sum(w.elements for w in weights if w.trainable)
    return {
        "parameters": total,
        "trainable": trainable,
        "frozen": total - trainable,
        "bytes": round(sum(w.elements * w.float_bits / 8 for w in weights)),
    }
