"""AWQ: the search and the clipping are those of the authors' code, and the float model stays the same function."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from espalier.model.errors import PassError
from espalier.model.formats.scaled_element import ScaledElement
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_any
from espalier.model.torch.build import build, parameters_of
from espalier.passes.base import Context
from espalier.passes.choices.awq import AwqOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.recovery.attention_values import values_of
from espalier.passes.recovery.awq import Moments, candidates, clipped
from espalier.passes.recovery.groups import Group, groups_of
from espalier.passes.recovery.layers import plain
from espalier.passes.recovery.walk import Stop
from espalier.passes.select import Select
from espalier.passes.transform.awq import awq
from espalier.passes.transform.quantize import quantize
from tests.passes.export.models import made
from tests.passes.recovery.recovery_cases import demo

STORIES: dict[str, Any] = {"data": "demo:stories", "limit": 6}
INT3 = ScaledElement("int3", "group", 32)


def weights_in(graph: Graph, context: Context, fmt: Any, select: Select | None = None) -> Graph:
    rule = Rule(select or Select("where", ('op == "linear" and features_out < 300',)), {"weight": fmt})
    return quantize(graph, QuantizeOptions((rule,)), context)[0]


# -- the authors' formulas


def authors_scale(x: Tensor, weights: list[Tensor], fmt: ScaledInteger | ScaledElement) -> tuple[int, Tensor, float]:
    """llm-awq's auto_scale.py, `_search_module_scale`, for Linears with a common input."""
    org_out = torch.cat([x @ w.T for w in weights], -1)
    x_max = x.abs().view(-1, x.shape[-1]).mean(0)
    best_error, best_ratio, best_scales = float("inf"), -1, x_max
    for n in range(20):
        ratio = n * 1 / 20
        scales = x_max.pow(ratio).clamp(min=1e-4).view(-1)
        scales = scales / (scales.max() * scales.min()).sqrt()
        out = torch.cat([x @ (fmt.forward(w * scales.view(1, -1)) / scales.view(1, -1)).T for w in weights], -1)
        loss = (org_out - out).float().pow(2).mean().item()
        if loss < best_error:
            best_error, best_ratio, best_scales = loss, n, scales
    return best_ratio, best_scales, best_error


def authors_clip(w: Tensor, input_feat: Tensor, fmt: ScaledElement) -> Tensor:
    """llm-awq's auto_clip.py, `auto_clip_layer`: the best largest magnitude of each row and group."""
    group = fmt.group
    feat = input_feat.reshape(1, len(input_feat), -1, group)
    w = w.reshape(w.shape[0], 1, -1, group)
    org_max_val = w.abs().amax(dim=-1, keepdim=True)
    best_max_val, min_errs = org_max_val.clone(), torch.ones_like(org_max_val) * 1e9
    org_out = (feat * w).sum(dim=-1)
    for i_s in range(int(0.5 * 20)):
        max_val = org_max_val * (1 - i_s / 20)
        q_w = fmt.forward(torch.clamp(w, -max_val, max_val).reshape(w.shape[0], -1)).reshape(w.shape)
        err = ((feat * q_w).sum(dim=-1) - org_out).pow(2).mean(dim=1).view(min_errs.shape)
        better = err < min_errs
        min_errs[better], best_max_val[better] = err[better], max_val[better]
    return best_max_val.squeeze(1).squeeze(-1)


def case(seed: int = 0) -> tuple[Tensor, Tensor]:
    """[tokens, 64] inputs of very different channels, and a weight [24, 64]."""
    made_ = torch.Generator().manual_seed(seed)
    x = torch.randn(300, 64, generator=made_) * torch.exp(torch.randn(64, generator=made_) * 1.5)
    return x, torch.randn(24, 64, generator=made_)


def moments(x: Tensor) -> Moments:
    node = next(n for n in demo("demo:stories")[0].project.graph if n.op == "linear")
    return Moments(Stop(node, lambda: iter((x[:100], x[100:])), lambda: iter(())))


@pytest.mark.parametrize("fmt", [ScaledInteger(3, "group", 16), INT3, ScaledElement("int4", "channel")], ids=str)
def test_the_search_is_the_authors(fmt: ScaledInteger | ScaledElement) -> None:
    x, weight = case()
    found = moments(x)
    torch.testing.assert_close(found.mean, x.abs().mean(0))
    best = []
    for _, scale in candidates(found.mean, 20):
        error = (x @ (fmt.forward(weight * scale) / scale - weight).T).square().mean()
        best.append(float(error))
    ratio, scale, least = authors_scale(x, [weight], fmt)
    assert min(range(20), key=best.__getitem__) == ratio > 0
    assert min(best) == pytest.approx(least, rel=1e-3) and least < 0.8 * best[0]
    torch.testing.assert_close(candidates(found.mean, 20)[ratio][1], scale)


@pytest.mark.parametrize("fmt", [ScaledElement("int3", "group", 16), ScaledElement("int4", "group", 32)], ids=str)
def test_the_clipping_is_the_authors(fmt: ScaledElement) -> None:
    x, weight = case(1)
    scale, before, after = clipped(fmt, weight, 2 * x.T @ x)
    assert scale is not None and after < before
    want = authors_clip(weight, x, fmt)
    same = torch.isclose(scale * fmt.reach, want, rtol=1e-5)
    assert same.float().mean() > 0.97, "but for errors that are equal within rounding"


