"""Scores on data are those of a plain reference: forward hooks and autograd on the original module."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from espalier.model.data.base import Split
from espalier.model.errors import EspalierError, OptionsError, PassError
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Precision
from espalier.model.graph.ports import weight_at
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.torch.layers import unpack_mask
from espalier.model.torch.tensors import to_torch
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from espalier.passes.base import Context
from espalier.passes.choices.prune import Budget, PruneOptions
from espalier.passes.choices.pruning import METHODS, Choice
from espalier.passes.pruning.live_masks import live_found, live_masks, with_masks
from espalier.passes.pruning.scores import Scores
from espalier.passes.select import Select
from espalier.passes.transform.prune import prune
from espalier.passes.unpruned import prunable


class Layers(nn.Module):
    """A layer of each kind, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv1d(2, 4, 3, padding=1)
        self.grouped = nn.Conv2d(4, 6, 3, padding=1, groups=2, stride=2)
        self.deep = nn.Conv3d(1, 2, (1, 3, 3), padding=(0, 1, 1), padding_mode="circular")
        self.back = nn.ConvTranspose2d(6, 4, 2, stride=2, groups=2)
        self.flat = nn.ConvTranspose1d(4, 3, 3)
        self.gpt = Conv1D(5, 12)
        self.twice = nn.Linear(5, 5)
        self.last = nn.Linear(5, 3)
        self.own = nn.Parameter(torch.randn(5, 5))
        self.kernel = nn.Parameter(torch.randn(4, 2, 1, 1))

    def forward(self, x: Tensor) -> Tensor:  # x: [batch, 2, 8]
        y = self.one(x)
        z = self.grouped(y.unsqueeze(-1).expand(-1, -1, -1, 8))
        z = z + self.deep(z.unsqueeze(1)).mean(1)
        z = F.conv2d(self.back(z), self.kernel, groups=2).relu()
        flat = self.flat(z.mean(-1))
        h = self.gpt(flat.flatten(1)[:, :12])
        h = self.twice(self.twice(h).tanh())
        return self.last(F.linear(h, self.own).relu())


