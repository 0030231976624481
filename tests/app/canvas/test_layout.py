"""The canvas layout: what must hold for every graph, checked on random hierarchies, and what it costs."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.app.canvas.coordinates import spread
from espalier.app.canvas.hierarchy import Cancelled, Hierarchy, default_open, open_all, same_structure
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import HEAD, Layout, layout
from espalier.app.canvas.ordering import crossings, order
from espalier.app.canvas.scene import curve
from espalier.model.formats.integer import Integer
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.graph.meta import Precision
from tests.benchmarks.synthetic import Maker, transformer

NAMES = ("a", "b", "layer.0", "layer.1", "head")


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """A random graph in random modules: nested, repeated, left and entered again."""
    nodes: dict[str, Node] = {"x": Node("x", "placeholder", "placeholder", "x")}
    for k in range(draw(st.integers(1, 24))):
        path = ".".join(draw(st.lists(st.sampled_from(NAMES), max_size=3)))
        known = list(nodes)
        sources = draw(st.lists(st.sampled_from(known), min_size=0, max_size=3))
        op = draw(st.sampled_from(["add", "view", "sym_size", "matmul"]))
        target, call = f"aten.{op}.default", "call_function"
        if op == "matmul" and draw(st.booleans()):
            target = path = f"{path}.lin{k}".strip(".")
            op, call = "linear", "call_module"
        refs = tuple(Ref(s, draw(st.integers(0, 1))) for s in sources)
        nodes[f"n{k}"] = Node(f"n{k}", op, call, target, refs, module_path=path)  # type: ignore[arg-type]
    nodes["y"] = Node("y", "output", "output", "output", (Ref(list(nodes)[-1]),))
    return Graph(nodes)


def drawn(graph: Graph, opened: frozenset[str] | None = None, horizontal: bool = False) -> Layout:
    """The layout with everything open."""
    tree = build(graph)
    return layout(tree, open_all(tree) if opened is None else opened, horizontal)


def boxes_by_parent(found: Layout) -> dict[int, list[tuple[float, float, float, float]]]:
    """All boxes with the group they stand in."""
    tree = found.tree
    by: dict[int, list[tuple[float, float, float, float]]] = {}
    for i, rect in zip(found.nodes.tolist(), found.node_rects.tolist(), strict=True):
        by.setdefault(tree.home[i], []).append(tuple(rect))
    for g, rect in zip(found.groups.tolist(), found.group_rects.tolist(), strict=True):
        by.setdefault(tree.groups[g].parent, []).append(tuple(rect))
    covers = {m: fold.members[0] for fold in found.folds for m in fold.members}
    for fold, rect in zip(found.folds, found.fold_rects.tolist(), strict=True):
        by.setdefault(tree.groups[fold.members[0]].parent, []).append(tuple(rect))
    for s, rect in zip(found.stubs.tolist(), found.stub_rects.tolist(), strict=True):
        group = tree.stubs[s].group
        by.setdefault(covers.get(group, group), []).append(tuple(rect))
    return by


def check(found: Layout) -> None:
    """No siblings overlap, children lie inside their group, below its head; everything is inside the whole."""
    rect_of = dict(zip(found.groups.tolist(), found.group_rects.tolist(), strict=True))
    rect_of[0] = [0.0, 0.0, found.width, found.height]
    rect_of |= {f.members[0]: rect for f, rect in zip(found.folds, found.fold_rects.tolist(), strict=True)}
    for group, boxes in boxes_by_parent(found).items():
        gx, gy, gw, gh = rect_of[group]
        head = HEAD if group else 0.0
        for x, y, w, h in boxes:
            assert x >= gx - 0.2 and y >= gy + head - 0.2
            assert x + w <= gx + gw + 0.2 and y + h <= gy + gh + 0.2
        for n, (x, y, w, h) in enumerate(boxes):
            for u, v, s, t in boxes[n + 1 :]:
                assert x + w <= u + 0.2 or u + s <= x + 0.2 or y + h <= v + 0.2 or v + t <= y + 0.2


@pytest.mark.slow
@given(graphs(), st.booleans(), st.data())
@settings(max_examples=120)
def test_random_hierarchies(graph: Graph, horizontal: bool, data: st.DataObject) -> None:
    """Whatever is open: boxes are apart and inside; every node is shown or inside a closed group; edges are finite."""
    tree = build(graph, show_scalars=data.draw(st.booleans()))
    paths = [g.path for g in tree.groups[1:]]
    opened = frozenset(data.draw(st.sets(st.sampled_from(paths)))) if paths else frozenset()
    found = layout(tree, opened, horizontal)
    check(found)
    shown = set(found.nodes.tolist())
    closed = [g for g, o in zip(found.groups.tolist(), found.group_open, strict=True) if not o]
    hidden = {i for g in closed for i in tree.members(g)}
    assert shown | hidden == {i for i, c in enumerate(tree.captions) if c} and not shown & hidden
    assert np.isfinite(found.points).all() and (np.diff(found.starts) >= 2).all()
    assert len(found.tensors) == len(found.starts) - 1 == len(found.labels)


@pytest.mark.slow
@given(graphs())
@settings(max_examples=60)
def test_every_connection_is_drawn(graph: Graph) -> None:
    """With all open, the pieces of each tensor lead from its node to each of its users."""
    tree = build(graph)
    found = layout(tree, open_all(tree))
    rect = dict(zip(found.nodes.tolist(), found.node_rects.tolist(), strict=True))
    shared = {s.source for s in tree.stubs}
    ends: dict[int, list[tuple[float, float]]] = {}
    for k, (u, _) in enumerate(found.tensors.tolist()):
        a, b = found.points[found.starts[k]], found.points[found.starts[k + 1] - 1]
        ends.setdefault(u, []).extend([tuple(a), tuple(b)])
    for u, v in tree.edges.tolist():
        if u in rect and v in rect and u not in shared:
            assert touches(rect[u], ends[u]) and touches(rect[v], ends[u])


def touches(rect: list[float], points: list[tuple[float, float]]) -> bool:
    """One of the points lies on the border of the rectangle."""
    x, y, w, h = rect
    return any(x - 1 <= a <= x + w + 1 and min(abs(b - y), abs(b - y - h)) < 1 for a, b in points)


@pytest.mark.slow
@given(graphs())
@settings(max_examples=30)
def test_same_graph_same_drawing(graph: Graph) -> None:
    """Deterministic, to the last digit."""
    one, two = drawn(graph), drawn(graph)
    assert np.array_equal(one.node_rects, two.node_rects) and np.array_equal(one.points, two.points)


def test_choices_move_nothing() -> None:
    """An edit of a precision changes neither the structure nor any place."""
    graph = transformer(60)
    node = next(n for n in graph if n.op == "linear")
    edited = graph.replace(replace(node, precision={"weight": Precision(Integer(4, 2))}))
    assert same_structure(graph, edited)
    one, two = drawn(graph), drawn(edited)
    assert np.array_equal(one.node_rects, two.node_rects) and np.array_equal(one.group_rects, two.group_rects)
    other = graph.replace(replace(node, args=()))
    assert not same_structure(graph, other)


def test_equal_blocks_are_drawn_equally_and_counted() -> None:
    """The blocks of a transformer are identical siblings with the same inside."""
    tree = build(transformer(200))
    blocks = [i for i, g in enumerate(tree.groups) if g.label.startswith("layers.")]
    assert len(blocks) >= 8 and {tree.groups[i].twins for i in blocks} == {len(blocks)}
    found = layout(tree, open_all(tree))
    inside = []
    for block in blocks:
        x, y, _, _ = found.group_rects[found.groups.tolist().index(block)]
        rows = np.isin(found.nodes, tree.members(block))
        inside.append(np.sort((found.node_rects[rows] - (x, y, 0, 0)).round(3), axis=0))
    assert all(np.allclose(inside[0], other, atol=0.01) for other in inside[1:])


def test_a_chain_stands_in_one_line() -> None:
    """Blocks one after the other do not drift sideways, and single wires are straight."""
    found = drawn(transformer(400))
    assert found.width < 1200
    maker = Maker()
    x = maker.add("placeholder", "", name="x")
    for _ in range(6):
        x = maker.add("view", "", x)
    maker.add("output", "", x)
    line = drawn(Graph(maker.nodes))
    centres = line.node_rects[:, 0] + line.node_rects[:, 2] / 2
    assert np.ptp(centres) < 0.2


def test_shared_tensor_is_cut_into_stubs() -> None:
    """A mask that feeds every block enters each by a labelled stub, and no edge runs the whole way."""
    tree = build(transformer(600, mask=True))
    stubs = [s for s in tree.stubs if not s.closed]
    labels = Counter(s.label for s in stubs if not s.uses)
    assert labels["attention_mask"] >= 20
    assert [s.uses for s in stubs if s.uses] == [labels["attention_mask"]]
    found = layout(tree, open_all(tree))
    spans = [np.ptp(found.points[a:b, 1]) for a, b in zip(found.starts, found.starts[1:], strict=False)]
    assert max(spans) < found.height / 5


@pytest.mark.slow
@given(graphs(), st.booleans())
@settings(max_examples=60)
def test_edges_keep_clear_of_boxes(graph: Graph, horizontal: bool) -> None:
    """No edge runs through a node, a stub or a closed group, curves included."""
    tree = build(graph)
    assert through_boxes(layout(tree, open_all(tree), horizontal)) == 0


def through_boxes(found: Layout) -> int:
    """How many edges pass inside a box."""
    boxes = np.vstack([found.node_rects, found.group_rects[~found.group_open], found.stub_rects, found.fold_rects])
    low, high = boxes[:, :2] + 1, boxes[:, :2] + boxes[:, 2:] - 1
    count = 0
    for a, b in pairwise(found.starts.tolist()):
        line = curve(found.points[a:b], found.horizontal, 12)[:, None, :]
        count += bool(((line > low) & (line < high)).all(axis=2).any())
    return count


def test_parallel_heads_are_not_cut() -> None:
    """Many groups side by side share their input by ordinary edges."""
    tree = build(transformer(200, heads=8))
    assert not tree.stubs


def test_shape_arithmetic_and_lone_constants_hide() -> None:
    """Scalars are hidden unless asked for; a constant used once is folded into its user."""
    nodes = {
        "x": Node("x", "placeholder", "placeholder", "x"),
        "s": Node("s", "sym_size", "call_function", "aten.sym_size.int", (Ref("x"), 0)),
        "c": Node("c", "get_attr", "get_attr", "c"),
        "d": Node("d", "get_attr", "get_attr", "d"),
        "a": Node("a", "add", "call_function", "aten.add.Tensor", (Ref("x"), Ref("c"), Ref("d"), Ref("s"))),
        "b": Node("b", "add", "call_function", "aten.add.Tensor", (Ref("a"), Ref("d"))),
        "y": Node("y", "output", "output", "output", (Ref("b"),)),
    }
    graph = Graph(nodes)
    shown = {tree_id for tree_id, c in zip(graph.nodes, build(graph).captions, strict=True) if c}
    assert shown == {"x", "d", "a", "b", "y"}
    everything = build(graph, show_scalars=True)
    assert all(everything.captions)


def named(path: str, op: str = "add") -> Graph:
    """Two nodes in `path`, one beside."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    a = m.add(op, path, x)
    m.add("output", "", m.add("add", "z", m.add(op, path, a), a), x)
    return Graph(m.nodes)


