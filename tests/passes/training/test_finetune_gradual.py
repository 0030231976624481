"""Pruning that grows while training goes on: the cubic schedule, exact counts, masks of live weights, patterns kept."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from espalier.model.data.loading import load_data
from espalier.model.document.recipe import Step
from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Graph
from espalier.model.opening import Opened, open_source
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.layers import Compressed
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report, run_step
from espalier.passes.recipes.config import decode_options
from espalier.passes.training.gradual import GradualPruning, with_full_masks
from espalier.passes.training.prepare import prepare
from tests.folders import kept_folder

OPTIONS: dict[str, Any] = {"data": "demo:digits", "max_steps": 20, "batch_size": 16, "train_limit": 64, "keep": "last",
                           "validation_limit": 60, "learning_rate": 1e-3, "validate": False, "prune_to": 0.8,
                           "prune_every": 2}  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPALIER_STATE", str(tmp_path / "state"))


@cache
def digits() -> Opened:
    return open_source("demo:digits-mlp", kept_folder())


@pytest.fixture
def base() -> Graph:
    return digits().project.base


def run(graph: Graph, name: str, options: dict[str, Any], **hooks: Any) -> tuple[Graph, Report]:
    done = run_step(graph, Step(name, decode_options(name, options)), Context(digits().store, **hooks))
    return done.graph, done.report


def finetuned(graph: Graph, hooks: dict[str, Any] | None = None, **options: Any) -> tuple[Graph, Report]:
    return run(graph, "finetune", OPTIONS | options, **(hooks or {}))


def linears(graph: Graph) -> list[str]:
    return [n.id for n in graph if n.op == "linear"]


def mask(graph: Graph, node: str) -> torch.Tensor:
    held = graph[node].sparsity["weight"]
    shape = graph.weights[graph[node].weights["weight"]].shape
    bits = digits().store.get(held.mask or "").array
    return torch.from_numpy(np.unpackbits(bits, count=int(np.prod(shape))).astype(bool)).reshape(shape)


def elements(graph: Graph, node: str) -> int:
    return graph.weights[graph[node].weights["weight"]].elements


def value(graph: Graph, node: str) -> torch.Tensor:
    return to_torch(digits().store.get(graph.weights[graph[node].weights["weight"]].key or ""))


def ready(graph: Graph, **options: Any) -> GradualPruning:
    made = prepare(graph, decode_options("finetune", OPTIONS | options), Context(digits().store)).gradual
    assert made is not None
    return made


# -- when


def test_the_share_follows_the_cube(base: Graph) -> None:
    """s_f + (s_i − s_f)·(1 − (t − t0)/(t1 − t0))³, by hand."""
    graph, _ = run(base, "prune", {"sparsity": 0.2})
    made = ready(graph, prune_to=0.9, prune_start=0.25, prune_end=0.75)
    made.plan(40)
    name = next(iter(made.kinds))
    begun = made.begun[name]
    assert (made.first, made.last) == (10, 30) and begun == pytest.approx(0.2, abs=1e-3)
    assert made.share(name, 5) == begun and made.share(name, 10) == begun
    assert made.share(name, 20) == pytest.approx(0.9 - 0.7 / 8, abs=1e-3)
    assert made.share(name, 25) == pytest.approx(0.9 - 0.7 / 64, abs=1e-3)
    assert made.share(name, 30) == made.share(name, 40) == 0.9


@pytest.mark.slow
def test_the_share_grows_on_the_way_and_the_best_comes_after(base: Graph) -> None:
    heard: list[tuple[int, float]] = []
    told = {"metric": lambda name, step, value: heard.append((step, value)) if name == "sparsity" else None}
    _, report = finetuned(base, told, validate=True, evaluate_every=2, keep="accuracy", prune_end=0.5)
    assert [s for s, _ in heard] == [2, 4, 6, 8, 10]
    shares = [v for _, v in heard]
    assert shares == sorted(shares) and shares[0] > 0.3 and shares[-1] == pytest.approx(0.8, abs=1e-3)
    assert report.summary["kept_step"] >= 10 and report.summary["sparsity"] == shares[-1]
    rows = {r["step"]: r["sparsity"] for r in report.rows}
    assert rows[0] == 0 and rows[2] == shares[0] and rows[20] == shares[-1]


# -- what


@pytest.mark.slow
@pytest.mark.parametrize("method", ["l1", "movement", "snip"])
@pytest.mark.parametrize("scope", ["local", "global"])
def test_the_count_is_exact_and_the_zeros_are_zeros(base: Graph, method: str, scope: str) -> None:
    after, report = finetuned(base, prune_method=method, prune_scope=scope)
    ids = linears(base)
    zeros = {n: after[n].sparsity["weight"].zeros for n in ids}
    assert all(int((~mask(after, n)).sum()) == zeros[n] for n in ids)
    if scope == "local":
        assert zeros == {n: round(0.8 * elements(base, n)) for n in ids}
    else:
        assert sum(zeros.values()) == round(0.8 * sum(elements(base, n) for n in ids)) and len(set(zeros.values())) > 1
    held = after[ids[0]].sparsity["weight"]
    assert (held.method, held.ratio, held.scope, held.pattern) == (method, 0.8, scope, "element")
    assert report.summary["sparsity"] == pytest.approx(0.8, abs=1e-3)
    module = build(after, digits().store)
    for node in ids:
        assert not module.get_submodule(after[node].target).tensor("weight")[~mask(after, node)].any()


@pytest.mark.slow
def test_l1_masks_are_of_the_live_weights(base: Graph) -> None:
    """With the last masks made at the last step, they are those of the trained weights."""
    after, _ = finetuned(base, prune_end=1.0, learning_rate=1e-2)
    for node in linears(base):
        size = value(after, node).abs()
        assert size[~mask(after, node)].max() <= size[mask(after, node)].min()
        assert not torch.equal(value(after, node), value(base, node))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["movement", "snip"])
def test_scores_are_those_of_the_papers(base: Graph, method: str) -> None:
    """Two full-batch steps by hand: −Σ w·g, or a fading Σ |w·g|, with g at the weight as the layer uses it."""
    rate = 0.1
    after, _ = finetuned(base, prune_method=method, max_steps=2, prune_every=1, prune_end=1.0, batch_size=64,
                         optimiser="sgd", momentum=0.0, clip=0.0, schedule="constant", learning_rate=rate)  # fmt: skip
    split = load_data("demo:digits").split("train").take(64)
    x, labels = torch.from_numpy(split.inputs["x"]), torch.from_numpy(split.labels)
    module = build(with_full_masks(base, decode_options("finetune", OPTIONS), digits().store)[0], digits().store)
    leaves = {n: module.get_submodule(base[n].target) for n in linears(base)}
    scores = {n: torch.zeros_like(leaf.weight) for n, leaf in leaves.items()}
    for step in (1, 2):
        used: dict[str, torch.Tensor] = {}
        for node, leaf in leaves.items():
            assert isinstance(leaf, Compressed)
            leaf.effective["weight"].register_forward_hook(
                lambda _, __, y, node=node, used=used: (y.retain_grad(), used.update({node: y}), None)[-1]
            )
        found = module(x)
        found = found if isinstance(found, torch.Tensor) else next(iter(found.values()))
        torch.nn.functional.cross_entropy(found, labels).backward()
        for node, leaf in leaves.items():
            product = leaf.weight.detach() * used[node].grad
            scores[node] = scores[node] - product if method == "movement" else 0.99 * scores[node] + product.abs()
        with torch.no_grad():
            for tensor in parameters_of(module).values():
                tensor.sub_(rate * tensor.grad)
                tensor.grad = None
        for node, leaf in leaves.items():
            keep = torch.ones(scores[node].numel(), dtype=torch.bool)
            share = 0.8 * (1 - (1 - step / 2) ** 3)
            keep[scores[node].flatten().argsort(stable=True)[: round(share * keep.numel())]] = False
            leaf.effective["weight"].remask(keep.reshape(leaf.weight.shape))
    for node, leaf in leaves.items():
        same = (mask(after, node) == leaf.effective["weight"].mask).float().mean()
        assert same > 0.995, (node, same)


@pytest.mark.parametrize("pattern", [{"pattern": "n:m", "n": 2, "m": 4}, {"pattern": "block", "rows": 2, "columns": 2}])
def test_patterns_stay(base: Graph, pattern: dict[str, Any]) -> None:
    start, _ = run(base, "prune", {"sparsity": 0.1, **pattern})
    after, _ = finetuned(start, prune_end=1.0, learning_rate=1e-2)
    for node in linears(base):
        held, before = after[node].sparsity["weight"], start[node].sparsity["weight"]
        assert (held.pattern, held.size) == (before.pattern, before.size)
        keep = mask(after, node)
        if pattern["pattern"] == "n:m":
            groups = keep[:, : keep.shape[1] // 4 * 4].reshape(keep.shape[0], -1, 4)
            assert (groups.sum(-1) == 2).all() and held.ratio == 0.5
            sizes = value(after, node)[:, : keep.shape[1] // 4 * 4].reshape(groups.shape).abs()
            assert (sizes * groups).amax(-1).sum() >= (sizes * ~groups).amax(-1).sum()
        else:
            blocks = keep[: keep.shape[0] // 2 * 2, : keep.shape[1] // 2 * 2]
            blocks = blocks.reshape(blocks.shape[0] // 2, 2, blocks.shape[1] // 2, 2)
            assert (blocks.amax((1, 3)) == blocks.amin((1, 3))).all() and held.zeros > 0.7 * keep.numel()


@pytest.mark.slow
def test_it_works_through_formats_and_only_where_it_is_wanted(base: Graph) -> None:
    rule = {"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "scaled_integer(width=4)"}}
    graph, _ = run(base, "quantize", {"rules": [rule]})
    first, *others = linears(base)
    chosen = {"by": "name", "values": [first]}
    after, report = finetuned(graph, prune_select=chosen, prune_method="movement")
    assert after[first].sparsity["weight"].zeros == round(0.8 * elements(base, first))
    assert not any(after[n].sparsity for n in others) and after[first].precision == graph[first].precision
    leaf: Any = build(after, digits().store).get_submodule(after[first].target)
    assert not leaf.tensor("weight")[~mask(after, first)].any()
    assert report.summary["sparsity"] == pytest.approx(0.8, abs=1e-3)


@pytest.mark.slow
def test_what_was_stopped_early_tells_how_far_it_came(base: Graph) -> None:
    seen: list[int] = []
    hooks = {"metric": lambda name, step, value: seen.append(step), "enough": lambda: bool(seen) and max(seen) >= 5}
    after, report = finetuned(base, hooks, keep="accuracy")
    held = after[linears(base)[0]].sparsity["weight"]
    assert report.summary["ended"] == "stopped by hand" and report.summary["steps"] < 10
    assert 0.1 < held.ratio < 0.75 and held.zeros == pytest.approx(held.ratio * elements(base, linears(base)[0]), abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["l1", "snip"])
def test_it_goes_on_after_a_break(base: Graph, method: str) -> None:
    class Killed(Exception):
        pass

    def die(name: str, step: int, value: float) -> None:
        if step == 9:
            raise Killed

    options = {"prune_method": method, "checkpoint_every": 3}
    want, report = finetuned(base, **options)
    with pytest.raises(Killed):
        finetuned(base, {"metric": die}, **options)
    got, again = finetuned(base, **options)
    assert again.summary["resumed_from"] == 6 and got == want and again.rows == report.rows


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"prune_to": 1.5}, OptionsError, "prune_to"),
        ({"prune_start": 0.8}, OptionsError, "prune_start"),
        ({"prune_select": {"by": "name", "values": ["nowhere"]}}, PassError, "matches no node"),
        (
            {"prune_method": "snip", "freeze": [{"by": "name", "values": ["fc1"]}]},
            PassError,
            "scores by gradients|matches no node",
        ),
    ],
)
def test_mistakes_are_told(base: Graph, options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        finetuned(base, **options)


@pytest.mark.parametrize("scope", ["local", "global"])
def test_what_is_pruned_already_does_not_come_back_unasked(base: Graph, scope: str) -> None:
    graph, _ = run(base, "prune", {"sparsity": 0.5})
    with pytest.raises(PassError, match=r"is already pruned to 0\.5, and prune_to is 0\.3") as found:
        ready(graph, prune_to=0.3, prune_scope=scope)
    assert "prune_to above 0.5" in found.value.hint
    assert ready(graph, prune_to=0.5, prune_scope=scope).sparsity == pytest.approx(0.5, abs=1e-3)
    fixed, _ = run(base, "prune", {"pattern": "n:m", "n": 1, "m": 4})
    assert ready(fixed, prune_to=0.3, prune_scope=scope).sparsity == pytest.approx(0.75, abs=1e-2)


def test_a_frozen_weight_has_no_gradient_to_score_by(base: Graph) -> None:
    frozen = {"freeze": [{"by": "name", "values": [linears(base)[0]]}]}
    with pytest.raises(PassError, match="is frozen") as found:
        finetuned(base, prune_method="movement", **frozen)
    assert "l1" in found.value.hint
    after, _ = finetuned(base, **frozen)
    assert torch.equal(value(after, linears(base)[0]), value(base, linears(base)[0]))
    assert after[linears(base)[0]].sparsity["weight"].zeros == round(0.8 * elements(base, linears(base)[0]))
