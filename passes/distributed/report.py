"""The report of a sharded run: difference, times, memory, and collectives beside those of the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.distributed.job import RESULTS_NODE, Settings
from espalier.passes.distributed.step import difference
from espalier.passes.sharding.apply import resharding
from espalier.passes.sharding.mesh import Mesh

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.distributed.step import Batch


def report_of(
    graph: Graph, mesh: Mesh, settings: Settings, single: Mapping[str, Any], reports: list[dict[str, Any]],
    actual: Mapping[str, Tensor], batches: list[Batch], notes: list[str],
) -> dict[str, Any]:  # fmt: skip
    """Figures of a run. Bytes of collectives: given by one rank (0) for the first batch."""
    expected: dict[str, Tensor] = single["tensors"]
    compared = {kind: difference(_of(expected, kind), actual) for kind in ("result", "gradient")}
    first = reports[0]
    slowest = {k: max(r[k] for r in reports) for k in ("forward_seconds", "step_seconds") if k in first}
    return {
        "mesh": str(mesh),
        "ranks": mesh.devices,
        "backend": "nccl" if settings.device == "cuda" else "gloo",
        "threads": settings.threads,
        "batches": len(batches),
        "samples": sum(_samples(b) for b in batches),
        "difference": {"outputs": compared["result"].to_json(), "gradients": compared["gradient"].to_json()},
        "compared": {"outputs": len(_of(expected, "result")), "gradients": len(_of(expected, "gradient"))},
        "single": {k: v for k, v in single.items() if k != "tensors"},
        "sharded": slowest,
        "memory": [{k: r[k] for k in ("rank", "stored_bytes", "peak_bytes", "split_tensors")} for r in reports],
        "collectives": {k: first.get(f"{k}_collectives", []) for k in ("forward", "step")},
        "totals": {k: totals(first.get(f"{k}_collectives", [])) for k in ("forward", "step")},
        "forward_totals": totals(r for r in first.get("forward_collectives", []) if r["node"] != RESULTS_NODE),
        "planned": [
            {"node": r.target, "collective": on_device(r.collective, settings.device), "port": r.port, "bytes": r.bytes}
            for r in resharding(graph, sizes_of(graph, batches[0]))
        ],
        "gathered": [{"node": n, "why": text} for n, text in first["gathered"].items()],
        "notes": notes,
    }


def on_device(collective: str, device: str) -> str:
    """The collective that torch calls there: on CPUs it gathers and cuts instead of an all-to-all (torch 2.13)."""
    return "all_gather" if device == "cpu" and collective == "all_to_all" else collective


def sizes_of(graph: Graph, batch: Batch) -> dict[str, int]:
    """The sizes of the graph's symbols in a batch."""
    found: dict[str, int] = {}
    for node in graph.placeholders:
        value = batch.inputs.get(node.target)
        if value is not None and node.out is not None:
            found |= {d: n for d, n in zip(node.out.shape, value.shape, strict=False) if isinstance(d, str)}
    return {k: v for k, v in found.items() if k in graph.symbols}


def _of(tensors: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    return {k: v for k, v in tensors.items() if k.startswith(f"{kind}.")}


def _samples(batch: Batch) -> int:
    return next((len(v) for v in batch.inputs.values() if v.dim()), 1)


def totals(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Calls and bytes by collective."""
    found: dict[str, dict[str, int]] = defaultdict(lambda: {"calls": 0, "bytes": 0})
    for row in rows:
        found[row["collective"]]["calls"] += row["calls"]
        found[row["collective"]]["bytes"] += row["bytes"]
    return dict(found)
