"""Selections pick the right nodes; one that picks none says what could be picked."""

from __future__ import annotations

import pytest

from model.errors import OptionsError, PassError
from model.graph import Node
from model.ops import quantisable
from passes.select import Select, chosen, matches
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
    assert {n.op for n in found} == {"linear"}


@pytest.mark.parametrize(
    "select, hint",
    [
        (Select("type", ("liner",)), "'linear'"),
        (Select("name", ("clasifier",)), "'classifier'"),
        (Select("module", ("bert.encodr.layer.0",)), "bert.encoder.layer.0"),
        (Select("regex", ("nothing_here",)), "pattern"),
        (Select("type", ()), "pattern"),
    ],
)
def test_nothing_matched_gives_a_hint(select: Select, hint: str) -> None:
    with pytest.raises(PassError, match="matches no node") as caught:
        chosen(case("bert").graph, select, able, "quantised")
    assert select.describe() in caught.value.message and hint in caught.value.hint


def test_nothing_able_names_the_types_that_are() -> None:
    with pytest.raises(PassError, match="None of the 6 selected nodes can be quantised") as caught:
        chosen(case("bert").graph, Select("type", ("dropout",)), able, "quantised")
    assert caught.value.hint == "Types that can: linear." and caught.value.node
    with pytest.raises(PassError) as caught:
        chosen(case("functions").graph, Select(), able, "quantised")
    assert caught.value.hint == "This model has no such node."
