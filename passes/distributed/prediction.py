"""What the cost model says of a sharded run on this machine, to be compared with what is measured."""

from __future__ import annotations

from typing import Any

from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph
from espalier.passes.sharding.given import placed
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.presets import measure_device

SECONDS = 0.3  # of timing a product, and of timing a copy


def prediction(graph: Graph, mesh: Mesh, backend: str, threads: int, sizes: dict[str, int]) -> dict[str, Any]:
    """Seconds of a forward pass and of one with its backward pass by the placements of a graph, on devices as fast as
    this machine with `threads` threads. `weight_bytes`: of a rank. `why`: why there is none.
    """
    if backend != "cpu":
        return {"why": "The ranks run on GPUs; only the processors of a machine are timed for a prediction."}
    from espalier.model.torch.threads import torch_threads

    with torch_threads(threads):
        device = measure_device(mesh, seconds=SECONDS)
    given = ",".join(f"{k}={v}" for k, v in sizes.items())
    found: dict[str, Any] = {"source": ". ".join(filter(None, (device.source, device.warning.rstrip("."))))}
    for name, training in (("forward", False), ("step", True)):
        options = ShardPlanOptions(mesh=str(mesh), training=training, optimiser="sgd", formats=False, sizes=given)
        try:
            plan = placed(graph, mesh, device, options)
        except OptionsError as error:
            return found | {"why": error.message}
        if plan is None:
            return found | {"why": "The placements are not those of strategies that the cost model has."}
        found[f"{name}_seconds"] = plan.seconds
        found[f"{name}_communication_seconds"] = plan.communication
        if not training:
            found["weight_bytes"] = plan.state
    return found
