"""Pairs of nodes against models whose correspondence is known by construction."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
import torch

import espalier as es
from espalier.model.graph.graph import Graph
from espalier.model.graph.node import Ref, map_refs
from espalier.passes.comparison.pairing import ids_agree, pair, prefixes

BERT = "config:bert?num_hidden_layers={}&hidden_size=32&num_attention_heads=2&intermediate_size=64&vocab_size=50"
FOREIGN = {
    "bert": BERT.format(2),
    "llama": "config:llama?num_hidden_layers=2&hidden_size=32&num_attention_heads=2&num_key_value_heads=1"
    "&intermediate_size=48&vocab_size=50",
    "gpt2": "config:gpt2?n_layer=2&n_embd=32&n_head=2&vocab_size=50",
    "vit": "config:vit?num_hidden_layers=2&hidden_size=32&num_attention_heads=2&intermediate_size=64&image_size=16"
    "&patch_size=8",
}


def graph_of(source: str) -> Graph:
    """The traced graph of a source."""
    return es.open(source).project.graph


def renamed(graph: Graph, seed: int = 0, *, weights: bool = True) -> tuple[Graph, dict[str, str]]:
    """The graph as a foreign file would have it: ids shuffled among the nodes, no module paths; and the true names.

    `weights`: keep the contents of the weights; else none is equal any more.
    """
    fresh = [f"n{i}" for i in range(len(graph))]
    random.Random(seed).shuffle(fresh)
    name = dict(zip(graph.nodes, fresh, strict=True))
    nodes: dict[str, Any] = {}
    for node in graph:
        moved = map_refs(node, lambda r: Ref(name[r.node], r.output))
        nodes[name[node.id]] = replace(moved, id=name[node.id], module_path="")
    held = graph.weights if weights else {k: replace(w, key=f"other {k}") for k, w in graph.weights.items()}
    return replace(graph, nodes=nodes, weights=held), name


@pytest.mark.slow
@pytest.mark.sampled(0.5)
@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("weights", [True, False], ids=["same weights", "other weights"])
def test_a_renamed_model_is_paired_node_by_node(name: str, weights: bool) -> None:
    graph = graph_of(FOREIGN[name])
    other, true = renamed(graph, weights=weights)
    found = pair(graph, other)
    assert len(found.pairs) == len(graph), "every node has a partner"
    wrong = {b: a for b, a in found.pairs.items() if true[a] != b}
    assert len(wrong) <= 0.02 * len(graph), wrong


@pytest.mark.slow
def test_two_depths_share_their_first_layers() -> None:
    shallow, deep = graph_of(BERT.format(2)), graph_of(BERT.format(4))
    found = pair(shallow, deep)
    assert set(found.pairs.values()) == set(shallow.nodes), "nothing was removed"
    added = [n for n in deep if n.id not in found.pairs]
    assert {".".join(n.module_path.split(".")[:3]) for n in added} == {"encoder.layer.2", "encoder.layer.3"}
    assert all(deep[b].module_path == shallow[a].module_path for b, a in found.pairs.items())


def test_a_copy_without_a_layer_in_the_middle_is_paired_by_weights() -> None:
    """Layers behind the removed one are renumbered: ids and paths lie, contents do not."""
    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.ReLU()) for _ in range(5)]
    whole = es.trace(torch.nn.Sequential(*blocks), torch.randn(2, 6)).project.graph
    part = es.trace(torch.nn.Sequential(*blocks[:1], *blocks[2:]), torch.randn(2, 6)).project.graph
    assert not ids_agree(whole, part) and ids_agree(whole, whole)
    found = pair(whole, part)
    linears = {b: a for b, a in found.pairs.items() if part[b].op == "linear"}
    assert linears == {"0_0": "0_0", "1_0": "2_0", "2_0": "3_0", "3_0": "4_0"}
    activations = {b: a for b, a in found.pairs.items() if part[b].op == "relu"}
    assert activations == {"0_1": "0_1", "1_1": "2_1", "2_1": "3_1", "3_1": "4_1"}


@pytest.mark.slow
def test_a_prefix_of_all_paths_is_left_out() -> None:
    base, headed = graph_of(BERT.format(2)), graph_of(BERT.format(2) + "&task=sequence-classification")
    found = pair(base, headed)
    paths = {(base[a].module_path, headed[b].module_path) for b, a in found.pairs.items() if headed[b].op == "linear"}
    assert ("encoder.layer.1.output.dense", "bert.encoder.layer.1.output.dense") in paths
    assert all(second == f"bert.{first}" for first, second in paths)
    assert prefixes({"a.b", "a.c"}, {"x.a.b", "x.a.c"}) == ("", "x.")
    assert prefixes({"a.b"}, {"a.b"}) == ("", "")


@pytest.mark.slow
def test_pairs_are_one_to_one_and_of_one_call() -> None:
    first, second = graph_of(FOREIGN["gpt2"]), graph_of(FOREIGN["bert"])
    found = pair(first, second)
    assert len(set(found.pairs.values())) == len(found.pairs)
    assert all(first[a].call == second[b].call for b, a in found.pairs.items())
    assert found.pairs.keys() == found.rules.keys()


def test_an_edited_node_keeps_its_partner() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 3))
    model = es.trace(net, torch.randn(2, 8))
    before = model.project.graph
    model.edit_graph([{"replace": {"node": "1", "op": "relu"}}])  # type: ignore[attr-defined]
    found = pair(before, model.project.graph)
    assert found.pairs == {n: n for n in before.nodes} and found.rules["1"] == "id"


@pytest.mark.slow
def test_images_are_not_paired_with_tokens_nor_stored_tensors_of_other_names() -> None:
    bert, vit = graph_of(FOREIGN["bert"]), graph_of(FOREIGN["vit"])
    for a, b in ((bert, vit), (vit, bert)):
        pairs = pair(a, b).pairs
        assert "pixel_values" not in {*pairs, *pairs.values()}
        named = {y: x for y, x in pairs.items() if b[y].call == "get_attr" and b[y].module_path == a[x].module_path}
        assert all(b[y].target.split(".")[-1] == a[x].target.split(".")[-1] for y, x in named.items())


@pytest.mark.slow
def test_inputs_of_other_names_are_paired_in_order() -> None:
    graph = graph_of(FOREIGN["bert"])
    other, true = renamed(graph)
    assert all(true[x] == y for y, x in pair(graph, other).pairs.items() if other[y].call == "placeholder")
