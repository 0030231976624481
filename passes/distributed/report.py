"""The report of a sharded run: difference, times, memory, and collectives beside those of the plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.model.graph.node import out_port
from espalier.model.graph.ops import floating
from espalier.passes.distributed.job import RESULTS_NODE, Settings
from espalier.passes.distributed.step import difference
from espalier.passes.sharding.apply import Reshard, resharding
from espalier.passes.sharding.backward import Backward
from espalier.passes.sharding.mesh import Mesh
from espalier.passes.tasks.scores import scores_of

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
        "backward_totals": totals(r for r in first.get("step_collectives", []) if r["pass"] == "backward"),
        "planned_backward": (backwards := list(_backward(graph, batches[0], settings))),
        "backward_gaps": gaps(graph, backwards, first),
        "forward_totals": totals(r for r in first.get("forward_collectives", []) if r["node"] != RESULTS_NODE),
        "planned": [_row(r, settings) for r in resharding(graph, sizes_of(graph, batches[0]))],
        "gathered": [{"node": n, "why": text} for n, text in first["gathered"].items()],
        "notes": notes,
    }


def _row(found: Reshard, settings: Settings) -> dict[str, Any]:
    collective = on_device(found.collective, settings.device)
    return {"node": found.target, "collective": collective, "port": found.port, "bytes": found.bytes}


def _backward(graph: Graph, batch: Batch, settings: Settings) -> Iterator[dict[str, Any]]:
    """The collectives of a backward pass that follow from the placements."""
    for found in Backward(graph, sizes_of(graph, batch), None if batch.labels is None else _scores(graph)):
        yield _row(found, settings)


@dataclass(frozen=True, slots=True)
class _Result:
    """A result of a graph, of which logits are chosen by their rank."""

    number: int
    rank: int
    floating: bool

    def dim(self) -> int:
        """Its number of dimensions."""
        return self.rank

    def is_floating_point(self) -> bool:
        """Whether its values are floats."""
        return self.floating


def _scores(graph: Graph) -> tuple[int, ...] | None:
    """The number of the result that the cross-entropy takes; None for all."""
    metas = [graph.nodes[r.node].ports.get(out_port(r.output)) for r in graph.output.inputs]
    results = tuple(_Result(i, len(meta.shape) if meta else 0, floating(meta)) for i, meta in enumerate(metas))
    named = graph.structure == "dict" and len(graph.output_names) == len(results)
    try:
        chosen: Any = scores_of(dict(zip(graph.output_names, results, strict=True)) if named else results, graph)
    except GraphError:
        return None
    return (chosen.number,)


def gaps(graph: Graph, planned: Iterable[Mapping[str, Any]], report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The nodes whose backward pass moves other bytes than follow from the placements, and why."""
    found: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    counted = (r for r in report.get("step_collectives", []) if r["pass"] == "backward")
    for place, rows in enumerate((planned, counted)):
        for row in rows:
            found[row["node"], row["collective"]][place] += row["bytes"]
    return [{"node": node, "collective": kind, "planned": given, "bytes": bytes_, "why": _why(graph, node, report)}
            for (node, kind), (given, bytes_) in found.items() if given != bytes_]  # fmt: skip


def _why(graph: Graph, name: str, report: Mapping[str, Any]) -> str:
    node = graph.nodes.get(name)
    if name in report["gathered"]:
        return f"it ran on whole tensors: {report['gathered'][name]}"
    if node is not None and node.adapters:
        return "the placements of its adapter are no part of the plan"
    if node is not None and (node.precision or node.sparsity):
        return "its formats and masks are applied by operations of their own"
    if node is None:
        return "its gradient arises from nodes that differ"
    return "torch redistributes its gradients, or those of nodes before or behind it, otherwise"


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
