"""Chains of identical groups, and folds of them: what is one box, which wires remain, and what it tells."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.app.canvas.fold_card import bar_at, bar_height, card_size, slots
from espalier.app.canvas.fold_metrics import FoldMetrics
from espalier.app.canvas.folding import Fold
from espalier.app.canvas.hierarchy import Hierarchy, default_open, open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import Layout, layout
from espalier.app.canvas.node_metrics import NodeMetrics
from espalier.app.canvas.scene import Scene
from espalier.app.canvas.svg import to_svg
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Precision, Sparsity
from tests.app.canvas.test_layout import check, masked, through_boxes
from tests.benchmarks.synthetic import Maker, transformer

SVG = "{http://www.w3.org/2000/svg}"


def titles(tree: Hierarchy) -> list[tuple[str, tuple[str, ...]]]:
    """Title and numbers of every chain, in the order of the tree."""
    chains = {id(c): c for c in tree.chains.values()}
    return [(c.title, c.numbers) for c in chains.values()]


def stack(blocks: list[str], outer: str = "model.layers") -> Graph:
    """Blocks in a row, each a linear and the named op."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    for k, op in enumerate(blocks):
        x = m.add("linear", f"{outer}.{k}", x, name="up", weight=(8, 8))
        x = m.add(op, f"{outer}.{k}", x)
    m.add("output", "", m.add("add", "model.head", m.add("mul", "model.head", x), x))
    return Graph(m.nodes)


def test_identical_blocks_are_a_chain() -> None:
    """All blocks of a transformer, at whatever depth they lie; two are none."""
    assert titles(build(transformer(200))) == [("layers", tuple(str(k) for k in range(9)))]
    assert titles(build(stack(["relu"] * 5, "a.b.c.block"))) == [("block", ("0", "1", "2", "3", "4"))]
    assert titles(build(stack(["relu"] * 2))) == []


def test_a_block_of_other_structure_is_in_no_chain() -> None:
    """What an edit makes of one block ends the chain; what is left of it on both sides is folded."""
    tree = build(stack(["relu"] * 4 + ["gelu"] + ["relu"] * 4))
    assert titles(tree) == [("layers", ("0", "1", "2", "3")), ("layers", ("5", "6", "7", "8"))]
    assert titles(build(stack(["relu", "relu", "gelu", "relu", "relu"]))) == []


def test_a_title_is_no_structure() -> None:
    """A node that a user has renamed does not end the chain; its layer has another drawing."""
    graph = stack(["relu"] * 5)
    node = next(n for n in graph if n.op == "linear")
    renamed = graph.replace(replace(node, annotation=replace(node.annotation, title="a title that is longer")))
    assert titles(build(renamed)) == titles(build(graph))


def test_an_edit_of_one_block_splits_the_chain() -> None:
    """Bypassing one op leaves a chain on each side."""
    graph = stack(["relu"] * 9)
    ops = [n for n in graph if n.op == "relu"]
    gone = ops[4]
    users = [replace(n, args=tuple(gone.args[0] if a == Ref(gone.id) else a for a in n.args)) for n in graph]
    edited = Graph({n.id: n for n in users if n.id != gone.id})
    tree = build(edited)
    assert [numbers for _, numbers in titles(tree)] == [("0", "1", "2", "3"), ("5", "6", "7", "8")]
    opened = frozenset(p for p in open_all(tree) if not p.rpartition(".")[2].isdigit())
    found = layout(tree, opened, folding=True)
    assert len(found.folds) == 2 and through_boxes(found) == 0


