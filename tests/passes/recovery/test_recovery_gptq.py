"""GPTQ: the solver is the paper's, for every format; the pass lowers what it says, and leaves the rest alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from espalier.model.errors import DataError, OptionsError, PassError
from espalier.model.formats.base import Format, parse_format
from espalier.model.formats.binary import Binary
from espalier.model.formats.integer import Integer
from espalier.model.formats.scaled import ScaledFormat
from espalier.model.formats.scaled_integer import ScaledInteger
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.torch.build import build, parameters_of
from espalier.model.torch.leaf_builder import effective
from espalier.model.torch.tensors import to_torch
from espalier.passes.base import Context, Report
from espalier.passes.choices.gptq import GptqOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.recovery.columns import Columns, columns_of
from espalier.passes.recovery.compensate import compensated, output_error
from espalier.passes.recovery.layers import Layer, layers_of, matrix_of, rows_of, weight_of
from espalier.passes.recovery.walk import Stop, walk
from espalier.passes.select import Select
from espalier.passes.transform.gptq import gptq
from espalier.passes.transform.prune import prune
from tests.model.zoo import case
from tests.passes.recovery.recovery_cases import demo, distance, with_format

INT3 = ScaledInteger(3)
FORMATS = (
    "integer(width=4, frac_width=2)", "minifloat_ieee(width=4, exponent_width=2)",
    "minifloat_denorm(width=5, exponent_width=2)", "log(width=4)", "block_fp(width=4, block=16)",
    "block_fp(width=4, block=16, rows=4)", "block_fp(width=4, block=40)", "block_fp(width=4, block=1)",
    "block_minifloat(width=4, exponent_width=2, block=16)", "block_log(width=4, block=16)",
    "mxint(width=4, block=32)", "mxfp(element=e2m1)", "nvfp4", "binary", "binary_scaled", "binary_residual",
    "ternary", "ternary(granularity=tensor)", "scaled_integer(width=4)",
    "scaled_integer(width=4, granularity=tensor)", "scaled_integer(width=4, granularity=group, group=20)",
    "scaled_integer(width=4, symmetric=false)",
    "scaled_integer(width=4, symmetric=false, granularity=group, group=32, scale_dtype=float16)",
)  # fmt: skip


def layer(outputs: int = 24, inputs: int = 96, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A random weight, and 2XXᵀ of inputs that hang together."""
    made = torch.Generator().manual_seed(seed)
    weight = torch.randn(outputs, inputs, generator=made) * torch.rand(inputs, generator=made)
    mixed = torch.randn(400, inputs, generator=made) @ torch.randn(inputs, inputs, generator=made) / inputs**0.5
    x = mixed + torch.randn(400, 1, generator=made)
    return weight, 2 * x.T @ x


def fixed_columns(fmt: Format, weight: Tensor) -> Columns:
    return columns_of(fmt, weight, None, lambda f, x: f.scale_of(x), False)


def value(fmt: Format, weight: Tensor, scale: Tensor | None) -> Tensor:
    return fmt.forward_with(weight, scale) if isinstance(fmt, ScaledFormat) and scale is not None \
        else fmt.forward(weight)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("by_activity", [False, True])
@pytest.mark.parametrize("text", FORMATS)
def test_every_format_has_less_output_error_and_holds_the_result_exactly(text: str, by_activity: bool) -> None:
    fmt, (weight, hessian) = parse_format(text), layer()
    columns = fixed_columns(fmt, weight)
    found = compensated(weight, hessian, columns, None, 0.01, by_activity)
    assert torch.equal(value(fmt, found, columns.scale), found)
    assert output_error(hessian, weight - found) < 0.7 * output_error(hessian, weight - fmt.forward(weight))


@pytest.mark.parametrize("text", [f for f in FORMATS if "rows" not in f])
def test_weights_that_lie_by_inputs_keep_the_formats_rows(text: str) -> None:
    """As in GPT-2's Conv1D: a column of the matrix is a row of the format."""
    fmt, (weight, hessian) = parse_format(text), layer()
    columns = columns_of(fmt, weight, None, lambda f, x: f.scale_of(x), True)
    found = compensated(weight, hessian, columns, None, 0.01, False)
    assert torch.equal(value(fmt, found.T.contiguous(), columns.scale).T, found)
    plain = fmt.forward(weight.T.contiguous()).T
    assert output_error(hessian, weight - found) < 0.8 * output_error(hessian, weight - plain)