def test_needless_frames_are_merged() -> None:
    """Chains of single groups become one box; a lone function takes the name of its module."""
    tree = build(named("bert.encoder.layer.0.deep"))
    assert [g.label for g in tree.groups] == ["", "bert.encoder.layer.0.deep"]
    assert tree.group_of("bert.encoder") == 1 and tree.group_of("nowhere.else") == 0
    lone = next(c for n, c in zip(tree.ids, tree.captions, strict=True) if c and n.startswith("add_3"))
    assert lone.name == "z"


def test_default_stays_readable() -> None:
    """The first view of a large model opens the first of identical blocks only."""
    tree = build(transformer(3000))
    opened = default_open(tree)
    assert "model.layers.0" in opened and "model.layers.1" not in opened
    found = layout(tree, opened)
    assert len(found.nodes) < 60
    small = build(transformer(3))
    assert default_open(small) == open_all(small)


def test_layout_can_be_cancelled() -> None:
    """Both halves stop as soon as they are told."""
    graph = transformer(2000)
    with pytest.raises(Cancelled):
        build(graph, cancelled=lambda: True)
    tree = build(graph)
    with pytest.raises(Cancelled):
        layout(tree, open_all(tree), cancelled=lambda: True)


@pytest.mark.slow
def test_flat_graph_without_modules() -> None:
    """A large graph in one namespace is laid out too, in reasonable time."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    seen = [x]
    for k in range(2500):
        seen.append(m.add("add", "", seen[-1], seen[max(0, k - 7 - k % 5)]))
    m.add("output", "", seen[-1])
    found = drawn(Graph(m.nodes))
    assert len(found.nodes) == 2502
    check_rows(found)


def check_rows(found: Layout) -> None:
    """Nodes of one height do not overlap."""
    order_ = np.lexsort((found.node_rects[:, 0], found.node_rects[:, 1]))
    rects = found.node_rects[order_]
    same = rects[1:, 1] == rects[:-1, 1]
    assert (rects[1:, 0][same] >= (rects[:-1, 0] + rects[:-1, 2])[same]).all()


def test_interleaved_groups_are_split() -> None:
    """Modules that are left and entered again by turns have a frame for each time."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    for _ in range(3):
        x = m.add("add", "a.inner", m.add("view", "a.inner", x))
        x = m.add("add", "b.inner", m.add("view", "b.inner", x))
    m.add("output", "", x)
    found = drawn(Graph(m.nodes))
    check(found)
    assert [g.label for g in found.tree.groups[1:]] == [f"{m}.inner · {k} of 3" for m in "ab" for k in (1, 2, 3)]


