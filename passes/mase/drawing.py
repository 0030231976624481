"""`mg.draw`: the torch.fx graph, as a MASE pass has made it, as an SVG file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

import igraph
from torch import fx

from espalier.model.errors import PassError
from espalier.model.files import write_text

_ACROSS, _DOWN, _MARGIN = 250.0, 66.0, 20.0
_WIDTH, _HEIGHT, _LETTERS = 230.0, 38.0, 36
_FILLS = {"placeholder": "#DDEBFA", "get_attr": "#F1E8D6", "call_module": "#E2F0E2", "call_function": "#F0F0F4",
          "call_method": "#F0F0F4", "output": "#DDEBFA"}  # fmt: skip


def draw(graph: fx.Graph, file: str) -> None:
    """Write the graph to an SVG file; raises PassError."""
    if not file.endswith(".svg"):
        raise PassError(f"mg.draw cannot write {file!r}.", "End the name in .svg.")
    write_text(file, "\n".join(_lines(graph)) + "\n", PassError)


def _lines(graph: fx.Graph) -> Iterator[str]:
    nodes = list(graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    edges = [(place[source], place[node]) for node in nodes for source in node.all_input_nodes]
    found: Any = igraph.Graph(len(nodes), edges, directed=True).layout_sugiyama(hgap=1, vgap=1)
    left = min((x for x, _ in found.coords), default=0.0)
    # igraph appends bends of long edges behind the nodes' own places.
    spots = [(_MARGIN + (x - left) * _ACROSS, _MARGIN + y * _DOWN) for x, y in found.coords[: len(nodes)]]
    width = max((x for x, _ in spots), default=0.0) + _WIDTH + _MARGIN
    height = max((y for _, y in spots), default=0.0) + _HEIGHT + _MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           'font-family="sans-serif" font-size="11">')  # fmt: skip
    yield ('<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
           'orient="auto"><path d="M0 0L8 4L0 8z" fill="#888888"/></marker></defs>')  # fmt: skip
    yield '<rect width="100%" height="100%" fill="#FFFFFF"/>'
    for a, b in edges:
        (ax, ay), (bx, by) = spots[a], spots[b]
        x, y, u, v = ax + _WIDTH / 2, ay + _HEIGHT, bx + _WIDTH / 2, by
        yield (f'<path d="M{x:.1f} {y:.1f}C{x:.1f} {y + 18:.1f} {u:.1f} {v - 18:.1f} {u:.1f} {v:.1f}" fill="none" '
               'stroke="#888888" marker-end="url(#end)"/>')  # fmt: skip
    for node, (x, y) in zip(nodes, spots, strict=True):
        yield from _box(node, x, y)
    yield "</svg>"


def _box(node: fx.Node, x: float, y: float) -> Iterator[str]:
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    told = f"{node.op} {target}"
    yield f"<g><title>{escape(f'{node.name}: {told}')}</title>"
    yield (f'<rect x="{x:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="{_FILLS[node.op]}" '
           'stroke="#888888"/>')  # fmt: skip
    yield f'<text x="{x + 8:.1f}" y="{y + 16:.1f}" font-weight="bold">{escape(_short(node.name))}</text>'
    yield f'<text x="{x + 8:.1f}" y="{y + 30:.1f}" fill="#555555">{escape(_short(told))}</text></g>'


def _short(text: str) -> str:
    """The end tells layers apart."""
    return text if len(text) <= _LETTERS else "…" + text[1 - _LETTERS :]
