"""BERT-base with half of its heads and half of its feed-forward neurons: the time to find, mask and remove them, and
what the smaller model takes, run by run beside the whole one. Random weights: latency and size do not hang on them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.document.recipe import Step
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import BITS
from espalier.model.graph.ops import macs
from espalier.model.opening import open_source
from espalier.model.torch.build import build
from espalier.passes.base import Context, StepResult, run_step
from espalier.passes.choices.prune_structured import PruneStructuredOptions
from espalier.passes.structure.sets import structure_of
from espalier.passes.transform.remove_pruned import RemovePrunedOptions
from tests.benchmarks.record import median_of, report

SHAPES = ((1, 128), (4, 128))
ROUNDS = 9


def main() -> None:
    """Each step once, runs in turn; medians and the median of the ratios."""
    torch.set_num_threads(1)
    opened = open_source("config:bert?task=sequence-classification", Path(tempfile.mkdtemp()))
    graph, context = opened.project.graph, Context(opened.store)
    analysis = median_of(lambda: structure_of(graph), 5)
    heads = run_step(graph, Step("prune_structured", PruneStructuredOptions("heads", 0.5)), context)
    both = run_step(heads.graph, Step("prune_structured", PruneStructuredOptions("neurons", 0.5)), context)
    small = run_step(both.graph, Step("remove_pruned", RemovePrunedOptions()), context)
    report("structured", {
        "threads": torch.get_num_threads(),
        "seconds": {"analysis": round(analysis, 4), **_seconds(heads=heads, neurons=both, removal=small)},
        "removed": small.report.summary["removed"],
        "before": _sizes(graph), "after": _sizes(small.graph),
        "largest_difference": _difference(both.graph, small.graph, opened.store),
        "latency": [_latency(graph, small.graph, opened.store, *shape) for shape in SHAPES],
    })  # fmt: skip


def _seconds(**results: StepResult) -> dict[str, float]:
    return {name: round(r.seconds, 3) for name, r in results.items()}


def _sizes(graph: Graph) -> dict[str, int]:
    parameters = [w for w in graph.weights.values() if w.role == "parameter"]
    one = {**graph.symbols, "batch": 1, "seq": 128}
    return {"parameters": sum(w.elements for w in parameters),
            "bytes": sum(w.elements * BITS[w.dtype] // 8 for w in parameters),
            "macs": sum(macs(n, one) for n in graph)}  # fmt: skip


def _inputs(batch: int, length: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, 30_000, (batch, length), generator=torch.Generator().manual_seed(0))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def _difference(masked: Graph, small: Graph, store: Any) -> float:
    with torch.no_grad():
        one, other = (build(g, store)(**_inputs(2, 64))["logits"] for g in (masked, small))
    return float((one - other).abs().max())


def _latency(graph: Graph, small: Graph, store: Any, batch: int, length: int) -> dict[str, Any]:
    """Both models in turn on the same inputs, on one thread; processor time, which other work disturbs less, too."""
    modules, inputs = [build(g, store) for g in (graph, small)], _inputs(batch, length)
    rounds: list[tuple[tuple[float, float], tuple[float, float]]] = []
    with torch.no_grad():
        for module in modules:
            module(**inputs)
        for _ in range(ROUNDS):
            one, other = (_timed(module, inputs) for module in modules)
            rounds.append((one, other))
    found: dict[str, Any] = {"batch": batch, "length": length}
    for i, clock in enumerate(("seconds", "processor")):
        before, after = (statistics.median(r[k][i] for r in rounds) for k in (0, 1))
        found[clock] = {"before": round(before, 4), "after": round(after, 4),
                        "speedup": round(statistics.median(a[i] / b[i] for a, b in rounds), 2)}  # fmt: skip
    return found


def _timed(module: Any, inputs: dict[str, torch.Tensor]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    module(**inputs)
    return time.perf_counter() - wall, time.process_time() - processor


if __name__ == "__main__":
    main()
