"""What a build computes with formats and masks: exactly what their definitions say, by hand and bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.errors import GraphError, ProjectError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.meta import Precision, Sparsity
from espalier.model.graph.ops import quantisable
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.layers import Compressed, unpack_mask
from espalier.model.torch.tensors import to_numpy
from espalier.model.trace.trace import trace
from tests.model.zoo import MODELS, SLOW, Case, case, run, same, slow

X, W, B, Y = Integer(8, 5), Integer(6, 4), Integer(5, 3), Integer(7, 4, rounding="floor")
ALL: dict[str, Format] = {"data_in": X, "weight": W, "bias": B, "data_out": Y}


def pack_mask(mask: Tensor) -> Tensor:
    return torch.from_numpy(np.packbits(mask.reshape(-1).numpy()))


def choose(graph: Graph, node: str, formats: dict[str, Format]) -> Graph:
    """The graph with formats on the ports that a node has."""
    able = quantisable(graph[node])
    held = {p: Precision(f) for p, f in formats.items() if p in able}
    assert held
    return graph.replace(replace(graph[node], precision=held))


def mask(graph: Graph, store: WeightStore, node: str, keep: Tensor) -> Graph:
    key = store.hold(to_numpy(pack_mask(keep)))
    chosen = Sparsity("l1", 0.5, "local", key, int((~keep).sum()))
    return graph.replace(replace(graph[node], sparsity={"weight": chosen}))


def traced(model: nn.Module, **example: Tensor) -> Case:
    store = WeightStore(Path("unwritten"))
    model.eval()
    return Case("", model, dict(example), store, trace(model, dict(example), store), {})


class Wrap(nn.Module):
    def __init__(self, call: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.call = call
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Any:
        return self.call(self, x)


def only(held: Case, module: nn.Module, x: Tensor) -> Tensor:
    (result,) = run(module, {"x": x})
    return result


def image(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


# -- one layer of each kind

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Callable[..., Tensor]]] = {
    "linear": (lambda: nn.Linear(6, 4), (3, 6), F.linear),
    "linear-3d": (lambda: nn.Linear(6, 4), (2, 3, 6), F.linear),
    "linear-no-bias": (lambda: nn.Linear(6, 4, bias=False), (3, 6), F.linear),
    "conv1d": (lambda: nn.Conv1d(2, 4, 3, stride=2), (2, 2, 9), lambda x, w, b: F.conv1d(x, w, b, 2)),
    "conv2d": (
        lambda: nn.Conv2d(4, 6, 3, padding=1, groups=2, dilation=2),
        (2, 4, 7, 7),
        lambda x, w, b: F.conv2d(x, w, b, 1, 1, 2, 2),
    ),
    "conv2d-same": (
        lambda: nn.Conv2d(3, 4, 3, padding="same", bias=False),
        (2, 3, 5, 5),
        lambda x, w, b: F.conv2d(x, w, b, padding="same"),
    ),
    "conv2d-reflect": (
        lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        (2, 3, 5, 5),
        lambda x, w, b: F.conv2d(F.pad(x, (1, 1, 1, 1), "reflect"), w, b),
    ),
    "conv3d": (lambda: nn.Conv3d(1, 2, 2), (2, 1, 3, 3, 3), F.conv3d),
}


@pytest.fixture(scope="module", params=list(LAYERS))
def layer(request: pytest.FixtureRequest) -> tuple[Case, nn.Module, Tensor, Callable[..., Tensor]]:
    make, shape, by_hand = LAYERS[request.param]
    torch.manual_seed(1)
    module = make()
    held = traced(Wrap(lambda self, x: self.part(x), part=module), x=image(*shape))
    return held, module, image(*shape) * 2, by_hand


Layer = tuple[Case, nn.Module, Tensor, Callable[..., Tensor]]


def test_layers_compute_in_their_formats(layer: Layer) -> None:
    held, module, x, by_hand = layer
    bias = None if module.bias is None else straight_through(B, module.bias)
    with torch.no_grad():
        want = straight_through(Y, by_hand(straight_through(X, x), straight_through(W, module.weight), bias))
    got = only(held, held.build(choose(held.graph, "part", ALL)), x)
    assert torch.equal(got, want) and len(got.unique()) > 3
    assert not torch.equal(got, only(held, held.build(), x))


@pytest.mark.parametrize("port", list(ALL))
def test_each_port_alone(layer: Layer, port: str) -> None:
    held, module, x, by_hand = layer
    if port == "bias" and module.bias is None:
        assert "bias" not in quantisable(held.graph["part"])
        return
    values = {"data_in": x, "weight": module.weight, "bias": module.bias}
    if port in values:
        values[port] = straight_through(ALL[port], values[port])
    with torch.no_grad():
        plain = by_hand(*values.values())
        want = straight_through(Y, plain) if port == "data_out" else plain
    got = only(held, held.build(choose(held.graph, "part", {port: ALL[port]})), x)
    assert torch.equal(got, want)


def test_masks_come_before_formats(layer: Layer) -> None:
    held, module, x, by_hand = layer
    keep = torch.rand(module.weight.shape, generator=torch.Generator().manual_seed(2)) > 0.4
    pruned = mask(held.graph, held.store, "part", keep)
    with torch.no_grad():
        assert torch.equal(only(held, held.build(pruned), x), by_hand(x, module.weight * keep, module.bias))
        both = by_hand(x, straight_through(W, module.weight * keep), module.bias)
    assert torch.equal(only(held, held.build(choose(pruned, "part", {"weight": W})), x), both)


def test_stored_weights_stay_whole(layer: Layer) -> None:
    """Masks and formats act on the way; the tensors below are the original ones."""
    held, module, _, _ = layer
    keep = torch.zeros(module.weight.shape, dtype=torch.bool)
    built = held.build(choose(mask(held.graph, held.store, "part", keep), "part", ALL))
    live = parameters_of(built)
    assert torch.equal(live["part.weight"], module.weight)
    assert isinstance(built.get_submodule("part"), Compressed)
    assert torch.equal(built.get_submodule("part").weight, module.weight)
    assert set(built.state_dict()) == {f"part.inner.{n}" for n, _ in module.named_parameters()}


# -- functions


def tap(graph: Graph, *args: Any) -> Graph:
    """The graph with other results: what flows inside."""
    names = tuple(f"tap_{i}" for i in range(len(args)))
    return replace(graph.replace(replace(graph.output, args=args)), output_names=names, structure="tuple")


@pytest.mark.slow
def test_both_operands_of_a_matmul() -> None:
    held = case("bert-eager")
    scores = next(n for n in held.graph if n.op == "matmul")
    assert quantisable(scores) == ("data_in", "weight", "data_out")
    quantised = choose(held.graph, scores.id, {"data_in": Integer(4, 2), "weight": Integer(4, 3), "data_out": Y})
    inputs = held.fresh(2, 6)
    a, b = run(held.build(tap(held.graph, *scores.args)), inputs)
    (got,) = run(held.build(tap(quantised, Ref(scores.id))), inputs)
    assert torch.equal(
        got, straight_through(Y, torch.matmul(straight_through(Integer(4, 2), a), straight_through(Integer(4, 3), b)))
    )


def test_attention_whose_weights_are_read_by_functions() -> None:
    held = case("attention")
    linears = [n for n in held.graph if n.op == "linear"]
    assert len(linears) == 2 and all(n.call == "call_function" for n in linears)
    assert all(quantisable(n) == ("data_in", "weight", "bias", "data_out") for n in linears)
    graph = held.graph
    for node in linears:
        graph = choose(graph, node.id, {"data_in": X, "weight": W, "bias": B})
    x = held.fresh(2, 4)["x"]
    inner = held.original.attention
    with torch.no_grad():
        mixed = F.linear(
            straight_through(X, x), straight_through(W, inner.in_proj_weight), straight_through(B, inner.in_proj_bias)
        )
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in mixed.chunk(3, -1))
        heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        out = F.linear(
            straight_through(X, heads),
            straight_through(W, inner.out_proj.weight),
            straight_through(B, inner.out_proj.bias),
        )
        want = held.original.norm(x + out)
    (got,) = run(held.build(graph), {"x": x})
    assert torch.allclose(got, want, atol=1e-6)
    assert not torch.allclose(got, held.expected({"x": x})[0], atol=1e-4)


@pytest.mark.slow
def test_gpt2s_conv1d() -> None:
    held = case("gpt2")
    node = next(n for n in held.graph if n.target.endswith("h.0.attn.c_attn"))
    built = held.build(choose(held.graph, node.id, ALL))
    leaf, module = built.get_submodule(node.target), held.original.get_submodule(node.target)
    x = image(2, 3, 16)
    with torch.no_grad():
        assert isinstance(leaf, Compressed)
        want = torch.addmm(straight_through(B, module.bias), x.view(-1, 16), straight_through(W, module.weight)).view(
            2, 3, 48
        )
        assert torch.equal(leaf(x), want)


def test_functions_with_weights_of_the_module() -> None:
    torch.manual_seed(0)
    held = traced(Wrap(lambda m, x: F.conv2d(x, m.kernel, m.offset), kernel=nn.Parameter(torch.randn(2, 3, 2, 2)),
                       offset=nn.Parameter(torch.randn(2))), x=image(2, 3, 4, 4))  # fmt: skip
    (node,) = [n for n in held.graph if n.op == "conv2d"]
    x = image(1, 3, 4, 4)
    got = only(held, held.build(choose(held.graph, node.id, ALL)), x)
    model = held.original
    with torch.no_grad():
        want = straight_through(
            Y, F.conv2d(straight_through(X, x), straight_through(W, model.kernel), straight_through(B, model.offset))
        )
    assert torch.equal(got, want)


# -- several calls of one module


def twice() -> tuple[Case, list[str]]:
    held = case("twice")
    return held, [n.id for n in held.graph if n.target == "layer"]


def test_two_calls_of_a_module_may_differ() -> None:
    """Also where another module has the name that a second leaf would like."""
    held, (first, second) = twice()
    graph = choose(choose(held.graph, first, {"weight": W}), second, {"weight": Integer(3, 2), "bias": B})
    m, x = held.original, image(5, 4)
    with torch.no_grad():
        y = m.layer_1(torch.relu(F.linear(x, straight_through(W, m.layer.weight), m.layer.bias)))
        want = F.linear(y, straight_through(Integer(3, 2), m.layer.weight), straight_through(B, m.layer.bias))
    built = held.build(graph)
    assert torch.equal(only(held, built, x), want)
    assert len(list(built.parameters())) == 4  # both leaves hold the same Parameter objects
    plain = choose(held.graph, second, {"weight": W})
    with torch.no_grad():
        want = F.linear(m.layer_1(torch.relu(m.layer(x))), straight_through(W, m.layer.weight), m.layer.bias)
    assert torch.equal(only(held, held.build(plain), x), want)


def test_equal_calls_share_a_leaf() -> None:
    held, (first, second) = twice()
    graph = choose(choose(held.graph, first, {"weight": W, "data_in": X}), second, {"weight": W})
    leaves = [m for m in held.build(graph).modules() if isinstance(m, Compressed)]
    assert len(leaves) == 1


def test_a_weight_read_beside_its_layer_is_not_touched() -> None:
    """The format belongs to the layer's port: reading the weight elsewhere gives the stored one."""
    held = case("tied")
    graph = choose(held.graph, "head", {"weight": Integer(3, 1)})
    m, ids = held.original, held.example["ids"]
    with torch.no_grad():
        x = torch.tanh(m.mix(m.embed(ids)))
        want = (
            F.linear(x, straight_through(Integer(3, 1), m.head.weight)) + x @ m.head.weight.t() * 0.1 + m.mix.bias.sum()
        )
    (got,) = run(held.build(graph), {"ids": ids})
    assert torch.equal(got, want)


