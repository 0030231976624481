"""What the data are like that a model is trained and measured on, and whether they fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.running.batches import match_inputs
from espalier.passes.running.splits import EvaluateOptions, data_warning, length_of, load_task

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData


@analysis("data", "Data", EvaluateOptions)
def data(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Samples and share of each class by split, the accuracy of guessing the most frequent one, lengths of the texts.

    The summary tells how even the classes are and what share of the texts `max_length` cuts.
    """
    from espalier.model.data.summary import balance, summarise

    context.progress(0, 0, "reading and tokenising")
    task = task_of(options, context)
    if options.split and options.split != "all":
        task = task.only(options.split)
    seen = summarise(task.take(options.limit or None), length_of(options, context).tokens)
    told = misfit(graph, task.classes, task.splits)
    if not any(told):
        told = (data_warning(task, context).get("warning", ""), "")
    context.found((seen, told))
    rows = tuple(
        {"split": s.name, "class": c, "samples": n, "share": n / max(s.samples, 1)}
        for s in seen.splits
        for c, n in zip(seen.classes, s.counts, strict=True)
    )
    summary = {"kind": seen.kind, "samples": sum(seen.counts), "classes": len(seen.classes),
               "baseline_accuracy": seen.judged.majority, "balance": balance(seen.counts, seen.classes)}  # fmt: skip
    texts = {"median_length": seen.median, "longest": seen.longest, "cut": seen.cut} if seen.kind == "text" else {}
    return graph, Report("data", rows, {**summary, **texts})


def task_of(options: EvaluateOptions, context: Context) -> TaskData:
    """The data as a training sees them; a lone file with too few rows to be divided in one piece. Raises DataError."""
    try:
        return load_task(options, context.reading, whole=options.split == "all")
    except DataError:
        return load_task(options, context.reading, whole=True)


def misfit(graph: Graph, classes: tuple[str, ...], splits: dict[str, Split]) -> tuple[str, str]:
    """Why the graph cannot be measured on the data and what to do, as far as that is seen without running it."""
    try:
        names = [n.target for n in graph.placeholders]
        for split in splits.values():
            match_inputs(names, split)
    except DataError as error:
        return error.message, error.hint
    told = head(graph)
    if told is not None and len(classes) > told:
        text = f"The data have {len(classes)} classes; the model tells {told} apart."
        return text, "Use a model with as many labels as the data, or name another label column."
    return "", ""


def head(graph: Graph) -> int | None:
    """How many classes the graph tells apart: the width of its first result that is a matrix; None where unknown."""
    for ref in graph.output.inputs:
        meta = graph.nodes[ref.node].ports.get("data_out")
        if meta is not None and len(meta.shape) == 2:
            return meta.shape[1] if isinstance(meta.shape[1], int) else None
    return None
