"""Sharded runs on 1, 2 and 4 processes of this machine: predicted against measured time, differences, bytes.

The device of the prediction is this machine with the threads of a rank: its arithmetic and copies are measured, and so
are its links after `espalier shard --measure`; else they are assumed. Ranks beyond the cores wait for one another.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.torch.threads import torch_threads
from espalier.passes.base import Context, run_step
from espalier.passes.choices.shard import ShardOptions
from espalier.passes.distributed.launch import cores
from espalier.passes.distributed.run import RunOptions, run_sharded
from espalier.passes.sharding.mesh import Mesh, parse_mesh
from espalier.passes.sharding.options import ShardPlanOptions
from espalier.passes.sharding.plan import Plan, baseline
from espalier.passes.sharding.presets import device
from tests.benchmarks.record import report

SOURCE = (
    "config:bert?hidden_size=512&num_hidden_layers=4&num_attention_heads=8&intermediate_size=2048"
    "&task=sequence-classification"
)
BATCH = 8
CASES = (("1", "replicated"), ("2", "data"), ("2", "megatron"), ("2", "fsdp"), ("4", "data"), ("2x2", "megatron"))


def planned(graph: Graph, mesh: Mesh, strategy: str, threads: int, training: bool) -> Plan:
    """The plan of a baseline on this machine."""
    options = ShardPlanOptions(mesh=str(mesh), batch_size=BATCH, training=training)
    with torch_threads(threads):
        here = device("this", mesh)
    return baseline(strategy, graph, mesh, here, options)


def measured(graph: Graph, context: Context, text: str, strategy: str) -> dict[str, Any]:
    """One run with its prediction."""
    mesh = parse_mesh(text)
    step = Step("shard", ShardOptions(mesh=text, strategy=strategy, batch_size=BATCH))  # type: ignore[arg-type]
    sharded = run_step(graph, step, context).graph
    threads = max(1, cores() // mesh.devices)
    forward, training = (planned(graph, mesh, strategy, threads, t) for t in (False, True))
    found = run_sharded(sharded, RunOptions(batch_size=BATCH), context)
    row: dict[str, Any] = {"mesh": text, "strategy": strategy, "threads": threads, "load": round(os.getloadavg()[0], 1)}
    for name, plan, key in (("forward", forward, "forward_seconds"), ("step", training, "step_seconds")):
        took = found["sharded"][key]
        alone = found["single"][key]
        row[name] = {
            "predicted_ms": round(plan.seconds * 1e3, 2), "measured_ms": round(took * 1e3, 2),
            "measured_by_predicted": round(took / plan.seconds, 2), "one_process_ms": round(alone * 1e3, 2),
        }  # fmt: skip
    row["difference"] = {n: d["relative"] for n, d in found["difference"].items()}
    counted = {n: c["bytes"] for n, c in found["forward_totals"].items()}
    row["forward_bytes"] = {"planned": forward.bytes, "counted": sum(counted.values()), "by_collective": counted}
    return row


def main() -> None:
    """Open the model once, then run each case."""
    with tempfile.TemporaryDirectory() as folder:
        opened = open_any(SOURCE, Path(folder))
        context = Context(opened.store)
        graph = opened.project.graph
        rows = [measured(graph, context, mesh, strategy) for mesh, strategy in CASES]
    report(
        "shard_run", {"model": SOURCE, "batch": BATCH, "device": device("this", parse_mesh("2")).source, "rows": rows}
    )


if __name__ == "__main__":
    main()
