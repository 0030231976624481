"""Effective tensors under formats with scales: what is computed how often, and that learned scales learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.formats.binary import Binary
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.binary_scaled import BinaryScaled
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.formats.straight_through import straight_through_scaled
from espalier.model.formats.ternary import Ternary
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.views import view_of
from espalier.model.registry import Registry
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.torch.layers import Effective
from espalier.model.torch.tensors import to_numpy
from tests.model.zoo import case

LEARNED = [
    ScaledInteger(4, "channel"), ScaledInteger(4, "group", 3), ScaledInteger(4, "tensor", symmetric=False),
    BinaryScaled("tensor"), BinaryScaled("channel"), BinaryResidual(2, "channel"), Ternary(granularity="channel"),
]  # fmt: skip
each = pytest.mark.parametrize("fmt", LEARNED, ids=str)
CONV = view_of("conv2d", "weight", 4)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, ...]]]:
    """Shapes of the tensors that scaled integers computed a value of."""
    found: list[tuple[int, ...]] = []
    whole = ScaledInteger.with_scale

    def counted(self: ScaledInteger, x: Tensor, scale: Tensor) -> Tensor:
        found.append(tuple(x.shape))
        return whole(self, x, scale)

    monkeypatch.setattr("espalier.model.formats.base.FAST", Registry("fast version of"))
    monkeypatch.setattr(ScaledInteger, "with_scale", counted)
    yield found


@pytest.mark.parametrize("learned", [None, False, True], ids=["own", "given", "learned"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("convolution", [False, True])
def test_a_parameter_is_quantised_once_a_step(
    calls: list[tuple[int, ...]], learned: bool | None, masked: bool, convolution: bool
) -> None:
    """Under gradient accumulation too, with masks and views; in eval once until the next step."""
    torch.manual_seed(0)
    fmt = ScaledInteger(4, "channel")
    weight = nn.Parameter(torch.randn(4, 3, 2, 2) if convolution else torch.randn(4, 6))
    view = CONV if convolution else None
    seen = view.of(weight.detach()) if view else weight.detach()
    scale = None if learned is None else fmt.scale_of(seen)
    layer = Effective(fmt, torch.rand_like(weight) > 0.3 if masked else None, view,
                      nn.Parameter(scale) if learned and scale is not None else scale)  # fmt: skip
    optimiser = torch.optim.SGD([weight, *layer.parameters()], lr=0.1)
    for step in range(3):
        for _ in range(4):
            layer(weight).square().sum().backward()
        assert len(calls) == step + 1 and calls[-1] == tuple(seen.shape)
        optimiser.step()
        optimiser.zero_grad()
    layer.eval()
    with torch.no_grad():
        values = [layer(weight) for _ in range(5)]
    assert len(calls) == 4 and all(torch.equal(v, values[0]) for v in values)


@each
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(4, 6), (4, 3, 2, 2)], ids=str)
def test_kept_values_give_the_gradients_of_fresh_ones(fmt: ScaledFormat, masked: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    view = CONV if len(shape) == 4 else None
    weight = nn.Parameter(torch.randn(shape))
    mask = torch.rand(shape) > 0.3 if masked else None
    seen = weight.detach() if mask is None else weight.detach() * mask
    layer = Effective(fmt, mask, view, nn.Parameter(fmt.scale_of(view.of(seen) if view else seen) * 0.8))
    assert isinstance(layer.scale, nn.Parameter)
    grad = torch.randn(shape)
    with torch.no_grad():
        value = layer(weight)
    layer(weight).backward(grad)
    kept = weight.grad, layer.scale.grad
    other, scale = weight.detach().clone().requires_grad_(), layer.scale.detach().clone().requires_grad_()
    given = other if mask is None else other * mask
    got = straight_through_scaled(fmt, view.of(given) if view else given, scale)
    got = view.back(got, torch.Size(shape)) if view else got
    got = got if mask is None or fmt.keeps_zero else got * mask
    got.backward(grad)
    assert torch.equal(value, got) and kept[0] is not None and kept[1] is not None
    torch.testing.assert_close(kept[0], other.grad)
    torch.testing.assert_close(kept[1], scale.grad)
    assert mask is None or (not value[~mask].any() and not kept[0][~mask].any())


@pytest.mark.parametrize("fmt", [Binary(), BinaryScaled(), BinaryResidual(), Binary(stochastic=True)], ids=str)
def test_pruned_weights_stay_zero_in_binary_formats(fmt: Binary) -> None:
    weight, mask = nn.Parameter(torch.randn(4, 6)), torch.rand(4, 6) > 0.5
    layer = Effective(fmt, mask)
    layer(weight).sum().backward()
    assert weight.grad is not None and not weight.grad[~mask].any() and weight.grad[mask].any()
    for _ in range(2):
        assert not layer(weight)[~mask].any() and layer(weight)[mask].all()


def test_random_signs_are_drawn_each_time() -> None:
    weight, layer = nn.Parameter(torch.zeros(1000)), Effective(Binary(stochastic=True))
    assert not torch.equal(layer(weight), layer(weight))


@each
def test_training_moves_a_learned_scale_and_lowers_the_loss(fmt: ScaledFormat) -> None:
    """A regression on the outputs of a linear map that the first scale fits badly; the weight stays as it is."""
    torch.manual_seed(2)
    weight = nn.Parameter(torch.randn(5, 12) * 0.5, requires_grad=False)
    layer = Effective(fmt, scale=nn.Parameter(fmt.scale_of(weight) * 2.5))
    assert isinstance(layer.scale, nn.Parameter)
    first, x = layer.scale.detach().clone(), torch.randn(256, 12)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.02)
    losses = []
    for _ in range(80):
        loss = F.mse_loss(F.linear(x, layer(weight)), F.linear(x, weight))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.65 * losses[0] and (layer.scale.detach() - first).abs().max() > 0.01


# -- scales in a graph


def with_scales(graph: Graph, fmt: ScaledFormat, trainable: bool = True) -> Graph:
    """The mlp with `fmt` and a scale of twice its own on the weight of `first`, and one for its input."""
    held = case("mlp")
    weight = held.store.get(graph.weights["first.weight"].key or "")
    scale = to_numpy(fmt.scale_of(torch.from_numpy(weight.array.copy())) * 2)
    coarse = ScaledInteger(8, "tensor")
    step = to_numpy(torch.tensor(0.02))
    made = {"first.weight_scale": Weight(held.store.hold(scale), scale.shape, scale.dtype, "parameter", trainable),
            "first.data_in_scale": Weight(held.store.hold(step), (), "float32", "buffer")}  # fmt: skip
    chosen = {"data_in": Precision(coarse, "first.data_in_scale"), "weight": Precision(fmt, "first.weight_scale")}
    return graph.with_weights(made).replace(replace(graph["first"], precision=chosen))


@each
def test_scales_are_tensors_of_the_built_module_and_come_back(fmt: ScaledFormat) -> None:
    held = case("mlp")
    graph = with_scales(held.graph, fmt)
    module = build(graph, held.store)
    live = parameters_of(module)
    assert isinstance(live["first.weight_scale"], nn.Parameter) and live["first.weight_scale"].requires_grad
    assert any(p is live["first.weight_scale"] for p in module.parameters())
    assert not isinstance(live["first.data_in_scale"], nn.Parameter) and live["first.data_in_scale"].shape == ()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(5):
        optimiser.zero_grad()
        module(x=x).square().sum().backward()
        optimiser.step()
    after = read_back(module, graph, held.store)
    assert after.weights["first.weight_scale"].key != graph.weights["first.weight_scale"].key
    assert after.weights["first.data_in_scale"] == graph.weights["first.data_in_scale"]
    with torch.no_grad():
        assert torch.equal(build(after, held.store)(x=x), module(x=x))


def test_a_given_scale_is_used_and_saturates() -> None:
    held = case("mlp")
    fmt = ScaledInteger(4, "channel")
    graph = with_scales(held.graph, fmt, trainable=False)
    module = build(graph, held.store)
    weight, scale = (parameters_of(module)[f"first.{n}"].detach() for n in ("weight", "weight_scale"))
    want = F.linear(torch.full((1, 4), 2.54), fmt.with_scale(weight, scale), parameters_of(module)["first.bias"])
    leaf = module.get_submodule("first")
    source = module.get_submodule("effective.first_data_in")(torch.full((1, 4), 9.0))
    assert torch.allclose(source, torch.tensor(2.54)) and torch.allclose(leaf(source), want)
    assert not parameters_of(module)["first.weight_scale"].requires_grad


@pytest.mark.parametrize("scale", [None, 0.1])
def test_a_fused_optimiser_is_noticed(scale: float | None) -> None:
    """It writes parameters without raising their version, so what was kept may not outlive a gradient."""
    given = None if scale is None else nn.Parameter(torch.tensor(scale))
    fmt = ScaledInteger(6, "tensor")
    effective, x = Effective(fmt, scale=given), nn.Parameter(torch.linspace(-1, 1, 32).reshape(4, 8))
    held = [p for p in (x, given) if p is not None]
    optimiser = torch.optim.AdamW(held, 0.05, fused=True)
    for _ in range(3):
        optimiser.zero_grad()
        effective(x).square().sum().backward()
        optimiser.step()
        with torch.no_grad():
            want = Effective(fmt, scale=given)(x)
            assert torch.equal(effective(x), want)
        assert torch.equal(effective(x), want)
