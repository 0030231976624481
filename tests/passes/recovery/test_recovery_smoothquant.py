"""SmoothQuant keeps the float function, divides only where the graph proves it, and helps where there are outliers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.store.weights import WeightStore
from espalier.model.torch.tensors import to_numpy, to_torch
from espalier.passes.base import Context, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.recovery.groups import Group, groups_of
from espalier.passes.recovery.smoothing import GroupInput, Smoothing
from espalier.passes.select import Select
from espalier.passes.transform.learn_scales import LearnScalesOptions, learn_scales
from espalier.passes.transform.prune import prune
from espalier.passes.transform.smoothquant import SmoothquantOptions, smoothquant
from tests.model.zoo import case
from tests.passes.recovery.recovery_cases import demo, distance, logits, with_format

INT8, INT4 = ScaledInteger(8, "tensor"), ScaledInteger(4, "tensor")


def groups(name: str, insert: bool = False) -> tuple[dict[str, Group], dict[str, str]]:
    """Source → group of a model of the zoo, and node → why not."""
    graph = case(name).graph
    found = list(groups_of([n for n in graph if n.op == "linear"], graph, insert))
    made = {g.source.node: g for g in found if isinstance(g, Group)}
    return made, {n.id: g[1] for g in found if not isinstance(g, Group) for n in g[0]}


def run(graph: Graph, name: str, **options: Any) -> tuple[Graph, Report]:
    return smoothquant(graph, SmoothquantOptions(data=name, limit=64, **options), demo(name)[1])


@pytest.mark.slow
def test_groups_are_those_that_the_graph_proves() -> None:
    made, left = groups("mlp")
    assert [n.id for n in made["first"].consumers] == ["second"]  # through the ReLU and the dropout
    assert made["first"].producers == (("first.weight", 0), ("first.bias", 0)) and set(left) == {"first"}
    made, _ = groups("llama")
    sizes = sorted((len(g.consumers), len(g.producers)) for g in made.values())
    assert sizes == [(1, 1), (1, 1), (2, 1), (2, 1), (3, 1), (3, 1)]  # down; gate, up; query, key, value
    made, left = groups("bert")
    ends = {n.id for g in made.values() for n in g.consumers}  # what the values of an attention feed, and no other
    assert ends == {f"bert_encoder_layer_{k}_attention_output_dense" for k in range(2)}
    assert any("also feeds" in why for why in left.values())
    made, left = groups("gpt2")
    assert made and all("attn" in i or "mlp" in i or "head" in i for i in left)
    assert groups("twice")[0] == {}
    assert {n.id for n in groups("bert", insert=True)[0]["bert_embeddings_dropout"].consumers} == {
        f"bert_encoder_layer_0_attention_self_{n}" for n in ("query", "key", "value")
    }


@pytest.mark.slow
@pytest.mark.parametrize("insert", [False, True])
@pytest.mark.parametrize("name", ["mlp", "llama", "gpt2", "bert", "attention"])
def test_the_function_stays_the_same(name: str, insert: bool) -> None:
    held = case(name)
    found, _ = groups(name, insert)
    if not found:
        assert name in ("bert", "attention") and not insert
        return
    work = Smoothing(held.graph, 0.5, held.store)
    made = torch.Generator().manual_seed(0)
    for group in found.values():
        width = held.graph.weights[group.layers[0].name].shape[0 if group.layers[0].transposed else 1]
        seen = GroupInput()
        seen.add(torch.randn(9, width, generator=made) * torch.rand(width, generator=made) * 30)
        work.smooth(group, seen)
    assert not check(work.graph) and work.rows and (len(work.graph) > len(held.graph)) == any(
        not g.producers for g in found.values())  # fmt: skip
    changed = [k for k, w in held.graph.weights.items() if work.graph.weights[k] != w]
    weights = {x.name for g in found.values() for x in g.layers}
    assert weights <= {*changed} <= weights | {k for g in found.values() for k, _ in g.producers}
    inputs = held.fresh(2, 6)
    with torch.no_grad():
        want, got = (_first(held.build(g)(**inputs)) for g in (held.graph, work.graph))
    assert float((want - got).abs().max()) <= 1e-5 * max(float(want.abs().max()), 1.0)


def _first(found: Any) -> torch.Tensor:
    while not isinstance(found, torch.Tensor):
        found = next(iter(found.values() if isinstance(found, dict) else found))
    return found


def with_outliers(graph: Graph, store: WeightStore) -> Graph:
    """The same function of the digits' MLP, with a few hidden channels a hundred times as large as the rest."""
    first, second, _ = (n for n in graph if n.op == "linear")
    factor = torch.ones(64)
    factor[[3, 11]] = 100.0
    changed = {}
    for name, shape, power in ((first.weights["weight"], (-1, 1), 1), (first.weights["bias"], (-1,), 1),
                               (second.weights["weight"], (1, -1), -1)):  # fmt: skip
        old = to_torch(store.get(graph.weights[name].key or ""))
        value = to_numpy(old * factor.reshape(shape) ** power)
        changed[name] = replace(graph.weights[name], key=store.hold(value))
    return graph.with_weights(changed)


