"""Wrapped modules of recorded models have the attributes of the original modules."""

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

from espalier.model.document.recipe import Step
from espalier.model.formats.integer import Integer
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.meta import Precision
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import Traced, trace
from espalier.passes.base import Context, run_step
from espalier.passes.choices.lora import LoraOptions
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
    weight = straight_through(FORMAT, weight) if "weight" in chosen else weight
    value = straight_through(FORMAT, x) if "data_in" in chosen else x
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
    assert torch.equal(place.weight, straight_through(MX, layer.weight.detach()))
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


LEAVES: dict[str, tuple[nn.Module, Tensor]] = {
    "linear": (nn.Linear(32, 8), torch.ones(2, 32)),
    "conv2d": (nn.Conv2d(2, 3, 2), torch.ones(1, 2, 4, 4)),
    "conv_transpose1d": (nn.ConvTranspose1d(2, 3, 2), torch.ones(1, 2, 4)),
    "embedding": (nn.Embedding(5, 4), torch.tensor([[1, 2]])),
    "layer_norm": (nn.LayerNorm(8), torch.ones(2, 8)),
    "batch_norm": (nn.BatchNorm1d(4), torch.ones(2, 4)),
    "prelu": (nn.PReLU(), torch.ones(2, 4)),
    "gelu": (nn.GELU(), torch.ones(2, 4)),
}


def by_kind(layer: Any, x: Tensor) -> Tensor:
    """Another branch for a layer of another kind."""
    kinds = tuple(type(v) for v, _ in LEAVES.values())
    known = isinstance(layer, kinds) and layer.__class__.__name__ in [k.__name__ for k in kinds]
    return layer(x) + 9 if known and not isinstance(layer, nn.Sequential) else layer(x) * 0  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", LEAVES)
def test_a_layer_with_formats_is_still_of_its_own_kind(name: str) -> None:
    layer, x = LEAVES[name]
    traced, store = recorded(layer, by_kind, x)
    (node,) = [n for n in traced.graph if n.target == "layer"]
    port = "weight" if "weight" in node.weights else "data_out"
    graph = traced.graph.replace(replace(node, precision={port: Precision(FORMAT)}))
    model = build(graph, store, traced.callables)
    (got,) = run(model, {"x": x})
    assert got.any()
    for each in (model, copy.deepcopy(model)):
        place = each.get_submodule("layer")
        assert isinstance(place, type(layer)) and type(place).__name__ == type(layer).__name__
        assert torch.equal(run(each, {"x": x})[0], got)
        each.load_state_dict(dict(each.state_dict()))  # as a file has it: without what torch hides beside the keys


@pytest.mark.parametrize("packed", [False, True])
def test_a_packed_layer_and_one_with_an_adapter_are_still_linear(packed: bool) -> None:
    layer, x = LEAVES["linear"]
    traced, store = recorded(layer, by_kind, x)
    (node,) = [n for n in traced.graph if n.target == "layer"]
    if packed:
        graph = traced.graph.replace(replace(node, precision={"weight": Precision(MX)}, packed=True))
    else:
        step = Step("lora", LoraOptions(2), 0)
        graph = run_step(traced.graph, step, Context(store, callables=traced.callables)).graph
    model = build(graph, store, traced.callables, packed=packed)
    assert run(model, {"x": x})[0].any() and isinstance(model.get_submodule("layer"), nn.Linear)
    assert "Linear(" in repr(model.get_submodule("layer"))


CALLS: dict[str, tuple[nn.Module, Callable[[Any, Tensor], Tensor], Tensor]] = {
    "by name": (nn.Linear(8, 8), lambda layer, x: layer(input=x), torch.ones(2, 8)),
    "output_size": (
        nn.ConvTranspose2d(2, 3, 2, stride=2),
        lambda layer, x: layer(x, output_size=(9, 9)),
        torch.ones(1, 2, 4, 4),
    ),
    "output_size by place": (
        nn.ConvTranspose1d(2, 3, 2, stride=2),
        lambda layer, x: layer(x, (9,)),
        torch.ones(1, 2, 4),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("port", ["data_in", "weight", "data_out"])
def test_a_layer_with_formats_is_called_as_the_code_calls_it(name: str, port: str) -> None:
    layer, code, x = CALLS[name]
    traced, store = recorded(layer, code, x)
    (node,) = [n for n in traced.graph if n.target == "layer"]
    fine = traced.graph.replace(replace(node, precision={port: Precision(Integer(24, 20))}))
    (got,) = run(build(fine, store, traced.callables), {"x": x})
    assert torch.allclose(got, code(layer, x), atol=1e-4)
