"""A graph that is sent as its difference is the graph itself."""

from __future__ import annotations

import pickle

import espalier as es
from espalier.app.features.console.messages import change_of, changed_graph
from espalier.model.graph.graph import Graph


def test_a_graph_arrives_whole_and_then_as_what_changed() -> None:
    m = es.open("demo:digits-mlp")
    states = [m.project.graph]
    for edit in (
        lambda: m.quantize("linear", weight="int8"),
        lambda: m.edit_graph([{"insert_after": {"node": m.nodes("linear")[0].id, "op": "layer_norm"}}]),
        lambda: m.prune(m.nodes("linear")[0].id, sparsity=0.5),
        lambda: m.edit_graph([{"bypass": {"node": m.nodes("relu")[0].id}}]),
    ):
        edit()
        states.append(m.project.graph)
    states.append(states[0])  # and back
    here = Graph({})
    for before, after in zip([Graph({}), *states], states, strict=False):
        sent = pickle.dumps(change_of(before, after))
        here = changed_graph(here, pickle.loads(sent))
        assert here == after and list(here.nodes) == list(after.nodes)


def test_an_edit_of_one_node_sends_one_node() -> None:
    m = es.open("demo:digits")
    before = m.project.graph
    m.quantize("classifier", weight="int4")
    change = change_of(before, m.project.graph)
    assert set(change.changed) == {"classifier"} and not change.changed_weights
