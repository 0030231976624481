"""A split of data as torch's loaders read it: whole batches at once, in the inputs that the graph takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from espalier.model.data.base import Split
from espalier.model.errors import DataError
from espalier.model.graph.graph import Graph
from espalier.passes.running.batches import in_its_kind, match_inputs

if TYPE_CHECKING:
    from espalier.passes.training.teacher import Teacher

Batch = dict[str, Tensor]


class Samples(Dataset[Batch]):
    """Batches by their row numbers; raises DataError where the data does not fit the graph or hides its labels.

    `teacher`: who says something of each sample, which is then in the batch.
    """

    def __init__(self, split: Split, graph: Graph, purpose: str = "train on") -> None:
        self.teacher: Teacher | None = None
        names = [n.target for n in graph.placeholders]
        given = match_inputs(names, split)
        tensors = {given[k]: torch.from_numpy(v) for k, v in split.inputs.items() if k in given}
        self.tensors = in_its_kind(tensors, graph)
        self.tensors["labels"] = torch.from_numpy(split.labels).long()
        if not len(split):
            raise DataError(f"There are no samples to {purpose}.", "Choose data with more rows.")
        if int(split.labels.min()) < 0:
            raise DataError("The labels of this data are hidden (−1).", "Choose a split that has labels.")

    @property
    def classes(self) -> int:
        """One more than the highest label."""
        return int(self.tensors["labels"].max()) + 1

    def __len__(self) -> int:
        return len(self.tensors["labels"])

    def __getitem__(self, row: int) -> Batch:
        return self.__getitems__([row])

    def __getitems__(self, rows: list[int]) -> Batch:
        """torch's fetcher asks for a whole batch through this: one index operation a tensor, nothing to stack."""
        chosen = torch.tensor(rows)
        batch = {name: values[chosen] for name, values in self.tensors.items()}
        return batch if self.teacher is None else batch | self.teacher.of(chosen, batch)


def as_they_are(batch: Any) -> Any:
    """The collator: `Samples` gives batches."""
    return batch
