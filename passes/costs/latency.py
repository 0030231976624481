"""Measured time of a batch. Formats are simulated here: it tells what this machine takes, not what silicon would."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context
from espalier.passes.costs.base import COSTS, Cost

if TYPE_CHECKING:
    from espalier.passes.running.splits import EvaluateOptions

RUNS, WARM, SECONDS = 15, 2, 4.0


def latency(graph: Graph, options: EvaluateOptions, context: Context) -> float:
    """Least seconds of a batch of `options.batch_size` samples of the data; raises DataError without data."""
    from espalier.model.torch.build import build

    return least_seconds(build(graph, context.store, context.callables, packed=True), graph, options, context)


def least_seconds(module: Any, graph: Graph, options: EvaluateOptions, context: Context) -> float:
    """Seconds of the quickest run of a built module on the first batch, since other work only adds: of three runs at
    least, and of as many as four seconds allow.
    """
    import torch

    from espalier.model.torch.in_place import in_place
    from espalier.passes.running.batches import batches, fit_error
    from espalier.passes.running.splits import load_split

    inputs, _ = next(batches(load_split(options, context), graph, options.batch_size))
    found: list[float] = []
    with in_place(module), torch.no_grad(), fit_error(inputs, graph):
        for _ in range(WARM):
            module(**inputs)
        begin = time.perf_counter()
        while len(found) < RUNS and (len(found) < 3 or time.perf_counter() - begin < SECONDS):
            context.progress(len(found), RUNS, "timing")
            start = time.perf_counter()
            module(**inputs)
            found.append(time.perf_counter() - start)
    return min(found)


COSTS.add("latency", Cost(
    "latency", "Latency", "s", "low", "least seconds of a batch on this machine, of the batch size of the data",
    of=None,
    measure=latency,
))  # fmt: skip
