"""What is drawn is the graph: no cycle of frames, every edge from an out side to an in side, on random networks.

The networks are written as people write them: ModuleLists walked in a loop with functions between, U-Nets with
skips, branches that cross, blocks that are called again. The reference is the graph itself, and networkx.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from espalier.app.canvas.hierarchy import Hierarchy, open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import Layout, layout
from espalier.app.canvas.ordering import ranks
from espalier.app.canvas.svg import to_svg
from espalier.model.graph.graph import Graph, Node, Ref
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from tests.benchmarks.synthetic import transformer

Box = tuple[str, int]  # "node" or "group", and its number


class Net:
    """A forward method as it runs: calls of leaf modules and functions, each in the module that makes it."""

    def __init__(self) -> None:
        self.nodes = {"x": Node("x", "placeholder", "placeholder", "x")}

    def function(self, path: str, op: str, *inputs: str) -> str:
        """A function of tensors."""
        return self._add(op, "call_function", f"aten.{op}.default", path, inputs)

    def leaf(self, target: str, *inputs: str) -> str:
        """A call of a leaf module."""
        return self._add("linear", "call_module", target, target, inputs)

    def _add(self, op: str, call: str, target: str, path: str, inputs: tuple[str, ...]) -> str:
        name = f"{op}_{len(self.nodes)}"
        refs = tuple(map(Ref, inputs))
        self.nodes[name] = Node(name, op, call, target, refs, module_path=path)  # type: ignore[arg-type]
        return name

    def graph(self, *outputs: str) -> Graph:
        """The whole, whose results are `outputs`."""
        self._add("output", "output", "output", "", outputs)
        return Graph(self.nodes)


@st.composite
def module_lists(draw: st.DrawFn) -> Graph:
    """`for a, b in zip(self.first, self.second): …` with functions of the caller between, in nested modules."""
    net, x = Net(), "x"
    home = draw(st.sampled_from(["", "net", "net.body"]))
    lists = [f"{home}.{n}".strip(".") for n in draw(st.permutations(["fcs", "norms", "blocks", "acts"]))]
    used = lists[: draw(st.integers(1, 4))]
    seen = ["x"]
    for k in range(draw(st.integers(1, 5))):
        for name in used:
            if name.endswith("blocks"):  # a module with functions inside
                y = net.function(f"{name}.{k}", "relu", net.leaf(f"{name}.{k}.up", x))
                y = net.leaf(f"{name}.{k}.down", y)
            else:
                y = net.leaf(f"{name}.{k}", x)
            if draw(st.booleans()):
                y = net.function(home, "relu", y)
            x = net.function(home, "add", y, draw(st.sampled_from(seen))) if draw(st.booleans()) else y
            seen.append(x)
    return net.graph(x)


@st.composite
def unets(draw: st.DrawFn) -> Graph:
    """Down with pools, up with skips; the encoder and decoder are ModuleLists or modules of a parent's forward."""
    net, x, skips = Net(), "x", []
    depth = draw(st.integers(1, 4))
    paths = draw(st.sampled_from([("downs", "ups"), ("unet.path", "unet.path"), ("enc.levels", "dec.levels")]))
    for k in range(depth):
        for n in range(draw(st.integers(1, 3))):
            x = net.function(f"{paths[0]}.{k}", "relu", net.leaf(f"{paths[0]}.{k}.conv{n}", x))
        skips.append(x)
        x = net.function("", "max_pool2d", x) if draw(st.booleans()) else net.leaf("pool", x)
    for k in range(depth):
        x = net.function("", "cat", net.leaf(f"{paths[1]}.up{k}", x), skips.pop())
        for n in range(draw(st.integers(1, 2))):
            x = net.leaf(f"{paths[1]}.dec{k}.conv{n}", x)
    return net.graph(net.leaf("head", x))


@st.composite
def branches(draw: st.DrawFn) -> Graph:
    """Branches of shared and own blocks that exchange their results at random."""
    net = Net()
    heads = ["x"] * draw(st.integers(2, 4))
    for k in range(draw(st.integers(1, 5))):
        for b in range(len(heads)):
            block = draw(st.sampled_from([f"branch{b}.{k}", f"branch{b}", "shared", "stem.shared", f"lists.{k}"]))
            y = net.leaf(f"{block}.fc", heads[b])
            if draw(st.booleans()):
                y = net.leaf(f"{block}.out", net.function(block, "gelu", y))
            if draw(st.booleans()):
                y = net.function(draw(st.sampled_from(["", "mix", block])), "add", y, draw(st.sampled_from(heads)))
            heads[b] = y
    return net.graph(*dict.fromkeys(heads))


