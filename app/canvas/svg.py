"""Writes a graph as SVG without Qt, with the layout and the design tokens of the canvas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import escape

from espalier.app.canvas.arranging import arranged
from espalier.app.canvas.boxes import Item
from espalier.app.canvas.camera import Area
from espalier.app.canvas.casts import CastLayer
from espalier.app.canvas.hierarchy import default_open
from espalier.app.canvas.hierarchy_builder import build
from espalier.app.canvas.layout import CLOSED_HEIGHT, HEAD, Layout, layout
from espalier.app.canvas.node_metrics import NodeMetrics, counts, port_formats
from espalier.app.canvas.svg_folds import svg_folds
from espalier.app.canvas.svg_frames import svg_frames, svg_pins, svg_tabs
from espalier.app.canvas.svg_marks import clean, fitting, route_data, svg_box, svg_text
from espalier.app.canvas.svg_transfers import svg_transfer_chips, svg_transfer_edges
from espalier.app.canvas.transfers import Transfer, TransferLayer
from espalier.app.figures.captions import (
    BADGES_FROM,
    BESIDE,
    NODE_HEIGHT,
    adapter_text,
    leaves_name,
    shape_text,
    text_width,
)
from espalier.app.theme import (
    ARROW,
    EDGE_WIDTH,
    GROUP_RADIUS,
    LIGHT,
    NODE_LABEL,
    RADIUS,
    SECONDARY,
    SPARSITY,
    TAGS,
    Palette,
    css_fonts,
)
from espalier.model.document.arrangement import UNARRANGED, Arrangement
from espalier.model.graph.annotation import Annotation
from espalier.model.graph.graph import Graph, out_port

MARGIN = 24.0


def to_svg(
    graph: Graph,
    open_groups: frozenset[str] | None = None,
    palette: Palette = LIGHT,
    horizontal: bool = False,
    outlines: Mapping[str, str] | None = None,
    folding: bool = True,
    show_shapes: bool = False,
    arrangement: Arrangement = UNARRANGED,
    transfers: Sequence[Transfer] = (),
) -> str:
    """The graph as an SVG document. `open_groups` None: expand by size; `outlines`: node id → colour.

    `folding`: collapsed identical groups in a row are drawn as one box; `show_shapes`: operations that only move values
    have boxes, as those of `outlines` always have; `arrangement`: pins and frames; `transfers`: between devices,
    on edges.
    """
    tree = build(graph, show_shapes=show_shapes, kept=(outlines or {}).keys())
    opened = default_open(tree, folding=folding) if open_groups is None else open_groups
    drawn = arranged(layout(tree, opened, horizontal, folding=folding), arrangement)
    return "\n".join(_Writer(graph, drawn, palette, outlines or {}, transfers).document()) + "\n"


class _Writer:
    def __init__(
        self, graph: Graph, drawn: Layout, palette: Palette, outlines: Mapping[str, str], transfers: Sequence[Transfer]
    ) -> None:
        self.outlines = outlines
        self.graph, self.drawn, self.figures, self.palette = graph, drawn, NodeMetrics.of(graph), palette
        self.casts = CastLayer(drawn, graph)
        self.transfers = TransferLayer(drawn, graph, transfers, self._casts_at) if transfers else None

    def document(self) -> Iterator[str]:
        """The lines of the document."""
        drawn, p = self.drawn, self.palette
        width, height = drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN
        left, top = drawn.left - MARGIN, drawn.top - MARGIN
        box = f"{left:g} {top:g} {width:.1f} {height:.1f}"
        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="{box}" '
            f'font-family="{escape(css_fonts())}">'
        )
        yield from self._style()
        yield svg_box((left, top, width, height), 0, p.background)
        yield from self._frames()
        yield from svg_frames(drawn, p)
        yield f'<g fill="none" stroke="{p.edge}" stroke-width="{EDGE_WIDTH}">'
        yield from self._edges()
        yield "</g>"
        yield f'<path d="{self._arrows()}" fill="{p.edge}"/>'
        if self.transfers:
            yield from svg_transfer_edges(self.transfers)
        yield from self._heads()
        yield from svg_folds(self.drawn, self.graph, self.figures, self.palette, self.outlines)
        yield from self._shapes()
        yield from self._casts()
        yield from self._stubs()
        yield from self._nodes()
        if self.transfers:
            yield from svg_transfer_chips(self.transfers, p)
        yield from svg_tabs(drawn, p)
        yield from svg_pins(drawn, p)
        yield "</svg>"

    def _style(self) -> Iterator[str]:
        """CSS that highlights all ends of a cut edge while one is hovered."""
        drawn = self.drawn
        sources = sorted({drawn.tree.stubs[s].source for s in drawn.stubs.tolist()})
        if sources:
            rules = (f"svg:has(.tensor{s}:hover) .tensor{s}>rect{{stroke:{self.palette.accent}}}" for s in sources)
            yield f"<style>{' '.join(rules)}</style>"

    def _frames(self) -> Iterator[str]:
        drawn, p = self.drawn, self.palette
        for number, rect, opened in zip(
            drawn.groups.tolist(), drawn.group_rects.tolist(), drawn.group_open, strict=True
        ):
            odd = drawn.tree.groups[number].depth % 2
            ground = (p.group if odd else p.background) if opened else p.panel
            if opened:
                yield svg_box(rect, GROUP_RADIUS, ground, p.line)

    def _edges(self) -> Iterator[str]:
        drawn = self.drawn
        for start, end in zip(drawn.starts.tolist(), drawn.starts[1:].tolist(), strict=False):
            yield f'<path d="{route_data(drawn.points[start:end].tolist(), drawn.horizontal)}"/>'

    def _arrows(self) -> str:
        """The path data of all arrowheads."""
        drawn = self.drawn
        tips = drawn.points[drawn.starts[1:][drawn.arrows] - 1].tolist()
        long, wide = ARROW
        base = f"l{-long:g} {-wide / 2:g}v{wide:g}z" if drawn.horizontal else f"l{-wide / 2:g} {-long:g}h{wide:g}z"
        return "".join(f"M{x:.1f} {y:.1f}{base}" for x, y in tips)

    def _heads(self) -> Iterator[str]:
        drawn, p = self.drawn, self.palette
        for place, (number, opened) in enumerate(zip(drawn.groups.tolist(), drawn.group_open, strict=True)):
            group, figures = drawn.tree.groups[number], self.figures.group(drawn.tree, number)
            x, y, w, h = drawn.group_rects[place].tolist()
            words = counts(group.size, figures.parameters, self.figures.twins(drawn.tree, number))
            if not opened:
                yield svg_box((x, y, w, h), GROUP_RADIUS, p.panel, self._outline_within(number) or p.line)
                yield from self._closed(group.label, words, figures.bars, (x, y, w))
                continue
            yield svg_text(x + 11, y + HEAD / 2 + 4, f"▾ {group.label}", NODE_LABEL, p.text, True)
            left = x + 38 + text_width(group.label, NODE_LABEL, True)
            free = drawn.free_in_head(place, left, x + w - 12)
            fits = ((t, b) for t in words for a, b in free if b - a >= text_width(t, SECONDARY))
            said, end = next(fits, ("", 0.0))
            if said:
                yield svg_text(end, y + HEAD / 2 + 4, said, SECONDARY, p.muted, anchor="end")

    def _outline_within(self, number: int) -> str:
        """The colour of the first outlined node in a closed group; empty for none."""
        ids = self.drawn.tree.ids
        hidden = (ids[i] for i in sorted(self.drawn.tree.members(number))) if self.outlines else iter(())
        return next((self.outlines[i] for i in hidden if i in self.outlines), "")

    def _closed(
        self, label: str, words: tuple[str, ...], bars: tuple[float, ...], corner: tuple[float, float, float]
    ) -> Iterator[str]:
        (x, y, w), p = corner, self.palette
        room = w - 34 - 7 * len(bars)
        yield svg_text(x + 11, y + 18, f"▸ {fitting(label, NODE_LABEL, room / 1.13)}", NODE_LABEL, p.text, True)
        said = next((t for t in words if text_width(t, SECONDARY) <= room), "")
        yield svg_text(x + 24, y + 34, said, SECONDARY, p.muted)
        for k, bits in enumerate(reversed(bars)):
            tall = max(20 * min(bits, 32) / 32, 2.0)
            yield svg_box((x + w - 15 - 7 * k, y + CLOSED_HEIGHT / 2 + 10 - tall, 5.0, tall), 0, p.bar)

    def _shapes(self) -> Iterator[str]:
        """The shapes beside edges that have room."""
        for (number, output), (x, y, room) in zip(self.drawn.tensors.tolist(), self.drawn.labels.tolist(), strict=True):
            if room > 40:
                ports = self.graph.nodes[self.drawn.tree.ids[number]].ports
                shape = shape_text(ports.get(out_port(output)))
                if text_width(shape, SECONDARY) + 14 <= room:
                    yield svg_text(x + 6, y + 4, shape, SECONDARY, self.palette.muted)

    def _casts(self) -> Iterator[str]:
        """The chips of format conversions."""
        p = self.palette
        for chip in (c for number in self.drawn.nodes.tolist() for c in self.casts.at(number, self.graph)):
            x, y, w, h = chip.box
            yield f'<g class="cast"><title>{clean(chip.told)}</title>'
            yield svg_box(chip.box, h / 2, p.accent_ground if chip.words else p.accent, p.accent)
            if chip.words:
                yield svg_text(x + w / 2, y + 11, chip.words, SECONDARY, p.text, anchor="middle")
            yield "</g>"

    def _casts_at(self, item: Item) -> list[Area]:
        """The places of the chips of format conversions at a box."""
        nodes = [int(self.drawn.nodes[item.place])] if item.kind == "node" else []
        return [chip.box for number in nodes for chip in self.casts.at(number, self.graph)]

    def _stubs(self) -> Iterator[str]:
        drawn, p = self.drawn, self.palette
        for number, rect in zip(drawn.stubs.tolist(), drawn.stub_rects.tolist(), strict=True):
            stub = drawn.tree.stubs[number]
            words = f"{'→' if stub.uses else '↳'} {fitting(stub.label, SECONDARY, rect[2] - 24)}"
            yield f'<g class="tensor{stub.source}"><title>{clean(drawn.tree.ids[stub.source])}</title>'
            yield svg_box(rect, 9, p.chip, p.line)
            yield svg_text(rect[0] + 8, rect[1] + 13, words, SECONDARY, p.muted)
            yield "</g>"

    def _nodes(self) -> Iterator[str]:
        drawn = self.drawn
        for number, rect in zip(drawn.nodes.tolist(), drawn.node_rects.tolist(), strict=True):
            yield f'<g id="{clean(drawn.tree.ids[number])}">'
            ports = port_formats(self.graph.nodes[drawn.tree.ids[number]])
            if ports:
                yield f"<desc>{clean(' · '.join(' '.join(row) for row in ports))}</desc>"
            yield from self._node(number, rect)
            if colour := self.outlines.get(drawn.tree.ids[number]):
                x, y, w, h = rect
                frame = f'x="{x - 2:.1f}" y="{y - 2:.1f}" width="{w + 4:.1f}" height="{h + 4:.1f}" rx="{RADIUS + 2}"'
                yield f'<rect {frame} fill="none" stroke="{colour}" stroke-width="2"/>'
            yield "</g>"

    def _written(self, annotation: Annotation, x: float, y: float, w: float) -> Iterator[str]:
        """The colour tag, and the note as a folded corner with a tool tip."""
        if annotation.colour:
            yield svg_box((x + w - 5, y, 5.0, NODE_HEIGHT), 2, TAGS[annotation.colour])
        if annotation.note:
            corner = f"M{x + w - 11:.1f} {y + NODE_HEIGHT:.1f}l11 -11v11z"
            yield f'<path d="{corner}" fill="{self.palette.accent}"><title>{clean(annotation.note)}</title></path>'

    def _node(self, number: int, rect: list[float]) -> Iterator[str]:
        p, caption = self.palette, self.drawn.tree.captions[number]
        assert caption is not None
        x, y, w, h = rect
        yield svg_box(rect, RADIUS, p.node, p.line)
        bar = f"M{x + 4:.1f} {y:.1f}h-1a3 3 0 0 0 -3 3v{h - 6:.1f}a3 3 0 0 0 3 3h1z"
        yield f'<path d="{bar}" fill="{p.category(caption.category)}"/>'
        yield from self._written(self.graph.nodes[self.drawn.tree.ids[number]].annotation, x, y, w)
        badge, pruned = self.figures.badges[number], self.figures.sparsity[number]
        room, ink = w - 22, p.muted if caption.category == "shape" else p.text
        low = w - (54 if pruned == pruned else 20)
        if badge:
            right = w - 8
            wide = min(text_width(badge, SECONDARY) + 12, low)
            beside = leaves_name(text_width(caption.name, NODE_LABEL), wide, w)
            if beside:
                room = w - BESIDE - wide
            else:  # below the name
                right, low = low + 12, low - wide - 4
            top, badge = y + (6 if beside else 22), fitting(badge, SECONDARY, wide - 8)
            yield svg_box((x + right - wide, top, wide, 15.0), 7.5, p.chip)
            yield svg_text(x + right - wide / 2, top + 11, badge, SECONDARY, p.text, anchor="middle")
        if pruned == pruned:
            yield svg_box((x + w - 38, y + 28, 28.0, 4.0), 2, p.chip)
            yield svg_box((x + w - 38, y + 28, max(28 * min(pruned, 1.0), 4.0), 4.0), 2, SPARSITY)
        yield svg_text(x + 13, y + 17, fitting(caption.name, NODE_LABEL, room), NODE_LABEL, ink)
        free, narrow = low + 12 - BADGES_FROM, partial(text_width, size=SECONDARY - 1)
        if adapter := adapter_text(self.figures.adapters[number], free, narrow):
            wide = narrow(adapter) + 10
            edge = x + low + 12 - wide
            yield svg_box((edge, y + 23.5, wide, 13.0), 6.5, "none", p.accent)
            yield svg_text(edge + wide / 2, y + 33.5, adapter, SECONDARY - 1, p.text, anchor="middle")
            low -= wide + 4
        elif self.figures.adapters[number]:
            yield f"<title>{clean(self.figures.adapters[number])}</title>"
        if low >= SECONDARY:  # more than an ellipsis fits
            yield svg_text(x + 13, y + NODE_HEIGHT - 8, fitting(caption.detail, SECONDARY, low), SECONDARY, p.muted)