@pytest.mark.parametrize("by_activity", [False, True])
def test_the_solver_does_what_the_paper_derives(by_activity: bool) -> None:
    """Column by column by the optimal-brain formula, with the inverse of what is left taken anew each time."""
    weight, hessian = layer(5, 150)
    fmt, damping = Integer(4, 2), 0.05
    damped = hessian.double() + torch.eye(150) * damping * hessian.diagonal().mean()
    order = hessian.diagonal().argsort(descending=True).tolist() if by_activity else list(range(150))
    want = weight.double().clone()
    for place, j in enumerate(order):
        left = order[place:]
        inverse = torch.linalg.inv(damped[left][:, left])
        q = fmt.forward(want[:, j].float()).double()
        want[:, left] -= torch.outer((want[:, j] - q) / inverse[0, 0], inverse[0])
        want[:, j] = q
    found = compensated(weight, hessian, fixed_columns(fmt, weight), None, damping, by_activity)
    assert float((found.double() == want).double().mean()) > 0.99  # float32 may round a tie another way


def test_masks_hold_and_their_error_is_made_good() -> None:
    weight, hessian = layer()
    mask = torch.rand(weight.shape, generator=torch.Generator().manual_seed(1)) > 0.5
    pruned = weight * mask
    found = compensated(pruned, hessian, fixed_columns(Integer(4, 2), pruned), mask, 0.01, True)
    assert not found[~mask].any()
    plain = Integer(4, 2).forward(pruned)
    assert output_error(hessian, pruned - found) < 0.8 * output_error(hessian, pruned - plain)


def test_inputs_that_never_come_and_singular_hessians_do_not_matter() -> None:
    weight, _ = layer(8, 20)
    x = torch.randn(6, 20, generator=torch.Generator().manual_seed(2))
    x[:, 3] = 0
    found = compensated(weight, 2 * x.T @ x, fixed_columns(Integer(6, 4), weight), None, 0.01, True)
    assert found.isfinite().all() and torch.equal(found[:, 3], Integer(6, 4).forward(weight[:, 3]))
    nothing = compensated(weight, torch.zeros(20, 20), fixed_columns(Integer(6, 4), weight), None, 0.01, False)
    assert torch.equal(nothing, Integer(6, 4).forward(weight))


# -- layers and the walk


def test_a_layer_is_a_matrix_product_of_its_rows() -> None:
    for name in ("image", "mlp", "gpt2"):
        held = case(name)
        for node in [n for n in held.graph if n.op in ("linear", "conv2d")]:
            found, left = layers_of([node], held.graph)
            if left:
                assert "grouped" in left[0][1] or "shares" in left[0][1]
                continue
            weight = to_torch(held.store.get(held.graph.weights[found[0].name].key or ""))
            shape = (2, 3, 9, 7) if node.op == "conv2d" else (2, 5, matrix_of(found[0], weight).shape[1])
            x = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
            module: Any = build(held.graph, held.store, held.traced.callables).get_submodule(node.target)
            with torch.no_grad():
                want = module(x) - (module.bias.reshape(-1, *(1,) * (x.dim() - 2)) if module.bias is not None
                                    and node.op == "conv2d" else 0 if module.bias is None else module.bias)  # fmt: skip
            rows = rows_of(node, x) @ matrix_of(found[0], weight).T
            want = want.movedim(1, -1) if node.op == "conv2d" else want
            torch.testing.assert_close(rows, want.reshape(rows.shape), rtol=1e-4, atol=1e-5)
            assert torch.equal(weight_of(found[0], matrix_of(found[0], weight), weight), weight)


def test_shared_weights_are_one_layer_or_none() -> None:
    twice = case("twice").graph
    found, left = layers_of([n for n in twice if n.op == "linear"], twice)
    assert sorted(len(x.nodes) for x in found) == [1, 2] and not left
    tied = case("tied").graph
    found, left = layers_of([n for n in tied if n.op == "linear"], tied)
    assert [x.name for x in found] == ["mix.weight"] and ["shares" in why for _, why in left] == [True]


@pytest.mark.parametrize("name", ["mlp", "twice", "bert", "choosy"])
def test_the_walk_stops_at_layers_with_what_flows_through_them(name: str) -> None:
    held = case(name)
    graph = with_format(held.graph, Context(held.store), ("linear",), weight=INT3, data_in=Integer(8, 4))
    samples = [{n.target: v for n, v in zip(graph.placeholders, held.fresh(2, 7, s).values(), strict=True)}
               for s in range(3)]  # fmt: skip
    module: Any = held.build(graph)
    wanted = [n.id for n in graph if n.op == "linear"]
    told: dict[str, list[tuple[Tensor, Tensor]]] = {}

    def visit(stop: Stop) -> None:
        told[stop.node.id] = list(stop.pairs())
        assert all(torch.equal(a, b) for a, (b, _) in zip(stop.inputs(), told[stop.node.id], strict=True))

    walk(module, graph, samples, wanted, visit)
    assert list(told) == wanted
    for i, node in enumerate(graph[w] for w in wanted):
        weight = effective(node, "weight", graph, held.store)(parameters_of(held.build(graph))[node.weights["weight"]])
        for x, y in told[wanted[i]]:
            bias = to_torch(held.store.get(graph.weights[node.weights["bias"]].key or ""))
            torch.testing.assert_close(y, torch.nn.functional.linear(x, weight, bias))
            assert torch.equal(x, Integer(8, 4).forward(x))
    if name != "choosy":
        last = told["second" if name == "mlp" else wanted[-1]]
        with torch.no_grad():
            whole = module(**samples[2])
        found = whole if isinstance(whole, Tensor) else next(iter(whole.values()))
        assert torch.equal(found, last[2][1])


