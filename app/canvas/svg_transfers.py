"""What devices send one another, as elements of an SVG document: wide edges, and chips on them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from espalier.app.canvas.svg_marks import clean, route_data, svg_box, svg_text
from espalier.app.canvas.transfers import TransferLayer
from espalier.app.theme import SECONDARY, TRANSFERS, Palette


def svg_transfer_edges(layer: TransferLayer) -> Iterator[str]:
    """The edges on which something is sent, with their texts as tool tips."""
    drawn = layer.layout
    yield '<g fill="none">'
    for k in layer.edges:
        points = drawn.points[drawn.starts[k] : drawn.starts[k + 1]].tolist()
        stroke = f'stroke="{TRANSFERS[layer.collective(k)]}" stroke-width="{layer.width(k):.2f}"'
        title = f"<title>{clean(layer.told_on(k))}</title>"
        yield f'<path class="transfer" d="{route_data(points, drawn.horizontal)}" {stroke}>{title}</path>'
    yield "</g>"


def svg_transfer_chips(layer: TransferLayer, palette: Palette) -> Iterator[str]:
    """All chips; a mark where a text does not fit."""
    drawn = layer.layout
    area = (drawn.left, drawn.top, drawn.width, drawn.height)
    for chip in layer.chips(area, np.arange(len(drawn.starts) - 1)):
        x, y, w, h = chip.box
        colour = TRANSFERS[chip.collective]
        yield f'<g class="transfer"><title>{clean(chip.told)}</title>'
        yield svg_box(chip.box, h / 2, palette.panel if chip.words else colour, colour if chip.words else palette.panel)
        if chip.words:
            yield svg_text(x + w / 2, y + 11, chip.words, SECONDARY, palette.text, anchor="middle")
        yield "</g>"
