"""Quantising sets choices and nothing else: rules in order, the labs' selections, ports that nodes have."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
import torch

from espalier.model.document.graph_json import graph_from_json, graph_to_json
from espalier.model.errors import FormatError, OptionsError, PassError
from espalier.model.formats.base import Format
from espalier.model.formats.integer import Integer
from espalier.model.graph.check import check
from espalier.model.graph.graph import Graph
from espalier.model.graph.meta import Precision
from espalier.model.torch.build import build
from espalier.passes.base import Context, Report
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.export.recipe import to_toml
from espalier.passes.recipes.config import load_recipe, recipe_to_dict
from espalier.passes.select import Select
from espalier.passes.transform.quantize import quantize
from tests.model.zoo import case

W8, W4 = Integer(8, 4), Integer(4, 2)


def apply(graph: Graph, *rules: tuple[Select, dict[str, Format | None]]) -> tuple[Graph, Report]:
    held = case("mlp")
    return quantize(graph, QuantizeOptions(tuple(Rule(s, f) for s, f in rules)), Context(held.store))


def formats(graph: Graph, node: str) -> dict[str, Format]:
    return {p: c.format for p, c in graph[node].precision.items()}


LINEAR, FIRST = Select("type", ("linear",)), Select("name", ("first",))


def test_only_choices_of_selected_nodes_change() -> None:
    graph = case("mlp").graph
    after, report = apply(graph, (LINEAR, {"weight": W8, "data_in": W4}))
    assert after.delta(graph).changed == ("first", "second")
    assert not after.delta(graph).added and after.weights is graph.weights
    for name in ("first", "second"):
        assert formats(after, name) == {"data_in": W4, "weight": W8}
        assert replace(after[name], precision={}) == graph[name]
    assert report.pass_name == "quantize" and report.summary == {"nodes": 2, "ports": {"int 4/2": 2, "int 8/4": 2}}
    assert report.rows == tuple({"node": n, "data_in": "int 4/2", "weight": "int 8/4"} for n in ("first", "second"))
    assert not check(after)


def test_a_rule_without_formats_says_so() -> None:
    with pytest.raises(OptionsError, match=r"rules\[1\] names no format") as caught:
        apply(case("mlp").graph, (LINEAR, {"weight": W8}), (Select(), {}))
    assert "formats = " in caught.value.hint


def test_later_rules_hold() -> None:
    graph = case("mlp").graph
    after, _ = apply(graph, (Select(), {"weight": W8, "bias": W8}), (FIRST, {"weight": W4}))
    assert formats(after, "first") == {"weight": W4, "bias": W8}
    assert formats(after, "second") == {"weight": W8, "bias": W8}
    turned, _ = apply(graph, (FIRST, {"weight": W4}), (Select(), {"weight": W8}))
    assert formats(turned, "first") == {"weight": W8}


def test_rules_together_do_what_each_does_after_another() -> None:
    held = case("twice")
    rules = (
        Rule(Select("type", ("linear",)), {"weight": Integer(8, 4), "bias": Integer(8, 2)}),
        Rule(Select("name", ("layer",)), {"weight": Integer(4, 2), "data_in": Integer(6, 1)}),
        Rule(Select("all"), {"bias": None}),
    )
    together, report = quantize(held.graph, QuantizeOptions(rules), Context(held.store))
    graph = held.graph
    for rule in rules:
        graph, _ = quantize(graph, QuantizeOptions((rule,)), Context(held.store))
    assert together == graph != held.graph and report.summary["nodes"] == len(graph.delta(held.graph).changed)


def test_none_sets_a_port_back_to_float() -> None:
    graph, _ = apply(case("mlp").graph, (LINEAR, {"weight": W8, "bias": W8}))
    after, report = apply(graph, (FIRST, {"weight": None}))
    assert formats(after, "first") == {"bias": W8} and formats(after, "second") == {"weight": W8, "bias": W8}
    assert report.summary == {"nodes": 1, "ports": {"int 8/4": 1}}
    back, _ = apply(after, (Select(), {"weight": None, "bias": None}))
    assert back == case("mlp").graph


def test_the_order_of_ports_does_not_matter() -> None:
    """Equal choices are equal graphs, whatever was chosen first."""
    graph = case("mlp").graph
    one, _ = apply(graph, (LINEAR, {"bias": W8}), (LINEAR, {"data_in": W4}))
    other, _ = apply(graph, (LINEAR, {"data_in": W4, "bias": W8}))
    assert one == other and list(one["first"].precision) == list(other["first"].precision) == ["data_in", "bias"]


def test_nothing_new_gives_the_same_graph() -> None:
    graph, _ = apply(case("mlp").graph, (LINEAR, {"weight": W8}))
    after, report = apply(graph, (LINEAR, {"weight": W8}))
    assert after is graph and report.summary["nodes"] == 0 and report.rows == ()
    assert apply(graph)[0] is graph


def test_ports_that_a_node_lacks_are_passed_over() -> None:
    held = case("bert-eager")
    after, _ = quantize(held.graph, QuantizeOptions((Rule(Select(), dict.fromkeys(("bias", "weight"), W8)),)),
                        Context(held.store))  # fmt: skip
    matmul = next(n for n in after if n.op == "matmul")
    assert list(matmul.precision) == ["weight"]  # the second operand; a product has no bias
    bare = next(n for n in case("image").graph if n.op == "conv2d" and "bias" not in n.weights)
    image, _ = quantize(case("image").graph, QuantizeOptions((Rule(Select(), {"bias": W8, "weight": W4}),)),
                        Context(held.store))  # fmt: skip
    assert list(image[bare.id].precision) == ["weight"]
    assert not any(n.precision for n in after if n.op in ("dropout", "view", "transpose"))
    assert not [p for p in (*check(after), *check(image)) if p.severity == "error"]


@pytest.mark.parametrize(
    "select, message, hint",
    [
        (Select("type", ("liner",)), "matches no node", "'linear'"),
        (Select("name", ("firts",)), "matches no node", "'first'"),
        (Select("regex", ("^nothing$",)), "matches no node", "pattern"),
        (Select("type", ("dropout",)), "None of the 1 selected nodes can be quantised", "linear"),
    ],
)
def test_a_selection_without_nodes_is_an_error(select: Select, message: str, hint: str) -> None:
    with pytest.raises(PassError, match=message) as caught:
        apply(case("mlp").graph, (LINEAR, {"weight": W8}), (select, {"weight": W4}))
    assert hint in caught.value.hint


def test_a_port_that_none_of_them_has_is_an_error() -> None:
    first = next(n for n in case("bert-eager").graph if n.op == "matmul")
    with pytest.raises(PassError, match="can be quantised at bias"):
        quantize(case("bert-eager").graph, QuantizeOptions((Rule(Select("name", (first.id,)), {"bias": W8}),)),
                 Context(case("bert-eager").store))  # fmt: skip


def test_unknown_ports_are_refused_at_once() -> None:
    with pytest.raises(OptionsError, match="weigth") as caught:
        Rule(LINEAR, {"weigth": W8})
    assert "weight" in caught.value.hint


def test_tutorial_3_of_mase_quantises_all_linears() -> None:
    held = case("bert")
    widths = {f"{p}_{k}": v for p in ("data_in", "weight", "bias") for k, v in (("width", 8), ("frac_width", 4))}
    linear = {"config": {"name": "integer", **widths}}
    data = {"quantize": {"by": "type", "default": {"config": {"name": None}}, "linear": linear}}
    after, report = quantize(held.graph, load_recipe(data).steps[0].options, Context(held.store))
    assert report.summary == {"nodes": 14, "ports": {"int 8/4": 42}}
    chosen = {n.id for n in after if n.precision}
    assert chosen == {n.id for n in after if n.op == "linear"}
    assert all(list(after[n].precision) == ["data_in", "weight", "bias"] for n in chosen)


def test_functions_of_attention_modules_are_quantised_too() -> None:
    held = case("attention")
    after, _ = quantize(held.graph, QuantizeOptions((Rule(LINEAR, {"weight": W8}),)), Context(held.store))
    assert all(n.precision == {"weight": Precision(W8)} for n in after if n.op == "linear")


def test_the_gradient_is_part_of_the_choice() -> None:
    held = case("mlp")
    rule = Rule(LINEAR, {"weight": W8}, "identity")
    after, _ = quantize(held.graph, QuantizeOptions((rule,)), Context(held.store))
    assert after["first"].precision["weight"] == Precision(W8, gradient="identity")
    assert graph_from_json(graph_to_json(after)) == after
    again, report = apply(after, (FIRST, {"weight": W8}))
    assert again["first"].precision["weight"] == Precision(W8) and report.summary["nodes"] == 1
    x = torch.full((2, held.graph.weights["first.weight"].shape[1]), 3.0)
    grads = []
    for graph in (after, again):
        model = build(graph, held.store)
        with torch.no_grad():
            model.get_parameter("first.weight").fill_(100.0)  # beyond ±8, where the gradient of the range ends
        model(x).sum().backward()
        grads.append(model.get_parameter("first.weight").grad)
    assert grads[0] is not None and grads[0].abs().sum() > 0 and not grads[1].abs().sum()


def test_float_takes_a_format_away_in_toml_too() -> None:
    rules = [{"select": {"by": "type", "values": ["linear"]}, "formats": {"weight": "float", "bias": None}}]
    recipe = load_recipe({"steps": [{"pass": "quantize", "options": {"rules": rules}}]})
    assert recipe.steps[0].options.rules[0].formats == {"weight": None, "bias": None}
    again = load_recipe(tomllib.loads(to_toml(recipe_to_dict(recipe))))
    assert again == recipe
    with pytest.raises(FormatError, match="floaty"):
        load_recipe(
            {"steps": [{"pass": "quantize", "options": {"rules": [rules[0] | {"formats": {"weight": "floaty"}}]}}]}
        )