def test_stages_of_their_own_sizes_are_chains_of_their_own() -> None:
    """As in a residual network, where the first block of each stage differs."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    for stage, size in enumerate((8, 16)):
        for k in range(4):
            path = f"net.stages.{stage}.layers.{k}"
            inner = m.add("linear", path, x, name="conv", weight=(size, size))
            x = m.add("add", path, inner, m.add("linear", path, x, name="short", weight=(size, 4))) if k == 0 else (
                m.add("add", path, inner, x)
            )  # fmt: skip
    m.add("output", "", x)
    assert [numbers for _, numbers in titles(build(Graph(m.nodes)))] == [("1", "2", "3"), ("1", "2", "3")]


def test_parallel_experts_are_a_chain() -> None:
    """Groups beside one another fold too: one wire enters the box and one leaves it per result."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    outs = []
    for k in range(6):
        path = f"moe.experts.{k}"
        outs.append(m.add("relu", path, m.add("linear", path, x, name="up", weight=(8, 8))))
    m.add("output", "", m.add("cat", "", *outs))
    tree = build(Graph(m.nodes))
    found = layout(tree, frozenset({"moe", "moe.experts"}), folding=True)
    assert [f.title for f in found.folds] == ["experts ×6"]
    assert sum(int(u) == tree.index["x"] for u, _ in found.tensors.tolist()) == 2  # to the frame, to the card
    assert sum(tree.ids[int(u)] in outs for u, _ in found.tensors.tolist()) == 12


def boxes(found: Layout) -> dict[tuple[str, int], tuple[float, float, float, float]]:
    """What is drawn at the top level of an unopened tree, by kind and place."""
    rows = {("node", n): tuple(r) for n, r in zip(found.nodes.tolist(), found.node_rects.tolist(), strict=True)}
    rows |= {("fold", k): tuple(r) for k, r in enumerate(found.fold_rects.tolist())}
    rows |= {("group", g): tuple(r) for g, r in zip(found.groups.tolist(), found.group_rects.tolist(), strict=True)}
    return rows


@st.composite
def towers(draw: st.DrawFn) -> Graph:
    """Random numbered blocks with wires between any two, some of another structure."""
    nodes: dict[str, Node] = {"x": Node("x", "placeholder", "placeholder", "x")}
    heads = ["x"]
    for k in range(draw(st.integers(3, 9))):
        ups = draw(st.lists(st.sampled_from(heads), min_size=1, max_size=2, unique=True))
        op = draw(st.sampled_from(["add", "add", "add", "mul"]))
        stem = draw(st.sampled_from(["a", "a", "b"]))
        nodes[f"u{k}"] = Node(f"u{k}", op, "call_function", op, tuple(Ref(u) for u in ups), module_path=f"{stem}.{k}.f")
        nodes[f"v{k}"] = Node(f"v{k}", "relu", "call_function", "relu", (Ref(f"u{k}"),), module_path=f"{stem}.{k}.f")
        heads.append(f"v{k}")
        if draw(st.booleans()):
            nodes[f"w{k}"] = Node(f"w{k}", "neg", "call_function", "neg", (Ref(f"v{k}"),))
            heads.append(f"w{k}")
    nodes["y"] = Node("y", "output", "output", "output", (Ref(heads[-1]),))
    return Graph(nodes)


@pytest.mark.slow
@given(towers(), st.booleans(), st.data())
@settings(max_examples=150)
def test_folded_graphs_stay_acyclic_and_connected(graph: Graph, horizontal: bool, data: st.DataObject) -> None:
    """networkx: contracting the folds leaves no loop; boxes are apart; every node is in exactly one of them."""
    tree = build(graph)
    paths = sorted(open_all(tree))
    opened = frozenset(data.draw(st.sets(st.sampled_from(paths)))) if paths else frozenset()
    found = layout(tree, opened, horizontal, folding=True)
    assert all(len(f.members) >= 2 for f in found.folds)
    check(found)
    box_of: dict[int, object] = {n: n for n in found.nodes.tolist()}
    for k, fold in enumerate(found.folds):
        for member in fold.members:
            box_of |= {n: f"fold {k}" for n in tree.members(member)}
    for group, is_open in zip(found.groups.tolist(), found.group_open, strict=True):
        if not is_open:
            box_of |= {n: f"group {group}" for n in tree.members(group)}
    assert set(box_of) == {i for i, c in enumerate(tree.captions) if c}
    flow = nx.DiGraph((box_of[u], box_of[v]) for u, v in tree.edges.tolist() if u in box_of and v in box_of)
    flow.remove_edges_from(list(nx.selfloop_edges(flow)))
    assert nx.is_directed_acyclic_graph(flow)
    assert through_boxes(found) == 0


