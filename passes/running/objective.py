"""The training objective: the model's own loss if it has one, otherwise that of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor, nn

from espalier.model.data.base import CLASSIFICATION, task_of_labels
from espalier.model.errors import GraphError
from espalier.model.graph.graph import Graph
from espalier.passes.tasks.base import TASKS, Task
from espalier.passes.tasks.scores import with_counted

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class LossTerm(Protocol):
    """Modifies the loss of a batch, such as distillation."""

    def loss(self, own: Tensor, logits: Tensor, batch: Mapping[str, Tensor], task: Task) -> Tensor:
        """The loss to train on."""
        ...


class Objective(nn.Module):
    """A built module in the Trainer's interface: (labels, inputs by name) → {"loss", "logits"}.

    `distillation`: modifies the loss in training; the batch contains the teacher's outputs.
    """

    accepts_loss_kwargs = False  # the loss is a mean over the batch, which the Trainer divides for accumulation

    def __init__(
        self, inner: nn.Module, graph: Graph, distillation: LossTerm | None = None, task: Task | None = None
    ) -> None:
        """`task`: None: by the labels' shape."""
        super().__init__()
        self.task = task
        self.distillation = distillation
        self.inner, self.graph = inner, graph
        labels = [n for n in graph.placeholders if n.target == "labels"]
        own = self.task.own if self.task else 1
        if labels and len(labels[0].ports["data_out"].shape) != own:
            what = (
                "are not one class a sample"
                if own == 1
                else f"do not fit the task {task.name if task else CLASSIFICATION}"
            )
            raise GraphError(f"The model computes its own loss, of labels that {what}.",
                             "Open it without the input labels, or with the head of the task.")  # fmt: skip
        self.takes_labels = bool(labels)
        self.names = {n.target for n in graph.placeholders}
        self.still = tuple(m for m in inner.modules() if isinstance(m, NORMS) and _frozen(m))

    def forward(self, labels: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        """labels: as in `Split`. "logits" are the scores of the task."""
        result: Any = self.inner(**self.taken({"labels": labels, **inputs}))
        task = self.task or TASKS.get(task_of_labels(labels))
        scores = task.scores(result, self.graph)
        own = _own_loss(result) if self.takes_labels else None
        loss = task.loss(scores, labels) if own is None else own
        if self.distillation is not None and self.training:
            loss = self.distillation.loss(loss, scores, with_counted(inputs, labels), task)
        return {"loss": loss, "logits": scores}

    def taken(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The items of a batch that are inputs of the module."""
        return {n: v for n, v in batch.items() if n in self.names}

    def train(self, mode: bool = True) -> Objective:
        """Set the mode, except for batch norms with frozen weights, which stay in eval mode."""
        super().train(mode)
        for norm in self.still:
            norm.eval()
        return self


def _frozen(norm: nn.Module) -> bool:
    own = list(norm.parameters())
    return bool(own) and not any(p.requires_grad for p in own)


def _own_loss(result: Any) -> Tensor | None:
    """The loss among a module's results: by name, or the scalar."""
    if isinstance(result, dict):
        return result.get("loss")
    values = result if isinstance(result, tuple | list) else ()
    return next((v for v in values if isinstance(v, Tensor) and v.dim() == 0), None)