# -- the pass


def run(graph: Graph, name: str, **options: Any) -> tuple[Graph, Report]:
    return gptq(graph, GptqOptions(data=name, limit=64, **options), demo(name)[1])


@pytest.mark.slow
def test_the_demo_comes_nearer_to_the_float_model() -> None:
    opened, context = demo("demo:reviews")
    rounded = with_format(opened.project.graph, context, ("linear",), weight=INT3)
    after, report = run(rounded, "demo:reviews")
    assert not check(after) and report.summary["layers"] == 14 and report.summary["mean_error_ratio"] < 0.3
    assert all(r["changed"] and r["exact"] and 0 < r["error"] < r["error_rounded"] for r in report.rows)
    assert distance(after, "demo:reviews") < 0.5 * distance(rounded, "demo:reviews")
    for node in (n for n in after if n.op == "linear"):
        assert node.precision["weight"].scale in after.weights
        stored = to_torch(opened.store.get(after.weights[node.weights["weight"]].key or ""))
        assert torch.equal(effective(node, "weight", after, opened.store)(stored), stored)
        assert after.weights[node.weights["weight"]].key != rounded.weights[node.weights["weight"]].key
        assert after.weights[node.weights["bias"]] == rounded.weights[node.weights["bias"]]
    assert run(rounded, "demo:reviews")[0] == after


@pytest.mark.parametrize("fmt", ["integer(width=3, frac_width=2)", "mxint(width=3)"])
def test_convolutions_and_pruned_layers(fmt: str) -> None:
    opened, context = demo("demo:digits")
    pruned, _ = prune(opened.project.graph, PruneOptions(0.4), context)
    rounded = with_format(pruned, context, ("linear", "conv2d"), weight=parse_format(fmt))
    after, report = run(rounded, "demo:digits", act_order=False)
    assert {after[r["node"]].op for r in report.rows if r["changed"]} == {"linear", "conv2d"}
    assert distance(after, "demo:digits") < distance(rounded, "demo:digits")
    for row in report.rows:
        node = after[row["node"]]
        taken = effective(node, "weight", after, opened.store)
        old, new = (to_torch(opened.store.get(g.weights[node.weights["weight"]].key or "")) for g in (rounded, after))
        assert taken.mask is not None
        kept = taken.mask.bool()
        assert torch.equal(old[~kept], new[~kept]) and not taken(new)[~kept].any()
        assert not row["exact"] or torch.equal(taken(new)[kept], new[kept])


def test_a_given_scale_stays() -> None:
    opened, context = demo("demo:digits-mlp")
    rounded = with_format(opened.project.graph, context, ("linear",), weight=INT3)
    first, _ = run(rounded, "demo:digits-mlp")
    names = {n.precision["weight"].scale for n in first if n.op == "linear"}
    begun = first.with_weights({k: w for k, w in rounded.weights.items() if w.role == "parameter"})
    again, report = run(begun, "demo:digits-mlp", clip=False)
    assert all(again.weights[k] == first.weights[k] for k in names if k)
    assert report.summary["layers"] == 3


def test_what_cannot_be_is_told() -> None:
    opened, context = demo("demo:digits-mlp")
    graph = opened.project.graph
    with pytest.raises(PassError, match="GPTQ"):
        run(graph, "demo:digits-mlp")
    with pytest.raises(OptionsError, match="damping"):
        GptqOptions(damping=0.0)
    chosen = with_format(graph, context, ("linear",), weight=INT3)
    with pytest.raises(DataError, match="no data"):
        gptq(chosen, GptqOptions(), context)
    hollow = chosen.with_weights({k: replace(w, key=None) for k, w in chosen.weights.items()})
    with pytest.raises(PassError, match="without weights"):
        run(hollow, "demo:digits-mlp")
    random = with_format(graph, context, ("linear",), weight=Binary(stochastic=True))
    after, report = run(random, "demo:digits-mlp")
    assert after == random and all("random" in r["skipped"] for r in report.rows)
    only = Select("name", (next(n.id for n in graph if n.op == "linear"),))
    assert len(run(chosen, "demo:digits-mlp", select=only)[1].rows) == 1


def test_layers_have_the_name_of_their_weight() -> None:
    graph = case("mlp").graph
    assert layers_of([graph["first"]], graph)[0] == [Layer("first.weight", (graph["first"],))]
    assert layers_of([graph["act"]], graph)[1][0][1].startswith("neither")
