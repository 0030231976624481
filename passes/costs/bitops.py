"""Σ multiply–accumulates × weight bits × activation bits: both operands' formats count together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.ops import products, spec
from espalier.passes.costs.base import COSTS, Cost, Floats, Shares, with_candidate
from espalier.passes.score import node_bitops, one_sample, port_bits
from espalier.passes.sensitivity.table import Candidate

PORTS = ("data_in", "weight")


def of_node(node: Node, graph: Graph) -> float:
    """BitOPs of one node."""
    return node_bitops(node, one_sample(graph)) if spec(node.op).macs else 0.0


def grid(node: Node, graph: Graph, ports: Sequence[str], candidates: Sequence[Sequence[Candidate]]) -> Floats:
    """The product of both operands' bits, of every pair of candidates.

    It is linear in the bits of each operand, with an adapter too: so two nodes at the corners tell it all. Operands of
    several shapes at a port, such as those of a recurrent layer, have bits of their own: each pair is computed.
    """
    sizes = one_sample(graph)
    bits = [np.array([port_bits(with_candidate(node, p, c), p, sizes) for c in held])
            for p, held in zip(ports, candidates, strict=True)]  # fmt: skip
    if len(ports) == 1:
        values = [of_node(with_candidate(node, ports[0], c), graph) for c in candidates[0]]
        return np.array(values, np.float64)
    if len(products(node, sizes) or ()) > 1:
        return np.array([[of_node(with_candidate(with_candidate(node, ports[0], a), ports[1], b), graph)
                          for b in candidates[1]] for a in candidates[0]], np.float64)  # fmt: skip
    low = [int(b.argmin()) for b in bits]
    high = [int(b.argmax()) for b in bits]
    places = [np.where(b.max() > b.min(), (b - b.min()) / max(b.max() - b.min(), 1e-30), 0.0) for b in bits]

    def at(i: int, j: int) -> float:
        pair = with_candidate(with_candidate(node, ports[0], candidates[0][i]), ports[1], candidates[1][j])
        return of_node(pair, graph)

    u, v = places[0][:, None], places[1][None, :]
    ends = at(low[0], low[1]), at(low[0], high[1]), at(high[0], low[1]), at(high[0], high[1])
    found: Floats = ends[0] * (1 - u) * (1 - v) + ends[1] * (1 - u) * v + ends[2] * u * (1 - v) + ends[3] * u * v
    return found


COSTS.add("bitops", Cost(
    "bitops", "BitOPs", "", "low", "Σ MACs × weight bits × activation bits of one sample, float32 = 32",
    of=lambda graph, score: score.bitops,
    shares=Shares(node=of_node, ports=PORTS, grid=grid),
))  # fmt: skip
