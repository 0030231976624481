"""Describes the data of training and evaluation, and whether they fit the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.model.graph.token_scores import token_scores_width
from espalier.passes.base import Context, Report, Row, analysis
from espalier.passes.running.batches import match_inputs
from espalier.passes.running.splits import TRAIN, EvaluateOptions, data_warning, length_of, load_task
from espalier.passes.tasks.base import TASKS, task_of

if TYPE_CHECKING:
    from espalier.model.data.base import Split, TaskData


@analysis("data", "Data", EvaluateOptions)
def data(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Samples and share of each class by split, majority-class accuracy, and lengths of texts.

    The summary has the balance of the classes and the share of texts that `max_length` truncates.
    """
    from espalier.model.data.summary import balance, summarise

    context.progress(0, 0, "reading and tokenising")
    task = splits_or_whole(options, context)
    if options.split and options.split != "all":
        task = task.only(options.split)
    described = summarise(task.take(options.limit or None), length_of(options, context).tokens)
    described = replace(described, guessing=_guessing(task, described.evaluated.name))
    warning = misfit(graph, task.classes, task.splits)
    if not any(warning):
        warning = (data_warning(task, context).get("warning", ""), "")
    context.found((described, warning))
    if TASKS.get(task.task).windows:
        return graph, Report("data", *_windows(task))
    rows = tuple(
        {"split": s.name, "class": c, "samples": n, "share": n / max(s.samples, 1)}
        for s in described.splits
        for c, n in zip(described.classes, s.counts, strict=True)
    )
    summary: dict[str, Any] = {"kind": described.kind, "samples": described.samples, "classes": len(described.classes)}
    if TASKS.get(task.task).confuses:
        summary |= {"baseline_accuracy": described.evaluated.majority,
                    "balance": balance(described.counts, described.classes)}  # fmt: skip
    else:
        summary |= {"task": task.task, "guessing": described.guessing}
        rows = rows or tuple({"split": s.name, "samples": s.samples} for s in described.splits)
    texts = (
        {"median_length": described.median, "longest": described.longest, "cut": described.cut}
        if described.kind == "text"
        else {}
    )
    return graph, Report("data", rows, {**summary, **texts})


def _guessing(data: TaskData, name: str) -> str:
    """The main metric of the best constant prediction on a split, as a sentence; empty for classes and windows."""
    task, split = TASKS.get(data.task), data.split(name)
    if task.confuses or task.windows or task.hides(split.labels):
        return ""
    level = task.guess(split, data.splits.get(TRAIN, split))
    if level is None:
        return ""
    value = f"{100 * level:.1f} %" if task.main.share else f"{level:.4g}"
    return f"{task.main.title.capitalize()} of the best constant prediction: {value} on {name}."


def _windows(task: TaskData) -> tuple[tuple[Row, ...], dict[str, Any]]:
    """(a row for each split, summary) of windows of a text."""
    splits = task.splits.values()
    sizes = [0 if s.text_bytes is None else int(s.text_bytes.sum()) for s in splits]
    rows = tuple(
        {"split": name, "windows": len(split), "tokens": split.targets, "bytes": size}
        for (name, split), size in zip(task.splits.items(), sizes, strict=True)
    )
    window = max((s.labels.shape[-1] for s in splits), default=0)
    return rows, {"kind": task.kind, "task": task.task, "window": window, "windows": sum(map(len, splits)),
                  "tokens": sum(s.targets for s in splits), "bytes": sum(sizes)}  # fmt: skip


def splits_or_whole(options: EvaluateOptions, context: Context) -> TaskData:
    """The data as a training splits them; a file with too few rows to be split is one split. Raises DataError."""
    try:
        return load_task(options, context.reading, whole=options.split == "all")
    except DataError:
        return load_task(options, context.reading, whole=True)


def misfit(graph: Graph, classes: tuple[str, ...], splits: dict[str, Split]) -> tuple[str, str]:
    """(why the graph cannot be evaluated on the data, what to do), as far as known without running it; or empty."""
    try:
        names = [n.target for n in graph.placeholders]
        for split in splits.values():
            match_inputs(names, split)
    except DataError as error:
        return error.message, error.hint
    if text := _other_task(graph, splits):
        return text, "Use data of the model's task, or set the task."
    width = head(graph)
    if width is not None and len(classes) > width:
        text = f"The data have {len(classes)} classes, but the model has {width}."
        return text, "Use a model with as many labels as the data, or name another label column."
    return "", ""


def _other_task(graph: Graph, splits: dict[str, Split]) -> str:
    """Why data of one task do not fit a graph whose outputs are of another; empty if they do or if that is unknown."""
    labelled = [s for s in splits.values() if not task_of(s).hides(s.labels)]
    of_tokens = {task_of(s).windows for s in labelled if not task_of(s).positions or task_of(s).windows}
    if head(graph) is not None and True in of_tokens:
        return "The data are a text without labels, but the model gives scores of classes."
    if token_scores_width(graph) and False in of_tokens:
        return "The data have one label a sample, but the model gives scores of tokens."
    return ""


def head(graph: Graph) -> int | None:
    """The number of classes of the graph: the width of its first matrix result; None if unknown."""
    for ref in graph.output.inputs:
        meta = graph.nodes[ref.node].ports.get("data_out")
        if meta is not None and len(meta.shape) == 2:
            return meta.shape[1] if isinstance(meta.shape[1], int) else None
    return None
