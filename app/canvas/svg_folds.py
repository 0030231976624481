"""Writes the cards of folds as SVG, as the canvas paints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from espalier.app.canvas.colouring import by_kind
from espalier.app.canvas.fold_card import BEHIND, FOOT, SIDE, bar_height, card_size, every, slots, title_width
from espalier.app.canvas.fold_metrics import FoldMetrics, bar_colours
from espalier.app.canvas.folding import Fold
from espalier.app.canvas.layout import Layout
from espalier.app.canvas.node_metrics import NodeMetrics
from espalier.app.canvas.svg_marks import clean, fitting, svg_box, svg_text
from espalier.app.figures.captions import text_width
from espalier.app.theme import GROUP_RADIUS, NODE_LABEL, SECONDARY, SPARSITY, Palette
from espalier.model.graph.graph import Graph


def svg_folds(
    drawn: Layout, graph: Graph, figures: NodeMetrics, palette: Palette, outlines: Mapping[str, str]
) -> Iterator[str]:
    """The cards; the bar of a group with an outlined node has its outline."""
    colours = by_kind(drawn.tree)
    for fold, rect in zip(drawn.folds, drawn.fold_rects.tolist(), strict=True):
        metrics = FoldMetrics.of(drawn.tree, fold, figures, graph)
        yield f'<g class="fold"><title>{clean(fold.title)}</title>'
        yield from _card(fold, rect, metrics, palette)
        yield from _bars(fold, rect, metrics, bar_colours(drawn.tree, fold, figures, colours), palette)
        for k, member in enumerate(fold.members):
            found = (outlines[i] for n in drawn.tree.members(member) if (i := drawn.tree.ids[n]) in outlines)
            if colour := next(found, ""):
                x, y, w, h = slots(len(fold.members))[k].tolist()
                yield svg_box((rect[0] + x - 2, rect[1] + y - 2, w + 4, h + 4), 3, "none", colour)
        yield "</g>"


def _card(fold: Fold, rect: list[float], metrics: FoldMetrics, p: Palette) -> Iterator[str]:
    x, y, w, h = rect
    width = w - BEHIND
    for k in (2, 1, 0):
        shift = k * BEHIND / 2
        yield svg_box((x + shift, y + shift, width, h - BEHIND), GROUP_RADIUS, p.panel, p.line)
    yield svg_text(x + SIDE, y + 22, fold.title, NODE_LABEL + 1, p.text, True)
    room = width - SIDE - title_width(fold.title)
    said = next((t for t in metrics.counts() if text_width(t, SECONDARY) <= room), "")
    yield svg_text(x + width - SIDE, y + 22, said, SECONDARY, p.muted, anchor="end")
    high = y + card_size(len(fold.members), fold.title)[1] - BEHIND - FOOT / 2
    if text := metrics.differences():
        yield f'<circle cx="{x + SIDE + 4:.1f}" cy="{high - 3:.1f}" r="4" fill="{SPARSITY}"/>'
        yield svg_text(x + SIDE + 14, high + 1, fitting(text, SECONDARY, width - 2 * SIDE - 14), SECONDARY, p.text)


def _bars(fold: Fold, rect: list[float], metrics: FoldMetrics, colours: tuple[str, ...], p: Palette) -> Iterator[str]:
    step, unlike = every(len(fold.members)), dict(metrics.differing)
    for k, (x, y, w, h) in enumerate(slots(len(fold.members)).tolist()):
        left, low, tall = rect[0] + x, rect[1] + y + h, bar_height(metrics.bits[k])
        yield f"<g><title>{clean(f'{fold.chain.title} {metrics.told(k)}')}</title>"
        yield svg_box((left, low - tall, w, tall), 2, colours[k])
        if k % step == 0:
            yield svg_text(left + w / 2, low + 12, metrics.numbers[k], SECONDARY, p.muted, anchor="middle")
        if k in unlike:
            yield f'<circle cx="{left + w:.1f}" cy="{low - tall:.1f}" r="4" fill="{SPARSITY}" stroke="{p.panel}"/>'
        yield "</g>"
