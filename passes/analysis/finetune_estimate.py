"""Estimates the duration of a fine-tuning on this machine, and counts what it would train."""

from __future__ import annotations

from espalier.model.errors import PassError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.training.options import FinetuneOptions


@analysis("finetune_estimate", "Time of a fine-tuning", FinetuneOptions)
def finetune_estimate(graph: Graph, options: FinetuneOptions, context: Context) -> tuple[Graph, Report]:
    """Time a few training steps and validation batches on the data, and extrapolate; the graph is not changed."""
    from espalier.passes.training.estimate import estimate
    from espalier.passes.training.prepare import prepare

    if options.distributed:
        raise PassError("The time of a training over ranks is not estimated.", "Set distributed to false to time it.")
    context.progress(0, 0, "loading the data")
    ready = prepare(graph, options, context)
    chosen = {
        "formats": sum(len(n.precision) for n in graph),
        "masks": sum(s.mask is not None for n in graph for s in n.sparsity.values()),
    }
    figures = {"samples": len(ready.train_on), **ready.counts(), **chosen}
    return graph, Report("finetune_estimate", (), {**estimate(ready, options, context), **figures})
