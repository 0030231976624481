"""Hidden operations on shapes: which they are, and the edges that run through them."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given, settings

from espalier.app.canvas.casts import CastLayer
from espalier.app.canvas.hierarchy import open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import layout
from espalier.app.canvas.svg import to_svg
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Precision, TensorMeta
from tests.app.canvas.test_layout import check, graphs, through_boxes
from tests.benchmarks.synthetic import Maker, transformer


def reshaped() -> Graph:
    """A linear whose result is viewed and transposed twice on the way to an add, and split."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    up = m.add("linear", "net", x, name="up", weight=(8, 8))
    moved = m.add("transpose", "net", m.add("view", "net", up))
    split = m.add("split", "net", m.add("contiguous", "net", moved))
    m.nodes[split] = replace(m.nodes[split], ports={**m.nodes[split].ports, "data_out_1": TensorMeta((2,), "float32")})
    m.add("output", "", m.add("add", "net", moved, m.add("relu", "net", split)))
    return Graph(m.nodes)


def test_moves_of_one_tensor_are_hidden() -> None:
    """view, transpose and contiguous; not split, which has two results, nor what a user gave a title."""
    graph = reshaped()
    tree = build(graph, show_shapes=False)
    hidden = {graph[tree.ids[i]].op for i in tree.through}
    assert hidden == {"view", "transpose", "contiguous"}
    assert {tree.ids[u] for u in tree.through.values()} == {"net_up"}
    shown = {graph[i].op for i, c in zip(tree.ids, tree.captions, strict=True) if c}
    assert shown == {"placeholder", "linear", "split", "relu", "add", "output"}
    titled = next(n for n in graph if n.op == "view")
    noted = graph.replace(replace(titled, annotation=replace(titled.annotation, title="to heads")))
    assert noted[titled.id].id not in {tree.ids[i] for i in build(noted, show_shapes=False).through}
    assert not build(graph).through and not build(graph, show_shapes=False, kept=[n.id for n in graph]).through


@pytest.mark.slow
@given(graphs())
@settings(max_examples=120)
def test_edges_run_through(graph: Graph) -> None:
    """networkx: contracting the hidden nodes gives the drawn edges; the boxes stay apart."""
    tree = build(graph, show_shapes=False)
    full = nx.DiGraph(tuple(e) for e in build(graph).edges.tolist())
    full.add_nodes_from(range(len(tree.ids)))
    for hidden in sorted(tree.through):
        above = [tree.through[hidden]] if hidden in full else []
        below = list(full.successors(hidden))
        full.remove_node(hidden)
        full.add_edges_from((a, b) for a in above for b in below)
    found = layout(tree, open_all(tree))
    check(found)
    assert through_boxes(found) == 0
    drawn = {(u, v) for u, v in tree.edges.tolist() if tree.captions[u] and tree.captions[v]}
    assert drawn == {(u, v) for u, v in full.edges if tree.captions[u] and tree.captions[v]}


def test_a_conversion_behind_a_hidden_reshape_has_its_chip() -> None:
    """The chip is on the edge that runs through it."""
    graph = Graph({
        "x": Node("x", "placeholder", "placeholder", "x", ports={"data_out": TensorMeta((4, 8), "float32")}),
        "a": Node("a", "linear", "call_module", "a", (Ref("x"),), module_path="a",
                  ports={"data_in": TensorMeta((4, 8), "float32"), "weight": TensorMeta((8, 8), "float32"),
                         "data_out": TensorMeta((4, 8), "float32")}),
        "v": Node("v", "view", "call_function", "aten.view.default", (Ref("a"), (32,)),
                  ports={"data_in": TensorMeta((4, 8), "float32"), "data_out": TensorMeta((32,), "float32")}),
        "b": Node("b", "linear", "call_module", "b", (Ref("v"),), module_path="b",
                  ports={"data_in": TensorMeta((32,), "float32"), "weight": TensorMeta((8, 32), "float32"),
                         "data_out": TensorMeta((8,), "float32")},
                  precision={"data_in": Precision(Integer(8, 4))}),
        "y": Node("y", "output", "output", "output", (Ref("b"),)),
    })  # fmt: skip
    tree = build(graph, show_shapes=False)
    found = layout(tree, frozenset())
    (chip,) = CastLayer(found, graph).at(tree.index["b"], graph)
    assert tree.ids[int(found.tensors[chip.edge, 0])] == "a" and chip.told.startswith("fp32 → ")


def test_svg_hides_them_too() -> None:
    """Unless asked for; those that differ between two models are drawn."""
    graph = transformer(60)
    views = {n.id for n in graph if n.op == "view"}

    def drawn(text: str) -> set[str | None]:
        return {g.get("id") for g in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}g")} & {*views}

    opened = open_all(build(graph))
    assert views and not drawn(to_svg(graph, opened))
    assert drawn(to_svg(graph, opened, show_shapes=True)) == views
    one = min(views)
    assert drawn(to_svg(graph, opened, outlines={one: "#ff0000"})) == {one}