networks = st.one_of(module_lists(), unets(), branches())


def box_of(found: Layout, node: int) -> Box:
    """The box that shows a node: its own, or that of the outermost closed group around it."""
    tree = found.tree
    for group in tree.ancestors(tree.home[node]):
        if tree.groups[group].path not in found.open_groups:
            return "group", group
    return "node", node


def rects(found: Layout) -> dict[Box, tuple[float, float, float, float]]:
    """(low across, high across, start along, end along) of every box; an open group counts as one too."""
    across, along = (1, 0) if found.horizontal else (0, 1)
    rows: dict[Box, tuple[float, float, float, float]] = {}
    for kind, numbers, all_rects in (
        ("node", found.nodes, found.node_rects), ("group", found.groups, found.group_rects),
        ("stub", found.stubs, found.stub_rects),
    ):  # fmt: skip
        for number, r in zip(numbers.tolist(), all_rects.tolist(), strict=True):
            rows[(kind, number)] = r[across], r[across] + r[across + 2], r[along], r[along] + r[along + 2]
    return rows


def assert_no_cycles(tree: Hierarchy) -> None:
    """Around every group, and in the whole, what is drawn as one box depends on no other in a circle."""
    chains = [[*tree.ancestors(home), ("node", n)] if home >= 0 else [] for n, home in enumerate(tree.home)]
    levels: dict[object, nx.DiGraph] = {}
    for u, v in tree.edges.tolist():
        if chains[u] and chains[v]:
            k = next(i for i, (a, b) in enumerate(zip(chains[u], chains[v], strict=False)) if a != b)
            around = chains[u][k - 1] if k else 0
            levels.setdefault(around, nx.DiGraph()).add_edge(chains[u][k], chains[v][k])
    for level in levels.values():
        assert nx.is_directed_acyclic_graph(level)


def assert_drawn_as_it_flows(found: Layout) -> None:
    """Layers follow the flow, edges leave out sides and enter in sides, and arrowheads name each connection once."""
    tree, boxes = found.tree, rects(found)
    across, along = (1, 0) if found.horizontal else (0, 1)
    shared = {s.source for s in tree.stubs}
    connections = set()
    for u, v in tree.edges.tolist():
        if tree.home[u] < 0 or tree.home[v] < 0 or u in shared:
            continue
        start, end = box_of(found, u), box_of(found, v)
        if start != end:
            assert boxes[start][3] <= boxes[end][2], "the source lies before the user"
            connections.add((u, end))
    arrows = set()
    seen: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for k, tensor in enumerate(map(tuple, found.tensors.tolist())):
        points = found.points[found.starts[k] : found.starts[k + 1]][:, [across, along]]
        assert (np.diff(points[:, 1]) >= -0.11).all(), "no edge runs against the flow"
        start, end = tuple(points[0]), tuple(points[-1])
        out = [b for b, r in boxes.items() if meets(start, r, 3)]
        passed = [b for b, r in boxes.items() if b[0] == "group" and meets(start, r, 2)]
        branch = any(abs(start[0] - x) < 0.2 and abs(start[1] - y) < 0.2 for x, y in seen.get(tensor, []))
        assert out or passed or branch, "an edge starts at an out side, at a frame's door or on its tensor's line"
        seen.setdefault(tensor, []).extend(map(tuple, points))
        boxes_met = [b for b, r in boxes.items() if meets(end, r, 2) and not is_open(found, b)]
        doors = [b for b, r in boxes.items() if is_open(found, b) and (meets(end, r, 2) or meets(end, r, 3))]
        assert bool(found.arrows[k]) == bool(boxes_met) and (boxes_met or doors)
        arrows |= {(tensor[0], b) for b in boxes_met if b[0] != "stub" and tensor[0] not in shared}
    assert arrows == connections


def is_open(found: Layout, box: Box) -> bool:
    """An open group's frame."""
    return box[0] == "group" and found.tree.groups[box[1]].path in found.open_groups