def test_ordering_removes_crossings() -> None:
    """Two crossing pairs are uncrossed; a complete bipartite graph keeps what must cross."""
    layers = order([[0, 1], [2, 3]], [(0, 3), (1, 2)])
    downs: list[list[int]] = [[3], [2], [], []]
    assert crossings(layers, downs) == 0
    assert crossings([[0, 1], [2, 3]], [[2, 3], [2, 3], [], []]) == 1


@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(0.1, 9)), min_size=1, max_size=12), st.floats(1, 80))
def test_spread_keeps_room_and_order(wishes: list[tuple[float, float]], gap: float) -> None:
    """Neighbours stay apart; wishes that do not conflict are granted."""
    places = spread([w for w, _ in wishes], [p for _, p in wishes], [gap] * (len(wishes) - 1))
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(places))
    if all(b[0] - a[0] >= gap for a, b in pairwise(wishes)):
        assert np.allclose(places, [w for w, _ in wishes])


def test_layout_is_free_of_qt() -> None:
    """The modules that others use headless do not import Qt."""
    import subprocess

    code = "import sys, app.canvas.svg, app.canvas.scene, app.canvas.node_search; print('PySide6' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_tree_paths_resolve(transform: Hierarchy | None = None) -> None:
    """Every module path on the way to a node names a group that contains it."""
    graph = transformer(120)
    tree = transform or build(graph)
    for node in graph:
        home = tree.home[tree.index[node.id]]
        assert tree.group_of(node.module_path.rpartition(".")[0]) in [0, *tree.ancestors(home), home]


