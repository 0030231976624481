"""Folding batch norms: the same outputs with fewer nodes; what cannot be folded stays and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from espalier.model.errors import PassError
from espalier.model.formats.base import parse_format
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.sources.source import load_source
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.passes.base import Context, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.select import Select
from espalier.passes.transform.fold_batch_norm import FoldBatchNormOptions, fold_batch_norm
from espalier.passes.transform.prune import prune
from tests.model.zoo import MODELS, case, fresh, run

INT8 = Precision(parse_format("integer(width=8, frac_width=4)"))


def shaken(model: nn.Module) -> nn.Module:
    """The model with batch norms that have seen data: fresh ones do nothing, and would hide mistakes."""
    torch.manual_seed(1)
    for norm in model.modules():
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):  # type: ignore[reportPrivateUsage]
            for name, low, high in (
                ("running_mean", -2, 2),
                ("running_var", 0.1, 3),
                ("weight", -2, 2),
                ("bias", -1, 1),
            ):
                if (value := getattr(norm, name)) is not None:
                    value.data.uniform_(low, high)
    return model.eval()


def opened(model: nn.Module, example: dict[str, Tensor], folder: Path) -> tuple[Graph, Context]:
    store = WeightStore(folder)
    return trace(shaken(model), example, store).graph, Context(store)


def folded(graph: Graph, context: Context, options: FoldBatchNormOptions | None = None) -> tuple[Graph, Report]:
    after, report = fold_batch_norm(graph, options or FoldBatchNormOptions(), context)
    assert not [p for p in check(after) if p.severity == "error"]
    return after, report


def distance(before: Graph, after: Graph, context: Context, inputs: dict[str, Tensor]) -> float:
    """The largest difference of any result, against the largest result."""
    pairs = zip(*(run(build(g, context.store), inputs) for g in (before, after)), strict=True)
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in pairs)


def norms(graph: Graph) -> list[str]:
    return [n.id for n in graph if n.op == "batch_norm"]


IMAGE, LINE, SOLID = torch.randn(2, 4, 6, 6), torch.randn(2, 4, 9), torch.randn(2, 4, 3, 4, 5)
LAYERS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "linear": (lambda: nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU()), torch.randn(3, 4)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.BatchNorm1d(6)), LINE),
    "conv3d": (lambda: nn.Sequential(nn.Conv3d(4, 6, 2, bias=False), nn.BatchNorm3d(6)), SOLID),
    "depthwise": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, groups=4, bias=False), nn.BatchNorm2d(8)), IMAGE),
    "not-affine": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, eps=0.1, affine=False)), IMAGE),
    "transposed": (lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6)), IMAGE),
    "two": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.Conv2d(6, 4, 1), nn.BatchNorm2d(4)), IMAGE),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_every_kind_compute_the_same(name: str, tmp_path: Path) -> None:
    make, x = LAYERS[name]
    graph, context = opened(make(), {"input": x}, tmp_path)
    after, report = folded(graph, context)
    count = len(norms(graph))
    assert report.summary["folded"] == count and not norms(after) and len(after) == len(graph) - count
    assert distance(graph, after, context, {"input": x}) < 1e-5
    assert not any("running" in name for name in after.weights)
    assert context.store.get(graph.weights["0.weight"].key or "").array is not None  # undo finds the old values


def test_a_resnet_computes_the_same_and_trains(tmp_path: Path) -> None:
    model, example = MODELS["resnet"]()
    graph, context = opened(model, example, tmp_path)
    after, report = folded(graph, context)
    count = len(norms(graph))
    assert count == 6 and not norms(after)
    assert report.summary == {"folded": count, "skipped": 0, "biases_added": count}
    assert distance(graph, after, context, fresh(example, 3, 7)) < 1e-4
    built = build(after, context.store).train()
    sum(t.square().mean() for t in built(**example).values()).backward()
    gradients = [p.grad for p in built.parameters()]
    assert gradients and all(g is not None and bool(g.isfinite().all()) for g in gradients)


def test_the_digits_keep_their_predictions(tmp_path: Path) -> None:
    loaded = load_source("demo:digits")
    store = WeightStore(tmp_path)
    graph, context = trace(loaded.model, loaded.example, store).graph, Context(store)
    after, report = folded(graph, context)
    assert report.summary == {"folded": 3, "skipped": 0, "biases_added": 0} and not norms(after)
    assert distance(graph, after, context, fresh(loaded.example, 32, 7)) < 1e-4


def test_masks_and_formats_stay(tmp_path: Path) -> None:
    graph, context = opened(LAYERS["two"][0](), {"input": IMAGE}, tmp_path)
    graph, _ = prune(graph, PruneOptions(sparsity=0.5), context)
    conv, norm = (next(n for n in graph if n.id.endswith(i)) for i in ("0", "1"))
    pruned = distance(graph, folded(graph, context)[0], context, {"input": IMAGE})
    assert pruned < 1e-5
    graph = graph.replace(
        replace(conv, precision={"data_in": INT8, "weight": INT8}),
        replace(norm, precision={"weight": INT8, "data_out": INT8}),
    )
    after, report = folded(graph, context)
    held = after[conv.id]
    assert held.precision == {"data_in": INT8, "weight": INT8, "data_out": INT8}
    assert held.sparsity == conv.sparsity and conv.sparsity
    assert {r["node"]: r["dropped"] for r in report.rows}[norm.id] == "weight"


class Stays(nn.Module):
    """Batch norms that stay: after a layer used twice, with its own statistics, over other axes, after no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.used, self.used_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.twice, self.twice_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4)
        self.batch, self.batch_norm = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, track_running_stats=False)
        self.rows, self.rows_norm = nn.Linear(6, 6), nn.BatchNorm1d(6)
        self.alone = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.used(self.alone(x))
        z = self.batch_norm(self.batch(self.used_norm(y) + y))
        z = self.twice_norm(self.twice(self.twice(z)))
        return self.rows_norm(self.rows(z.flatten(0, 1)))


