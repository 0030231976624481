"""The analysis that runs a sharded model by processes on this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, Row, analysis, run_step
from espalier.passes.choices.shard import ShardOptions, mesh_text
from espalier.passes.distributed.job import RESULTS_NODE, Source
from espalier.passes.distributed.run import RunOptions, run_sharded
from espalier.verilog.design.options import sizes_in

NESTED = ("collectives", "planned", "planned_backward", "gathered")  # of the report: a row per node instead


@dataclass(frozen=True, slots=True)
class ShardRunOptions(RunOptions):
    """Data of the run; the mesh and strategy for a model that is not sharded yet, as of the step `shard`."""

    mesh: str = field(
        default="",
        metadata={"help": "sizes of one or two axes (default: the model's own placements)", "read": mesh_text},
    )
    strategy: Literal["auto", "megatron", "data", "fsdp", "replicated"] = field(
        default="auto", metadata={"help": "auto: the plan of least estimated time"}
    )
    device: str = field(default="cpu", metadata={"help": "preset whose speed and links the plan assumes"})
    rates: str = field(default="", metadata={"help": "bytes per second of the links of each axis, for the plan"})
    training: bool = field(default=False, metadata={"help": "plan a training step instead of a forward run"})
    memory: str = field(default="", metadata={"help": "of each device, such as 16GiB, for the plan"})
    sizes: str = field(default="", metadata={"help": "other sizes than those of the trace, such as seq=512"})


@analysis("shard_run", "Run over processes", ShardRunOptions, timed=True)
def shard_run(graph: Graph, options: ShardRunOptions, context: Context) -> tuple[Graph, Report]:
    """Run a sharded model by one process per device of its mesh on this machine, and compare it with one process.

    One row per node (or stored weight) and collective: its calls and bytes, counted by torch in a forward pass, beside
    the planned bytes, and the same bytes of the backward pass. `whole` says why a node ran on whole tensors. The
    summary has the difference of outputs and gradients, seconds of a forward pass and of one with its backward pass
    (sharded, in one process, and predicted for this machine), and the memory of each rank. Without data the inputs are
    random. Raises PassError for a model without placements, and for more processes than `max_ranks`.
    """
    sharded, source = _sharded(graph, options, context), context.source
    origin = Source(source.spec, source.inputs, source.seed) if source else None
    found = run_sharded(sharded, options, context, origin, sizes_in(options.sizes))
    summary = {k: v for k, v in found.items() if k not in NESTED}
    return graph, Report("shard_run", tuple(_rows(found)), summary)


def _sharded(graph: Graph, options: ShardRunOptions, context: Context) -> Graph:
    """The graph with the placements of the options, or its own."""
    if not options.mesh:
        return graph
    given = {f.name: getattr(options, f.name) for f in fields(ShardOptions) if hasattr(options, f.name)}
    return run_step(graph, Step("shard", ShardOptions(**given), context.seed), context).graph


def _rows(found: dict[str, Any]) -> Iterator[Row]:
    """A row per node and collective, and per node that ran on whole tensors."""
    whole = {r["node"]: r["why"] for r in found["gathered"]}
    planned: dict[tuple[str, str], int] = defaultdict(int)
    for row in found["planned"]:
        planned[row["node"], row["collective"]] += row["bytes"]
    counted = {(r["node"], r["collective"]): r for r in found["collectives"]["forward"] if r["node"] != RESULTS_NODE}
    gradients: dict[tuple[str, str], int] = defaultdict(int)
    for row in found["planned_backward"]:
        gradients[row["node"], row["collective"]] += row["bytes"]
    steps = found["collectives"]["step"]
    backward = {(r["node"], r["collective"]): r["bytes"] for r in steps if r["pass"] == "backward"}
    for key in dict.fromkeys((*planned, *counted, *gradients, *backward)):
        row = counted.get(key, {"calls": 0, "bytes": 0})
        yield {"node": key[0], "collective": key[1], "planned_bytes": planned.get(key, 0), "bytes": row["bytes"],
               "calls": row["calls"], "planned_backward": gradients.get(key, 0), "backward": backward.get(key, 0),
               "whole": whole.pop(key[0], "")}  # fmt: skip
    for node, why in whole.items():
        yield {"node": node, "collective": "", "planned_bytes": 0, "bytes": 0, "calls": 0, "planned_backward": 0,
               "backward": 0, "whole": why}  # fmt: skip
