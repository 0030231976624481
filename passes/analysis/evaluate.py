"""Measures the metrics of a task, such as accuracy, and the loss of the graph on data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.base import Context, Report, analysis
from espalier.passes.figure import main_figure
from espalier.passes.running.batches import check_rows, fit_error
from espalier.passes.running.data_fit import text_facts
from espalier.passes.running.length_batches import batch_order, length_sorted_batches
from espalier.passes.running.splits import (
    TRAIN,
    EvaluateOptions,
    data_warning,
    length_of,
    load_task,
    measured_split,
    only_trains,
)
from espalier.passes.running.task_check import check_task
from espalier.passes.score import static_score
from espalier.passes.tasks.base import task_of
from espalier.passes.tasks.tally import Tally
from espalier.passes.tasks.unfit_labels import unfit_labels

if TYPE_CHECKING:
    from torch import Tensor, nn

    from espalier.model.data.base import Split, TaskData
    from espalier.passes.analysis.baseline import BaselineComparison


@analysis("evaluate", "Evaluate", EvaluateOptions)
def evaluate(graph: Graph, options: EvaluateOptions, context: Context) -> tuple[Graph, Report]:
    """Loss and metrics of the graph's task on the data, and its static score."""
    from espalier.model.torch.build import build
    from espalier.model.trace.weight_checks import non_finite, weight_warning

    data, split = data_to_measure(options, context)
    module = build(graph, context.store, context.callables, packed=True)
    check_task(graph, split, context)
    comparison = _comparison(options, split, context)
    tally = measure(module, graph, split, options.batch_size, context, comparison)
    weights = weight_warning(non_finite(graph, context.store))
    summary = summary_of(tally, graph, (data, split), options, context, comparison, notes=weights)
    return graph, Report("evaluate", (), summary)


def data_to_measure(options: EvaluateOptions, context: Context) -> tuple[TaskData, Split]:
    """The data and the split that is measured; raises DataError for data without labels."""
    data = load_task(options, context.reading, whole=options.split in ("", "all"))
    split = measured_split(data, options.split, options.limit)
    if task_of(split).hides(split.labels):
        hidden = DataError(f"{data.name} has hidden labels (−1).", "Choose a split or data with labels.")
        raise unfit_labels(split.labels) or hidden
    return data, split


def summary_of(
    tally: Tally, graph: Graph, measured: tuple[TaskData, Split], options: EvaluateOptions, context: Context,
    comparison: BaselineComparison | None = None, notes: tuple[str, ...] = (),
) -> dict[str, Any]:  # fmt: skip
    """The score of a graph from its predictions on the data and split of `data_to_measure`; `notes`: more warnings."""
    (data, split), figures = measured, tally.figures()
    task = task_of(split)
    score = static_score(graph).measured(figures.get("accuracy"), figures.get("loss", 0.0))
    summary: dict[str, Any] = {f: getattr(score, f) for f in score.__dataclass_fields__} | figures
    summary |= noise_of(tally, split, graph, constant(data, split))
    summary |= _compared(summary, comparison, split, graph) if comparison else {}
    summary |= task.facts(figures, split) | {"unit": task.units}
    summary |= {"batch_size": min(options.batch_size, len(split))} if task.batched else {}
    summary |= text_facts(split, length_of(options, context))
    warning = [*_warning(data, options, context, split.name).values(), *notes]
    if tally.unscored:
        summary["unscored"] = tally.unscored
        count = f"{tally.unscored} of {tally.count} samples"
        warning.append(f"The loss is not finite (NaN or infinite) for {count}: scores that are NaN or infinite "
                       "count as wrong. Look for such numbers in the data, weights and formats.")  # fmt: skip
    return {**summary, **({"warning": " ".join(warning)} if warning else {})}


def _compared(summary: dict[str, Any], comparison: BaselineComparison, split: Split, graph: Graph) -> dict[str, Any]:
    """The divergence from the baseline, and the change of the main metric with a paired test."""
    figures, now, before = comparison.figures(), main_figure(summary), comparison.tally.figures()
    if now is None or now.name not in before:
        return figures
    noise = noise_of(comparison.tally, split, graph, None)
    reference = main_figure({**noise, now.name: before[now.name]})
    if reference is None:
        return figures
    change = now.against(reference, figures["baseline"]).to_json()
    return {**figures, f"baseline_{now.name}": reference.value, "change": {now.name: change}}


def constant(data: TaskData, split: Split) -> float | None:
    """The main metric of the best constant prediction, fitted to the training samples where the data have them."""
    return task_of(split).guess(split, data.splits.get(TRAIN, split))


def noise_of(tally: Tally, split: Split, graph: Graph, guessing: float | None, full: bool = True) -> dict[str, Any]:
    """Interval data of the main metric: n, interval, `guessing`, and of each sample whether it is right or its error.

    `tally`: of the batches of `length_sorted_batches`; the samples are in the order of the data.
    """
    return tally.noise(split, batch_order(split, graph), guessing, full)


def _comparison(options: EvaluateOptions, split: Split, context: Context) -> BaselineComparison | None:
    """The comparison with the baseline, if the options ask for it."""
    from espalier.passes.analysis.baseline import BaselineComparison, ComparedOptions

    return (
        BaselineComparison(context.base, options, split, context)
        if isinstance(options, ComparedOptions) and context.base
        else None
    )


def _warning(data: TaskData, options: EvaluateOptions, context: Context, used: str) -> dict[str, str]:
    """`data_warning`, and a warning if only the held-out part of training data is measured."""
    warning = data_warning(data, context, options.split, used)
    if options.split or not only_trains(data):
        return warning
    text = f"{data.name} has only training samples: the tenth that a training holds out for validation is measured."
    return {"warning": " ".join((*warning.values(), text))}


def measure(
    module: nn.Module, graph: Graph, split: Split, batch_size: int, context: Context,
    comparison: BaselineComparison | None = None,
) -> Tally:  # fmt: skip
    """The predictions of a built module on a split; `comparison` is filled."""
    import torch

    from espalier.model.torch.in_place import in_place

    task, count, total = task_of(split), 0, len(split)
    tally = Tally(task)
    context.progress(0, total, "evaluating")
    with in_place(module), torch.no_grad():
        for inputs, labels in length_sorted_batches(split, graph, batch_size):
            result = _run(module, inputs, graph)
            scores = task.scores(result, graph)
            check_rows(scores, graph, labels)
            task.fit(scores, labels)
            tally.add(scores, labels)
            if comparison is not None:
                comparison.add(inputs, result, labels)
            count += len(labels)
            context.progress(count, total, "evaluating")
    return tally


def _run(module: nn.Module, inputs: dict[str, Tensor], graph: Graph) -> Any:
    with fit_error(inputs, graph):
        return module(**inputs)
