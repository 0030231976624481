"""Pruning removes exactly what it says: counts, the smallest first, ties by index, ties between layers, seeds."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Ref
from espalier.model.graph.meta import Precision, Weight
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import Tensor as Stored
from espalier.model.torch.layers import unpack_mask
from espalier.model.torch.tensors import to_torch
from espalier.passes.analysis.statistics import StatisticsOptions, statistics
from espalier.passes.base import Cancelled, Context, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.export.effective_weights import effective_weights
from espalier.passes.score import static_score
from espalier.passes.select import Select
from espalier.passes.transform.prune import prune
from espalier.passes.unpruned import prunable
from tests.model.zoo import case, run

Values = list[float] | np.ndarray  # type: ignore[type-arg]


def with_values(values: dict[str, Values], name: str = "mlp") -> tuple[Graph, Context]:
    """The model with some weights replaced."""
    held = case(name)
    graph = held.graph
    for weight, numbers in values.items():
        old = graph.weights[weight]
        array = np.asarray(numbers, np.float32).reshape(old.shape)
        key = held.store.hold(Stored(array, "float32"))
        graph = graph.with_weights({weight: replace(old, key=key)})
    return graph, Context(held.store)


def keep(graph: Graph, node: str, context: Context) -> Tensor:
    held = graph[node].sparsity["weight"]
    assert held.mask is not None
    return unpack_mask(to_torch(context.store.get(held.mask)), graph.weights[graph[node].weights["weight"]].shape)


def apply(options: PruneOptions, graph: Graph | None = None, seed: int = 0, name: str = "mlp") -> tuple[Graph, Report]:
    return prune(graph or case(name).graph, options, Context(case(name).store, seed))


FIRST = Select("name", ("first",))


# -- exact counts


@pytest.mark.parametrize("method", ["l1", "random"])
@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.3, 0.5, 0.77, 1.0])
def test_exactly_the_asked_share_goes(ratio: float, scope: str, method: str) -> None:
    graph, report = apply(PruneOptions(ratio, method, scope))  # type: ignore[arg-type]
    sizes = {"first": 24, "second": 18}
    zeros = {n: (graph[n].sparsity["weight"].zeros if graph[n].sparsity else 0) for n in sizes}
    if scope == "local":
        assert zeros == {n: round(ratio * s) for n, s in sizes.items()}
    else:
        assert sum(zeros.values()) == round(ratio * 42)
    for node, count in zeros.items():
        if count:
            assert int((~keep(graph, node, Context(case("mlp").store))).sum()) == count
            assert graph[node].sparsity["weight"].ratio == ratio and graph[node].sparsity["weight"].method == method
        else:
            assert not graph[node].sparsity
    rows = tuple({"node": n, "elements": s, "zeros": zeros[n], "sparsity": zeros[n] / s, "dropped": zeros[n],
                  "restored": 0} for n, s in sizes.items())  # fmt: skip
    assert report.rows == rows
    total = sum(zeros.values())
    assert report.summary == {"zeros": total, "elements": 42, "sparsity": total / 42, "dropped": total, "restored": 0}


def test_the_weights_themselves_stay() -> None:
    graph, _ = apply(PruneOptions(0.5))
    assert graph.weights == case("mlp").graph.weights
    assert set(graph.delta(case("mlp").graph).changed) == {"first", "second"}


def test_a_pruned_model_has_its_zeros() -> None:
    held = case("mlp")
    graph, _ = apply(PruneOptions(1.0))
    (result,) = run(held.build(graph), held.example)
    assert torch.equal(result, held.original.second.bias.expand(3, 3))


# -- which ones


def test_the_smallest_go_first() -> None:
    values = np.array([5, -1, 3, 0, -4, 2] * 4) + np.repeat([0, 10, 20, 30], 6)
    graph, context = with_values({"first.weight": values})
    after, _ = prune(graph, PruneOptions(6 / 24, select=FIRST), context)
    gone = ~keep(after, "first", context).reshape(-1)
    assert sorted(np.flatnonzero(gone)) == sorted(np.argsort(np.abs(values), kind="stable")[:6])


def test_ties_go_by_index() -> None:
    values = [1.0, -1.0, 1.0, 2.0, -1.0, 1.0, 2.0, 2.0] * 3
    graph, context = with_values({"first.weight": values})
    for count in range(1, 24):
        after, _ = prune(graph, PruneOptions(count / 24, select=FIRST), context)
        want = np.argsort(np.abs(values), kind="stable")[:count]
        assert sorted(np.flatnonzero(~keep(after, "first", context).reshape(-1))) == sorted(want)


@pytest.mark.parametrize("scope", ["local", "global"])
def test_all_equal_weights_still_give_exact_counts(scope: str) -> None:
    graph, context = with_values({"first.weight": np.zeros(24), "second.weight": np.zeros(18)})
    after, report = prune(graph, PruneOptions(0.5, "l1", scope), context)  # type: ignore[arg-type]
    assert report.summary["zeros"] == 21
    first = keep(after, "first", context).reshape(-1)
    dropped = 12 if scope == "local" else 21
    assert not first[:dropped].any() and first[dropped:].all()


def test_global_ranks_all_weights_together() -> None:
    graph, context = with_values({"first.weight": np.full(24, 0.1), "second.weight": np.full(18, 9.0)})
    after, _ = prune(graph, PruneOptions(0.5, "l1", "global"), context)
    assert after["first"].sparsity["weight"].zeros == 21 and not after["second"].sparsity
    more, _ = prune(graph, PruneOptions(0.8, "l1", "global"), context)
    assert more["first"].sparsity["weight"].zeros == 24 and more["second"].sparsity["weight"].zeros == 34 - 24


def test_huge_and_tiny_weights_are_ranked() -> None:
    values = np.array([3e38, -3e38, 1e-45, -1e-40, 0.0, 1.0] * 4, np.float32)
    graph, context = with_values({"first.weight": values})
    after, _ = prune(graph, PruneOptions(0.5, select=FIRST), context)
    assert torch.equal(keep(after, "first", context).reshape(-1), torch.tensor(np.abs(values) >= 1))


def test_half_precision_weights_are_pruned() -> None:
    held = case("odd")
    graph, report = prune(held.graph, PruneOptions(0.25), Context(held.store))
    assert report.summary["zeros"] == 4
    gone = held.original.brief.weight.detach().float().abs()[~keep(graph, "brief", Context(held.store))]
    assert gone.max() <= held.original.brief.weight.abs().float().flatten().sort().values[4]


# -- random


def test_random_obeys_the_seed() -> None:
    def mask(seed: int) -> str | None:
        return apply(PruneOptions(0.5, "random"), seed=seed)[0]["first"].sparsity["weight"].mask

    masks = [mask(s) for s in (0, 1, 2)]
    assert len(set(masks)) == 3 and [mask(s) for s in (0, 1, 2)] == masks


def test_random_is_the_same_for_a_layer_whatever_else_is_pruned() -> None:
    both = apply(PruneOptions(0.5, "random"))[0]
    alone = apply(PruneOptions(0.5, "random", select=Select("name", ("second",))))[0]
    assert both["second"].sparsity == alone["second"].sparsity and not alone["first"].sparsity


def test_layers_of_one_size_get_masks_of_their_own() -> None:
    held = case("twice")
    graph, _ = prune(held.graph, PruneOptions(0.5, "random"), Context(held.store))
    masks = {n.target: n.sparsity["weight"].mask for n in graph if n.sparsity}
    assert len(masks) == len(set(masks.values())) == 2


def test_random_is_random() -> None:
    held = case("image")
    graph, _ = prune(held.graph, PruneOptions(0.5, "random"), Context(held.store))
    for node in ("stem", "deep"):
        mask = keep(graph, node, Context(held.store)).float()
        assert 0.45 < float(mask.mean()) < 0.55 and float(mask.flatten(1).mean(1).min()) > 0.2


def test_large_seeds_are_fine() -> None:
    apply(PruneOptions(0.5, "random"), seed=2**63 + 5)


# -- shared weights, again, beside formats


def test_tied_weights_get_one_mask() -> None:
    held = case("twice")
    graph, report = prune(held.graph, PruneOptions(0.5), Context(held.store))
    calls = [n for n in graph if n.target == "layer"]
    assert len(calls) == 2 and calls[0].sparsity == calls[1].sparsity != {}
    assert len(report.rows) == len([n for n in graph if n.sparsity]) == 3  # one row per call
    assert report.summary["zeros"] == report.summary["dropped"] == 8 * 2 and report.summary["sparsity"] == 0.5
    shared, _ = prune(held.graph, PruneOptions(0.5, "l1", "global"), Context(held.store))
    zeros = {n.target: n.sparsity["weight"].zeros for n in shared if n.sparsity}
    assert sum(zeros.values()) == 16  # of 32 elements: the shared weight is ranked once


def test_pruning_again_replaces_and_zero_removes() -> None:
    once, _ = apply(PruneOptions(0.5))
    more, _ = apply(PruneOptions(0.75), once)
    assert more == apply(PruneOptions(0.75))[0]
    bare, report = apply(PruneOptions(0.0, select=FIRST), more)
    assert not bare["first"].sparsity and bare["second"].sparsity and report.summary["zeros"] == 0
    assert apply(PruneOptions(0.0), more)[0] == case("mlp").graph


def test_a_step_tells_what_it_changed() -> None:
    once, _ = apply(PruneOptions(0.5))
    _, more = apply(PruneOptions(0.75), once)
    assert (more.summary["dropped"], more.summary["restored"]) == (32 - 21, 0)
    _, less = apply(PruneOptions(0.25), once)
    assert (less.summary["dropped"], less.summary["restored"]) == (0, 21 - 10)
    other, report = apply(PruneOptions(0.5, "random"), once)
    context = Context(case("mlp").store)
    for row in report.rows:
        old, new = keep(once, row["node"], context), keep(other, row["node"], context)
        assert (row["dropped"], row["restored"]) == (int((old & ~new).sum()), int((new & ~old).sum()))
    _, none = apply(PruneOptions(0.0), once)
    assert (none.summary["dropped"], none.summary["restored"]) == (0, 21)


def test_formats_stay() -> None:
    graph = case("mlp").graph
    chosen = {"weight": Precision(Integer(8, 4))}
    graph = graph.replace(replace(graph["first"], precision=chosen))
    assert apply(PruneOptions(0.5), graph)[0]["first"].precision == chosen


def test_linear_and_convolution_modules_are_pruned() -> None:
    assert {n.op for n in case("image").graph if prunable(n, case("image").graph)} == {
        "conv2d",
        "conv_transpose2d",
        "linear",
    }
    assert {n.op for n in case("bert").graph if prunable(n, case("bert").graph)} == {"linear"}
    held = case("image")
    graph, _ = prune(held.graph, PruneOptions(0.5), Context(held.store))
    (result,) = run(held.build(graph), held.example)
    assert result.isfinite().all() and not torch.equal(result, held.expected(held.example)[0])


# -- errors


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_weights_that_are_not_finite_are_told(value: float, scope: str) -> None:
    graph, context = with_values({"second.weight": [value, *range(17)]})
    with pytest.raises(PassError, match=r"second\.weight holds values that are not finite") as caught:
        prune(graph, PruneOptions(0.5, "l1", scope), context)  # type: ignore[arg-type]
    assert caught.value.hint
    prune(graph, PruneOptions(0.5, "random", scope), context)  # type: ignore[arg-type]
    prune(graph, PruneOptions(0.5, select=FIRST), context)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, float("nan"), float("inf")])
def test_impossible_ratios_are_refused(ratio: float) -> None:
    with pytest.raises(OptionsError, match="sparsity is"):
        PruneOptions(ratio)


def test_nothing_to_prune_is_an_error() -> None:
    with pytest.raises(PassError, match="None of the 1 selected nodes can be pruned") as caught:
        apply(PruneOptions(0.5, select=Select("type", ("relu",))))
    assert caught.value.hint == "Suitable types: linear."
    with pytest.raises(PassError, match="matches no node"):
        apply(PruneOptions(0.5, select=Select("name", ("frist",))))


def test_without_weights_there_is_nothing_to_prune() -> None:
    graph = case("mlp").graph
    hollow = graph.with_weights({k: replace(w, key=None) for k, w in graph.weights.items()})
    for scope in ("local", "global"):
        with pytest.raises(PassError, match="without weights"):
            apply(PruneOptions(0.5, "l1", scope), hollow)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_cancelled_pruning_stops(scope: str) -> None:
    def stop(done: int, total: int, text: str) -> None:
        raise Cancelled("stop")

    with pytest.raises(Cancelled):
        prune(case("mlp").graph, PruneOptions(0.5, "l1", scope), Context(case("mlp").store, progress=stop))  # type: ignore[arg-type]


def test_empty_weights_are_passed_over() -> None:
    held = case("mlp")
    key = held.store.hold(Stored(np.zeros((0, 4), np.float32), "float32"))
    graph = held.graph.with_weights({"first.weight": Weight(key, (0, 4), "float32")})
    for scope in ("local", "global"):
        after, report = apply(PruneOptions(0.5, "l1", scope), graph)  # type: ignore[arg-type]
        assert not after["first"].sparsity and report.summary["zeros"] == 9


# -- functions over stored weights


def test_functions_over_stored_weights_are_pruned() -> None:
    """nn.MultiheadAttention calls F.linear with weights of its own: no leaf module has them."""
    held = case("attention")
    able = [n for n in held.graph if prunable(n, held.graph)]
    assert able and {n.call for n in able} == {"call_function"}
    names = {weight_at(n, "weight", held.graph) for n in able}
    assert names == {"attention.in_proj_weight", "attention.out_proj.weight"}
    context = Context(held.store)
    after, report = prune(held.graph, PruneOptions(0.25), context)
    assert report.summary == {"zeros": 64, "elements": 256, "sparsity": 0.25, "dropped": 64, "restored": 0}
    assert static_score(after).sparsity == 0.25
    assert static_score(after).size_bytes < static_score(held.graph).size_bytes
    values = dict(effective_weights(after, held.store))
    assert sum(int((values[n or ""] == 0).sum()) for n in names) == 64
    zeroed = copy.deepcopy(held.original)
    zeroed.load_state_dict({k: values.get(k, v) for k, v in zeroed.state_dict().items()})
    (got,), (plain,) = run(held.build(after), held.example), held.expected(held.example)
    assert torch.allclose(got, run(zeroed, held.example)[0], atol=1e-6) and not torch.allclose(got, plain, atol=1e-2)
    rows = statistics(after, StatisticsOptions(), context)[1].rows
    assert sum(r["zeros"] for r in rows if r["weight"] in names) == 64


def test_computed_weights_are_not_pruned() -> None:
    held = case("attention")
    node = next(n for n in held.graph if prunable(n, held.graph))
    computed = held.graph.rewire(node.args[1], Ref(held.graph.placeholders[0].id))  # type: ignore[arg-type]
    assert not prunable(computed[node.id], computed)
