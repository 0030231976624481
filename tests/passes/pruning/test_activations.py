"""Activations lose just what was asked: per sample by count, or up to a threshold that data told."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.base import parse_format
from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision, Sparsity
from espalier.model.torch.activation_masks import ActivationMask
from espalier.model.torch.build import build
from espalier.model.torch.layers import Effective
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.pruning.magnitudes import Magnitudes
from espalier.passes.running.batches import batches
from espalier.passes.running.observing import observe
from espalier.passes.running.splits import EvaluateOptions, load_split
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.transform.prune import prune
from espalier.passes.transform.prune_activations import prune_activations
from tests.model.zoo import case, run

DIGITS = "demo:digits-mlp"


def rule(ratio: float, pattern: str = "top_k", method: str = "l1", **values: Any) -> ActivationMask:
    return ActivationMask(Sparsity(method, ratio, "local", None, 0, pattern, **values))


@cache
def digits() -> tuple[Graph, Context]:
    from espalier.model.opening import open_any

    opened = open_any(DIGITS, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    return opened.project.graph, Context(opened.store)


def options(sparsity: float = 0.5, **values: Any) -> PruneActivationsOptions:
    return PruneActivationsOptions(sparsity=sparsity, **values)


# -- the rule


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 30), st.floats(0, 1), st.integers(0, 99))
def test_top_k_drops_exactly_the_share_of_each_sample(samples: int, size: int, ratio: float, seed: int) -> None:
    x = torch.randn(samples, size, 2, generator=torch.Generator().manual_seed(seed)).mul(2).round()  # with ties
    gone = rule(ratio).dropped(x)
    for values, lost in zip(x.reshape(samples, -1), gone.reshape(samples, -1), strict=True):
        order = sorted(range(len(values)), key=lambda i: abs(float(values[i])))[: round(ratio * len(values))]
        assert torch.nonzero(lost).reshape(-1).tolist() == sorted(order)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_that_stay_are_untouched(dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, 5).to(dtype)
    y = rule(0.4)(x)
    assert y.dtype == dtype and int((y == 0).sum()) == 3 * 8 and torch.equal(y[y != 0], x[y != 0])
    assert torch.equal(rule(0.0)(x), x) and not rule(1.0)(x).any()
    assert rule(0.5)(torch.zeros(0, 4)).shape == (0, 4) and rule(1.0)(torch.tensor(2.0)) == 0


def test_a_threshold_takes_what_lies_up_to_it() -> None:
    x = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 1.5])
    assert rule(0.5, "threshold", threshold=1.0)(x).tolist() == [-2, 0, 0, 0, 0, 1.5]


def test_what_is_no_number_stays_seen() -> None:
    x = torch.tensor([[torch.nan, 1.0, torch.inf, 0.1]])
    for held in (rule(0.5), rule(0.5, "threshold", threshold=1.0)):
        assert held(x).isnan().tolist() == [[True, False, False, False]]


def test_the_gradient_passes_for_what_stays() -> None:
    x = torch.randn(2, 10, requires_grad=True)
    y = rule(0.5)(x)
    y.sum().backward()
    assert x.grad is not None and torch.equal(x.grad, (y != 0).float())


def test_random_places_are_those_of_the_seed() -> None:
    x = torch.ones(3, 40)
    gone = [rule(0.5, method="random", seed=s).dropped(x) for s in (0, 0, 1)]
    assert torch.equal(gone[0], gone[1]) and not torch.equal(gone[0], gone[2])
    assert (gone[0].sum(1) == 20).all() and torch.equal(gone[0][0], gone[0][1])


# -- the pass


def inputs_of(graph: Graph, context: Context, node: str, limit: int = 32) -> Tensor:
    """What flows into a node, before it is pruned."""
    seen: list[Tensor] = []
    split = load_split(EvaluateOptions(data=DIGITS, split="train", limit=limit), context)
    observe(graph, split, 16, {node: ("data_in",)}, lambda n, p, x: seen.append(x.clone()), context)
    return torch.cat(seen)


def test_a_pruned_model_computes_with_the_zeros() -> None:
    held = case("mlp")
    graph, report = prune_activations(held.graph, options(0.5), Context(held.store))
    assert [r["node"] for r in report.rows] == ["first", "second"]
    model, x = held.original.eval(), held.example["x"]
    h = model.act(model.first(rule(0.5)(x)))
    assert torch.allclose(run(held.build(graph), held.example)[0], model.second(rule(0.5)(h)), atol=1e-6)


def test_it_comes_before_the_format() -> None:
    held = case("mlp")
    graph, _ = prune_activations(held.graph, options(0.5, select=Select("name", ("first",))), Context(held.store))
    for name in ("integer(width=4, frac_width=2)", "binary(bipolar=true)"):
        fmt = parse_format(name)
        both = graph.replace(replace(graph["first"], precision={"data_in": Precision(fmt)}))
        model, x = held.original.eval(), held.example["x"]
        kept = (~rule(0.5).dropped(x)).float()
        want = model.second(model.act(model.first(straight_through(fmt, x * kept) * kept)))
        assert torch.allclose(run(held.build(both), held.example)[0], want, atol=1e-6)


def test_weights_masks_and_formats_stay() -> None:
    graph, context = digits()
    pruned, _ = prune(graph, PruneOptions(0.3), context)
    both, _ = prune_activations(pruned, options(0.5), context)
    for node in (n for n in both if n.sparsity):
        assert node.sparsity["weight"] == pruned[node.id].sparsity["weight"] and node.sparsity["data_in"].flows
    again, _ = prune(both, PruneOptions(0.0), context)
    assert all(set(n.sparsity) == {"data_in"} for n in again if n.sparsity)
    assert prune_activations(again, options(0.0), context)[0] == graph


def test_a_threshold_takes_the_share_of_what_flows_once_all_are_pruned() -> None:
    graph, context = digits()
    after, report = prune_activations(graph, options(0.7, pattern="threshold", data=DIGITS, limit=32), context)
    for row in report.rows:
        x = inputs_of(after, context, row["node"])  # before its own pruning, after that of the layers before it
        zeros = float((x == 0).float().mean())
        assert float((x.abs() <= row["threshold"]).float().mean()) == pytest.approx(row["sparsity"], abs=1e-9)
        assert row["sparsity"] == pytest.approx(max(0.7, zeros), abs=0.02)
        held = after[row["node"]].sparsity["data_in"]
        assert (held.threshold, held.ratio) == (row["threshold"], row["sparsity"])
    first = report.rows[0]
    x = inputs_of(graph, context, first["node"])  # nothing is pruned before the first layer
    assert float((x.abs() <= first["threshold"]).float().mean()) == pytest.approx(first["sparsity"], abs=1e-9)


def test_one_threshold_over_all() -> None:
    graph, context = digits()
    wanted = options(0.6, pattern="threshold", scope="global", data=DIGITS, limit=32)
    after, report = prune_activations(graph, wanted, context)
    assert len({r["threshold"] for r in report.rows}) == 1 < len({r["sparsity"] for r in report.rows})
    every = torch.cat([inputs_of(after, context, r["node"]).reshape(-1) for r in report.rows])
    assert float((every.abs() <= report.rows[0]["threshold"]).float().mean()) == pytest.approx(0.6, abs=0.03)


def test_it_travels_as_json_and_costs_nothing() -> None:
    graph, context = digits()
    after, _ = prune_activations(graph, options(0.5, pattern="threshold", data=DIGITS, limit=8), context)
    assert graph_from_json(graph_to_json(after)) == after
    before, now = static_score(graph), static_score(after)
    assert now.bitops == before.bitops and now.sparsity == before.sparsity
    top, _ = prune_activations(graph, options(0.25), context)
    assert static_score(top).activation_sparsity == pytest.approx(0.25) and before.activation_sparsity == 0


def test_a_recorded_model_is_pruned_too() -> None:
    held = case("choosy")
    assert held.graph.runs == "module"
    graph, _ = prune_activations(held.graph, options(1.0), Context(held.store))
    assert any("data_in" in n.sparsity for n in graph)
    got, plain = run(held.build(graph), held.example), held.expected(held.example)
    assert not torch.allclose(got[0], plain[0])
    quantised = graph.replace(*(replace(n, precision={"data_in": Precision(Integer(8, 4))})
                                for n in graph if n.sparsity))  # fmt: skip
    assert all(torch.equal(a, b) for a, b in zip(run(held.build(quantised), held.example), got, strict=True))


def test_matmuls_inside_attentions_take_it() -> None:
    held = case("attention")
    name = next(n.id for n in held.graph if n.op in ("matmul", "softmax", "bmm", "linear"))
    graph, report = prune_activations(held.graph, options(0.5, select=Select("name", (name,))), Context(held.store))
    assert report.summary["tensors"] >= 1
    assert not torch.allclose(run(held.build(graph), held.example)[0], held.expected(held.example)[0])


# -- magnitudes


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=300), st.floats(0.01, 1))
def test_thresholds_are_as_near_as_the_bins(values: list[float], share: float) -> None:
    x = (np.asarray(values, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)  # a bin each
    x = np.where(np.abs(x) < 1e-30, np.float32(0), x)
    seen = Magnitudes()
    for part in np.array_split(x, 3):
        seen.add(part)
    limit = seen.threshold(share)
    assert seen.total == x.size and seen.share(limit) == pytest.approx(float((np.abs(x) <= limit).mean()))
    possible = [float((np.abs(x) <= v).mean()) for v in {0.0, *np.abs(x).tolist()}]
    assert abs(seen.share(limit) - share) == pytest.approx(min(abs(p - share) for p in possible), abs=1e-9)


# -- mistakes


@pytest.mark.parametrize(
    "values, words",
    [
        ({"sparsity": 1.5}, "sparsity is 1.5"),
        ({"sparsity": float("nan")}, "sparsity is nan"),
        ({"method": "random", "pattern": "threshold"}, "not defined for method = random"),
        ({"scope": "global"}, "local"),
        ({"ports": ("bias",)}, "bias"),
    ],
)
def test_impossible_options(values: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionsError, match=words) as caught:
        PruneActivationsOptions(**values)
    assert caught.value.hint


def test_mistakes_are_told() -> None:
    graph, context = digits()
    with pytest.raises(PassError, match="measured on data, and none is named"):
        prune_activations(graph, options(pattern="threshold"), context)
    with pytest.raises(PassError, match="None of the 1 selected nodes"):
        first = graph.placeholders[0].id
        prune_activations(graph, options(select=Select("name", (first,))), context)


def test_training_goes_through_it() -> None:
    graph, context = digits()
    after, _ = prune_activations(graph, options(0.5), context)
    module = build(after, context.store)
    split = load_split(EvaluateOptions(data=DIGITS, split="train", limit=8), context)
    inputs, labels = next(iter(batches(split, after, 8)))
    result = module(**inputs)
    logits = (
        next(iter(result.values())) if isinstance(result, dict) else result[0] if isinstance(result, tuple) else result
    )
    torch.nn.functional.cross_entropy(logits, labels).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("held", [rule(0.4, "threshold", threshold=0.5), rule(0.4), rule(0.4, method="random", seed=2)])
def test_a_captured_program_prunes_any_size(held: ActivationMask) -> None:
    module = torch.nn.Sequential(Effective(None, rule=held), torch.nn.Linear(8, 3)).eval()
    free = {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq")}
    program = torch.export.export(module, (torch.randn(2, 5, 8),), dynamic_shapes=(free,)).module()
    for shape in ((3, 7, 8), (2, 6, 8)):
        x = torch.randn(shape).mul(2).round()  # with ties
        assert torch.equal(program(x), module(x))