def test_what_cannot_be_folded_says_why(tmp_path: Path) -> None:
    graph, context = opened(Stays(), {"x": IMAGE}, tmp_path)
    after, report = folded(graph, context)
    told = {r["node"]: r["skipped"] for r in report.rows}
    assert "also feeds add" in told["used_norm"] and "not a Linear or a convolution" in told["alone"]
    assert "shares its weights with twice" in told["twice_norm"] and "channels" in told["rows_norm"]
    assert "no running statistics" in told["batch_norm"] and report.summary["folded"] == 0
    assert set(after.nodes) == set(graph.nodes)


def test_formats_between_and_given_scales_are_left(tmp_path: Path) -> None:
    graph, context = opened(LAYERS["linear"][0](), {"input": torch.randn(3, 4)}, tmp_path)
    layer, norm = (next(n for n in graph if n.id.endswith(i)) for i in ("0", "1"))
    between = graph.replace(replace(layer, precision={"data_out": INT8}))
    assert "a format between" in folded(between, context)[1].rows[0]["skipped"]
    scaled = Precision(parse_format("scaled_integer(width=8)"), scale="0.bias")
    given = graph.replace(replace(layer, precision={"weight": scaled}))
    assert "before calibrating" in fold_batch_norm(given, FoldBatchNormOptions(), context)[1].rows[0]["skipped"]
    one = FoldBatchNormOptions(Select("name", (norm.id,)))
    assert norms(folded(graph, context, one)[0]) == []


def test_models_that_cannot_are_refused_in_words() -> None:
    held = case("image")
    recorded = replace(held.graph, runs="module")
    with pytest.raises(PassError, match="recorded model"):
        fold_batch_norm(recorded, FoldBatchNormOptions(), Context(held.store))
    with pytest.raises(PassError, match="can be folded"):
        fold_batch_norm(case("mlp").graph, FoldBatchNormOptions(), Context(case("mlp").store))
    light = {k: replace(w, key=None) for k, w in held.graph.weights.items()}
    with pytest.raises(PassError, match="without weights"):
        fold_batch_norm(replace(held.graph, weights=light), FoldBatchNormOptions(), Context(held.store))
