"""A decomposed attention computes what the fused one does, at all sizes, with masks, groups and dropout."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from espalier.model.formats.integer import Integer
from espalier.model.formats.straight_through import straight_through
from espalier.model.graph.check import check
from espalier.model.store.weights import WeightStore
from espalier.model.torch.build import build
from espalier.model.trace.trace import trace
from espalier.passes.base import Context
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select
from espalier.passes.transform.decompose_attention import DecomposeOptions, decompose_attention
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case, run


class Attention(nn.Module):
    """One call of the function, with options."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, **self.options)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "bert", "gpt2", "llama", "t5", "swin"])
def test_models_compute_the_same(name: str) -> None:
    held = case(name)
    after, report = decompose_attention(held.graph, DecomposeOptions(), Context(held.store))
    assert report.summary["attentions"] == sum(n.op == "scaled_dot_product_attention" for n in held.graph) > 0
    assert not any(n.op == "scaled_dot_product_attention" for n in after)
    assert [p for p in check(after) if p.severity == "error"] == []
    inputs = held.fresh(2, 7)
    for got, want in zip(run(held.build(after), inputs), held.expected(inputs), strict=True):
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("options", [
    {"is_causal": True}, {"scale": 1.0}, {"scale": 0.3}, {"enable_gqa": True},
    {"attn_mask": torch.tensor([[True, False, False], [False, False, False], [True] * 3])},
    {"attn_mask": torch.randn(3, 3, generator=torch.Generator().manual_seed(0))},
], ids=["causal", "one", "scale", "groups", "bool", "float"])  # fmt: skip
def test_options_of_the_function(options: dict[str, object]) -> None:
    generator = torch.Generator().manual_seed(1)
    heads = 2 if "enable_gqa" in options else 4
    q, k, v = (torch.randn(2, n, 3, 8, generator=generator) for n in (4, heads, heads))
    store = WeightStore(Path("unwritten"))
    graph = trace(Attention(**options).eval(), {"q": q, "k": k, "v": v}, store).graph
    after, _ = decompose_attention(graph, DecomposeOptions(), Context(store))
    (got,) = run(build(after, store), {"q": q, "k": k, "v": v})
    torch.testing.assert_close(got, F.scaled_dot_product_attention(q, k, v, **options), atol=1e-5, rtol=1e-4)


def test_a_rule_takes_an_attention_apart_and_gives_its_parts_the_formats() -> None:
    held, (a, w, o) = case("attention"), (Integer(8, 4), Integer(6, 3), Integer(8, 5))
    name = next(n.id for n in held.graph if n.op == "scaled_dot_product_attention")
    rules = (Rule(Select("name", (name,)), {"data_in": a, "weight": w}),
             Rule(Select("name", ("norm",)), {"data_in": a}),
             Rule(Select("name", (name,)), {"data_out": o}))  # fmt: skip
    after, _ = quantize(held.graph, QuantizeOptions(rules), Context(held.store))
    assert not [p for p in check(after) if p.severity == "error"]
    chosen = {k: {p: c.format for p, c in after[f"{name}_{k}"].precision.items()} for k in ("scores", "context")}
    assert chosen == {"scores": {"data_in": a, "weight": w}, "context": {"data_in": a, "weight": w, "data_out": o}}
    x = held.fresh(2, 5)["x"]
    inner = held.original.attention
    with torch.no_grad():
        mixed = F.linear(x, inner.in_proj_weight, inner.in_proj_bias)
        q, k, v = (t.unflatten(-1, (2, 4)).transpose(1, 2) for t in mixed.chunk(3, -1))
        scores = straight_through(a, q) @ straight_through(w, k).transpose(-1, -2) * 0.5
        heads = (
            straight_through(o, straight_through(a, torch.softmax(scores, -1)) @ straight_through(w, v))
            .transpose(1, 2)
            .flatten(-2)
        )
        want = held.original.norm(straight_through(a, x + F.linear(heads, inner.out_proj.weight, inner.out_proj.bias)))
    (got,) = run(held.build(after), {"x": x})
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)
