"""A graph in which layers have different formats."""

from __future__ import annotations

from espalier.model.formats.base import parse_format
from espalier.model.graph.graph import Graph
from espalier.passes.costs.base import with_candidates
from espalier.passes.sensitivity.table import Candidate

TEXTS = ("integer(width=4, frac_width=3)", "mxint(width=8)", "scaled_integer(width=6)")


def mixed(graph: Graph) -> Graph:
    """Every Linear in another format, of weights and inputs; every second one pruned."""
    formats = [parse_format(t) for t in TEXTS]
    linears = [n for n in graph if n.op == "linear"]
    return graph.replace(*(
        with_candidates(n, {"weight": Candidate(formats[i % 3], 0.5 * (i % 2)),
                            "data_in": Candidate(formats[(i + 1) % 3])})
        for i, n in enumerate(linears)
    ))  # fmt: skip
