"""The plan of a graph over a mesh: for each node a placement of its tensors, of least time within the memory."""

from __future__ import annotations

from dataclasses import replace

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.sharding.baselines import BASELINES
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.pipeline import pipelined
from espalier.passes.sharding.planned import Move, Plan, Stage, amount
from espalier.passes.sharding.planner import Planner

__all__ = ["BASELINES", "Move", "Plan", "Stage", "amount", "baseline", "make_plan"]


def make_plan(
    graph: Graph, mesh: Mesh, device: Device, options: ShardPlanOptions | None = None, *, compare: bool = True,
    folded: bool = True,
) -> Plan:  # fmt: skip
    """The plan of least time whose memory fits, and the baselines if `compare`; with several stages, a pipeline.

    `folded`: equal blocks share their decisions. Raises OptionsError for a mesh along which nothing can be split, and
    for a model that does not fit.
    """
    options = options or ShardPlanOptions()
    planner = Planner(graph, mesh, device, options, folded)
    if options.stages > 1:
        plan = pipelined(graph, mesh, device, options, folded)
    else:
        planner.check_mesh()
        plan = planner.plan()
    if device.warning:
        plan = replace(plan, notes=(*plan.notes, device.warning))
    return replace(plan, baselines=planner.baselines()) if compare else plan


def baseline(name: str, graph: Graph, mesh: Mesh, device: Device, options: ShardPlanOptions | None = None) -> Plan:
    """The plan of a baseline, which may need more memory than there is; raises OptionsError where it splits nothing."""
    if name not in BASELINES:
        raise OptionsError(f"There is no baseline {name!r}.", f"Choose one of {', '.join(BASELINES)}.")
    return Planner(graph, mesh, device, options or ShardPlanOptions()).baseline(name)
