"""Train the graph as it is: masks hold, formats pass their straight-through gradient (QAT), learned scales move."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, transform
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.passes.training.prepare import Prepared
    from espalier.passes.training.watch import Watch

UNHELPED = "None of the {steps} steps validated better than the start: the weights of before the training are kept."


@transform("finetune", "Fine-tune", FinetuneOptions, lasting=True)
def finetune(graph: Graph, options: FinetuneOptions, context: Context) -> tuple[Graph, Report]:
    """Train the weights on data; pruned weights stay 0, and formats are trained through (QAT).

    The loss is the model's own where it takes labels, else the cross-entropy of its class scores; the baseline may
    teach (distil, hidden), and pruning may grow on the way (prune_to). A training that is stopped by hand keeps what it
    has learned; one that was broken off goes on from its last checkpoint.
    """
    from espalier.model.torch.build import read_back
    from espalier.passes.training.prepare import prepare
    from espalier.passes.training.run import train

    start = time.perf_counter()
    ready = prepare(graph, options, context)
    watch = train(ready, options, context)
    after = read_back(ready.objective.inner, graph, context.store)
    if ready.gradual is not None:
        after = ready.gradual.pruned(after, context.store)
    return after, Report("finetune", tuple(watch.rows), _summary(watch, ready, time.perf_counter() - start))


def _summary(watch: Watch, ready: Prepared, seconds: float) -> dict[str, Any]:
    """Figures of the run, and those of the validation that the kept weights had."""
    from espalier.model.data.class_names import named

    kept = next((r for r in watch.rows if r["step"] == watch.kept_step), {})
    figures = {k: kept[k] for k in ("validation_accuracy", "validation_loss") if kept.get(k) is not None}
    figures |= {"validation_samples": watch.checked} if figures else {}
    idle = UNHELPED.format(steps=watch.steps) if watch.steps and not watch.kept_step else ""
    warning = " ".join(w for w in (watch.warning, idle, *ready.warnings) if w)
    named_classes = {"classes": list(ready.classes)} if named(ready.classes) else {}
    told = {k: v for k, v in (("warning", warning), ("resumed_from", watch.resumed_from)) if v}
    return {"ended": watch.ended, **told, **watch.more, "steps": watch.steps, "kept_step": watch.kept_step, **figures,
            "samples": len(ready.train_on), **ready.texts, **named_classes, **ready.counts(),
            "seconds": round(seconds, 3)}  # fmt: skip
