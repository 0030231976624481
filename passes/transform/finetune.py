"""Fine-tuning: masks stay, formats pass straight-through gradients (QAT), learned scales are trained."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, transform
from espalier.passes.training.options import FinetuneOptions

if TYPE_CHECKING:
    from espalier.passes.training.prepare import Prepared
    from espalier.passes.training.watch import Watch

UNHELPED = "None of the {steps} steps validated better than the start: the initial weights are kept."


@transform("finetune", "Fine-tune", FinetuneOptions, lasting=True)
def finetune(graph: Graph, options: FinetuneOptions, context: Context) -> tuple[Graph, Report]:
    """Train the weights on data; pruned weights stay 0, and gradients pass through formats (QAT).

    The loss is the model's own if it takes labels, otherwise that of the task; the baseline may be the
    teacher (distil, hidden), and sparsity may grow during training (prune_to). A sharded model can be trained by one
    process per device of its mesh (distributed), with the same steps as in one process. A stopped training keeps its
    weights; an interrupted one resumes from its last checkpoint.
    """
    from espalier.model.torch.build import read_back
    from espalier.passes.training.prepare import prepare
    from espalier.passes.training.run import train

    start = time.perf_counter()
    ready = prepare(graph, options, context)
    ranks: dict[str, Any] = {}
    if options.distributed:
        from espalier.passes.distributed.training import train_over_ranks

        watch, ranks = train_over_ranks(ready, options, context)
    else:
        watch = train(ready, options, context)
    after = read_back(ready.objective.inner, graph, context.store)
    if ready.gradual is not None:
        after = ready.gradual.pruned(after, context.store)
    return after, Report("finetune", tuple(watch.rows), _summary(watch, ready, time.perf_counter() - start) | ranks)


def _summary(watch: Watch, ready: Prepared, seconds: float) -> dict[str, Any]:
    """Figures of the run, and of the validation of the kept weights."""
    from espalier.model.data.class_names import named

    row = next((r for r in watch.rows if r["step"] == watch.kept_step), {})
    names = [f"validation_{name}" for name in watch.names]
    figures = {k: row[k] for k in names if row.get(k) is not None}
    figures |= {"validation_samples": watch.checked} if figures else {}
    idle = _unhelped(watch) if watch.steps and not watch.kept_step else ""
    warning = " ".join(w for w in (watch.warning, idle, *ready.warnings) if w)
    classes = {"classes": list(ready.classes)} if named(ready.classes) else {}
    notes = {k: v for k, v in (("warning", warning), ("resumed_from", watch.resumed_from)) if v}
    return {"ended": watch.ended, **notes, **watch.more, "steps": watch.steps, "kept_step": watch.kept_step, **figures,
            "samples": len(ready.train_on), **ready.texts, **classes, **ready.counts(),
            "seconds": round(seconds, 3)}  # fmt: skip


def _unhelped(watch: Watch) -> str:
    """That the initial weights are kept, and whether the loss alone would have chosen others."""
    text = UNHELPED.format(steps=watch.steps)
    rows = [row for row in watch.rows if row.get("validation_loss") is not None]
    best = min(rows, key=lambda row: row["validation_loss"], default=None)
    if best is None or not best["step"] or watch.best != "accuracy":
        return text
    change = f"from {rows[0]['validation_loss']:.4g} to {best['validation_loss']:.4g} at step {best['step']}"
    return f"{text} Its validation loss fell {change}: set keep to loss to keep such weights."
