"""Scores of the canvas layout, everything expanded, against dagre's of the same boxes, groups and edges.

dagre (npm: @dagrejs/dagre) is installed into a temporary folder; it is not part of the project. Both draw every visible
node with the size of its card, the same groups and the same cut edges, from top to bottom. Scores:

- crossings: points where the drawn lines of two different tensors cross (curves as eight straight pieces)
- through nodes, through groups: pairs of an edge and a node, or a group that holds neither end, that it passes through
- area: of the bounding box, in million square units; aspect: its width over its height
- length: of all edges, in units per tensor
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from espalier.app.canvas.hierarchy import Hierarchy, open_all
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import Layout, layout
from espalier.model.graph.graph import Graph
from espalier.model.opening import open_source
from espalier.model.store.weights import WeightStore
from espalier.model.trace.trace import trace
from espalier.model.trust import Origin
from tests.benchmarks.record import report

Points = NDArray[np.float64]
PIECES = 8
NODE_SEPARATION, LAYER_SEPARATION = 24, 40  # [units], close to the gaps of the canvas
MARGIN = 1.5  # [units] by which a line must be inside a box
SMALL = "hidden_size=64&intermediate_size=128&num_attention_heads=4&vocab_size=99"
SPECS = {
    "BERT, 12 layers": f"config:bert?{SMALL}&num_hidden_layers=12&num_labels=2&task=sequence-classification",
    "ViT, 12 layers": "config:vit?hidden_size=64&intermediate_size=128&num_attention_heads=4&image_size=64"
                      "&patch_size=16&task=image-classification",
    "Llama, 8 layers": f"config:llama?{SMALL}&num_hidden_layers=8&num_key_value_heads=2&task=causal-lm",
    "ResNet-50": "config:resnet?task=image-classification",
    "Mixtral, 2 layers of 4 experts": f"config:mixtral?{SMALL}&num_hidden_layers=2&num_key_value_heads=2"
                                      "&num_local_experts=4&task=causal-lm",
}  # fmt: skip
DAGRE = """
const dagre = require("@dagrejs/dagre");
const input = JSON.parse(require("fs").readFileSync(process.argv[2]));
const g = new dagre.graphlib.Graph({compound: true, multigraph: true});
g.setGraph({rankdir: "TB", nodesep: input.nodesep, ranksep: input.ranksep});
g.setDefaultEdgeLabel(() => ({}));
for (const [id, w, h] of input.nodes) g.setNode(id, {width: w, height: h});
for (const id of input.groups) g.setNode(id, {});
for (const [child, parent] of input.parents) g.setParent(child, parent);
input.edges.forEach(([a, b], i) => g.setEdge(a, b, {}, String(i)));
const start = process.cpuUsage();
dagre.layout(g);
const used = process.cpuUsage(start);
const box = id => { const n = g.node(id); return [n.x - n.width / 2, n.y - n.height / 2, n.width, n.height]; };
console.log(JSON.stringify({
  seconds: (used.user + used.system) / 1e6, width: g.graph().width, height: g.graph().height,
  nodes: input.nodes.map(n => box(n[0])), groups: input.groups.map(box),
  edges: input.edges.map(([a, b], i) => g.edge(a, b, String(i)).points.map(p => [p.x, p.y]))}));
"""


class UNet(nn.Module):
    """Down four times and up again, with a connection across at each width."""

    def __init__(self, widths: tuple[int, ...] = (8, 16, 32, 64, 128)) -> None:
        super().__init__()
        pairs = list(zip((3, *widths), widths, strict=False))
        self.down = nn.ModuleList(self._double(a, b) for a, b in pairs)
        self.widen = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs[1:]))
        self.up = nn.ModuleList(self._double(2 * a, a) for a, _ in reversed(pairs[1:]))
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _double(inside: int, out: int) -> nn.Sequential:
        parts = [nn.Conv2d(inside, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
        return nn.Sequential(*parts, nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        skips = []
        for number, block in enumerate(self.down):
            image = block(image if number == 0 else nn.functional.max_pool2d(image, 2))
            skips.append(image)
        for widen, block, skip in zip(self.widen, self.up, reversed(skips[:-1]), strict=True):
            image = block(torch.cat((widen(image), skip), 1))
        return self.head(image)


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing. `edges`: points of each; `tensors`: what each carries; `ends`: numbers of the boxes it may touch."""

    nodes: Points
    groups: Points
    edges: list[Points]
    tensors: list[tuple[int, int]]
    foreign: Callable[[int], Iterable[int]]  # edge → the groups that hold none of its ends
    width: float
    height: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Flat:
    """Boxes and edges of a hierarchy: rows (source, target) of node and stub numbers, with their tensors."""

    boxes: list[int]
    edges: list[tuple[int, int]]
    tensors: list[tuple[int, int]]
    around: dict[int, list[int]]  # groups around a box