def layers_at(nodes: Sequence[Node], graph: Graph) -> dict[str, list[Node]]:
    """Weight name → its nodes among `nodes`, in order."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        found.setdefault(weight_at(node, "weight", graph) or "", []).append(node)
    return found


@cache
def held() -> tuple[nn.Module, Graph, Context, Split]:
    torch.manual_seed(0)
    model, store = Layers().eval(), WeightStore(Path(tempfile.mkdtemp()))
    random = np.random.default_rng(0)
    split = Split({"x": random.standard_normal((10, 2, 8)).astype(np.float32)}, random.integers(0, 3, 10))
    graph = trace(copy.deepcopy(model), {"x": torch.randn(2, 2, 8)}, store).graph
    return model, graph, Context(store), split


def found(method: str) -> dict[str, Tensor]:
    """Weight name → score of each element."""
    _, graph, context, split = held()
    layers = layers_at([n for n in graph if prunable(n, graph)], graph)
    scores = Scores(graph, layers, method, split, 4, context)
    return {name: torch.from_numpy(scores.of(name).copy()).reshape(graph.weights[name].shape) for name in layers}


def loss_gradients(rows: slice) -> dict[str, Tensor]:
    model, _, _, split = held()
    model.zero_grad()
    x, labels = torch.from_numpy(split.inputs["x"][rows]), torch.from_numpy(split.labels[rows])
    F.cross_entropy(model(x), labels, reduction="sum").backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


@pytest.mark.slow
def test_all_kinds_of_layers_are_there() -> None:
    assert set(found("l1")) == {"one.weight", "grouped.weight", "deep.weight", "back.weight", "flat.weight",
                                "gpt.weight", "twice.weight", "last.weight", "own", "kernel"}  # fmt: skip


def test_magnitudes_are_the_weights() -> None:
    for method in ("l1", "l2"):
        assert all(torch.equal(v, held()[0].get_parameter(n).detach()) for n, v in found(method).items())


def test_snip_and_movement_are_of_the_gradient_of_all_samples() -> None:
    want = loss_gradients(slice(None))
    for method, sign in (("snip", 1), ("movement", -1)):
        for name, value in found(method).items():
            reference = sign * want[name] * held()[0].get_parameter(name).detach()
            assert torch.allclose(value, reference, rtol=1e-3, atol=1e-6), (method, name)


def test_hessian_is_the_mean_square_of_single_gradients() -> None:
    each = [loss_gradients(slice(i, i + 1)) for i in range(10)]
    for name, value in found("hessian").items():
        fisher = torch.stack([g[name].square() for g in each]).sum(0)
        weight = held()[0].get_parameter(name).detach()
        assert torch.allclose(value.square(), weight.square() * fisher, rtol=1e-3, atol=1e-9), name


UNFOLDED: dict[str, Callable[[Tensor], Tensor]] = {
    "last": lambda x: x, "twice": lambda x: x,
    "one": lambda x: F.unfold(x.unsqueeze(2), (1, 3), padding=(0, 1)).transpose(1, 2),
}  # fmt: skip


def test_wanda_is_the_norm_of_each_input() -> None:
    """‖x‖ from hooks: of Linears and a plain convolution by unfolding, of all others from their definition."""
    model, _, _, split = held()
    seen: dict[str, list[Tensor]] = {}
    hooks = [m.register_forward_pre_hook(lambda _, a, n=n: seen.setdefault(n, []).append(a[0].detach()))
             for n, m in model.named_children()]  # fmt: skip
    model(torch.from_numpy(split.inputs["x"]))
    for hook in hooks:
        hook.remove()
    scores = found("wanda")
    for name, unfold in UNFOLDED.items():
        x = torch.cat([unfold(v).reshape(-1, unfold(v).shape[-1]) for v in seen[name]])
        weight = model.get_parameter(f"{name}.weight").detach().flatten(1)
        want = weight.abs() * x.norm(dim=0)
        assert torch.allclose(scores[f"{name}.weight"].flatten(1).abs(), want, rtol=1e-4), name
    x = seen["gpt"][0].reshape(-1, 12)
    assert torch.allclose(scores["gpt.weight"].abs(), model.gpt.weight.detach().abs() * x.norm(dim=0)[:, None])


@pytest.mark.parametrize("name", ["grouped", "deep", "back", "flat", "one"])
def test_wanda_of_any_convolution_is_what_a_weight_adds_to_the_result(name: str) -> None:
    """Σ over all places of (w·x)² for one weight alone is w²·Σx²: measured by running the layer with that weight."""
    model, _, _, split = held()
    layer, seen = copy.deepcopy(model.get_submodule(name)), []
    hook = model.get_submodule(name).register_forward_pre_hook(lambda _, a: seen.append(a[0].detach()))
    model(torch.from_numpy(split.inputs["x"]))
    hook.remove()
    score, whole = found("wanda")[f"{name}.weight"], layer.weight.detach().clone()
    layer.bias = None
    for flat in range(0, whole.numel(), 5):
        alone = torch.zeros(whole.numel())
        alone[flat] = whole.reshape(-1)[flat]
        layer.weight.data = alone.reshape(whole.shape)
        with torch.no_grad():
            effect = layer(seen[0]).square().sum().sqrt()
        assert torch.isclose(score.reshape(-1)[flat].abs(), effect, rtol=1e-3, atol=1e-6)


def test_wanda_sees_no_format_and_no_mask_of_its_own_layers() -> None:
    _, graph, context, split = held()
    nodes = [n for n in graph if prunable(n, graph)]
    plain = found("wanda")["last.weight"]
    masked, _ = prune(graph, PruneOptions(0.9), context)
    masked = masked.replace(*(replace(masked[n.id], precision={"weight": Precision(Integer(2, 1))}) for n in nodes))
    layers = layers_at([masked[n.id] for n in nodes], masked)
    again = Scores(masked, layers, "wanda", split, 10, context).of("last.weight")
    assert np.allclose(again.reshape(3, 5), plain, rtol=1e-4)


# -- the pass

DIGITS = "demo:digits-mlp"


@cache
def digits() -> tuple[Graph, Context]:
    from espalier.model.opening import open_any

    opened = open_any(DIGITS, Path(tempfile.mkdtemp()), origin=Origin.TYPED)
    return opened.project.graph, Context(opened.store)


def mask_of(node: Node, graph: Graph, context: Context) -> Tensor:
    name = weight_at(node, "weight", graph) or ""
    key = node.sparsity["weight"].mask
    assert key is not None
    return unpack_mask(to_torch(context.store.get(key)), graph.weights[name].shape)


@pytest.mark.parametrize(
    "method, scope",
    [*((m, "local") for m in METHODS), *((m, s) for m in ("l1", "movement") for s in ("global", "row"))],
)
@pytest.mark.parametrize("pattern", ["element", "n:m", "block"])
def test_every_method_in_every_pattern(method: str, scope: str, pattern: str) -> None:
    graph, context = digits()
    options = PruneOptions(0.5, method, scope, pattern=pattern, data=DIGITS, limit=16)  # type: ignore[arg-type]
    after, report = prune(graph, options, context)
    assert abs(report.summary["sparsity"] - 0.5) < 0.02
    for node in (n for n in after if n.sparsity):
        kept, chosen = mask_of(node, after, context), node.sparsity["weight"]
        assert int((~kept).sum()) == chosen.zeros and chosen.method == method and chosen.pattern == pattern
        if pattern == "n:m":
            assert bool((kept[:, : kept.shape[1] // 4 * 4].reshape(-1, 4).sum(1) == 2).all()) and chosen.label == "2:4"
    build(after, context.store)(torch.zeros(1, 1, 8, 8))


def test_l2_differs_from_l1_in_blocks_alone() -> None:
    graph, context = digits()
    for pattern, same in (("element", True), ("n:m", True), ("block", False)):
        masks = [{n.id: s.mask for n in prune(graph, PruneOptions(0.5, m, pattern=pattern), context)[0]
                  for s in n.sparsity.values()} for m in ("l1", "l2")]  # type: ignore[arg-type]  # fmt: skip
        assert (masks[0] == masks[1]) == same


def test_zero_takes_every_pattern_away() -> None:
    graph, context = digits()
    for pattern in ("element", "n:m", "block"):
        once, _ = prune(graph, PruneOptions(0.5, pattern=pattern), context)  # type: ignore[arg-type]
        assert any(n.sparsity for n in once)
        assert prune(once, PruneOptions(0.0, "snip", pattern=pattern), context)[0] == graph  # type: ignore[arg-type]


def test_data_is_needed_and_must_be_there() -> None:
    graph, context = digits()
    with pytest.raises(PassError, match="wanda scores weights on data, and none is named") as caught:
        prune(graph, PruneOptions(0.5, "wanda"), context)
    assert "demo:reviews" in caught.value.hint
    with pytest.raises(EspalierError):
        prune(graph, PruneOptions(0.5, "snip", data="demo:reviews"), context)


def test_overflows_are_told() -> None:
    _, graph, context, split = held()
    huge = Split({"x": split.inputs["x"] * np.float32(1e25)}, split.labels)
    scores = Scores(graph, layers_at([n for n in graph if prunable(n, graph)], graph), "wanda", huge, 4, context)
    with pytest.raises(PassError, match="not finite") as caught:
        scores.of("one.weight")
    assert caught.value.hint


# -- budgets


def test_budgets_hold_for_their_nodes_the_last_one_wins() -> None:
    graph, context = digits()
    first, *others = [n for n in graph if prunable(n, graph)]
    budgets = (Budget(Select("all"), 0.9), Budget(Select("name", (first.id,)), 0.25))
    after, _ = prune(graph, PruneOptions(0.5, budgets=budgets), context)
    assert after[first.id].sparsity["weight"].zeros == round(0.25 * graph.weights[first.weights["weight"]].elements)
    assert after[first.id].sparsity["weight"].ratio == 0.25
    assert all(after[n.id].sparsity["weight"].ratio == 0.9 for n in others)
    none, _ = prune(graph, PruneOptions(0.5, budgets=(Budget(Select("name", (first.id,)), 0.0),)), context)
    assert not none[first.id].sparsity and all(none[n.id].sparsity for n in others)


def test_a_budget_leaves_the_global_ranking_to_the_others() -> None:
    graph, context = digits()
    first, *others = [n for n in graph if prunable(n, graph)]
    options = PruneOptions(0.5, scope="global", budgets=(Budget(Select("name", (first.id,)), 0.1),))
    after, _ = prune(graph, options, context)
    alone, _ = prune(
        graph, PruneOptions(0.5, scope="global", select=Select("name", tuple(n.id for n in others))), context
    )
    assert all(after[n.id].sparsity == alone[n.id].sparsity for n in others)
    assert after[first.id].sparsity["weight"].scope == "local"


def test_mistaken_budgets_are_told() -> None:
    graph, context = digits()
    with pytest.raises(PassError, match="matches none"):
        prune(graph, PruneOptions(0.5, budgets=(Budget(Select("type", ("relu",)), 0.1),)), context)
    for values in ({"n": 5, "m": 4, "pattern": "n:m"}, {"least": 0.6, "scope": "global"}):
        with pytest.raises(OptionsError):
            PruneOptions(0.5, **values)  # type: ignore[arg-type]


# -- live tensors


def test_masks_are_made_again_from_live_tensors() -> None:
    graph, context = digits()
    for options in (PruneOptions(0.4), PruneOptions(0.5, pattern="n:m"), PruneOptions(0.3, scope="global")):
        after, _ = prune(graph, options, context)
        nodes = [n for n in after if n.sparsity]
        tensors = {n.weights["weight"]: to_torch(context.store.get(graph.weights[n.weights["weight"]].key or ""))
                   for n in nodes}  # fmt: skip
        held = nodes[0].sparsity["weight"]
        choice = Choice(held.ratio, held.method, held.scope, held.pattern, held.size)  # type: ignore[arg-type]
        masks = live_masks(tensors, after, choice)
        assert all(torch.equal(masks[n.weights["weight"]], mask_of(n, after, context)) for n in nodes)
        moved = {k: torch.flip(v, (0, 1)) for k, v in tensors.items()}
        changed = with_masks(after, live_found(moved, after, choice), choice, context.store)
        assert all(n.sparsity["weight"].mask != changed[n.id].sparsity["weight"].mask for n in nodes)
        back = with_masks(changed, live_found(tensors, after, choice), choice, context.store)
        assert back == after


def test_live_scores_that_are_no_numbers_are_told() -> None:
    graph, _ = digits()
    name = next(n for n in graph if prunable(n, graph)).weights["weight"]
    with pytest.raises(PassError, match="not finite"):
        live_masks({name: torch.full(graph.weights[name].shape, torch.nan)}, graph, Choice(0.5))