def meets(point: tuple[float, float], rect: tuple[float, float, float, float], side: int) -> bool:
    """Whether a point lies on the in (2) or out (3) side of a rectangle."""
    return rect[0] - 0.5 <= point[0] <= rect[1] + 0.5 and abs(point[1] - rect[side]) < 0.5


@pytest.mark.slow
@given(networks, st.booleans(), st.data())
@settings(max_examples=150, deadline=None)
def test_the_drawing_is_the_graph(graph: Graph, horizontal: bool, data: st.DataObject) -> None:
    """Whatever is open, flow down or right."""
    tree = build(graph)
    assert_no_cycles(tree)
    assert len({g.path for g in tree.groups}) == len(tree.groups)
    paths = sorted(open_all(tree))
    assert_drawn_as_it_flows(layout(tree, open_all(tree), horizontal))
    assert_drawn_as_it_flows(layout(tree, frozenset(), horizontal))
    if paths:
        assert_drawn_as_it_flows(layout(tree, frozenset(data.draw(st.sets(st.sampled_from(paths)))), horizontal))


class Lists(nn.Module):
    """The commonest way to write a network."""

    def __init__(self) -> None:
        super().__init__()
        self.fcs = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """ReLU after each."""
        for f in self.fcs:
            x = f(x).relu()
        return x


class Again(nn.Module):
    """One block, called three times with a norm between."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(4) for _ in range(3))
        self.block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Residual."""
        for norm in self.norms:
            x = x + self.block(norm(x))
        return x


@pytest.mark.parametrize(
    ("make", "labels"),
    [(Lists, []), (Again, ["block · 1 of 3", "block · 2 of 3", "block · 3 of 3"])],
)
def test_captured_modules(make: Callable[[], nn.Module], labels: list[str], tmp_path: object) -> None:
    """A list walked in a loop loses its frame; a block called again has one for each call, and they are twins."""
    import torch

    graph = trace(make(), {"x": torch.randn(2, 4)}, WeightStore(tmp_path)).graph  # type: ignore[arg-type]
    tree = build(graph)
    assert [g.label for g in tree.groups[1:]] == labels
    assert {g.twins for g in tree.groups[1:]} <= {len(labels)}
    for horizontal in (False, True):
        found = layout(tree, open_all(tree), horizontal)
        assert_drawn_as_it_flows(found)
        order = np.argsort(found.node_rects[:, 0 if horizontal else 1], kind="stable")
        assert list(found.nodes[order]) == sorted(found.nodes.tolist())  # a chain stands in the order it runs


def test_a_path_of_a_split_module_names_its_first_frame() -> None:
    """The module's own path opens the first frame; the others have paths of their own, whose members are theirs."""
    net, x = Net(), "x"
    for _ in range(2):
        x = net.function("", "relu", net.leaf("block.b", net.leaf("block.a", x)))
    tree = build(net.graph(x))
    assert [g.path for g in tree.groups[1:]] == ["block", "block (2)"]
    assert tree.group_of("block") == 1 and tree.group_of("block (2)") == 2
    members = [{tree.ids[i] for i in tree.members(g)} for g in (1, 2)]
    assert members == [{"linear_1", "linear_2"}, {"linear_4", "linear_5"}]


def test_whole_blocks_are_left_alone() -> None:
    """Nothing is split in a transformer, with masks and heads, nor where modules stand side by side."""
    for graph in (transformer(300), transformer(300, mask=True), transformer(200, heads=4)):
        assert not any(g.part for g in build(graph).groups)


def test_ranks_lead_down() -> None:
    """Every pair leads to a later layer."""
    pairs = [(0, 1), (1, 2), (0, 2), (3, 2)]
    rank = ranks(4, pairs, 4, 4)
    assert all(rank[a] < rank[b] for a, b in pairs)


def test_svg_has_an_arrowhead_for_each_end() -> None:
    """As many triangles as ends, in either direction."""
    graph = transformer(60)
    tree = build(graph)
    for horizontal in (False, True):
        drawn = layout(tree, open_all(tree), horizontal)
        text = to_svg(graph, open_all(tree), horizontal=horizontal, show_shapes=True)
        assert text.count("l-7 -3.75v7.5z" if horizontal else "l-3.75 -7h7.5z") == int(drawn.arrows.sum()) > 40