def flat(tree: Hierarchy, drawn: Layout) -> Flat:
    """The edges between boxes, whatever borders they cross."""
    size = len(tree.ids)
    edges: dict[tuple[int, int, tuple[int, int]], None] = {}
    for group in tree.groups:
        for (a, _, b, _), tensor in group.wires.items():
            if b < 0 or group.children[b] < 0:
                continue
            source = group.children[a] if a >= 0 and group.children[a] >= size else tensor[0]
            edges[source, group.children[b], tensor] = None
    homes = {**dict(enumerate(tree.home)), **{size + s: stub.group for s, stub in enumerate(tree.stubs)}}
    boxes = [*drawn.nodes.tolist(), *(size + drawn.stubs).tolist()]
    around = {box: tree.ancestors(homes[box]) for box in boxes}
    return Flat(boxes, [(a, b) for a, b, _ in edges], [t for _, _, t in edges], around)


def ours(tree: Hierarchy) -> tuple[Picture, Flat, Layout]:
    """Our drawing, everything expanded."""
    start = time.process_time()
    drawn = layout(tree, open_all(tree))
    seconds = time.process_time() - start
    graph = flat(tree, drawn)
    holders: dict[tuple[int, int], set[int]] = {}
    for (a, b), tensor in zip(graph.edges, graph.tensors, strict=True):
        holders.setdefault(tensor, set()).update(graph.around[a], graph.around[b])
    numbers = drawn.groups.tolist()
    tensors = [(int(u), int(output)) for u, output in drawn.tensors]
    edges = [curve(drawn.points[s:e]) for s, e in zip(drawn.starts, drawn.starts[1:], strict=False)]
    foreign = [[i for i, g in enumerate(numbers) if g not in holders.get(t, set())] for t in tensors]
    boxes = np.concatenate([drawn.node_rects, drawn.stub_rects])
    picture = Picture(boxes, drawn.group_rects, edges, tensors, foreign.__getitem__, drawn.width, drawn.height, seconds)
    return picture, graph, drawn


def dagre(folder: Path, graph: Flat, drawn: Layout) -> Picture:
    """dagre's drawing of the same boxes. Raises CalledProcessError where it does not end well."""
    sizes = np.concatenate([drawn.node_rects, drawn.stub_rects])[:, 2:].tolist()
    groups = [g for g in drawn.groups.tolist() if any(g in around for around in graph.around.values())]
    parents = [(f"n{box}", f"g{around[-1]}") for box, around in graph.around.items() if around]
    parents += [(f"g{g}", f"g{drawn.tree.groups[g].parent}") for g in groups if drawn.tree.groups[g].parent]
    task = {
        "nodesep": NODE_SEPARATION, "ranksep": LAYER_SEPARATION,
        "nodes": [(f"n{box}", w, h) for box, (w, h) in zip(graph.boxes, sizes, strict=True)],
        "groups": [f"g{g}" for g in groups], "parents": parents,
        "edges": [(f"n{a}", f"n{b}") for a, b in graph.edges],
    }  # fmt: skip
    (folder / "task.json").write_text(json.dumps(task))
    run = subprocess.run(["node", "dagre.js", "task.json"], cwd=folder, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout)
    edges = [np.array(points) for points in found["edges"]]
    foreign = [
        [i for i, g in enumerate(groups) if g not in graph.around[a] and g not in graph.around[b]]
        for a, b in graph.edges
    ]
    return Picture(
        np.array(found["nodes"]), np.array(found["groups"]).reshape(-1, 4), edges, graph.tensors, foreign.__getitem__,
        found["width"], found["height"], found["seconds"],
    )  # fmt: skip


def curve(points: Points) -> Points:
    """Points on the painted path: cubic between two rows, straight along one."""
    parts = [points[:1]]
    steps = np.linspace(0, 1, PIECES + 1)[1:, None]
    for (x0, y0), (x, y) in pairwise(points):
        if x == x0 or y == y0:
            parts.append(np.array([[x, y]]))
        else:
            middle = (y0 + y) / 2
            corners = np.array([[x0, y0], [x0, middle], [x, middle], [x, y]])
            weights = np.hstack([(1 - steps) ** 3, 3 * steps * (1 - steps) ** 2, 3 * steps**2 * (1 - steps), steps**3])
            parts.append(weights @ corners)
    return np.concatenate(parts)


