"""The score of a model of which one segment is in memory at a time; equal to that of the analysis `evaluate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build
from espalier.model.torch.in_place import in_place
from espalier.passes.analysis.evaluate import data_to_measure, summary_of
from espalier.passes.running.length_batches import length_sorted_batches
from espalier.passes.streaming.stages import Stage, Work, settled
from espalier.passes.tasks.base import Task, recognised, task_of
from espalier.passes.tasks.tally import Tally

if TYPE_CHECKING:
    from torch import Tensor

    from espalier.passes.base import Context
    from espalier.passes.running.splits import EvaluateOptions


class ScoreStage(Stage):
    """Measures the segments as earlier stages left them; `tally` has the predictions after the last segment."""

    def __init__(self, graph: Graph, options: EvaluateOptions, context: Context, title: str = "score") -> None:
        self.options, self.context = options, context
        self.measured = data_to_measure(options, context)
        self.task = task_of(self.measured[1])
        _check(self.task, context)
        self.graph = graph
        batches = list(length_sorted_batches(self.measured[1], graph, options.batch_size))
        self.labels: list[Tensor] = [labels for _, labels in batches]
        self.tally = Tally(self.task)
        super().__init__(title, [inputs for inputs, _ in batches])

    def run(self, work: Work) -> Graph:
        """Run the segment on all batches; the last one also counts its predictions."""
        module = build(work.graph, work.store, packed=True)
        settled(module)
        with in_place(module):
            if not work.is_last:
                work.advance(0, module)
                return work.graph
            for labels, result in zip(self.labels, work.results(0, module), strict=True):
                scores = self.task.scores(result, self.graph)
                self.task.fit(scores, labels)
                self.tally.add(scores, labels)
        return work.graph

    def summary(self, graph: Graph) -> dict[str, Any]:
        """The score; `graph`: the whole graph with the formats that were measured."""
        return summary_of(self.tally, graph, self.measured, self.options, self.context)


def _check(task: Task, context: Context) -> None:
    """Raise DataError for a task whose scores would have to be checked by a run, unless the model's head names it."""
    limits = context.reading.limits
    if type(task).check is Task.check or (limits is not None and limits.head and recognised(limits) == task.name):
        return
    raise DataError(f"The model's head does not say that it has the task {task.name}.",
                    "Choose data of the model's own task, or evaluate it in memory.")  # fmt: skip
