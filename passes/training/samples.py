"""A split as a torch Dataset that returns whole batches of the graph's inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from espalier.model.data.base import IGNORED, Split
from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.running.batches import cast_inputs, match_inputs
from espalier.passes.tasks.base import task_of
from espalier.passes.tasks.unfit_labels import unfit_labels

if TYPE_CHECKING:
    from espalier.passes.training.teacher import Teacher

Batch = dict[str, Tensor]


class Samples(Dataset[Batch]):
    """Batches by row indices; raises DataError if the data does not fit the graph or has hidden labels.

    `teacher`: adds its outputs to each batch.
    """

    def __init__(self, split: Split, graph: Graph, purpose: str = "train on") -> None:
        self.teacher: Teacher | None = None
        names = [n.target for n in graph.placeholders]
        given = match_inputs(names, split)
        tensors = {given[k]: torch.from_numpy(v) for k, v in split.inputs.items() if k in given}
        self.tensors = cast_inputs(tensors, graph)
        labels, self.task = torch.from_numpy(split.labels), task_of(split)
        self.classes, self.table = split.classes, split.table
        self.tensors["labels"] = labels if labels.is_floating_point() else labels.long()
        if not len(split):
            raise DataError(f"There are no samples to {purpose}.", "Choose data with more rows.")
        if self.task.hides(split.labels):
            hidden = DataError("The labels of this data are hidden (−1).", "Choose a split that has labels.")
            raise unfit_labels(split.labels) or hidden

    @classmethod
    def of(cls, tensors: dict[str, Tensor], task: str, classes: tuple[str, ...], table: tuple[str, ...]) -> Samples:
        """Samples of tensors that another process has read, with the labels among them, and the rest as in `Split`."""
        samples = cls.__new__(cls)
        samples.teacher, samples.tensors, samples.classes, samples.table = None, tensors, classes, table
        samples.task = task_of(Split({}, tensors["labels"].numpy(), task=task, classes=classes, table=table))
        return samples

    @property
    def targets(self) -> int:
        """Number of labels that count."""
        labels = self.tensors["labels"]
        return len(self) if labels.is_floating_point() else int((labels != IGNORED).sum())

    def __len__(self) -> int:
        return len(self.tensors["labels"])

    def __getitem__(self, row: int) -> Batch:
        return self.__getitems__([row])

    def __getitems__(self, rows: list[int]) -> Batch:
        """A batch, as torch's fetcher requests it: one index operation per tensor, without collation."""
        chosen = torch.tensor(rows)
        batch = {name: values[chosen] for name, values in self.tensors.items()}
        return batch if self.teacher is None else batch | self.teacher.of(chosen, batch)


def identity(batch: Any) -> Any:
    """The collator: `Samples` returns batches."""
    return batch
