"""Frames that a person has drawn, and the marks of pins, as elements of an SVG document."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.app.canvas.layout import Layout
from espalier.app.canvas.movement import rect_of
from espalier.app.canvas.svg_marks import fitting, svg_box, svg_text
from espalier.app.theme import GROUP_RADIUS, SECONDARY, Palette, frame_colours

PIN = 3.0  # radius of the head of a pin, canvas units


def svg_frames(drawn: Layout, palette: Palette) -> Iterator[str]:
    """The frames, the larger ones first; what is around them shows through."""
    for frame in drawn.own_frames:
        border, ground, _ = frame_colours(frame.colour, palette)
        yield f'<g fill-opacity="0.82">{svg_box(frame.rect, GROUP_RADIUS, ground, border)}</g>'


def svg_tabs(drawn: Layout, palette: Palette) -> Iterator[str]:
    """The titles of the frames."""
    for frame in drawn.own_frames:
        border, _, ground = frame_colours(frame.colour, palette)
        x, y, width, height = frame.tab
        yield svg_box(frame.tab, 5, ground, border)
        title = fitting(frame.title, SECONDARY + 1, width - 12)
        yield svg_text(x + 8, y + height - 6, title, SECONDARY + 1, palette.text, bold=True)


def svg_pins(drawn: Layout, palette: Palette) -> Iterator[str]:
    """A small pin on each pinned box."""
    for item in drawn.pinned:
        x, y, _, _ = rect_of(drawn, item).tolist()
        yield f'<path d="M{x + 9:.1f} {y - 2:.1f}v7" stroke="{palette.accent}" stroke-width="1.4"/>'
        yield f'<circle cx="{x + 9:.1f}" cy="{y - 2.5:.1f}" r="{PIN:g}" fill="{palette.accent}"/>'
