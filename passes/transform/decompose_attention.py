"""Write attentions as what they compute: matmul, scale, mask, softmax, dropout, matmul; each may then have formats."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import decomposable
from espalier.passes.attention import decomposed
from espalier.passes.base import Context, Report, transform
from espalier.passes.select import Select, chosen


@dataclass(frozen=True, slots=True)
class DecomposeOptions:
    """Which attentions."""

    select: Select = field(default=Select(), metadata={"help": "which attentions are decomposed"})


@transform("decompose_attention", "Decompose attention", DecomposeOptions, instant=True)
def decompose_attention(graph: Graph, options: DecomposeOptions, context: Context) -> tuple[Graph, Report]:
    """Replace attentions by their matmuls, scaling, mask, softmax and dropout, so that each part can be quantised."""
    nodes = chosen(graph, options.select, decomposable, "decomposed")
    after, parts = decomposed(graph, [n.id for n in nodes])
    rows = tuple({"node": name, "parts": ", ".join(ids)} for name, ids in parts.items())
    return after, Report("decompose_attention", rows, {"attentions": len(parts)})