# -- the pass


@pytest.mark.slow
def test_alphas_of_the_pass_are_the_authors_on_its_own_inputs() -> None:
    opened, context = demo("demo:stories")
    graph = weights_in(opened.project.graph, context, INT3)
    after, report = awq(graph, AwqOptions(**STORIES, clip=False), context)
    rows = {r["node"]: r for r in report.rows if "alpha" in r}
    inputs = observed(opened.project.graph, "model_layers_0_self_attn_q_proj", context)
    names = [f"model_layers_0_self_attn_{p}_proj" for p in "qkv"]
    tensors = parameters_of(build(opened.project.graph, context.store))
    weights = [tensors[opened.project.graph[n].weights["weight"]].detach() for n in names]
    ratio, scale, _ = authors_scale(inputs, weights, INT3)
    assert {rows[n]["alpha"] for n in names} == {ratio / 20}
    gain = parameters_of(build(after, context.store))["model.layers.0.input_layernorm.weight"]
    torch.testing.assert_close(gain, tensors["model.layers.0.input_layernorm.weight"] / scale, rtol=1e-4, atol=0)


def observed(graph: Graph, node: str, context: Context) -> Tensor:
    from espalier.passes.running.observing import observe
    from espalier.passes.running.splits import load_split

    parts: list[Tensor] = []
    split = load_split(AwqOptions(**STORIES), context)
    observe(plain(graph), split, 32, {node: ("data_in",)}, lambda _, __, x: parts.append(x), context)
    return torch.cat([p.reshape(-1, p.shape[-1]) for p in parts])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "more"), [("llama", {"num_key_value_heads": 4}), ("opt", {}), ("neox", {})])
def test_the_float_model_stays_the_same_function(kind: str, more: dict[str, Any], tmp_path: Path) -> None:
    """Also where heads of an attention give the scale to the values before it."""
    opened = open_any(str(made(kind, tmp_path / "model", **more)), tmp_path / "work")
    context = Context(opened.store)
    graph = weights_in(opened.project.graph, context, ScaledElement("int3", "group", 16))
    results = [g for g in groups_of([n for n in graph if n.op == "linear"], graph, False) if isinstance(g, Group)]
    folded = {graph[g.producers[0][0].rpartition(".")[0]].id if g.producers[0][0].rpartition(".")[0] in graph.nodes
              else g.producers[0][0] for g in results}  # fmt: skip
    assert any("v_proj" in f for f in folded) == (kind != "neox")
    from espalier.passes.recovery.channel_scales import ChannelScales

    work = ChannelScales(graph, context.store)
    for group in results:
        channels = work.matrix(group.layers[0]).shape[1]
        work.apply(group, torch.exp(torch.randn(channels, generator=torch.Generator().manual_seed(channels))))
    ids = torch.randint(3, 100, (2, 9), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before, after = (
            build(plain(g), context.store)(input_ids=ids, attention_mask=torch.ones_like(ids))["logits"]
            for g in (graph, work.graph)
        )
    torch.testing.assert_close(after, before, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
def test_layers_without_a_place_for_the_scale_are_named_and_clipped() -> None:
    opened, context = demo("demo:stories")
    graph = weights_in(opened.project.graph, context, INT3)
    after, report = awq(graph, AwqOptions(**STORIES), context)
    skipped = {r["node"]: r for r in report.rows if "skipped" in r}
    shared = skipped["model_layers_0_self_attn_o_proj"]
    assert "expand" in shared["skipped"], "two heads share a key"
    assert report.summary["float_difference"] < 1e-5
    assert report.summary["mean_error_ratio"] < 1
    clip = {n.id for n in after if "weight" in n.precision and n.precision["weight"].scale}
    assert "model_layers_0_self_attn_o_proj" in clip and report.summary["clipped"] == len(clip)
    assert not any("q_proj" in n or "k_proj" in n for n in clip)
    assert shared["clipped_error"] <= shared["clipped_error_before"]
    left = awq(graph, AwqOptions(**STORIES, insert=True, clip=False), context)[1]
    assert left.summary["inserted"] > 0 and left.summary["float_difference"] < 1e-5


@pytest.mark.slow
def test_what_it_cannot_do_is_told() -> None:
    opened, context = demo("demo:stories")
    with pytest.raises(PassError, match=r"None of the .* nodes can be scaled by AWQ") as caught:
        awq(opened.project.graph, AwqOptions(**STORIES), context)
    assert "format first" in caught.value.hint
    graph = weights_in(opened.project.graph, context, INT3, Select("name", ("model_layers_0_self_attn_o_proj",)))
    with pytest.raises(PassError, match="No input of the 1 selected Linears can be divided") as caught:
        awq(graph, AwqOptions(**STORIES, clip=False), context)
    assert "insert" in caught.value.hint
    recorded = replace(graph, runs="module")
    with pytest.raises(PassError, match="recorded from a run"):
        awq(recorded, AwqOptions(**STORIES), context)


def test_values_behind_an_attention_need_a_head_each() -> None:
    graph = demo("demo:stories")[0].project.graph
    joined = next(n for n in graph if n.op == "linear" and n.target.endswith("o_proj")).args[0]
    found = values_of(graph[cast("Any", joined).node], graph, graph.users())
    assert isinstance(found, str) and "expand" in found
