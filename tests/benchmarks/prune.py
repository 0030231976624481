"""Prune BERT-base by l1, 50 %, local and global, against torch.topk per tensor and one kthvalue."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from espalier.model.document.recipe import Step
from espalier.model.opening import open_source
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, run_step
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.unpruned import prunable
from tests.benchmarks.record import ratio, report


def main() -> None:
    """Ours and the reference in turn, three rounds each; medians."""
    opened = open_source("config:bert?task=sequence-classification", Path(tempfile.mkdtemp()))
    graph, store = opened.project.graph, opened.store
    names = [n.weights["weight"] for n in graph if prunable(n, graph)]
    weights = [to_torch(store.get(graph.weights[n].key or "")) for n in names]
    figures: dict[str, Any] = {"elements": sum(w.numel() for w in weights)}
    for scope in ("local", "global"):
        rounds = []
        for _ in range(3):
            start = time.perf_counter()
            result = run_step(graph, Step("prune", PruneOptions(0.5, "l1", scope)), Context(store))  # type: ignore[arg-type]
            mine = time.perf_counter() - start
            start = time.perf_counter()
            reference_of(scope, weights)
            rounds.append((mine, time.perf_counter() - start))
        mine, reference = sorted(rounds, key=lambda r: r[0] / r[1])[1]
        zeros = result.report.summary["zeros"]
        figures[scope] = {**ratio(mine, reference, 1.5), "zeros": zeros}
    report("prune", figures)


def reference_of(scope: str, weights: list[torch.Tensor]) -> None:
    """What the ranking alone costs."""
    if scope == "local":
        for weight in weights:
            torch.topk(weight.abs().reshape(-1), weight.numel() // 2, largest=False)
    else:
        every = torch.cat([w.reshape(-1).abs() for w in weights])
        torch.kthvalue(every, every.numel() // 2)


if __name__ == "__main__":
    main()
