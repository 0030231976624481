"""Selections pick the right nodes; one that picks none says what could be picked."""

from __future__ import annotations

from pathlib import Path

import pytest

from espalier.model.errors import OptionsError, PassError
from espalier.model.graph.graph import Node
from espalier.model.graph.ops import quantisable
from espalier.model.opening import open_source
from espalier.passes.select import Select, by_name, chosen, matches, types_in
from tests.model.zoo import case

LAYER = "bert.encoder.layer.0"


def picked(select: Select) -> list[str]:
    return [n.id for n in case("bert").graph if matches(n, select)]


def targets(select: Select) -> set[str]:
    return {n.target for n in case("bert").graph if n.call == "call_module" and matches(n, select)}


def test_by_type() -> None:
    graph = case("bert").graph
    assert picked(Select("type", ("linear",))) == [n.id for n in graph if n.op == "linear"]
    assert len(picked(Select("type", ("linear", "layer_norm")))) == 14 + 5
    assert picked(Select("type", ("lin",))) == []


def test_by_name_takes_ids_and_module_paths() -> None:
    path = f"{LAYER}.attention.self.query"
    assert picked(Select("name", (path,))) == picked(Select("name", (path.replace(".", "_"),)))
    assert len(picked(Select("name", (path, "classifier", "nowhere")))) == 2
    assert picked(Select("name", (LAYER,))) == []


def test_by_regex_searches_ids_and_paths() -> None:
    assert targets(Select("regex", (r"layer\.\d\.attention\.self\.(query|key)$",))) == {
        f"bert.encoder.layer.{i}.attention.self.{n}" for i in (0, 1) for n in ("query", "key")
    }
    ends = {"classifier", "bert.pooler.dense", "bert.pooler.activation"}
    assert targets(Select("regex", ("^classifier$", "pooler"))) == ends
    assert picked(Select("regex", ("^add",))) == [i for i in case("bert").graph.nodes if i.startswith("add")]


def test_by_module_takes_the_whole_subtree() -> None:
    graph = case("bert").graph
    inside = picked(Select("module", (LAYER,)))
    assert inside == [n.id for n in graph if (n.module_path + ".").startswith(f"{LAYER}.")]
    assert any(graph[i].op == "scaled_dot_product_attention" for i in inside)
    assert picked(Select("module", ("bert.encoder.layer.0.atten",))) == []
    assert len(picked(Select("module", (LAYER, "bert.encoder.layer.1")))) == 2 * len(inside)


def test_all_needs_no_values() -> None:
    assert picked(Select()) == list(case("bert").graph.nodes)
    assert [picked(Select(by)) for by in ("type", "name", "regex", "module")] == [[]] * 4  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["(", "*", "[z-a]"])
