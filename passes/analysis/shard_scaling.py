"""The analysis that predicts a step over growing numbers of devices."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.sharding.mesh import Device, Mesh
from espalier.passes.sharding.options import ShardPlanOptions, memory_of
from espalier.passes.sharding.plan import make_plan
from espalier.passes.sharding.presets import MEASURED, PRESETS, device, over

MACHINE = 8  # devices of a machine, where the preset names none


@dataclass(frozen=True, slots=True)
class ShardScalingOptions(ShardPlanOptions):
    """As of a plan; the mesh follows from the number of devices."""

    most: int = field(default=64, metadata={"min": 1, "max": 1024, "help": "largest number of devices"})


@analysis("shard_scaling", "Scaling over devices", ShardScalingOptions)
def shard_scaling(graph: Graph, options: ShardScalingOptions, context: Context) -> tuple[Graph, Report]:
    """The predicted step of the best plan on 1, 2, 4, … devices: a simulation by the cost model, not a measurement.

    A mesh has one axis within a machine and a second one over machines. Of each number of devices: milliseconds and
    their parts, memory per rank, `speedup` over one device, and `efficiency`, the speedup by the number of devices
    (strong scaling: the batch of the whole mesh stays). Where nothing can be split along a mesh, or its devices
    have too little memory, there is a `problem` instead. Raises OptionsError for an unknown preset.
    """
    memory = memory_of(options.memory) if options.memory else None
    here = device(MEASURED, Mesh((1,)), memory) if options.device == MEASURED else None
    counts = [1 << k for k in range(options.most.bit_length()) if 1 << k <= options.most]
    rows, alone = list[dict[str, Any]](), None
    for done, count in enumerate(counts):
        context.progress(done, len(counts), f"{count} devices")
        row = _row(graph, options, count, here)
        alone = row.get("step_ms") if count == 1 else alone
        if alone and row.get("step_ms"):
            row["speedup"] = alone / row["step_ms"]
            row["efficiency"] = row["speedup"] / count
        rows.append(row)
    summary = {"device": options.device, "simulated": "by the cost model, not measured"}
    return graph, Report("shard_scaling", tuple(rows), summary)


def _row(graph: Graph, options: ShardScalingOptions, count: int, here: Device | None) -> dict[str, Any]:
    """`here`: this machine, if it is the device."""
    inside = PRESETS[options.device].machine if options.device in PRESETS else MACHINE
    mesh = Mesh((count,)) if count <= inside else Mesh((count // inside, inside))
    memory = memory_of(options.memory) if options.memory else None
    shared = ShardPlanOptions(**{f.name: getattr(options, f.name) for f in fields(ShardPlanOptions)})
    found: dict[str, Any] = {"devices": count, "mesh": str(mesh)}
    rates = options.rates if len(options.rates.split(",")) == len(mesh.shape) else ""
    hardware = over(here, mesh, rates) if here else device(options.device, mesh, memory, rates)
    try:
        plan = make_plan(graph, mesh, hardware, shared, compare=False)
    except OptionsError as error:
        return found | {"problem": error.message}
    return found | {
        "step_ms": plan.seconds * 1e3, "compute_ms": plan.compute * 1e3,
        "communication_ms": plan.communication * 1e3, "memory_bytes": plan.memory, "problem": "",
    }  # fmt: skip
