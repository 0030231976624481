"""Weights that hold what is no number are named when a model is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace


class Small(nn.Module):
    """A Linear that two calls share, and a mask of −inf, which is as it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("mask", torch.tensor([0.0, 0.0, 0.0, -torch.inf]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.layer(self.layer(x)) + self.mask, -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("bad, text", [((torch.nan,), "1 value that is"), ((torch.inf, -torch.inf), "2 values that")])
def test_a_weight_that_is_not_finite_is_named(
    dtype: torch.dtype, bad: tuple[float, ...], text: str, tmp_path: Path
) -> None:
    model = Small().to(dtype)
    with torch.no_grad():
        model.layer.weight.view(-1)[: len(bad)] = torch.tensor(bad)
    found = trace(model, {"x": torch.randn(2, 4, dtype=dtype)}, WeightStore(tmp_path)).problems
    assert [(p.node, p.severity) for p in found] == [("layer", "warning")]
    assert found[0].message.startswith(f"layer.weight holds {text}")


@pytest.mark.parametrize("value", [0.5, torch.finfo(torch.float32).max])
def test_sound_weights_are_not_mentioned(value: float, tmp_path: Path) -> None:
    model = Small()
    nn.init.constant_(model.layer.weight, value)
    assert trace(model, {"x": torch.zeros(2, 4)}, WeightStore(tmp_path)).problems == ()


def test_weights_in_double_precision_are_told_once(tmp_path: Path) -> None:
    """No format makes them smaller in a packed file."""
    found = trace(Small().double(), {"x": torch.randn(2, 4).double()}, WeightStore(tmp_path)).problems
    assert [p.severity for p in found] == ["warning"]
    assert found[0].message.startswith("2 weights (layer.weight …) are float64")
