"""What the cost model says of placements that a graph has already."""

from __future__ import annotations

import math

import numpy as np

from espalier.model.graph.graph import Graph
from espalier.passes.sharding.baselines import Mask
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.network import Held, State, Unit
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.planned import Plan
from espalier.passes.sharding.planner import Planner


def placed(graph: Graph, mesh: Mesh, device: Device, options: ShardPlanOptions) -> Plan | None:
    """The plan that a graph's own placements are; None where a node has placements that no strategy has."""
    for folded in (True, False):  # equal blocks need not be placed alike
        planner = Planner(graph, mesh, device, options, folded)
        allowed = _allowed(planner, graph)
        if allowed is not None:
            found = planner.solved_within(allowed, math.inf)
            return found and planner.as_plan("placed", found)
    return None


def _allowed(planner: Planner, graph: Graph) -> list[Mask] | None:
    """The states of each unit that agree with the placements; None where a unit has none, or its nodes differ."""
    network, masks = planner.network, list[Mask]()
    nodes: dict[int, list[str]] = {}
    for name in network.calls:
        nodes.setdefault(network.of["node", network.class_of[name]], []).append(name)
    stored = {k: at for n in graph if n.sharding for k, at in _stored(graph, n.id).items()}
    weights: dict[int, set[tuple[str, ...]]] = {}
    for name, key in network.weights.items():
        if name in stored:
            weights.setdefault(network.of[key], set()).add(stored[name])
    for number, unit in enumerate(network.units):
        wanted = weights.get(number, set())
        mask = np.array([_agrees(unit, s, [*nodes.get(number, ())], wanted, graph) for s in unit.states], bool)
        if not mask.any():
            return None
        masks.append(mask)
    return masks


def _stored(graph: Graph, name: str) -> dict[str, tuple[str, ...]]:
    """The stored placement of each weight of a node."""
    node = graph.nodes[name]
    assert node.sharding is not None
    ports = node.sharding.ports
    if node.call == "get_attr":
        return {node.weights["value"]: ports["data_out"]} if "data_out" in ports else {}
    return {w: ports[p] for p, w in node.weights.items() if p in ports}


def _agrees(unit: Unit, state: State, nodes: list[str], wanted: set[tuple[str, ...]], graph: Graph) -> bool:
    if isinstance(state, Held):
        return wanted <= {state.placements}
    for name in nodes:
        node = graph.nodes[name]
        ports = node.sharding.ports if node.sharding else {}
        if any(at != ports.get(p, at) for p, at in state.ports.items() if p not in node.weights):
            return False
    return True