def test_closed_groups_keep_the_ends_of_cut_edges() -> None:
    """A closed group that takes or gives a shared tensor has a tag inside its box; one with both ends has none."""
    graph = masked(14)
    tree = build(graph)
    closed = layout(tree, frozenset())
    assert not len(closed.stubs) or {tree.stubs[s].uses for s in closed.stubs.tolist()} == {14}
    found = layout(tree, frozenset({"model"}))
    check(found)
    tags = {tree.groups[tree.stubs[s].group].path: tree.stubs[s] for s in found.stubs.tolist()}
    assert {p for p, t in tags.items() if not t.uses} == {f"model.layers.{k}" for k in range(14)}
    assert {t.label for t in tags.values() if not t.uses} == {"mask"}
    assert (tags["model.mask"].uses, tags["model.mask"].label) == (14, "14 blocks")
    boxes = dict(zip(found.groups.tolist(), found.group_rects.tolist(), strict=True))
    for s, (x, y, w, h) in zip(found.stubs.tolist(), found.stub_rects.tolist(), strict=True):
        gx, gy, gw, gh = boxes[tree.stubs[s].group]
        assert gx < x and x + w < gx + gw and gy + 34 < y and y + h < gy + gh


def masked(blocks: int) -> Graph:
    """A group that makes a mask, and blocks in a row that all read it."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    mask = m.add("expand", "model.mask", m.add("ge", "model.mask", x))
    for k in range(blocks):
        x = m.add("linear", f"model.layers.{k}", x, name="up", weight=(8, 8))
        x = m.add("masked_fill", f"model.layers.{k}", x, mask)
    m.add("output", "", x)
    return Graph(m.nodes)


def test_many_shared_tensors_are_counted() -> None:
    """A closed group shows a few tags; the last one stands for the rest."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    shared = [m.add("placeholder", "", name=f"cache_{k}") for k in range(6)]
    for k in range(9):
        for name in shared:
            x = m.add("add", f"block.{k}", x, name)
    m.add("output", "", x)
    tree = build(Graph(m.nodes))
    tags = [tree.stubs[t] for t in tree.groups[tree.group_of("block.3")].tags]
    assert [t.label for t in tags] == ["cache_0", "cache_1", "4 more shared tensors"]
    assert [tree.ids[i] for i in (tags[2].source, *tags[2].others)] == shared[2:]


