"""Shapes of an LSTM's results, against torch's own LSTM on tensors with values, and edits before one."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

import espalier as es
from espalier.model.errors import EspalierError
from espalier.model.torch.recurrent import lstm_results


@pytest.mark.parametrize(("layers", "bias", "first", "both", "proj"),
                         [*itertools.product((1, 3), (True, False), (True, False), (True, False), (0, 2))])  # fmt: skip
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_shapes_are_those_of_torch(layers: int, bias: bool, first: bool, both: bool, proj: int) -> None:
    net = nn.LSTM(5, 7, layers, bias, first, 0.0, both, proj)
    x, width = torch.randn(3, 4, 5), layers * (1 + both)
    batch = 3 if first else 4
    states = [torch.zeros(width, batch, proj or 7), torch.zeros(width, batch, 7)]
    found = lstm_results(x, states, list(net.parameters()), bias, layers, 0.0, False, both, first)
    output, (hidden, cell) = net(x)
    assert [t.shape for t in found] == [output.shape, hidden.shape, cell.shape]


class Net(nn.Module):
    """An LSTM between two Linears, of sizes that are all different."""

    def __init__(self, act: nn.Module, both: bool, first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.act, self.o = nn.Linear(5, 6), act, nn.Linear(7 * (1 + both), 3)
        self.r = nn.LSTM(6, 7, 2, bidirectional=both, batch_first=first)

    def forward(self, x: Tensor) -> Tensor:
        return self.o(self.r(self.act(self.a(x)))[0])  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize(("both", "first"), [(False, False), (True, True)])
def test_what_comes_before_an_lstm_can_be_edited(both: bool, first: bool) -> None:
    model = es.trace(Net(nn.ReLU(), both, first).eval(), torch.randn(4, 9, 5))
    before = model["lstm"].ports
    model.edit_graph([{"replace": {"node": "act", "op": "gelu"}}])  # type: ignore[attr-defined]
    assert model["lstm"].ports == before, "sizes stay symbolic"
    x = torch.randn(*((6, 9) if first else (4, 11)), 5)  # another size on the axis that is free
    torch.testing.assert_close(model.to_torch()(x), Net(nn.GELU(), both, first).eval()(x))


def test_other_features_are_refused() -> None:
    model = es.trace(Net(nn.ReLU(), False, False).eval(), torch.randn(4, 9, 5))
    edit = {"insert_after": {"node": "act", "op": "linear", "attrs": {"out_features": 8}}}
    with pytest.raises(EspalierError, match=r"lstm.*takes 6 features, and its input has 8\. Choose other sizes"):
        model.edit_graph([edit])  # type: ignore[attr-defined]


def test_states_of_another_size_are_refused() -> None:
    net, x = nn.LSTM(5, 7), torch.randn(3, 4, 5)
    states = [torch.zeros(1, 4, 7), torch.zeros(1, 2, 7)]
    with pytest.raises(ValueError, match=r"cell state is 1 × 2 × 7, not 1 × 4 × …"):
        lstm_results(x, states, list(net.parameters()), True, 1, 0.0, False, False, False)
