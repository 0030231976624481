"""Fine-tuning models that are no demos: mistakes, and losses of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from espalier.model.errors import DataError, EspalierError, GraphError, OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.passes.base import Context
from tests.passes.training.digits import finetuned


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"data": ""}, DataError, "no data"),
        ({"train_split": "spring"}, DataError, "no split 'spring'"),
        ({"data": "demo:reviews"}, DataError, "needs the input|cannot take"),
        ({"learning_rate": 0.0}, OptionsError, "learning_rate"),
        ({"warm_up": 1.5}, OptionsError, "warm_up"),
        ({"batch_size": 0}, OptionsError, "batch_size"),
        ({"optimiser": "magic"}, OptionsError, "magic"),
    ],
)
def test_mistakes_are_told(base: Graph, options: dict[str, Any], error: type[EspalierError], text: str) -> None:
    with pytest.raises(error, match=text) as found:
        finetuned(base, **options)
    assert found.value.hint


class Diverging(nn.Module):
    """A loss that grows without end under gradient descent."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(x.flatten(1))
        return {"loss": -(logits**4).mean(), "logits": logits}


def test_a_training_that_diverges_says_so(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, dtype=torch.int64)}
    graph = trace(Diverging().eval(), example, store).graph
    with pytest.raises(PassError, match="diverged"):
        finetuned(graph, Context(store), learning_rate=10.0, optimiser="sgd", clip=0.0, schedule="constant")


class TwoClasses(nn.Module):
    """Tells fewer classes apart than the data has."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1))


def test_too_few_classes_are_told(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    graph = trace(TwoClasses().eval(), {"x": torch.zeros(2, 1, 8, 8)}, store).graph
    with pytest.raises(DataError, match="the model 2"):
        finetuned(graph, Context(store))


class OwnLoss(nn.Module):
    """Ten times the cross-entropy: told apart from ours."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.head(x.flatten(1))
        return {"loss": 10 * nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_a_models_own_loss_is_what_trains(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    torch.manual_seed(0)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, dtype=torch.int64)}
    graph = trace(OwnLoss().eval(), example, store).graph
    _, report = finetuned(graph, Context(store), learning_rate=1e-8)
    assert 20 < report.rows[0]["validation_loss"] < 30  # ten times ln 10


class ManyLabels(nn.Module):
    """A label for each position."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 10)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.head(x).flatten(0, -2), labels.flatten())


def test_models_that_are_no_classifiers_are_refused(tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    example = {"x": torch.zeros(4, 1, 8, 8), "labels": torch.zeros(4, 8, dtype=torch.int64)}
    graph = trace(ManyLabels().eval(), example, store).graph
    with pytest.raises(GraphError, match="not one class a sample"):
        finetuned(graph, Context(store))