def crossings(picture: Picture) -> int:
    """Points where lines of different tensors cross."""
    lines = [np.hstack([e[:-1], e[1:]]) for e in picture.edges]
    owner = np.concatenate([np.full(len(line), i) for i, line in enumerate(lines)])
    numbers = {t: i for i, t in enumerate(dict.fromkeys(picture.tensors))}
    tensor = np.array([numbers[t] for t in picture.tensors])[owner]
    a = np.concatenate(lines)
    count = 0
    for i in range(len(a) - 1):
        later = slice(i + 1, None)
        count += int(np.count_nonzero(_crosses(a[i], a[later]) & (tensor[later] != tensor[i])))
    return count


def _crosses(one: Points, others: Points) -> NDArray[np.bool_]:
    """Whether a segment (x, y, x, y) crosses each of others inside both."""
    p, r = one[:2], one[2:] - one[:2]
    q, s = others[:, :2], others[:, 2:] - others[:, :2]
    across = r[0] * s[:, 1] - r[1] * s[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        d = q - p
        t = (d[:, 0] * s[:, 1] - d[:, 1] * s[:, 0]) / across
        u = (d[:, 0] * r[1] - d[:, 1] * r[0]) / across
    low, high = 1e-6, 1 - 1e-6
    return (across != 0) & (t > low) & (t < high) & (u > low) & (u < high)


def through(edges: list[Points], boxes: Points, allowed: Callable[[int], Iterable[int]] | None = None) -> int:
    """Pairs of an edge and a box, of those that `allowed` names for the edge, that it passes through."""
    count = 0
    for number, points in enumerate(edges):
        line = np.concatenate([np.linspace(a, b, 12) for a, b in pairwise(points)])
        some = boxes if allowed is None else boxes[list(allowed(number))]
        if len(some):
            x, y = line[:, 0:1], line[:, 1:2]
            inside = (x > some[:, 0] + MARGIN) & (x < some[:, 0] + some[:, 2] - MARGIN)
            inside &= (y > some[:, 1] + MARGIN) & (y < some[:, 1] + some[:, 3] - MARGIN)
            count += int(inside.any(0).sum())
    return count


def scores(picture: Picture) -> dict[str, float]:
    """The scores of a drawing."""
    length = sum(float(np.hypot(*np.diff(e, axis=0).T).sum()) for e in picture.edges)
    return {
        "crossings": crossings(picture),
        "through nodes": through(picture.edges, picture.nodes),
        "through groups": through(picture.edges, picture.groups, picture.foreign),
        "area": round(picture.width * picture.height / 1e6, 2),
        "aspect": round(picture.width / picture.height, 3),
        "length": round(length / len({*picture.tensors}), 0),
        "seconds": round(picture.seconds, 3),
    }


def graphs(folder: Path) -> Iterable[tuple[str, Graph]]:
    """The networks, by title."""
    for title, spec in SPECS.items():
        (folder / title).mkdir()
        yield title, open_source(spec, folder / title, origin=Origin.TYPED).project.graph
    yield "U-Net", trace(UNet().eval(), {"image": torch.randn(1, 3, 64, 64)}, WeightStore(folder)).graph


def main() -> None:
    """Print the scores; `--keep` records them."""
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "@dagrejs/dagre"]
        if shutil.which("npm") is None or subprocess.run(install, cwd=folder, check=False).returncode:
            raise SystemExit("The benchmark needs node and npm with access to its registry.")
        (folder / "dagre.js").write_text(DAGRE)
        version = json.loads((folder / "node_modules/@dagrejs/dagre/package.json").read_text())["version"]
        for title, graph in graphs(folder):
            tree = build(graph, show_shapes=False)
            own, edges, drawn = ours(tree)
            row: dict[str, Any] = {"boxes": len(edges.boxes), "edges": len(edges.edges), "ours": scores(own)}
            row["dagre"] = scores(dagre(folder, edges, drawn))
            row["area ratio"] = round(row["ours"]["area"] / row["dagre"]["area"], 2)
            row["more crossings"] = row["ours"]["crossings"] - row["dagre"]["crossings"]
            figures[title] = row
    report("layout_scores", {"reference": f"dagre {version}, compound", **figures})


if __name__ == "__main__":
    main()