def test_shared_tensors_of_one_module_are_told_apart() -> None:
    """Two tensors that end in the same op are called after what differs before it."""
    m = Maker()
    x = m.add("placeholder", "", name="x")
    angle = m.add("mul", "rotary", x)
    pair = [m.add("to", "rotary", m.add(op, "rotary", angle)) for op in ("cos", "sin")]
    for k in range(9):
        for name in pair:
            x = m.add("mul", f"block.{k}", x, name)
    m.add("output", "", x)
    tree = build(Graph(m.nodes))
    assert {s.label for s in tree.stubs if not s.uses} == {"rotary › cos", "rotary › sin"}


def test_shapes_stand_where_the_nodes_do_not_tell_them() -> None:
    """A layer that shows its weights' sizes has the shape on its wire, if there is room; others say it themselves."""
    found = drawn(transformer(60))
    ids = found.tree.ids
    labelled = {
        ids[u] for (u, _), (_, _, room) in zip(found.tensors.tolist(), found.labels.tolist(), strict=True) if room
    }
    assert {"model_layers_0_attention_query", "model_layers_0_mlp_up"} <= labelled
    assert not any(i.startswith(("transpose", "view", "softmax", "div")) for i in labelled)
    for k in np.flatnonzero(found.labels[:, 2] > 0).tolist():
        x, y, _ = found.labels[k].tolist()
        spot = found.node_rects[:, :2], found.node_rects[:, :2] + found.node_rects[:, 2:]
        assert not ((spot[0] < (x + 1, y)) & (spot[1] > (x + 1, y))).all(axis=1).any()
