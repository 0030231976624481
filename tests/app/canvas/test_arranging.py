"""Pins and frames on a layout: places by hand, edges that follow, and what stays as it was."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from espalier.app.canvas.aligning import aligned
from espalier.app.canvas.arranging import FRAME_HEAD, FRAME_PADDING, arranged, name_of, pin_of
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.hierarchy import Hierarchy, open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import MAX_LABEL_WIDTH, Layout, layout
from espalier.app.canvas.movement import EdgeIndex, rect_of
from espalier.app.canvas.svg import to_svg
from espalier.model.document.arrangement import UNARRANGED, Arrangement, Frame, Pin
from espalier.model.graph.graph import Graph
from tests.benchmarks.synthetic import Maker, transformer


def drawn(graph: Graph, horizontal: bool = False) -> tuple[Hierarchy, Layout]:
    """The tree of a graph and its layout with all groups expanded."""
    tree = build(graph)
    return tree, layout(tree, open_all(tree), horizontal)


def diamond() -> Graph:
    """x → a → b → c → near → far, a → near, a → far: the long edges share a way beside b and c."""
    make = Maker()
    x = make.add("placeholder", "", name="x")
    a = make.add("linear", "", x, name="a", weight=(8, 8))
    b = make.add("linear", "", a, name="b", weight=(8, 8))
    c = make.add("linear", "", b, name="c", weight=(8, 8))
    near = make.add("add", "", c, a, name="near")
    make.add("add", "", near, a, name="far")
    return Graph(make.nodes)


def ends(shown: Layout, edge: int) -> tuple[np.ndarray, np.ndarray]:
    """The first and the last point of an edge."""
    return shown.points[shown.starts[edge]], shown.points[shown.starts[edge + 1] - 1]


def test_nothing_arranged_is_the_very_layout() -> None:
    _, plain = drawn(transformer(60))
    assert arranged(plain, UNARRANGED) is plain
    elsewhere = Arrangement((Pin("node", "no such node", 1.0, 2.0), Pin("group", "", 0.0, 0.0)))
    assert arranged(plain, elsewhere) is plain


@pytest.mark.parametrize("horizontal", [False, True])
def test_a_pin_moves_one_box_and_its_edges(horizontal: bool) -> None:
    plain = drawn(transformer(60), horizontal)[1]
    rng = np.random.default_rng(3)
    along, across = (0, 1) if horizontal else (1, 0)
    for place in rng.choice(len(plain.nodes), 12, replace=False).tolist():
        item, shift = Item("node", place), rng.uniform(-150, 150, 2).round(1)
        before = rect_of(plain, item)
        pin = pin_of(plain, item, *(before[:2] + shift).tolist())
        shown = arranged(plain, Arrangement((pin,)))
        after = rect_of(shown, item)
        assert np.allclose(after, [*(before[:2] + shift), *before[2:]], atol=0.06)
        others = np.arange(len(plain.nodes)) != place
        assert np.array_equal(shown.node_rects[others], plain.node_rects[others]), "the rest stays"
        for edge in range(len(plain.starts) - 1):
            old, new = ends(plain, edge), ends(shown, edge)
            leaves = abs(old[0][along] - before[along] - before[along + 2]) < 0.5
            leaves &= before[across] <= old[0][across] <= before[across] + before[across + 2]
            arrives = abs(old[1][along] - before[along]) < 0.5 and bool(plain.arrows[edge])
            arrives &= before[across] <= old[1][across] <= before[across] + before[across + 2]
            if leaves:
                assert np.allclose(new[0], old[0] + after[:2] - before[:2])
            if arrives:
                assert np.allclose(new[1], old[1] + after[:2] - before[:2])
            else:
                assert np.array_equal(new[1], old[1]), "the other end stays"


def test_what_shares_the_way_of_a_moved_edge_gets_its_own() -> None:
    """By hand: a feeds b, near and far; where near moves, the edge to far still begins at a."""
    tree, plain = drawn(diamond())
    a, near = (Item("node", int(np.flatnonzero(plain.nodes == tree.index[n])[0])) for n in ("a", "near"))
    x, y, w, h = rect_of(plain, a).tolist()
    mine = np.flatnonzero(plain.tensors[:, 0] == tree.index["a"]).tolist()
    begins = [ends(plain, edge)[0][1] for edge in mine]
    assert len(mine) == 3 and max(begins) > y + h, "one begins on the way of another"
    rect = rect_of(plain, near)
    shown = arranged(plain, Arrangement((pin_of(plain, near, float(rect[0]) + 300, y),)))
    for edge in mine:
        sx, sy = ends(shown, edge)[0].tolist()
        assert x <= sx <= x + w and sy == pytest.approx(y + h), "all of them begin at a"


def test_full_routes_begin_at_their_sources() -> None:
    """Of every edge of a graph with shared ways: the whole route begins at a box or at the border of a group."""
    plain = drawn(transformer(60))[1]
    index = EdgeIndex(plain)
    borders = np.concatenate([plain.node_rects, plain.group_rects, plain.stub_rects])
    for edge in range(len(plain.starts) - 1):
        x, y = index.full(edge)[0].tolist()
        within = (borders[:, 0] - 0.5 <= x) & (x <= borders[:, 0] + borders[:, 2] + 0.5)
        level = np.minimum(np.abs(borders[:, 1] + borders[:, 3] - y), np.abs(borders[:, 1] - y))
        assert (within & (level < 0.5)).any(), f"edge {edge} begins in the air"


def test_pins_are_relative_to_the_group_around() -> None:
    """A pin inside a block stays at its place of the block where a group before it is closed."""
    tree = build(transformer(60))
    opened = open_all(tree)
    plain = layout(tree, opened)
    inner = next(
        k for k, n in enumerate(plain.nodes.tolist()) if tree.groups[tree.home[n]].path.startswith("model.layers.1")
    )
    item = Item("node", inner)
    rect = rect_of(plain, item).tolist()
    pin = pin_of(plain, item, rect[0] + 31, rect[1] + 17)
    name = name_of(plain, item)
    other = layout(tree, frozenset(p for p in opened if not p.startswith("model.layers.0")))
    shown = arranged(other, Arrangement((pin,)))
    at = int(np.flatnonzero(other.nodes == tree.index[name])[0])
    assert np.allclose(shown.node_rects[at, :2] - other.node_rects[at, :2], (31, 17), atol=0.06)
    assert arranged(layout(tree, opened, True), Arrangement((pin,))).pinned == (), "of the other flow"


def test_groups_grow_around_what_is_moved_out_of_them() -> None:
    tree, plain = drawn(transformer(60))
    inner = next(k for k, n in enumerate(plain.nodes.tolist()) if len(tree.ancestors(tree.home[n])) >= 2)
    item = Item("node", inner)
    rect = rect_of(plain, item).tolist()
    shown = arranged(plain, Arrangement((pin_of(plain, item, rect[0] - 900, rect[1]),)))
    x, y, w, h = rect_of(shown, item).tolist()
    for group in tree.ancestors(tree.home[int(plain.nodes[inner])]):
        gx, gy, gw, gh = shown.group_rects[int(np.flatnonzero(plain.groups == group)[0])].tolist()
        assert gx < x and gy < y and gx + gw > x + w and gy + gh > y + h
    assert shown.left < x and shown.left + shown.width >= plain.width, "the bounds hold it"


def test_closed_groups_and_folds_are_moved_with_their_tags() -> None:
    tree = build(transformer(60))
    plain = layout(tree, frozenset({"model"}), folding=True)
    assert plain.folds, "the layers are folded"
    fold = Item("fold", 0)
    rect = rect_of(plain, fold).tolist()
    shown = arranged(plain, Arrangement((pin_of(plain, fold, rect[0] + 70, rect[1] + 40),)))
    assert np.allclose(shown.fold_rects[0] - plain.fold_rects[0], (70, 40, 0, 0), atol=0.06)
    tags = np.isin(plain.stubs, plain.folds[0].tags)
    assert np.allclose((shown.stub_rects - plain.stub_rects)[tags], (70, 40, 0, 0), atol=0.06)
    assert np.array_equal(shown.stub_rects[~tags], plain.stub_rects[~tags])


def test_a_frame_reaches_around_what_is_seen_of_its_nodes() -> None:
    tree, plain = drawn(transformer(60))
    names = [tree.ids[n] for n in plain.nodes[:3]]
    (frame,) = arranged(plain, Arrangement(frames=(Frame("Start", (*names, "gone")),))).own_frames
    rects = plain.node_rects[:3]
    left, top = rects[:, 0].min() - FRAME_PADDING, rects[:, 1].min() - FRAME_PADDING - FRAME_HEAD
    right, low = (rects[:, :2] + rects[:, 2:]).max(axis=0) + FRAME_PADDING
    assert frame.rect == pytest.approx((left, top, right - left, low - top))
    closed = layout(tree, frozenset())
    hidden = next(n for n in range(len(tree.ids)) if tree.home[n] > 0)
    (frame,) = arranged(closed, Arrangement(frames=(Frame("Hidden", (tree.ids[hidden],)),))).own_frames
    outer = tree.ancestors(tree.home[hidden])[0]
    card = closed.group_rects[int(np.flatnonzero(closed.groups == outer)[0])]
    assert frame.rect[0] == pytest.approx(card[0] - FRAME_PADDING), "around the card that hides it"
    assert arranged(closed, Arrangement(frames=(Frame("Gone", ("gone",)),))).own_frames == ()


def test_larger_frames_lie_behind_smaller_ones() -> None:
    tree, plain = drawn(transformer(60))
    names = tuple(tree.ids[n] for n in plain.nodes)
    frames = (Frame("one", names[:1]), Frame("all", names))
    assert [f.title for f in arranged(plain, Arrangement(frames=frames)).own_frames] == ["all", "one"]


def test_svg_shows_frames_and_pins() -> None:
    graph = diamond()
    tree, plain = drawn(graph)
    item = Item("node", int(np.flatnonzero(plain.nodes == tree.index["b"])[0]))
    rect = rect_of(plain, item).tolist()
    pin = pin_of(plain, item, rect[0] - 400, rect[1])
    frame = Frame("Twice <b>", ("b", "c"), "green")
    text = to_svg(graph, open_all(tree), arrangement=Arrangement((pin,), (frame,)))
    root = ElementTree.fromstring(text)
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "Twice <b>" in texts
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 1
    left, _, width, _ = map(float, root.attrib["viewBox"].split())
    assert left < rect[0] - 400 and left + width > plain.width
    assert "circle" not in to_svg(graph, open_all(tree))


RECTS = np.array([[0.0, 0, 10, 4], [30, 10, 20, 4], [100, 50, 40, 8]])


@pytest.mark.parametrize(("way", "axis", "places"), [  # by hand: the rectangle around all is 0 … 140 by 0 … 58
    ("left", 0, (0, 0, 0)), ("centre", 0, (65, 60, 50)), ("right", 0, (130, 120, 100)),
    ("top", 1, (0, 0, 0)), ("middle", 1, (27, 27, 25)), ("bottom", 1, (54, 54, 50)),
    ("horizontally", 0, (0, 45, 100)),  # 70 are filled, two gaps of 35
    ("vertically", 1, (0, 25, 50)),  # 16 are filled, two gaps of 21
])  # fmt: skip
def test_aligning(way: str, axis: int, places: tuple[float, ...]) -> None:
    corners = aligned(RECTS, way)  # type: ignore[arg-type]
    assert corners[:, axis].tolist() == pytest.approx(places)
    assert corners[:, 1 - axis].tolist() == RECTS[:, 1 - axis].tolist(), "the other coordinate stays"


def test_distributing_keeps_the_order_of_the_middles() -> None:
    shuffled = RECTS[[2, 0, 1]]
    assert aligned(shuffled, "horizontally")[:, 0].tolist() == pytest.approx([100, 0, 45])


def test_no_label_lies_under_the_title_of_a_frame() -> None:
    """Of all labels of edges, those that the tab would cover go, and no others."""
    tree, plain = drawn(transformer(60))
    names = tuple(tree.ids[n] for n in plain.nodes)
    shown = arranged(plain, Arrangement(frames=tuple(Frame("A long title of a frame", (n,)) for n in names)))
    tabs = np.array([f.tab for f in shown.own_frames])
    gone = 0
    for (x, y, room), (_, _, left) in zip(plain.labels.tolist(), shown.labels.tolist(), strict=True):
        box = (x + 6, y - 8, x + min(room, MAX_LABEL_WIDTH), y + 8)
        covered = (tabs[:, 0] < box[2]) & (tabs[:, 0] + tabs[:, 2] > box[0])
        covered &= (tabs[:, 1] < box[3]) & (tabs[:, 1] + tabs[:, 3] > box[1])
        assert left == (0.0 if covered.any() else room)
        gone += bool(room > 0 and covered.any())
    assert gone > 0
