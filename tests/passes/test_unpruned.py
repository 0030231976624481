"""Sparsity counts every matrix of a product, and names those that no mask can take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import espalier as es
from espalier.passes.unpruned import unpruned


class Normed(nn.Module):
    """A weight that is computed from two parameters, an LSTM, and a stored matrix that is turned."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.normed = nn.Linear(16, 32), parametrizations.weight_norm(nn.Linear(32, 48))
        self.turned, self.head = nn.Parameter(torch.randn(8, 48)), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.normed(torch.relu(self.first(x))))
        return self.head(torch.relu(y @ self.turned.t()))


def traced(module: nn.Module, x: Tensor) -> es.Model:
    torch.manual_seed(0)
    return es.trace(module.eval(), x)


@pytest.mark.slow
def test_weights_that_are_computed_or_turned_count_as_not_pruned() -> None:
    m = traced(Normed(), torch.randn(3, 16))
    found = unpruned(m.graph)
    assert sorted(x.elements for x in found.values()) == [8 * 48, 32 * 48]
    assert [x.computed for x in found.values()] == [True, False]
    masked, whole = 16 * 32 + 8 * 4, 16 * 32 + 8 * 4 + 32 * 48 + 8 * 48
    m.prune("all", sparsity=0.5)
    score = m.score()
    assert score.sparsity == pytest.approx(masked / 2 / whole)
    assert "(computed from parameters)" in score.unpruned and "1,920 elements" in score.unpruned
    report = m.sparsity()
    assert report.figures["sparsity"] == score.sparsity and report.figures["elements"] == whole
    assert report.figures["note"] == score.unpruned


@pytest.mark.slow
def test_a_model_whose_matrices_can_all_be_masked_has_no_note() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(8, 8)

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            return (y @ y.transpose(0, 1)) @ (y @ self.a.weight.t())  # products of computed values, and a masked one

    m = traced(Shared(), torch.randn(3, 8)).prune("all", sparsity=0.5)
    assert m.score().sparsity == 0.5 and "unpruned" not in m.score().figures


@pytest.mark.slow
def test_a_recurrent_layer_counts() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0][:, -1])

    m = traced(Net(), torch.randn(2, 5, 4)).prune("all", sparsity=0.5)
    assert m.score().sparsity == pytest.approx(8 / (16 + 4 * 8 * (4 + 8)))
