"""Code of a recorded model finds in a leaf with formats what it finds in the original one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from model.build import build
from model.formats.integer import Integer
from model.formats.mxint import MXInt
from model.meta import Precision
from model.recipe import Step
from model.trace.trace import Traced, trace
from model.weights import WeightStore
from passes.base import Context, run_step
from passes.transform.lora import LoraOptions
from tests.model.zoo import run

FORMAT, MX = Integer(8, 6), MXInt(8, 32)


class Asking(nn.Module):
    """A decision by the data, and code that asks its layer."""

    def __init__(self, layer: nn.Module, code: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.code = layer, code

    def forward(self, x: Tensor) -> Tensor:
        y = self.code(self.layer, x)
        return -y if float(y.detach().sum()) > 1e9 else y


def recorded(layer: nn.Module, code: Callable[[Any, Tensor], Tensor], x: Tensor) -> tuple[Traced, WeightStore]:
    store = WeightStore(Path("unwritten"))
    traced = trace(Asking(layer, code).eval(), {"x": x}, store)
    assert traced.graph.runs == "module"
    return traced, store


def cast(layer: Any, x: Tensor) -> Tensor:
    """As T5's code does."""
    found: Tensor = layer(x.to(layer.weight.dtype)) + layer.weight.sum() + layer.bias.sum()
    return found


def statistics(layer: Any, x: Tensor) -> Tensor:
    found: Tensor = layer(x) + layer.running_var.mean() * layer.momentum + layer._hidden + layer.offset
    return found


@pytest.mark.parametrize("chosen", [{}, {"weight": FORMAT}, {"data_in": FORMAT}])
def test_an_adapter_leaves_the_weight_to_be_found(chosen: dict[str, Any]) -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(8, 8), torch.randn(5, 8)
    traced, store = recorded(layer, cast, x)
    step = Step("lora", LoraOptions(2), 0)
    graph = run_step(traced.graph, step, Context(store, callables=traced.callables)).graph
    (node,) = [n for n in graph if n.adapters]
    graph = graph.replace(replace(node, precision={p: Precision(f) for p, f in chosen.items()}))
    (got,) = run(build(graph, store, traced.callables), {"x": x})
    weight, value = layer.weight.detach(), x
    weight = FORMAT.quantize(weight) if "weight" in chosen else weight
    value = FORMAT.quantize(x) if "data_in" in chosen else x
    assert layer.bias is not None
    want = nn.functional.linear(value, weight, layer.bias) + weight.sum() + layer.bias.sum()
    assert torch.equal(got, want.detach())  # a new adapter adds nothing


def test_a_packed_weight_is_found_by_its_values_and_follows_a_cast() -> None:
    torch.manual_seed(1)
    layer, x = nn.Linear(64, 64), torch.randn(5, 64)
    traced, store = recorded(layer, cast, x)
    (node,) = [n for n in traced.graph if n.target == "layer"]
    graph = traced.graph.replace(replace(node, precision={"weight": Precision(MX)}, packed=True))
    plain, packed = (build(graph, store, traced.callables, packed=p) for p in (False, True))
    assert torch.allclose(run(packed, {"x": x})[0], run(plain, {"x": x})[0], rtol=1e-5, atol=1e-5)
    place: Any = packed.get_submodule("layer")
    assert torch.equal(place.weight, MX.quantize(layer.weight.detach()))
    assert "weight" not in dict(packed.named_parameters())
    assert run(packed.to(torch.bfloat16), {"x": x})[0].dtype == place.weight.dtype == torch.bfloat16


def test_buffers_and_private_attributes_are_found_and_go_where_the_model_goes() -> None:
    layer, x = nn.BatchNorm1d(4), torch.randn(5, 4)
    layer.running_var = torch.tensor([1.0, 2, 3, 4])
    layer._hidden = 3  # pyright: ignore[reportArgumentType]
    layer.register_buffer("offset", torch.ones(1))
    traced, store = recorded(layer, statistics, x)
    (node,) = [n for n in traced.graph if n.target == "layer"]
    model = build(traced.graph.replace(replace(node, precision={"weight": Precision(FORMAT)})), store, traced.callables)
    (got,) = run(model, {"x": x})  # in evaluation, as it is built
    assert torch.equal(got, statistics(layer.eval(), x).detach())  # its weight is 1, which the format has
    place: Any = model.get_submodule("layer")
    for each in (place, copy.deepcopy(place), pickle.loads(pickle.dumps(place))):
        each = each.double()
        assert list(dict(each.named_buffers(recurse=False))) == ["offset"]
        assert each.running_var.dtype == each.offset.dtype == torch.float64 and each._hidden == 3
    with pytest.raises(AttributeError, match="unknown"):
        _ = place.unknown