# -- recorded models


def test_recorded_models_take_all_choices() -> None:
    held = case("choosy")
    keep = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)) > 0.5
    graph = choose(mask(held.graph, held.store, "first", keep), "first", ALL)
    m, x = held.original, image(3, 4)
    with torch.no_grad():
        y = torch.relu(
            straight_through(
                Y,
                F.linear(
                    straight_through(X, x),
                    straight_through(W, m.first.weight * keep),
                    straight_through(B, m.first.bias),
                ),
            )
        )
        want = m.second(torch.matmul(y, y.transpose(-1, -2)) @ y)
    assert float(y.sum()) > -1
    assert torch.equal(only(held, held.build(graph), x), want)


class ChoosyTwice(nn.Module):
    """One layer called twice, around a decision by the data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        return self.layer(torch.relu(y)) if float(y.detach().sum()) < 1e9 else y


def test_a_recorded_module_has_one_choice_for_all_its_calls() -> None:
    torch.manual_seed(2)
    model, x, store = ChoosyTwice().eval(), torch.randn(3, 4), WeightStore(Path("unwritten"))
    traced = trace(model, {"x": x}, store)
    graph = traced.graph
    first, second = (n.id for n in graph if n.target == "layer")
    assert graph.runs == "module"
    both = choose(choose(graph, first, ALL), second, ALL)
    (got,) = run(build(both, store, traced.callables), {"x": x})

    def call(x: Tensor) -> Tensor:
        layer = model.layer
        return straight_through(
            Y, F.linear(straight_through(X, x), straight_through(W, layer.weight), straight_through(B, layer.bias))
        )

    assert torch.equal(got, call(torch.relu(call(x))).detach())
    for one, other in ((first, second), (second, first)):
        with pytest.raises(GraphError, match=f"{first} and {second} call one module with different") as caught:
            build(choose(graph, one, ALL), store, traced.callables)
        assert caught.value.node == second and "layer" in caught.value.hint
        with pytest.raises(GraphError, match="has one leaf for both"):
            build(choose(both, other, {**ALL, "weight": Y}), store, traced.callables)


class Asking(nn.Module):
    """A decision by the data, and code that looks at settings and tensors of its layer, as Whisper's and T5's does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(4, 6, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        assert self.conv.bias is not None
        y = self.conv(x.to(self.conv.weight.dtype)) * self.conv.stride[0] + self.conv.bias.sum()
        return -y if float(y.detach().sum()) > 1e9 else y


@pytest.mark.parametrize("ports", [("data_in",), ("data_out",), ("weight", "bias"), tuple(ALL)])
def test_code_of_a_recorded_model_still_finds_the_settings_of_a_layer(ports: tuple[str, ...]) -> None:
    torch.manual_seed(2)
    model, x, store = Asking().eval(), torch.randn(3, 4, 9), WeightStore(Path("unwritten"))
    traced = trace(model, {"x": x}, store)
    chosen = {p: ALL[p] for p in ports}
    node = next(n.id for n in traced.graph if n.target == "conv")
    (got,) = run(build(choose(traced.graph, node, chosen), store, traced.callables), {"x": x})

    def through(port: str, value: Tensor) -> Tensor:
        return straight_through(chosen[port], value) if port in chosen else value

    weight, bias = (through(p, getattr(model.conv, p).detach()) for p in ("weight", "bias"))
    want = through("data_out", F.conv1d(through("data_in", x), weight, bias, stride=2)) * 2 + bias.sum()
    assert traced.graph.runs == "module" and torch.equal(got, want)


def test_recorded_functions_offer_no_ports() -> None:
    """They run inside the original's own code, where no format can be put in."""
    held = case("choosy")
    opaque = [n for n in held.graph if n.call == "opaque"]
    assert any(n.op == "matmul" for n in opaque)
    assert all(quantisable(n) == () for n in opaque)
    node = replace(next(n for n in opaque if n.op == "matmul"), precision={"data_in": Precision(X)})
    assert [p.node for p in check(held.graph.replace(node)) if p.severity == "error"] == [node.id]


# -- masks, errors


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 5), (2, 0, 3), (4, 4, 2)])
def test_masks_pack_one_bit_an_element(shape: tuple[int, ...]) -> None:
    keep = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.5
    packed = pack_mask(keep)
    assert packed.dtype == torch.uint8 and packed.numel() == -(-keep.numel() // 8)
    assert torch.equal(unpack_mask(packed, shape), keep)


def test_missing_tensors_and_functions_are_told() -> None:
    graph = case("mlp").graph
    with pytest.raises(ProjectError, match="tensor"):
        build(graph, WeightStore(Path("unwritten")))
    node = replace(graph["act"], call="call_function", op="relu", target="aten.nonsense.default")
    with pytest.raises(ProjectError, match="nonsense"):
        case("mlp").build(graph.replace(node))
    node = replace(graph["act"], attrs={"class": "Popen"})
    with pytest.raises(ProjectError, match="Popen"):
        case("mlp").build(graph.replace(node))
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    with pytest.raises(GraphError, match="without weights"):
        case("mlp").build(hollow)


def test_files_cannot_be_read_by_a_graph() -> None:
    graph = case("mlp").graph
    args: Any = ("secret", False, 4)
    node = replace(graph["act"], call="call_function", target="aten.from_file.default", args=args)
    with pytest.raises(ProjectError, match="from_file"):
        case("mlp").build(graph.replace(node))


def test_formats_on_one_layer_leave_the_others_alone() -> None:
    held = case("bert")
    node = next(n for n in held.graph if n.target.endswith("layer.1.output.dense"))
    built, plain = held.build(choose(held.graph, node.id, ALL)), held.build()
    changed = {n for n, m in built.named_modules() if isinstance(m, Compressed)}
    assert changed == {node.target}
    assert not same(run(built, held.example), run(plain, held.example))


WITHOUT_VALUES = ("branches", "choosy")  # they read values of tensors, which the meta device does not have


@pytest.mark.parametrize("name", [slow(n) if n in SLOW else n for n in MODELS if n not in WITHOUT_VALUES])
def test_a_build_can_be_moved(name: str) -> None:
    """Devices in a trace, as of arange(n, device=x.device), are those of the inputs. Meta stands for CUDA."""
    held = case(name)
    there = {k: v.to("meta") if isinstance(v, Tensor) else v for k, v in held.example.items()}
    assert {r.device.type for r in run(held.build().to("meta"), there)} == {"meta"}
