"""Weights that hold what is no number are named when a model is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.graph.meta import Weight
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy
from espalier.model.trace.trace import trace
from espalier.model.trace.weight_checks import counts_of, non_finite, weight_warning


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


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eight_bit_floats_that_are_no_number_are_counted(dtype: torch.dtype, tmp_path: Path) -> None:
    store = WeightStore(tmp_path)
    value = torch.tensor([[1.0, torch.nan], [-2.0, torch.nan]]).to(dtype)
    graph = trace(Small(), {"x": torch.randn(2, 4)}, store).graph
    weight = Weight(store.hold(to_numpy(value)), (2, 2), str(dtype).removeprefix("torch."), "parameter", False)
    assert non_finite(graph.with_weights({"codes": weight}), store) == {"codes": 2}


def test_nan_in_a_buffer_is_named_and_a_mask_is_not(tmp_path: Path) -> None:
    model, store = Small(), WeightStore(tmp_path)
    model.mask[0] = torch.nan
    found = trace(model, {"x": torch.randn(2, 4)}, store)
    assert non_finite(found.graph, store) == counts_of(found.problems) == {"mask": 1}


def test_one_line_names_three_tensors() -> None:
    assert weight_warning({}) == ()
    assert weight_warning({"a": 1})[0].startswith("a (1) holds values that are not finite numbers (NaN or infinite):")
    assert weight_warning(dict(zip("abcde", range(1, 6), strict=True)))[0].startswith("a (1), b (2), c (3) and 2 more ")