def test_bad_patterns_are_named(pattern: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Select("regex", ("fine", pattern))
    assert repr(pattern) in caught.value.message and "regular expression" in caught.value.message


def test_descriptions() -> None:
    assert Select().describe() == "all"
    assert Select("type", ("linear", "conv2d")).describe() == "type linear, conv2d"


# -- what a pass works on


def able(node: Node) -> bool:
    return bool(quantisable(node))


def test_chosen_keeps_the_graphs_order_and_what_is_able() -> None:
    graph = case("bert").graph
    found = chosen(graph, Select("module", (LAYER,)), able, "quantised")
    assert [n.id for n in found] == [n.id for n in graph if matches(n, Select("module", (LAYER,))) and able(n)]
    assert {n.op for n in found} == {"linear", "add", "gelu", "layer_norm"}


def test_an_index_of_names_finds_the_same() -> None:
    graph = case("twice").graph
    names = by_name(graph)
    for value in {*graph.nodes, *(n.target for n in graph if n.call == "call_module")}:
        select = Select("name", (value,))
        assert chosen(graph, select, lambda n: True, "x", names) == chosen(graph, select, lambda n: True, "x")
    assert len(chosen(graph, Select("name", ("layer",)), lambda n: True, "x", names)) == 1  # a node's own name
    assert len(chosen(graph, Select("module", ("layer",)), lambda n: True, "x", names)) == 2
    with pytest.raises(PassError, match="matches no node"):
        chosen(graph, Select("name", ("layr",)), lambda n: True, "x", names)


@pytest.mark.parametrize(
    "select, hint",
    [
        (Select("type", ("liner",)), "'linear'"),
        (Select("name", ("clasifier",)), "'classifier'"),
        (Select("module", ("bert.encodr.layer.0",)), "bert.encoder.layer.0"),
        (Select("regex", ("nothing_here",)), "pattern"),
        (Select("type", ()), "linear"),
        (Select("name", ()), "at least one name"),
    ],
)
def test_nothing_matched_gives_a_hint(select: Select, hint: str) -> None:
    with pytest.raises(PassError, match="matches no node") as caught:
        chosen(case("bert").graph, select, able, "quantised")
    assert select.describe() in caught.value.message and hint in caught.value.hint
    assert select.values or f"(no {select.by})" in caught.value.message


def test_nothing_able_names_the_types_that_are() -> None:
    with pytest.raises(PassError, match="None of the 6 selected nodes can be quantised") as caught:
        chosen(case("bert").graph, Select("type", ("dropout",)), able, "quantised")
    assert caught.value.hint == "Suitable types: add, embedding, gelu, layer_norm, linear, tanh." and caught.value.node
    with pytest.raises(PassError) as caught:
        chosen(case("functions").graph, Select(), lambda n: False, "quantised")
    assert caught.value.hint == "This model has no such node."


# -- types: ops, categories, classes


@pytest.mark.parametrize("word", ["LayerNorm", "layer_norm", "norm", "layernorm"])
def test_a_type_is_an_op_a_category_or_a_class(word: str) -> None:
    assert picked(Select("type", (word,))) == [n.id for n in case("bert").graph if n.op == "layer_norm"] != []


def test_classes_are_told_apart() -> None:
    graph = case("image").graph
    names = [n.attrs["class"] for n in graph if n.op == "batch_norm"]
    assert names and set(names) == {"BatchNorm2d"}
    for word, count in (("BatchNorm2d", len(names)), ("batch_norm2d", len(names)), ("BatchNorm1d", 0)):
        assert len([n for n in graph if matches(n, Select("type", (word,)))]) == count, word
    assert picked(Select("type", ("Linear",))) == picked(Select("type", ("linear",)))


def test_an_op_wins_over_the_category_of_its_name() -> None:
    graph = case("image").graph
    assert any(n.op == "conv2d" for n in graph)
    assert {n.op for n in graph if matches(n, Select("type", ("linear",)))} <= {"linear"}


def test_functions_are_of_the_classes_that_do_the_same() -> None:
    for op, word in (("relu", "ReLU"), ("batch_norm", "batch_norm2d"), ("linear", "Linear")):
        node = Node("f", op, "call_function", f"aten.{op}.default")
        assert matches(node, Select("type", (word,))) and not matches(node, Select("type", ("GELU",)))
    odd = Node("f", "linear", "call_module", "f", attrs={"class": "NonDynamicallyQuantizableLinear"})
    turned = Node("f", "linear", "call_module", "f", attrs={"class": "Conv1D"})
    assert matches(odd, Select("type", ("Linear",))) and not matches(turned, Select("type", ("Linear",)))
    assert all(matches(n, Select("type", ("linear",))) for n in (odd, turned))


def test_an_unknown_type_among_known_ones_is_named() -> None:
    for word, hint in (("layr_norm", "'layer_norm'"), ("LayrNorm", "'LayerNorm'"), ("embeding", "'embedding'")):
        with pytest.raises(PassError) as caught:
            chosen(case("bert").graph, Select("type", ("linear", word)), able, "quantised")
        assert caught.value.message == f"There is no type {word!r}." and hint in caught.value.hint
    with pytest.raises(PassError, match="matches no node") as caught:
        chosen(case("mlp").graph, Select("type", ("conv2d",)), able, "quantised")
    assert "The model's types: " in caught.value.hint and "linear" in caught.value.hint
    both = chosen(case("mlp").graph, Select("type", ("conv2d", "linear")), able, "quantised")
    assert both and {n.op for n in both} == {"linear"}


def test_types_in_a_graph_all_select_something() -> None:
    words = types_in(case("bert").graph)
    assert {"linear", "norm", "LayerNorm", "layer_norm"} <= set(words) and all(
        picked(Select("type", (w,))) for w in words
    )


def test_the_first_call_of_a_shared_module_is_chosen_alone(tmp_path: Path) -> None:
    graph = open_source("demo:digits", tmp_path).project.base
    names = [n.id for n in graph if n.op == "relu"]
    assert len(names) > 1 and graph.nodes[names[0]].target == names[0]
    for name in names:
        assert [n.id for n in chosen(graph, Select("name", (name,)), lambda n: True, "chosen")] == [name]
        assert [n.id for n in by_name(graph)[name]] == [name]
