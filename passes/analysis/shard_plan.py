"""The analysis that plans a model over a mesh of devices."""

from __future__ import annotations

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.sharding.drawn import drawn
from espalier.passes.sharding.mesh import parse_mesh
from espalier.passes.sharding.options import ShardPlanOptions, memory_of
from espalier.passes.sharding.plan import Plan, make_plan
from espalier.passes.sharding.presets import device
from espalier.passes.sharding.text import plan_rows, plan_summary


@analysis("shard_plan", "Plan over devices", ShardPlanOptions)
def shard_plan(graph: Graph, options: ShardPlanOptions, context: Context) -> tuple[Graph, Report]:
    """How to distribute the model over a mesh of devices in the least predicted time that their memory allows.

    One row per node: strategy, placements on each axis (R whole, S0, S1, … split along that dimension, P partial sums),
    predicted milliseconds, collectives, their bytes on a rank and the bytes that formats save. The summary has the step
    time, its parts, the memory per rank, and the step times of the baselines over that of the plan. No weights and no
    devices are needed. Raises OptionsError for a mesh that divides nothing, and for a model that does not fit.
    """
    plan = planned(graph, options)
    context.found(drawn(plan, graph))
    return graph, Report("shard_plan", plan_rows(plan), plan_summary(plan))


def planned(graph: Graph, options: ShardPlanOptions) -> Plan:
    """The plan of these options."""
    mesh = parse_mesh(options.mesh)
    memory = memory_of(options.memory) if options.memory else None
    return make_plan(graph, mesh, device(options.device, mesh, memory, options.rates), options)