def test_wires_lead_into_the_card_and_out_of_it() -> None:
    """The whole stack: one wire to the card's upper edge, one from its lower edge; none is lost, none inside."""
    tree = build(stack(["relu"] * 7))
    found = layout(tree, frozenset({"model"}), folding=True)
    (fold,), (rect,) = found.folds, found.fold_rects.tolist()
    assert fold.title == "layers ×7" and fold.is_whole
    x, y, w, h = rect
    ends = [(found.points[a], found.points[b - 1]) for a, b in zip(found.starts, found.starts[1:], strict=False)]
    assert sum(x < e[0] < x + w and abs(e[1] - y) < 0.5 for _, e in ends) == 1
    leaving = [s for s, _ in ends if x < s[0] < x + w and abs(s[1] - y - h) < 0.5]
    assert len(leaving) == 1


def test_an_opened_layer_splits_the_fold() -> None:
    """Folded before, the layer, folded after; a single one beside it is a collapsed group."""
    tree = build(stack(["relu"] * 7))
    found = layout(tree, frozenset({"model", "model.layers.3"}), folding=True)
    assert [f.title for f in found.folds] == ["layers 0 … 2", "layers 4 … 6"]
    one = layout(tree, frozenset({"model", "model.layers.1"}), folding=True)
    assert [f.title for f in one.folds] == ["layers 2 … 6"]
    assert {tree.groups[g].label for g in one.groups.tolist()} >= {"layers.0", "layers.1"}
    tops = {tree.groups[g].label: r[1] for g, r in zip(found.groups.tolist(), found.group_rects.tolist(), strict=True)}
    assert found.fold_rects[0, 1] < tops["layers.3"] < found.fold_rects[1, 1]
    assert not layout(tree, open_all(tree), folding=True).folds


def test_the_layout_with_folds_is_deterministic_and_small() -> None:
    """Twice the same to the last digit; 400 blocks are one card that fits a screen."""
    tree = build(transformer(9000))
    opened = default_open(tree, folding=True)
    one, two = (layout(tree, opened, folding=True) for _ in range(2))
    assert np.array_equal(one.points, two.points) and np.array_equal(one.fold_rects, two.fold_rects)
    assert len(one.folds) == 1 and len(one.folds[0].members) > 350 and one.height < 1200


def test_tags_of_a_fold() -> None:
    """The mask that all blocks read enters the card once."""
    tree = build(masked(14))
    found = layout(tree, frozenset({"model"}), folding=True)
    labels = [tree.stubs[t].label for t in found.folds[0].tags]
    assert labels == ["mask"]
    x, y, w, h = found.fold_rects[0].tolist()
    inside = [r for r in found.stub_rects.tolist() if x < r[0] and r[0] + r[2] < x + w and y < r[1] < y + h]
    assert len(inside) == 1


def metrics_of(graph: Graph) -> tuple[FoldMetrics, Hierarchy, Fold]:
    """The metrics of the only fold."""
    tree = build(graph)
    (fold,) = layout(tree, frozenset({"model"}), folding=True).folds
    return FoldMetrics.of(tree, fold, NodeMetrics.of(graph), graph), tree, fold


