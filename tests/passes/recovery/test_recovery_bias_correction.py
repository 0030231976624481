"""Bias correction: each layer's mean comes back, on the layers corrected before it; the results come nearer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.recovery.biases import Mean
from espalier.passes.running.observing import observe
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.select import Select
from espalier.passes.transform.bias_correction import BiasCorrectionOptions, bias_correction
from espalier.passes.transform.gptq import gptq
from espalier.passes.transform.prune import prune
from tests.model.zoo import case
from tests.passes.recovery.recovery_cases import demo, distance, with_format

INT3 = ScaledInteger(3)


def run(graph: Graph, name: str, **options: Any) -> tuple[Graph, Report]:
    return bias_correction(graph, BiasCorrectionOptions(data=name, **options), demo(name)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["demo:reviews", "demo:digits", "demo:digits-mlp"])
def test_held_out_results_come_nearer(name: str) -> None:
    opened, context = demo(name)
    before = with_format(opened.project.graph, context, ("linear", "conv2d"), weight=INT3)
    after, report = run(before, name)
    assert not check(after) and report.summary["layers"] == len(report.rows) and not report.summary["added"]
    assert all(r["changed"] and r["shift"] < 1e-4 * r["shift_before"] for r in report.rows)
    assert distance(after, name) < 0.95 * distance(before, name)
    biases = {n.weights["bias"] for n in before if n.op in ("linear", "conv2d")}
    assert {k for k, w in before.weights.items() if after.weights[k] != w} == biases
    assert run(before, name)[0] == after


def test_each_layer_gives_the_float_means_again() -> None:
    opened, context = demo("demo:digits")
    before = with_format(opened.project.graph, context, ("linear", "conv2d"), weight=INT3, data_in=Integer(6, 3))
    after, _ = run(before, "demo:digits")
    ids = [n.id for n in before if n.op in ("linear", "conv2d")]
    split = load_split(EvaluateOptions(data="demo:digits", split="train", limit=128), context)

    def means(graph: Graph) -> dict[str, Tensor]:
        found = {i: Mean() for i in ids}
        observe(graph, split, 32, {i: ("data_out",) for i in ids}, lambda i, _, y: found[i].add(graph[i], y), context)
        return {i: m.value for i, m in found.items()}

    want, got, was = means(opened.project.graph), means(after), means(before)
    for i in ids:
        torch.testing.assert_close(got[i], want[i], rtol=1e-4, atol=1e-4)
        assert (was[i] - want[i]).norm() > 100 * (got[i] - want[i]).norm()


def test_after_gptq_the_recipes_first_model_is_the_reference() -> None:
    opened, context = demo("demo:digits-mlp")
    base = opened.project.graph
    rounded, _ = gptq(
        with_format(base, context, ("linear",), weight=INT3), GptqOptions(data="demo:digits-mlp"), context
    )
    idle = run(rounded, "demo:digits-mlp")[1].summary  # its weights are exact in their format
    assert idle["layers"] == 0 and 'reference = "baseline"' in idle["warning"]
    assert "since" not in idle["warning"], "that the weights are exact was not looked at"
    context = replace(context, base=base)
    after, report = bias_correction(
        rounded, BiasCorrectionOptions(data="demo:digits-mlp", reference="baseline"), context
    )
    assert report.summary["layers"] == len(report.rows)
    assert all(r["shift"] < 1e-4 * r["shift_before"] for r in report.rows)
    assert distance(after, "demo:digits-mlp") < distance(rounded, "demo:digits-mlp")
    other = replace(context, base=case("mlp").graph)
    with pytest.raises(PassError, match="first model has no"):
        bias_correction(rounded, BiasCorrectionOptions(data="demo:digits-mlp", reference="baseline"), other)


def test_a_mean_is_that_of_all_places_of_a_channel() -> None:
    graph = case("image").graph
    mean, batches = Mean(), [torch.randn(n, 4, 5, 6) for n in (2, 3)]
    for y in batches:
        mean.add(graph["stem"], y)
    torch.testing.assert_close(mean.value.float(), torch.cat(batches).mean((0, 2, 3)))
    mean, batches = Mean(), [torch.randn(n, 7, 4) for n in (2, 3)]
    for y in batches:
        mean.add(graph["head"], y)
    torch.testing.assert_close(mean.value.float(), torch.cat(batches).mean((0, 1)))


def test_the_shift_of_pruning_is_taken_out_when_asked() -> None:
    opened, context = demo("demo:digits-mlp")
    pruned, _ = prune(opened.project.graph, PruneOptions(0.5), context)
    same, report = run(pruned, "demo:digits-mlp")
    assert all(r["shift_before"] == 0 for r in report.rows) and same == pruned
    after, _ = run(pruned, "demo:digits-mlp", pruning=True)
    assert distance(after, "demo:digits-mlp") < distance(pruned, "demo:digits-mlp")
    assert all(after[n.id].sparsity == n.sparsity for n in pruned)


def without_bias(graph: Graph) -> Graph:
    """The digits' MLP with its biases taken away."""
    nodes = [
        replace(
            n,
            attrs={**n.attrs, "bias": False},
            weights={"weight": n.weights["weight"]},
            ports={k: v for k, v in n.ports.items() if k != "bias"},
        )
        for n in graph
        if n.op == "linear"
    ]
    return graph.replace(*nodes).remove()


def test_a_bias_comes_only_when_asked() -> None:
    opened, context = demo("demo:digits-mlp")
    bare = without_bias(opened.project.graph)
    before = with_format(bare, context, ("linear",), weight=INT3)
    with pytest.raises(PassError, match="no stored bias") as caught:
        run(before, "demo:digits-mlp")
    assert "add" in caught.value.hint
    after, report = run(before, "demo:digits-mlp", add=True)
    assert not check(after) and report.summary["added"] == 3
    assert {k for k in after.weights if k not in before.weights} == {
        f"{n.target}.bias" for n in after if n.op == "linear"
    }
    assert all(r["shift"] < r["shift_before"] for r in report.rows)
    assert "warning" not in report.summary
    same, idle = run(bare, "demo:digits-mlp", add=True)
    assert same == bare  # nothing to correct, so nothing is added
    assert "Quantise first" in idle.summary["warning"]


def test_a_bias_in_a_coarse_format_stays_unless_it_helps() -> None:
    opened, context = demo("demo:digits-mlp")
    coarse = parse_format("integer(width=2, frac_width=-12)")
    before = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(8), bias=coarse)
    after, report = run(before, "demo:digits-mlp")
    assert not any(r["changed"] for r in report.rows[:1])
    idle = not any(r["changed"] for r in report.rows)
    assert ("finer format" in report.summary.get("warning", "")) == idle
    first = next(n for n in before if n.op == "linear")
    assert after.weights[first.weights["bias"]] == before.weights[first.weights["bias"]]


def test_what_cannot_be_is_told() -> None:
    opened, context = demo("demo:digits-mlp")
    graph = opened.project.graph
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        run(hollow, "demo:digits-mlp")
    with pytest.raises(PassError, match="corrected"):
        run(graph, "demo:digits-mlp", select=Select("type", ("relu",)))
    held = case("twice")
    with pytest.raises(PassError, match="shares its bias"):
        only = Select("name", ("layer",))
        bias_correction(held.graph, BiasCorrectionOptions(data="demo:digits", select=only), Context(held.store))
    before = to_torch(context.store.get(graph.weights["fc1.weight"].key or ""))
    run(with_format(graph, context, ("linear",), weight=INT3), "demo:digits-mlp")
    assert torch.equal(before, to_torch(context.store.get(graph.weights["fc1.weight"].key or "")))
