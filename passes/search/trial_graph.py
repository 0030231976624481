"""The graph of a trial with masks planned but not computed: for static costs and previews."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from espalier.model.graph.graph import Graph
from espalier.model.graph.ops import offered
from espalier.passes.costs.base import with_candidate
from espalier.passes.costs.parallel import with_products
from espalier.passes.search.format_lists import format_of
from espalier.passes.search.space import Choice, Space, fit_key
from espalier.passes.sensitivity.table import Candidate


def candidates(space: Space, choice: Choice, value: Any) -> Iterator[tuple[str, str, Candidate]]:
    """(node, port, candidate) for each place of a format or a sparsity; formats as fitted."""
    for node in choice.nodes:
        if choice.kind == "sparsity":
            yield node, "weight", Candidate(None, float(value or 0), choice.method)
            continue
        for port in choice.ports:
            text = space.fitted.get(fit_key(node, port, str(value)), str(value))
            yield node, port, Candidate(format_of(text))


def planned(graph: Graph, space: Space, choice: Choice, value: Any) -> Graph:
    """The graph with one choice applied; nodes that it lacks are skipped. Raises FormatError."""
    nodes = {n: graph.nodes[n] for n in choice.nodes if n in graph.nodes}
    if choice.kind == "parallel":
        return graph.replace(*(with_products(node, graph, int(value)) for node in nodes.values()))
    if choice.kind not in ("format", "sparsity"):
        return graph
    for name, port, candidate in candidates(space, choice, value):
        if name in nodes and port in offered(nodes[name]):
            precision = nodes[name].precision.get(port)
            fmt = precision.format if choice.kind == "sparsity" and precision else candidate.format
            nodes[name] = with_candidate(nodes[name], port, replace(candidate, format=fmt))
    return graph.replace(*nodes.values())
