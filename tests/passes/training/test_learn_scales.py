"""Learned scales begin from the weights, are weights of the graph, train, and travel with a project."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from espalier.model.document.project import Project, load_project, save_project
from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.base import Format
from espalier.model.formats.binary_residual import BinaryResidual
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Weight
from espalier.model.packed.layout import packed_size, plan
from espalier.model.sources.info import SourceInfo
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build, parameters_of, read_back
from espalier.model.torch.tensors import to_numpy
from espalier.passes.analysis.quantization import quantization
from espalier.passes.base import Context, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.observed.options import ObserveOptions
from espalier.passes.select import Select
from espalier.passes.transform.learn_scales import LearnScalesOptions, learn_scales
from espalier.passes.transform.prune import prune
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import Case, case

INT4 = ScaledInteger(4, "channel")


def chosen(held: Case, fmt: Format, op: str = "linear", port: str = "weight") -> Graph:
    rule = Rule(Select("type", (op,)), {port: fmt})
    return quantize(held.graph, QuantizeOptions((rule,)), Context(held.store))[0]


def learn(held: Case, graph: Graph, **options: Any) -> tuple[Graph, Report]:
    return learn_scales(graph, LearnScalesOptions(**options), Context(held.store))


def value(held: Case, graph: Graph, name: str) -> torch.Tensor:
    return torch.from_numpy(held.store.get(graph.weights[name].key or "").float32().copy())


def test_scales_begin_as_their_source_says() -> None:
    held = case("mlp")
    graph = chosen(held, INT4)
    after, report = learn(held, graph)
    weight = value(held, after, "first.weight")
    want = 2 * weight.abs().mean(1, keepdim=True) / math.sqrt(7)
    torch.testing.assert_close(value(held, after, "first.weight_scale"), want)
    assert after["first"].precision["weight"] == Precision(INT4, "first.weight_scale")
    assert after.weights["first.weight_scale"].role == "parameter" and after.weights["first.weight_scale"].trainable
    assert [r["scale"] for r in report.rows] == ["first.weight_scale", "second.weight_scale"]
    assert report.summary == {"ports": 2, "scales": 6 + 3, "skipped": 0} and not check(after)
    other, _ = learn(held, graph, start="data")
    assert torch.equal(value(held, other, "first.weight_scale"), INT4.scale_of(weight))


def test_masks_and_views_are_seen() -> None:
    held = case("image")
    graph = prune(chosen(held, INT4, "conv2d"), PruneOptions(0.5), Context(held.store))[0]
    after, _ = learn(held, graph, start="data")
    module = build(replace(after, nodes=graph.nodes), held.store)
    own = module.get_submodule("stem").effective["weight"]  # type: ignore[index]
    seen = own.seen(parameters_of(module)["stem.weight"].detach())
    assert seen.ndim == 2 and torch.equal(value(held, after, "stem.weight_scale"), INT4.scale_of(seen))
    inputs = held.fresh(2, 8)
    with torch.no_grad():
        assert torch.equal(build(after, held.store)(**inputs), build(graph, held.store)(**inputs))


def test_uses_of_one_tensor_share_their_scale() -> None:
    held = case("twice")
    after, report = learn(held, chosen(held, INT4))
    names = {n.id: n.precision["weight"].scale for n in after if n.op == "linear"}
    assert sorted(names.values(), key=str) == ["layer.weight_scale", "layer.weight_scale", "layer_1.weight_scale"]
    assert report.summary == {"ports": 3, "scales": 8, "skipped": 0}
    assert learn(held, after)[0] == after


@pytest.mark.parametrize("fmt", [INT4, BinaryResidual(2)], ids=str)
def test_training_moves_them_and_projects_keep_them(fmt: Format, tmp_path: Path) -> None:
    held = case("mlp")
    graph, _ = learn(held, chosen(held, fmt))
    module = build(graph, held.store).train()
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    for _ in range(4):
        optimiser.zero_grad()
        (module(x=x) - 0.5).square().mean().backward()
        optimiser.step()
    after = read_back(module.eval(), graph, held.store)
    assert after.weights["first.weight_scale"].key != graph.weights["first.weight_scale"].key
    file = tmp_path / "learned.espalier"
    save_project(Project(SourceInfo("x", "x", ()), held.graph, Recipe(), after), held.store, file)
    store = WeightStore(tmp_path / "other")
    loaded = load_project(file, store).graph
    assert loaded == after
    with torch.no_grad():
        assert torch.equal(build(loaded, store)(x=x), module(x=x))


def test_the_packed_size_counts_them_and_another_format_drops_them() -> None:
    held = case("mlp")
    graph = chosen(held, INT4)
    after, _ = learn(held, graph)
    assert packed_size(after) > 0 and {p.name for p in plan(after)} >= {"first.weight_scale"}
    rule = Rule(Select("name", ("first",)), {"weight": ScaledInteger(8)})
    dropped, _ = quantize(after, QuantizeOptions((rule,)), Context(held.store))
    assert "first.weight_scale" not in dropped.weights and "second.weight_scale" in dropped.weights
    assert "second.weight_scale" in dropped.remove().weights and not check(dropped)


def test_a_calibrated_scale_keeps_its_value() -> None:
    held = case("mlp")
    graph = chosen(held, ScaledInteger(8, "tensor"), port="data_in")
    with pytest.raises(PassError, match=r"first\.data_in") as caught:
        learn(held, graph, ports=("data_in",))
    assert "Calibrate" in caught.value.hint
    step = to_numpy(torch.tensor(0.03))
    given = graph.with_weights({"step": Weight(held.store.hold(step), (), "float32", "buffer")})
    chosen_ = {"data_in": Precision(ScaledInteger(8, "tensor"), "step")}
    given = given.replace(replace(given["first"], precision=chosen_), replace(given["second"], precision={}))
    after, _ = learn(held, given, ports=("data_in", "weight"))
    assert after.weights["step"] == replace(given.weights["step"], role="parameter")
    assert parameters_of(build(after, held.store))["step"].requires_grad


@pytest.mark.slow
def test_a_products_operand_without_a_scale_is_passed_over() -> None:
    held = case("bert-eager")
    graph = chosen(held, INT4, "matmul")
    with pytest.raises(PassError, match="no scale yet") as caught:
        learn(held, graph)
    assert "Calibrate" in caught.value.hint
    both = quantize(graph, QuantizeOptions((Rule(Select("type", ("linear",)), {"weight": INT4}),)), Context(held.store))
    after, report = learn(held, both[0])
    left = {str(r["node"]) for r in report.rows if "skipped" in r}
    assert left == {n.id for n in graph if n.op == "matmul"} and report.summary["skipped"] == len(left) > 0
    assert report.summary["ports"] == sum(n.precision["weight"].scale is not None for n in after if n.op == "linear")


def test_what_cannot_learn_is_told() -> None:
    held = case("mlp")
    with pytest.raises(PassError, match="learned scale") as early:
        learn(held, chosen(held, Integer(8, 4)))
    assert "scaled_integer" in early.value.hint
    with pytest.raises(OptionsError, match="wieght") as caught:
        LearnScalesOptions(ports=("wieght",))
    assert "weight" in caught.value.hint
    hollow = chosen(held, INT4)
    hollow = hollow.with_weights({k: replace(w, key=None) for k, w in hollow.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        learn(held, hollow)


def test_illegal_scales_are_problems() -> None:
    held = case("mlp")
    graph = chosen(held, INT4)
    lost = graph.replace(replace(graph["first"], precision={"weight": Precision(INT4, "gone")}))
    taken = graph.replace(replace(graph["first"], precision={"weight": Precision(Integer(), "first.bias")}))
    for bad, word in ((lost, "gone"), (taken, "takes none")):
        assert [p.node for p in check(bad) if word in p.message] == ["first"]
        assert [p.node for p in check(bad, graph) if word in p.message] == ["first"]


@pytest.mark.slow
def test_exports_and_findings_see_masks_views_and_given_scales() -> None:
    """What leaves the program, and what is told of its error, is what the built module computes with."""
    held = case("image")
    for fmt in (INT4, BinaryResidual(2)):
        graph = prune(chosen(held, fmt, "conv2d"), PruneOptions(0.5), Context(held.store))[0]
        graph = learn(held, graph)[0]
        module = build(graph, held.store)
        used = module.get_submodule("stem").tensor("weight").detach()  # type: ignore[operator]
        assert torch.equal(dict(effective_weights(graph, held.store))["stem.weight"], used)
        row = next(r for r in quantization(graph, ObserveOptions(), Context(held.store))[1].rows if r["node"] == "stem")
        own = module.get_submodule("stem").effective["weight"]  # type: ignore[index]
        weight = parameters_of(module)["stem.weight"].detach() * own.mask
        want = 10 * torch.log10(weight.square().sum() / (weight - used).square().sum())
        assert row["sqnr_db"] == pytest.approx(float(want), abs=1e-3) and row["zeros"] >= 0.5
