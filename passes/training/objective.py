"""What training minimises: the model's own loss where it has one, else the cross-entropy of its class scores."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from model.errors import GraphError
from model.graph import Graph
from passes.analysis.evaluate import logits_of


class Objective(nn.Module):
    """A built module as the Trainer wants it: (labels, inputs by name) → {"loss", "logits"}."""

    accepts_loss_kwargs = False  # the loss is a mean over the batch, which the Trainer divides when it accumulates

    def __init__(self, inner: nn.Module, graph: Graph) -> None:
        super().__init__()
        self.inner, self.graph = inner, graph
        labels = [n for n in graph.placeholders if n.target == "labels"]
        if labels and len(labels[0].ports["data_out"].shape) != 1:
            raise GraphError("The model's labels are not one class a sample, and only classifiers can be trained.",
                             "Open it with a classification head (task=sequence-classification).")  # fmt: skip
        self.takes_labels = bool(labels)

    def forward(self, labels: Tensor, **inputs: Tensor) -> dict[str, Tensor]:
        """labels: int64 [batch]."""
        result: Any = self.inner(**inputs, **({"labels": labels} if self.takes_labels else {}))
        logits = logits_of(result, self.graph)
        own = _own_loss(result) if self.takes_labels else None
        return {"loss": F.cross_entropy(logits.float(), labels) if own is None else own, "logits": logits}


def _own_loss(result: Any) -> Tensor | None:
    """The loss among a module's results: by its name, or as the one that is a single number."""
    if isinstance(result, dict):
        return result.get("loss")
    values = result if isinstance(result, tuple | list) else ()
    return next((v for v in values if isinstance(v, Tensor) and v.dim() == 0), None)
