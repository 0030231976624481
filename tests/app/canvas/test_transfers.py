"""Transfers between devices: at which edges and boxes they are drawn, how wide, and that chips meet nothing."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from espalier.app.canvas.boxes import Item
from espalier.app.canvas.hierarchy import open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import layout
from espalier.app.canvas.picture import write_graph
from espalier.app.canvas.svg import to_svg
from espalier.app.canvas.transfers import Transfer, TransferChip, TransferLayer
from espalier.app.theme import DARK, LIGHT, TRANSFER_WIDTHS, TRANSFERS, rgb
from espalier.model.document.arrangement import UNARRANGED
from espalier.model.graph.graph import Graph
from tests.app.canvas.test_casts import meet
from tests.benchmarks.synthetic import transformer
from tests.model.zoo import case

SIZE = 3 << 20


def drawn(
    graph: Graph, transfers: list[Transfer], opened: bool = True, horizontal: bool = False, shapes: bool = False
) -> TransferLayer:
    tree = build(graph, show_shapes=shapes)
    return TransferLayer(layout(tree, open_all(tree) if opened else frozenset(), horizontal), graph, transfers)


def chips(layer: TransferLayer) -> list[TransferChip]:
    whole = (layer.layout.left - 500, layer.layout.top - 500, 10_000.0, 100_000.0)
    return list(layer.chips(whole, np.arange(len(layer.layout.starts) - 1)))


def sent(source: str, user: str, size: int = SIZE, collective: str = "all-gather") -> Transfer:
    return Transfer(source, user, collective, size, f"{source}>{user}")


def between(graph: Graph, user: str) -> tuple[str, str]:
    return graph.nodes[user].inputs[0].node, user


def test_an_edge_is_as_wide_as_its_bytes_and_says_them() -> None:
    graph = case("mlp").graph
    users = [n.id for n in graph if n.op == "linear"]
    first, last = between(graph, users[0]), between(graph, users[-1])
    layer = drawn(graph, [sent(*first), sent(*last, size=SIZE // 9, collective="all-reduce")])
    widths = {layer.collective(k): layer.width(k) for k in layer.edges}
    low, high = TRANSFER_WIDTHS
    assert widths == {"all-gather": high, "all-reduce": pytest.approx(low + (high - low) / 3)}
    assert sorted(c.words for c in chips(layer)) == ["all-gather 3.00\u2009MiB", "all-reduce 0.33\u2009MiB"]
    assert [name for name, _ in layer.legend] == ["all-reduce", "all-gather", "widest 3.00\u2009MiB"]
    (edge,) = [k for k in layer.edges if layer.collective(k) == "all-gather"]
    assert layer.told_on(edge) == f"{first[0]}>{first[1]}" and layer.told_on(len(layer.layout.starts)) == ""


def test_several_collectives_of_an_edge_are_one_chip() -> None:
    graph = case("mlp").graph
    pair = between(graph, [n.id for n in graph if n.op == "linear"][-1])
    layer = drawn(graph, [sent(*pair, size=1024), sent(*pair, size=4096, collective="all-reduce")])
    (chip,) = chips(layer)
    assert chip.collective == "all-reduce" and chip.told == f"{pair[0]}>{pair[1]}"
    assert chip.words in ("all-reduce + all-gather 5.0\u2009KiB", "5.0\u2009KiB")


def test_a_result_is_drawn_at_all_its_users_and_written_once_each() -> None:
    """Without a user, a transfer is before all of them; with one, only the way to it is wide."""
    graph = case("bert").graph
    read = [r.node for m in graph for r in m.inputs]
    source = next(n.id for n in graph if read.count(n.id) >= 3 and n.op == "layer_norm")
    users = [m.id for m in graph if any(r.node == source for r in m.inputs)]
    every, one = drawn(graph, [sent(source, "")]), drawn(graph, [sent(source, users[0])])
    assert set(one.edges) < set(every.edges)
    tree = every.layout.tree
    ended = {tree.ids[int(every.layout.nodes[i.place])] for i in every._labelled if i.kind == "node"}
    assert ended == set(users) and len(one._labelled) == 1


def test_edges_run_through_hidden_operations_with_their_transfers() -> None:
    """A transfer before a view is drawn on the way to what reads the view."""
    graph = case("bert").graph
    tree = build(graph, show_shapes=False)
    view = next(v for v, u in tree.through.items() if graph.nodes[tree.ids[u]].op == "linear")
    source = graph.nodes[tree.ids[view]].inputs[0].node
    layer = drawn(graph, [sent(source, tree.ids[view])])
    assert layer.edges and not layer.boxes
    assert drawn(graph, [sent(source, tree.ids[view])], shapes=True).edges


def test_what_has_no_edge_is_beside_its_box() -> None:
    """The gather of a weight, and what moves within a collapsed group."""
    graph = case("bert").graph
    linear = next(n.id for n in graph if n.op == "linear" and n.module_path.count("."))
    weight = Transfer("", linear, "all-gather", SIZE, "weight")
    layer = drawn(graph, [weight])
    (item,) = layer.boxes
    assert item.kind == "node" and layer.told_at(item) == "weight" and not layer.edges
    closed = drawn(graph, [weight, sent(*between(graph, linear))], opened=False)
    (box,) = closed.boxes
    assert box.kind == "group" and "inside" in next(c.words for c in chips(closed))
    assert closed.told_at(Item("node", 0)) == "" or closed.boxes


def test_unknown_nodes_are_left_out() -> None:
    graph = case("mlp").graph
    layer = drawn(graph, [sent("gone", "output"), sent("x", "gone"), Transfer("", "gone", "all-gather", 1, "")])
    assert not layer.edges and not layer.boxes and layer.legend == ()


@pytest.mark.parametrize("horizontal", [False, True])
@pytest.mark.parametrize("name", ["bert", "attention", "synthetic"])
def test_chips_meet_no_other_chip_and_no_box(name: str, horizontal: bool) -> None:
    graph = transformer(120) if name == "synthetic" else case(name).graph
    transfers = [sent(ref.node, n.id, 1 << (10 + k % 12)) for k, n in enumerate(graph) for ref in n.inputs]
    transfers += [Transfer("", n.id, "all-gather", 4096, n.id) for n in graph if n.op == "linear"]
    layer = drawn(graph, transfers, horizontal=horizontal)
    found = [c for c in chips(layer) if c.words]
    assert horizontal or len(found) >= 3  # columns are too near for most texts
    for a, b in combinations(found, 2):
        assert not meet(a.box, b.box), (a, b)
    for chip in found:
        x, y, w, h = chip.box
        for rect in layer.layout.node_rects.tolist():
            inner = (rect[0], rect[1] + 4, rect[2], rect[3] - 4)  # a chip may lie on an upper border
            assert not meet((x, y, w, h), inner), (chip, rect)


def test_chips_are_the_same_whatever_is_painted_first() -> None:
    graph = case("bert").graph
    transfers = [sent(ref.node, n.id, 4096) for n in graph for ref in n.inputs]
    whole, parts = drawn(graph, transfers), drawn(graph, transfers)
    pieces = [(0.0, float(y), 4000.0, 100.0) for y in range(int(parts.layout.height), -100, -100)]
    edges = np.arange(len(parts.layout.starts) - 1)
    found = {c for piece in pieces for c in parts.chips(piece, edges)}
    assert found == set(chips(whole))


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=lambda p: p.name)
def test_colours_of_edges_are_visible(palette: object) -> None:
    """Three to one against the canvas and groups, as WCAG asks of graphics."""

    def luminance(colour: str) -> float:
        parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb(colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    for ground in (palette.background, palette.group):  # type: ignore[attr-defined]
        for name, colour in TRANSFERS.items():
            low, high = sorted((luminance(ground), luminance(colour)))
            assert (high + 0.05) / (low + 0.05) >= 3, (name, ground)


@pytest.mark.parametrize("horizontal", [False, True])
def test_a_picture_has_the_transfers_of_the_canvas(horizontal: bool) -> None:
    """Each wide edge, and each chip with its text."""
    graph = case("bert").graph
    transfers = [sent(ref.node, n.id, 1 << (10 + k % 12)) for k, n in enumerate(graph) for ref in n.inputs]
    transfers += [Transfer("", n.id, "all-gather", 4096, f"a < {n.id}") for n in graph if n.op == "linear"]
    opened = open_all(build(graph, show_shapes=False))
    text = to_svg(graph, opened, horizontal=horizontal, folding=False, transfers=transfers)
    root = ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    layer = drawn(graph, transfers, horizontal=horizontal)
    edges = [e for e in root.iter(f"{space}path") if e.get("class") == "transfer"]
    assert len(edges) == len(layer.edges) > 0
    assert {(e.get("stroke"), e.get("stroke-width")) for e in edges} == {
        (TRANSFERS[layer.collective(k)], f"{layer.width(k):.2f}") for k in layer.edges
    }
    groups = [g for g in root.iter(f"{space}g") if g.get("class") == "transfer"]
    texts = [t.text for g in groups for t in g.iter(f"{space}text")]
    assert sorted(texts) == sorted(c.words for c in chips(layer) if c.words) and len(groups) == len(chips(layer))
    plain = to_svg(graph, opened, horizontal=horizontal, folding=False)
    assert "transfer" not in plain


def test_a_picture_of_the_view_has_its_transfers(tmp_path: Path) -> None:
    graph = case("mlp").graph
    pair = between(graph, [n.id for n in graph if n.op == "linear"][-1])

    view = SimpleNamespace(
        graph=graph, open_groups=None, horizontal=False, folding=True, show_shapes=False, arrangement=UNARRANGED,
        shown_transfers=lambda: (sent(*pair),),
    )  # fmt: skip
    write_graph(view, tmp_path / "a.svg")  # type: ignore[arg-type]
    assert "all-gather 3.00" in (tmp_path / "a.svg").read_text()
