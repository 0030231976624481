"""Clipping by squared error: the grid's best for each tensor, row or group, weighted by what comes in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from espalier.model.errors import OptionsError, PassError
from espalier.model.formats.base import parse_format
from espalier.model.formats.mxint import MXInt
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.recovery.clipping import clipped_share, error_of, scaled_clipping, shift_clipping
from espalier.passes.transform.mse_clip import MseClipOptions, mse_clip
from espalier.passes.transform.prune import prune
from tests.model.zoo import case
from tests.passes.recovery.recovery_cases import demo, distance, with_format

SCALED = (
    "scaled_integer(width=3)", "scaled_integer(width=4, granularity=tensor)",
    "scaled_integer(width=3, granularity=group, group=20)",
    "scaled_integer(width=3, symmetric=false, granularity=group, group=16)", "binary_scaled", "ternary",
    "binary_residual", "binary_residual(granularity=tensor)",
)  # fmt: skip


def layer() -> tuple[torch.Tensor, torch.Tensor]:
    """A weight with a heavy tail, and the energy of its inputs."""
    made = torch.Generator().manual_seed(0)
    return torch.randn(12, 64, generator=made) ** 3, torch.rand(64, generator=made) * 3


def run(graph: Graph, name: str, **options: Any) -> tuple[Graph, Report]:
    return mse_clip(graph, MseClipOptions(**options), demo(name)[1])


@pytest.mark.parametrize("text", SCALED)
def test_no_scale_of_the_grid_is_better(text: str) -> None:
    fmt = parse_format(text)
    assert isinstance(fmt, ScaledFormat)
    for energy in (torch.ones(64), layer()[1]):
        x = layer()[0]
        found = scaled_clipping(fmt, x, energy, 21, 0.2)
        scale = fmt.scale_of(x) if found.scale is None else found.scale
        least = error_of(fmt.forward_with(x, scale), x, energy)
        highest = 1.0 if isinstance(fmt, ScaledInteger) else 1.8
        for factor in torch.linspace(highest, 0.2, 21).tolist():
            assert least <= error_of(fmt.forward_with(x, fmt.scale_of(x) * factor), x, energy) * (1 + 1e-6)
        assert least <= error_of(fmt.forward(x), x, energy)
    if isinstance(fmt, ScaledInteger):
        assert least < 0.95 * error_of(fmt.forward(x), x, energy) and found.factor < 1


def test_each_row_has_its_own() -> None:
    fmt, (x, energy) = ScaledInteger(3), layer()
    found = scaled_clipping(fmt, x, energy, 21, 0.2)
    assert found.scale is not None
    for i in range(len(x)):
        alone = scaled_clipping(fmt, x[i : i + 1], energy, 21, 0.2)
        assert torch.equal(found.scale[i : i + 1], fmt.scale_of(x[i : i + 1]) if alone.scale is None else alone.scale)
    share = clipped_share(fmt, found.scale, x)
    assert share == pytest.approx(float((x.abs() > 3 * found.scale * (1 + 1e-6)).float().mean())) and share > 0


@pytest.mark.parametrize("text", ["integer(width=4, frac_width=9)", "minifloat_ieee(width=4, exponent_width=2)"])
def test_a_fixed_range_is_moved_to_the_best_shift(text: str) -> None:
    fmt, (x, energy) = parse_format(text), layer()
    found = shift_clipping(fmt, x, energy).format
    assert fmt.shift is not None
    errors = {}
    for shift in range(-12, 13):
        tried = replace(fmt, **{fmt.shift: shift})
        errors[shift] = error_of(tried.forward(x), x, energy)
    assert error_of(found.forward(x), x, energy) == min(errors.values()) < error_of(fmt.forward(x), x, energy)


@pytest.mark.slow
def test_the_demo_comes_nearer_with_fixed_scales() -> None:
    opened, context = demo("demo:reviews")
    before = with_format(opened.project.graph, context, ("linear",), weight=ScaledInteger(4))
    after, report = run(before, "demo:reviews", data="demo:reviews", limit=64)
    assert not check(after) and report.summary["layers"] == 14 and report.summary["weighted"]
    assert all(r["error"] < r["error_before"] for r in report.rows)
    assert distance(after, "demo:reviews") < 0.7 * distance(before, "demo:reviews")
    assert {k: w for k, w in after.weights.items() if k in before.weights} == before.weights  # no weight is altered
    for row in report.rows:
        weight = after.weights[after[row["node"]].precision["weight"].scale or ""]
        assert weight.role == "buffer" and not weight.trainable
    again, report = run(after, "demo:reviews", data="demo:reviews", limit=64)
    assert again == after and report.summary["layers"] == 0


@pytest.mark.slow
def test_convolutions_masks_and_shared_weights() -> None:
    opened, context = demo("demo:digits")
    pruned, _ = prune(opened.project.graph, PruneOptions(0.4), context)
    before = with_format(pruned, context, ("linear", "conv2d"), weight=parse_format("scaled_integer(width=3)"))
    for data in ("", "demo:digits"):
        after, report = run(before, "demo:digits", data=data, limit=64)
        assert not check(after) and {after[r["node"]].op for r in report.rows if r["changed"]} == {"linear", "conv2d"}
        node = after["conv2"]
        taken = effective(node, "weight", after, opened.store)
        stored = to_torch(opened.store.get(after.weights[node.weights["weight"]].key or ""))
        assert taken.mask is not None and not taken(stored)[~taken.mask.bool()].any()
    held = case("twice")
    chosen = with_format(held.graph, Context(held.store), ("linear",), weight=ScaledInteger(3))
    after, report = mse_clip(chosen, MseClipOptions(), Context(held.store))
    names = [n.precision["weight"].scale for n in after if n.op == "linear" and n.weights["weight"] == "layer.weight"]
    assert len(names) == 2 and len(set(names)) == 1 and not check(after)


def test_what_cannot_be_is_told() -> None:
    opened, context = demo("demo:digits-mlp")
    graph = opened.project.graph
    for wrong in ({"least": 1.0}, {"steps": 1}):
        with pytest.raises(OptionsError, match="least"):
            MseClipOptions(**wrong)
    with pytest.raises(PassError, match="clipped"):
        run(with_format(graph, context, ("linear",), weight=MXInt(4)), "demo:digits-mlp")
    chosen = with_format(graph, context, ("linear",), weight=ScaledInteger(3))
    hollow = chosen.with_weights({k: replace(w, key=None) for k, w in chosen.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        run(hollow, "demo:digits-mlp")
