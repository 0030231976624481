"""Layout shared by drawn charts: frames, axes, and an enlarged inset."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.app.figures.curves import (
    HEIGHT,
    LEFT,
    ROW,
    TOP,
    WIDTH,
    Area,
    Drawing,
    Entry,
    Frame,
    Line,
    Word,
    legend,
    legend_rows,
    ticks,
)
from espalier.app.figures.study.labels import SHARES, tick_text, title
from espalier.app.theme import LIGHT, Palette
from espalier.app.translation import tr

RIGHT, BOTTOM = 24, 54
SECOND = 170  # height of further frames
INSET = (0.5, 0.42)  # share of the frame's width and height
COUNTED = ("trial", "step")  # axes of whole numbers
Ends = tuple[float, float]


def roomy(low: float, high: float, figure: str = "") -> Ends:
    """Range of an axis with margins; shares are limited to 1."""
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    top = min(high + room, 1.0 + 0.06 * (high - low)) if figure in SHARES and high <= 1 else high + room
    return (max(low - room, 0.0) if low >= 0 else low - room), top


def sheet_of(heading: str, x: Ends, y: Ends, entries: list[Entry], look: Palette = LIGHT) -> tuple[Drawing, Frame]:
    """A drawing with one frame."""
    sheet, frames = frames_of(heading, x, [y], entries, look)
    return sheet, frames[0]


def frames_of(
    heading: str, x: Ends, ys: Sequence[Ends], entries: list[Entry], look: Palette
) -> tuple[Drawing, list[Frame]]:
    """A drawing with a heading, stacked frames with a common axis, and a legend."""
    rows, foot = legend_rows(entries), HEIGHT + (SECOND + BOTTOM) * (len(ys) - 1)
    sheet = Drawing(WIDTH, foot + ROW * len(rows), look.panel)
    sheet.parts.append(Word((LEFT - 48, 24), heading, look.text, size=14, bold=True))
    legend(sheet, rows, look, foot)
    frames: list[Frame] = []
    for place, y in enumerate(ys):
        top = HEIGHT + (SECOND + BOTTOM) * (place - 1) if place else TOP
        height = SECOND if place else HEIGHT - TOP - BOTTOM
        frames.append(Frame(LEFT, top, WIDTH - LEFT - RIGHT, height, x, y, False))
    return sheet, frames


def axes(
    sheet: Drawing, frame: Frame, x_name: str, x_title: str, y_name: str, look: Palette, y_title: str = ""
) -> None:
    """Draw grid, labels and titles; `x_name`, `y_name`: metrics, which determine the number format."""
    grid(sheet, frame, x_name, y_name, look)
    across = frame.left + frame.width / 2, frame.top + frame.height + 40
    sheet.parts.append(Word(across, x_title, look.text, "middle"))
    up = 13, frame.top + frame.height / 2
    sheet.parts.append(Word(up, y_title or title(y_name), look.text, "middle", turned=True))


def grid(sheet: Drawing, frame: Frame, x_name: str, y_name: str, look: Palette, most: int = 6) -> None:
    """Draw horizontal lines with labels, and labels below."""
    heights = ticks(*frame.y, most)
    for y, text in zip(heights, tick_text(y_name, heights, _apart(heights)), strict=True):
        ends = (frame.left, frame.down(y)), (frame.left + frame.width, frame.down(y))
        sheet.parts.append(Line(ends, look.line))
        sheet.parts.append(Word((frame.left - 8, ends[0][1] + 4), text, look.muted, "end"))
    places = ticks(*frame.x, most)
    places = [x for x in places if x_name not in COUNTED or x == round(x)]
    for x, text in zip(places, tick_text(x_name, places, _apart(places)), strict=True):
        sheet.parts.append(Word((frame.across(x), frame.top + frame.height + 18), text, look.muted, "middle"))


def _apart(values: Sequence[float]) -> float:
    """The step of labels; divided by ten if it is no whole percent, so that labels get another digit."""
    step = values[1] - values[0] if len(values) > 1 else 0.0
    return step if abs(100 * step - round(100 * step)) < 1e-9 else step / 10


def inset_frame(outer: Frame, x: Ends, y: Ends, down: float) -> Frame:
    """Frame of an inset at a relative height."""
    width, height = outer.width * INSET[0], outer.height * INSET[1]
    top = outer.top + 34 + (outer.height - height - 64) * down
    return Frame(outer.left + outer.width - width - 12, top, width, height, x, y, False)


def inset_box(frame: Frame) -> tuple[float, float, float, float]:
    """Left, right, top and bottom of an inset with its labels."""
    return frame.left - 64, frame.left + frame.width + 8, frame.top - 30, frame.top + frame.height + 26


def inset_of(sheet: Drawing, outer: Frame, x: Ends, y: Ends, look: Palette, down: float) -> Frame:
    """Draw the empty inset of the later half at the right; `down`: 0 (top) to 1 (bottom)."""
    frame = inset_frame(outer, x, y, down)
    left, right, above, foot = inset_box(frame)
    corners = (left, above), (right, above), (right, foot), (left, foot)
    sheet.parts.append(Area(corners, look.panel, 1.0))
    sheet.parts.append(Line((*corners, corners[0]), look.muted))
    sheet.parts.append(Word((left + 6, above + 14), tr("the later half, enlarged"), look.muted, size=11))
    return frame


def empty(text: str, look: Palette) -> Drawing:
    """A drawing with a message instead of a chart."""
    sheet = Drawing(WIDTH, HEIGHT, look.panel)
    sheet.parts.append(Word((WIDTH / 2, HEIGHT / 2), text, look.muted, "middle"))
    return sheet