def test_it_takes_outliers_away_by_the_papers_formula() -> None:
    opened, context = demo("demo:digits-mlp")
    base = with_outliers(opened.project.graph, opened.store)
    before = with_format(base, context, ("linear",), data_in=INT8, weight=ScaledInteger(8))
    after, report = run(before, "demo:digits-mlp")
    assert not check(after) and report.summary["folded"] == 2 and report.summary["float_difference"] <= 1e-5
    rows = {r["node"]: r for r in report.rows if "error" in r}
    second = next(n for n in before if n.op == "linear" and n.id in rows)
    assert rows[second.id]["outliers_before"] > 10 * rows[second.id]["outliers"]
    assert rows[second.id]["error"] < 0.2 * rows[second.id]["error_before"]
    assert distance(after, "demo:digits-mlp") < 0.5 * distance(before, "demo:digits-mlp")
    plain = [replace(n, precision={}) for n in after]
    torch.testing.assert_close(logits(after.replace(*plain), "demo:digits-mlp"), logits(base, "demo:digits-mlp"),
                               rtol=1e-4, atol=1e-4)  # fmt: skip


def test_alpha_is_how_far_it_goes() -> None:
    held = case("mlp")
    group = groups("mlp")[0]["first"]
    seen = GroupInput()
    seen.add(torch.tensor([[1.0, -4.0, 0.0, 9.0, 2.0, 0.5]]))
    weight = to_torch(held.store.get(held.graph.weights["second.weight"].key or ""))
    for alpha in (0.0, 0.3, 1.0):
        work = Smoothing(held.graph, alpha, held.store)
        work.smooth(group, seen)
        assert seen.top is not None
        want = seen.top**alpha / weight.abs().amax(0) ** (1 - alpha)
        want[2] = 1  # nothing comes there
        got = to_torch(held.store.get(work.graph.weights["second.weight"].key or "")) / weight
        torch.testing.assert_close(got, want.expand_as(got))


@pytest.mark.slow
def test_an_inserted_division_helps_the_demo() -> None:
    opened, context = demo("demo:reviews")
    before = with_format(opened.project.graph, context, ("linear",), data_in=INT4, weight=ScaledInteger(4))
    _, folded = run(before, "demo:reviews")
    assert folded.summary["inserted"] == 0 and any("also feeds" in str(row) for row in folded.rows)
    after, report = run(before, "demo:reviews", insert=True, alpha=0.7)
    assert not check(after) and report.summary["inserted"] == 8 and len(after) == len(before) + 16
    assert distance(after, "demo:reviews") < distance(before, "demo:reviews")
    assert report.summary["float_difference"] <= 1e-5
    again, _ = run(after, "demo:reviews", insert=True)  # names are free a second time
    assert not check(again)


def test_masks_stay_and_fixed_scales_are_left_alone() -> None:
    opened, context = demo("demo:digits-mlp")
    pruned, _ = prune(opened.project.graph, PruneOptions(0.4), context)
    after, report = run(pruned, "demo:digits-mlp")
    assert report.summary["float_difference"] <= 1e-5
    assert all(after[n.id].sparsity == n.sparsity for n in pruned)
    chosen = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(8))
    fixed, _ = learn_scales(chosen, LearnScalesOptions(), context)
    with pytest.raises(PassError, match="can be divided"):
        run(fixed, "demo:digits-mlp")


def test_what_cannot_be_is_told() -> None:
    opened, _ = demo("demo:digits-mlp")
    with pytest.raises(OptionsError, match="alpha"):
        SmoothquantOptions(alpha=1.5)
    with pytest.raises(PassError, match="recorded"):
        smoothquant(case("choosy").graph, SmoothquantOptions(data="demo:digits"), Context(case("choosy").store))
    graph = opened.project.graph
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        run(hollow, "demo:digits-mlp")
    with pytest.raises(PassError, match="smoothed"):
        run(graph, "demo:digits-mlp", select=Select("type", ("relu",)))
