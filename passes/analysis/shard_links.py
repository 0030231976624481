"""The analysis that measures this machine as devices of a plan, with the links between its processes."""

from __future__ import annotations

from typing import Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, NoOptions, Report, analysis
from espalier.passes.distributed.measured_links import RANKS, measure_links
from espalier.passes.sharding.links import check_store, store_links
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.sharding.presets import MEASURED, device


@analysis("shard_links", "Measure this machine", timed=True)
def shard_links(graph: Graph, options: NoOptions, context: Context) -> tuple[Graph, Report]:
    """Measure this machine for plans with `device = "this"`, and store the links between its processes.

    Two processes time all-reduces and all-gathers of 1 KiB to 16 MiB, over NCCL where there are two GPUs, else over
    gloo. The latency of a message and the rate of a link are fitted to these times by the formulas of the cost model.
    One row per collective and size: measured and fitted milliseconds. The summary has the figures of the machine and by
    which factor the times differ from the fit. The model takes no part in it.
    """
    return graph, measured_machine(context)


def measured_machine(context: Context) -> Report:
    """Measure this machine and store its links."""
    check_store()
    links, timings = measure_links(context)
    store_links(links)
    context.progress(0, 0, "timing a product and a copy")
    found = device(MEASURED, Mesh((RANKS,)))
    rows: list[dict[str, Any]] = []
    for each in timings:
        fitted = links.seconds(each)
        rows.append({"collective": each.kind, "bytes": each.bytes, "milliseconds": each.seconds * 1e3,
                     "fitted_ms": fitted * 1e3})  # fmt: skip
    return Report("shard_links", tuple(rows), {
        "latency_us": links.latency * 1e6, "rate": links.rate, "factor": links.factor, "worst_factor": links.worst,
        "flops": found.flops, "memory_bytes": found.memory, "bandwidth": found.bandwidth, "backend": links.backend,
        "ranks": links.ranks, "threads": links.threads, "cores": links.cores, "torch": links.torch,
        "measured": links.when, "source": found.source,
    })  # fmt: skip
