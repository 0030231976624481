"""Chips of casts: which edges have one, that they lie over nothing else, that they follow edits, and what they cost."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

from espalier.app.canvas.casts import CastLayer, casts_of
from espalier.app.canvas.chips import Chip
from espalier.app.canvas.hierarchy import open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import HEAD, Layout, layout
from espalier.app.canvas.scene import curve
from espalier.app.canvas.svg import to_svg
from espalier.app.figures.captions import shape_text, text_width
from espalier.app.theme import SECONDARY
from espalier.model.formats.integer import Integer
from espalier.model.graph.casts import casts
from espalier.model.graph.graph import Graph, Node, Ref, out_port, sort
from espalier.model.graph.meta import Precision, TensorMeta
from espalier.model.graph.ports import carriers
from tests.benchmarks.synthetic import transformer
from tests.patience import budget

WIDE = TensorMeta((2, 64, 128), "float32")
INT8 = Precision(Integer(8, 4))


def with_formats(graph: Graph, *ports: str) -> Graph:
    """Every other linear with a format on `ports`; all tensors are floats of one shape."""
    nodes: dict[str, Node] = {}
    for k, node in enumerate(graph):
        held = {p: Precision(Integer(8, 4 + k % 3)) for p in ports} if node.op == "linear" and k % 2 else {}
        nodes[node.id] = replace(node, ports={**node.ports, "data_out": WIDE}, precision=held)
    return Graph(nodes, graph.weights, symbols=graph.symbols)


def drawn(graph: Graph, horizontal: bool = False) -> tuple[Layout, CastLayer]:
    tree = build(graph)
    found = layout(tree, open_all(tree), horizontal)
    return found, CastLayer(found, graph)


def all_chips(found: Layout, layer: CastLayer, graph: Graph) -> dict[int, Chip]:
    """By edge."""
    return {c.edge: c for number in found.nodes.tolist() for c in layer.at(number, graph)}


def meet(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def labels(found: Layout, graph: Graph) -> list[tuple[float, ...]]:
    """The boxes of the shapes beside edges that the canvas writes."""
    boxes = []
    for (number, output), (x, y, room) in zip(found.tensors.tolist(), found.labels.tolist(), strict=True):
        words = shape_text(graph.nodes[found.tree.ids[number]].ports.get(out_port(output)))
        if room > 40 and words and text_width(words, SECONDARY) + 14 <= room:
            boxes.append((x + 6, y - 6, text_width(words, SECONDARY), 12.0))
    return boxes


def chain() -> Graph:
    """x → a (takes int, gives int) → b (takes the same int) → c (takes another) → d (takes floats)."""

    def layer(name: str, source: str, **precision: Precision) -> Node:
        ports = {"data_in": WIDE, "data_out": WIDE}
        return Node(name, "linear", "call_module", name, (Ref(source),), ports=ports, precision=precision)

    five = Precision(Integer(8, 5))
    nodes = [
        Node("x", "placeholder", "placeholder", "x", ports={"data_out": WIDE}),
        layer("a", "x", data_in=INT8, data_out=INT8), layer("b", "a", data_in=INT8, data_out=INT8),
        layer("c", "b", data_in=five), layer("d", "c"),
    ]  # fmt: skip
    return Graph({n.id: n for n in nodes})


def test_casts_are_where_formats_differ() -> None:
    graph = chain()
    found = {n.id: casts_of(n, graph, carriers(graph)) for n in graph}
    assert found == {"x": {}, "a": {"x": ("fp32", "int 8/4")}, "b": {}, "c": {"b": ("int 8/4", "int 8/5")}, "d": {}}


def test_each_cast_has_its_chip_on_its_edge() -> None:
    found, layer = drawn(chain())
    ids, tensors, chips = found.tree.ids, found.tensors, all_chips(found, layer, chain())
    told = {ids[int(tensors[k, 0])]: chip.told for k, chip in chips.items()}
    assert told == {"x": "fp32 → int 8/4", "b": "int 8/4 → int 8/5"}
    assert all(chip.words == chip.told for chip in chips.values())  # a chain has room for the words


@pytest.mark.parametrize("horizontal", [False, True])
@pytest.mark.parametrize("size", [60, 400])
def test_chips_lie_over_nothing_else(size: int, horizontal: bool) -> None:
    graph = with_formats(transformer(size, mask=True), "data_in")
    found, layer = drawn(graph, horizontal)
    held = all_chips(found, layer, graph)
    assert held
    chips = [c for c in held.values() if c.words]
    assert horizontal or chips
    heads = found.group_rects.copy()
    heads[found.group_open, 3] = HEAD
    others = [tuple(r) for r in np.concatenate([found.node_rects, found.stub_rects, heads]).tolist()]
    others += labels(found, graph)
    for chip in chips:
        assert not [o for o in others if meet(chip.box, o)], chip
        _crosses_no_other_wire(found, chip)
    assert not [1 for a, b in combinations(chips, 2) if meet(a.box, b.box)]


def _crosses_no_other_wire(found: Layout, chip: Chip) -> None:
    x, y, w, h = chip.box
    for k, (start, end) in enumerate(zip(found.starts.tolist(), found.starts[1:].tolist(), strict=False)):
        if k != chip.edge:
            line = curve(found.points[start:end], found.horizontal, 16)
            inside = (line[:, 0] > x) & (line[:, 0] < x + w) & (line[:, 1] > y) & (line[:, 1] < y + h)
            assert not inside.any(), (chip, k)


def test_marks_without_words_stand_on_their_edge() -> None:
    graph = with_formats(transformer(60), "data_in")
    found, layer = drawn(graph, horizontal=True)
    marks = [c for c in all_chips(found, layer, graph).values() if not c.words]
    assert marks
    for mark in marks:
        line = curve(found.points[found.starts[mark.edge] : found.starts[mark.edge + 1]], True, 64)
        middle = np.array([mark.box[0] + mark.box[2] / 2, mark.box[1] + mark.box[3] / 2])
        assert np.hypot(*(line - middle).T).min() < 1.5


def test_an_edit_moves_the_chips_of_one_node_only() -> None:
    graph = with_formats(transformer(200), "data_in")
    found, layer = drawn(graph)
    before = all_chips(found, layer, graph)
    name = next(iter(casts(graph)))
    number = found.tree.index[name]
    after = graph.replace(replace(graph.nodes[name], precision={}))
    areas = layer.changed([number], after)
    now = all_chips(found, layer, after)
    gone = before.keys() - now.keys()
    assert len(gone) == 1 and areas == [before[k].box for k in gone] and layer.changed([number], after) == []
    assert layer.changed([number], graph) == areas and all_chips(found, layer, graph) == before


def test_another_result_moves_the_chip_of_its_consumer() -> None:
    graph = chain()
    found, layer = drawn(graph)
    all_chips(found, layer, graph)
    after = graph.replace(replace(graph.nodes["b"], precision={"data_in": INT8}))
    assert layer.changed([found.tree.index["b"]], after)
    assert sorted(c.told for c in all_chips(found, layer, after).values()) == ["fp32 → int 8/4", "fp32 → int 8/5"]


def test_a_format_is_seen_through_nodes_that_move_values() -> None:
    """a gives int 8/4; flatten and transpose move it; the chips at b follow what a gives."""
    nodes = dict(chain().nodes)
    for name, op, source in (("flat", "flatten", "a"), ("turned", "transpose", "flat")):
        nodes[name] = Node(name, op, "call_function", f"aten.{op}.int", (Ref(source),), ports={"data_out": WIDE})
    nodes["b"] = replace(nodes["b"], args=(Ref("turned"),))
    graph = Graph(sort(nodes))
    assert "b" not in casts(graph)
    found, layer = drawn(graph)
    all_chips(found, layer, graph)
    after = graph.replace(replace(graph.nodes["a"], precision={"data_in": INT8}))
    assert layer.changed([found.tree.index["a"]], after)
    assert [(c.ref.node, c.dtype, c.before) for c in casts(after)["b"]] == [("turned", "float32", None)]
    assert "fp32 → int 8/4" in {c.told for c in all_chips(found, layer, after).values()}


def test_the_svg_tells_each_cast() -> None:
    root = ElementTree.fromstring(to_svg(chain()))
    space = "{http://www.w3.org/2000/svg}"
    found = [g for g in root.iter(f"{space}g") if g.get("class") == "cast"]
    assert sorted(g.findtext(f"{space}title") or "" for g in found) == ["fp32 → int 8/4", "int 8/4 → int 8/5"]


def test_the_chips_of_an_edit_are_quick_in_a_large_graph() -> None:
    graph = with_formats(transformer(10_000), "data_in")
    found, layer = drawn(graph)
    name = next(iter(casts(graph)))
    after = graph.replace(replace(graph.nodes[name], precision={}))
    times = []
    for state in (graph, after, graph, after):
        start = time.process_time()
        layer.changed([found.tree.index[name]], state)
        times.append(time.process_time() - start)
    assert min(times) < budget(0.0025)