def test_a_card_tells_what_differs() -> None:
    """Most layers count; each of the others is named with the kind of its choice. Bits are those of the formats."""
    graph = stack(["relu"] * 6)
    eight, four = Precision(Integer(8, 0)), Precision(Integer(4, 0))
    linears = [n for n in graph if n.op == "linear"]
    chosen = [replace(n, precision={"weight": four if k == 2 else eight}) for k, n in enumerate(linears)]
    chosen[4] = replace(chosen[4], sparsity={"weight": Sparsity("l1", 0.5, "local", None, 0)})
    plain, _, _ = metrics_of(graph)
    assert plain.differences() == "" and plain.counts()[0].endswith("identical")
    metrics, _, _ = metrics_of(graph.replace(*chosen))
    assert metrics.bits == (8.0, 8.0, 4.0, 8.0, 8.0, 8.0)
    assert metrics.differences() == "2 differ: 2 format, 4 sparsity"
    assert metrics.counts()[0].endswith("same structure")
    assert metrics.told(2) == "2 · 4 bits mean · differs in format"


def test_measures_of_the_card() -> None:
    """Bars lie inside the card and apart; a point on a bar finds it; 5 per bit up to 8 bits, ever higher above."""
    for count in (2, 3, 12, 40, 41, 80, 126, 400, 1000):
        width, height = card_size(count, f"layer ×{count}")
        bars = slots(count)
        assert (bars[:, 0] > 0).all() and (bars[:, 0] + bars[:, 2] < width).all()
        assert (bars[:, 1] > 0).all() and (bars[:, 1] + bars[:, 3] < height).all()
        for k in {0, count // 2, count - 1}:
            x, y, w, h = bars[k].tolist()
            assert bar_at(count, x + w / 2, y + h / 2) == k
    assert bar_at(12, 1.0, 60.0) == -1 and bar_at(12, 30.0, 5.0) == -1
    assert [bar_height(b) for b in (1.0, 4.0, 8.0)] == [5.0, 20.0, 40.0]
    assert bar_height(8.0) < bar_height(16.0) < bar_height(32.0) == slots(3)[0, 3]
    assert bar_height(float("nan")) == 2.0


def test_hits_and_hidden_nodes() -> None:
    """A point on a bar is that layer, on the link the link; a hidden node is at the card."""
    from espalier.app.canvas.colouring import by_kind
    from espalier.app.canvas.node_search import NodeSearch

    graph = stack(["relu"] * 7)
    tree = build(graph)
    found = layout(tree, frozenset({"model"}), folding=True)
    scene = Scene(graph, found, NodeMetrics.of(graph), by_kind(tree), NodeSearch(graph))
    x, y, w, h = found.fold_rects[0].tolist()
    bar = slots(7)[3]
    hit = scene.hit(x + bar[0] + 2, y + bar[1] + 20)
    assert hit and (hit.kind, hit.bar) == ("fold", 3)
    hit = scene.hit(x + w - 8 - 20, y + h - 8 - 15)
    assert hit and hit.link == "Open all"
    hit = scene.hit(x + 20, y + 10)
    assert hit and (hit.kind, hit.bar, hit.link) == ("fold", -1, "")
    inside = tree.members(found.folds[0].members[2])[0]
    assert scene.rect_of(inside) == (x, y, w, h)
    assert set(scene.shown_in((x + 1, y + 1, 2, 2)).tolist()) == {
        i for m in found.folds[0].members for i in tree.members(m)
    }


def test_svg_draws_the_card() -> None:
    """One group per fold with as many bars as layers; the outline of a changed node is on its bar."""
    graph = transformer(200)
    tree = build(graph)
    changed = next(n.id for n in graph if "layers_4_" in n.id)
    root = ElementTree.fromstring(to_svg(graph, outlines={changed: "#ff0000"}))
    (card,) = (g for g in root.iter(f"{SVG}g") if g.get("class") == "fold")
    assert len([g for g in card.findall(f"{SVG}g")]) == 9
    assert [r.get("stroke") for r in card.findall(f"{SVG}rect")].count("#ff0000") == 1
    words = [t.text or "" for t in card.iter(f"{SVG}text")]
    assert words[0] == "layers ×9" and [w for w in words if w.isdigit()] == [str(k) for k in range(9)]
    assert len(tree.chains) == 9
