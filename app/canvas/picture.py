"""The graph of a canvas as a picture in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from espalier.model.files import write_text

if TYPE_CHECKING:
    from espalier.app.canvas.arranged_view import ArrangedView

PIXELS = (3200, 2400)


def write_graph(canvas: ArrangedView, path: Path) -> None:
    """Write the whole graph with its expanded groups as .svg, or as pixels by the suffix. Raises FileError."""
    from espalier.app.canvas.svg import to_svg

    graph = canvas.graph
    if graph is not None and path.suffix.lower() == ".svg":
        drawn = to_svg(graph, canvas.open_groups, horizontal=canvas.horizontal, folding=canvas.folding,
                       show_shapes=canvas.show_shapes, arrangement=canvas.arrangement,
                       transfers=canvas.shown_transfers())  # fmt: skip
        write_text(path, drawn)
    else:
        canvas.render(path, PIXELS)
