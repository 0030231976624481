"""Sweep curves as SVG or PNG without Qt, for the command line and for exports of the window.

The chart is laid out once as lines, areas, markers and texts; two writers render it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING

from espalier.app.number_text import THIN
from espalier.app.theme import CATEGORIES, LIGHT, Palette, css_fonts, rgb
from espalier.app.translation import message, tr
from espalier.model.errors import FileError
from espalier.model.files import Kind, replacing, write_text
from espalier.passes.figure import is_near
from espalier.passes.sweep.results import (
    Mean,
    Outcome,
    bands,
    baseline_of,
    curves,
    guessing_of,
    sampled,
)
from espalier.passes.sweep.sweep import Sweep, axis_title
from espalier.passes.sweep.values import value_text
from espalier.passes.tasks.base import all_metrics

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 72, 24, 40, 54
ROW = 20  # height of a legend line
ORDER = ("linear", "activation", "matmul", "norm", "embedding", "add", "shape", "io")
COLOURS = tuple(CATEGORIES[k] for k in ORDER)
DASHES = ((), (6.0, 4.0), (2.0, 3.0))  # with eight colours: twenty-four distinct lines
SEEN = 0.18  # opacity of noise bands
SCALE = 2  # PNG pixels per unit of the drawing
Dot = tuple[float, float]


def line_style(place: int) -> tuple[str, tuple[float, ...]]:
    """Colour and dashes of the line at an index."""
    return COLOURS[place % len(COLOURS)], DASHES[place // len(COLOURS) % len(DASHES)]


def figure_text(figure: str, value: float) -> str:
    """Format a metric's value with its unit."""
    if figure in shares():
        return f"{100 * value:.4g} %"
    if figure == "size_bytes":
        return f"{value / 1024:.4g} KiB" if value < 1 << 20 else f"{value / (1 << 20):.4g} MiB"
    if figure == "bitops":
        unit = next(((s, u) for s, u in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if value >= s), (1.0, ""))
        return f"{value / unit[0]:.4g} {unit[1]}".strip()
    return f"{value:.4g}"


def shares() -> frozenset[str]:
    """The metrics that are shares, shown in per cent."""
    return frozenset({"sparsity", *(name for name, metric in all_metrics().items() if metric.share)})


AREA = ("lut", "ff", "dsp", "bram")  # hardware resources, written in capitals


def figure_title(figure: str) -> str:
    """Title of a metric for an axis."""
    if metric := all_metrics().get(figure):
        return tr(metric.title)
    words = (w.upper() if w in AREA else w for w in figure.split("_"))
    return tr({"size_bytes": "size", "bitops": "BitOPs"}.get(figure, " ".join(words)))


def positions(sweep: Sweep) -> list[float]:
    """Axis positions of the values: numbers at their value, others at their index."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in sweep.values):
        return [float(v) for v in sweep.values]
    return [float(i) for i in range(len(sweep.values))]


def is_log(values: Sequence[float]) -> bool:
    """Whether values span decades and need a logarithmic axis."""
    return min(values, default=0) > 0 and max(values) / min(values) > 100


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from low to high, about `most`."""
    span = high - low
    if not span > 0:
        return [low]
    rough = span / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Line:
    """A polyline."""

    dots: tuple[Dot, ...]
    colour: str
    width: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Area:
    """A filled polygon; `opacity` applies to SVG only."""

    dots: tuple[Dot, ...]
    colour: str
    opacity: float = 0.7


@dataclass(frozen=True, slots=True)
class Disc:
    """A marker."""

    at: Dot
    colour: str


@dataclass(frozen=True, slots=True)
class Word:
    """Text with its anchor at start, middle or end; vertical if `turned`."""

    at: Dot
    text: str
    colour: str
    anchor: str = "start"
    size: int = 12
    bold: bool = False
    turned: bool = False


@dataclass(slots=True)
class Drawing:
    """A drawing: size, background and parts."""

    width: int
    height: int
    ground: str
    parts: list[Line | Area | Disc | Word] = field(default_factory=list)  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class Frame:
    """Maps values to positions on the drawing."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    y: tuple[float, float]
    log: bool

    def at(self, x: float, y: float) -> Dot:
        """Position of a point."""
        return self.across(x), self.down(y)

    def holds(self, x: float, y: float) -> bool:
        """Whether a point lies inside; False for NaN."""
        return self.x[0] <= x <= self.x[1] and self.y[0] <= y <= self.y[1]

    def across(self, x: float) -> float:
        """The x position of a value."""
        low, high = self.x
        if self.log:
            x, low, high = math.log(x), math.log(low), math.log(high)
        return self.left + self.width * ((x - low) / (high - low) if high > low else 0.5)

    def down(self, y: float) -> float:
        """The y position of a value."""
        low, high = self.y
        return self.top + self.height * (1 - (y - low) / (high - low))


def lay_out(sweep: Sweep, outcomes: Sequence[Outcome], figure: str, look: Palette = LIGHT, title: str = "") -> Drawing:
    """Lay out the chart: grid, axes, baseline, lines with error bars, and a legend below."""
    lines, places = curves(sweep, outcomes, figure), positions(sweep)
    base = baseline_of(outcomes)
    level = base.score.get(figure) if base else None
    entries = [(v.label or figure_title(figure), *line_style(i)) for i, v in enumerate(sweep.variants)]
    if level is not None:
        entries.append((f"{baseline_text(sweep)} {figure_text(figure, float(level))}", look.muted, (4.0, 4.0)))
    guess = guessing_of(outcomes, figure)
    if guess is not None:
        entries.append((tr("guessing {}", figure_text(figure, guess)), look.bad, (2.0, 3.0)))
    if (known := sampled(outcomes)) and figure == known.name:
        entries.append((tr("bands: 95 % of n = {}", known.n), look.line, ()))
    noise = bands(sweep, outcomes, figure)
    rows = legend_rows(entries)
    sheet = Drawing(WIDTH, HEIGHT + ROW * len(rows), look.panel)
    frame = _frame(lines, places, _levels(lines, noise, level, guess))
    heading = title or sweep.title or f"{figure_title(figure).capitalize()} against {axis_title(sweep)}"
    sheet.parts.append(Word((LEFT - 48, 24), heading, look.text, size=14, bold=True))
    _axes(sheet, frame, sweep, places, figure, look)
    for place, band in enumerate(noise):
        sheet.parts += _band(frame, places, band, line_style(place)[0], look)
    if level is not None:
        y = frame.down(float(level))
        sheet.parts.append(Line(((LEFT, y), (WIDTH - RIGHT, y)), look.muted, 1.2, (4.0, 4.0)))
    if guess is not None and guess >= frame.y[0]:
        y = frame.down(guess)
        sheet.parts.append(Line(((LEFT, y), (WIDTH - RIGHT, y)), look.bad, 1.2, (2.0, 3.0)))
    for place, line in enumerate(lines):
        _curve(sheet, frame, places, line, *line_style(place))
    legend(sheet, rows, look)
    return sheet


def _levels(
    lines: list[list[tuple[int, Mean]]], noise: list[list[tuple[int, float, float]]], level: float | None,
    guess: float | None,
) -> list[float]:  # fmt: skip
    """Further values that must be visible: bands, baseline, and the guessing level if near."""
    levels = [e for band in noise for _, low, high in band for e in (low, high)]
    levels += [] if level is None else [float(level)]
    values = [*levels, *(m.mean for line in lines for _, m in line)]
    near = guess is not None and values and is_near(guess, min(values), max(values))
    return [*levels, *([guess] if near and guess is not None else [])]


def _frame(lines: list[list[tuple[int, Mean]]], places: list[float], levels: list[float]) -> Frame:
    means = [m for line in lines for _, m in line]
    ends = [v for m in means for v in (m.low, m.high, m.mean - m.std, m.mean + m.std)]
    values = [*ends, *levels]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
    bottom = max(low - room, 0.0) if not means or min(m.low for m in means) >= 0 else low - room
    return Frame(LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, (min(places), max(places)),
                  (bottom, high + room), is_log(places))  # fmt: skip


def _axes(sheet: Drawing, frame: Frame, sweep: Sweep, places: list[float], figure: str, look: Palette) -> None:
    for y in ticks(*frame.y):
        at = frame.down(y)
        sheet.parts.append(Line(((frame.left, at), (frame.left + frame.width, at)), look.line))
        sheet.parts.append(Word((frame.left - 8, at + 4), figure_text(figure, y), look.muted, "end"))
    foot = frame.top + frame.height + 18
    last = -math.inf
    for place, value in sorted(zip(places, sweep.values, strict=True), key=lambda p: p[0]):
        x, text = frame.across(place), "" if value is None else value_text(value)
        if x - last >= 7 * len(text) + 10:  # overlapping labels are omitted
            sheet.parts.append(Word((x, foot), text, look.muted, "middle"))
            last = x
    middle = frame.left + frame.width / 2
    sheet.parts.append(Word((middle, foot + 22), axis_title(sweep), look.text, "middle"))
    sheet.parts.append(Word((18, frame.top + frame.height / 2), figure_title(figure), look.text, "middle", turned=True))


def _band(
    frame: Frame, places: list[float], band: list[tuple[int, float, float]], colour: str, look: Palette
) -> list[Area]:
    """The noise band of a line as a polygon."""
    low, high = frame.y
    points = sorted((places[x], max(a, low), min(b, high)) for x, a, b in band)
    if len(points) < 2:
        return []
    below, above = [frame.at(x, a) for x, a, _ in points], [frame.at(x, b) for x, _, b in points]
    return [Area((*below, *reversed(above)), mixed(colour, look.panel))]


def mixed(colour: str, ground: str, seen: float = SEEN) -> str:
    """Blend a colour with a background, `seen`: its opacity."""
    mixed = (round(seen * a + (1 - seen) * b) for a, b in zip(rgb(colour), rgb(ground), strict=True))
    return "#" + "".join(f"{v:02X}" for v in mixed)


def _curve(
    sheet: Drawing, frame: Frame, places: list[float], line: list[tuple[int, Mean]], colour: str,
    dashes: tuple[float, ...],
) -> None:  # fmt: skip
    dots = [(frame.at(places[x], m.mean), m, places[x]) for x, m in sorted(line, key=lambda p: places[p[0]])]
    if len(dots) > 1:
        sheet.parts.append(Line(tuple(d for d, _, _ in dots), colour, 1.8, dashes))
    for at, mean, x in dots:
        if mean.std:
            ends = [frame.at(x, mean.mean + s * mean.std) for s in (-1, 1)]
            sheet.parts.append(Line(tuple(ends), colour, 1.2))
            sheet.parts += [Line(((a - 4, b), (a + 4, b)), colour, 1.2) for a, b in ends]
        sheet.parts.append(Disc(at, colour))


Entry = tuple[str, str, tuple[float, ...]]


def legend_rows(entries: Sequence[Entry]) -> list[list[tuple[float, Entry]]]:
    """Legend entries with their x positions, wrapped into rows."""
    rows: list[list[tuple[float, Entry]]] = [[]]
    x = float(LEFT)
    for entry in entries:
        width = 44 + 7.2 * len(entry[0])
        if rows[-1] and x + width > WIDTH - RIGHT:
            rows.append([])
            x = float(LEFT)
        rows[-1].append((x, entry))
        x += width
    return rows


def legend(sheet: Drawing, rows: list[list[tuple[float, Entry]]], look: Palette, top: float = HEIGHT) -> None:
    """Draw a legend from `top` down."""
    for number, row in enumerate(rows):
        y = top + ROW * number + 4
        for x, (label, colour, dashes) in row:
            sheet.parts.append(Line(((x, y), (x + 22, y)), colour, 1.8, dashes))
            sheet.parts.append(Word((x + 28, y + 4), label, look.text))


# -- writers


def draw(
    path: Path, sweep: Sweep, outcomes: Sequence[Outcome], figure: str, look: Palette = LIGHT, title: str = ""
) -> None:
    """Write the curves to a .png or .svg file; raises FileError."""
    write(path, lay_out(sweep, outcomes, figure, look, title))


def write(path: Path, sheet: Drawing, kind: Kind = FileError) -> None:
    """Write a drawing to a .png or .svg file; raises `kind`."""
    if path.suffix.lower() == ".png":
        with replacing(path, kind) as file:
            _to_png(sheet, file)
    else:
        write_text(path, to_svg(sheet), kind)


def to_svg(sheet: Drawing) -> str:
    """The drawing as SVG 1.1."""
    size = f'width="{sheet.width}" height="{sheet.height}" viewBox="0 0 {sheet.width} {sheet.height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{html.escape(css_fonts())}">'
    ground = f'<rect width="100%" height="100%" fill="{sheet.ground}"/>'
    return "\n".join([head, ground, *map(_svg, sheet.parts), "</svg>", ""])


def _svg(part: Line | Area | Disc | Word) -> str:
    match part:
        case Line(dots, colour, width, dashes):
            where = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
            dash = f' stroke-dasharray="{" ".join(f"{d:g}" for d in dashes)}"' if dashes else ""
            return f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>'
        case Area(dots, colour, opacity):
            where = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
            return f'<polygon points="{where}" fill="{colour}" fill-opacity="{opacity:g}"/>'
        case Disc((x, y), colour):
            return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
        case Word((x, y), text, colour, anchor, size, bold, turned):
            turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
            weight = ' font-weight="bold"' if bold else ""
            place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}"'
            return f"<text {place}{weight}{turn}>{html.escape(text)}</text>"


def _to_png(sheet: Drawing, file: IO[bytes]) -> None:
    from PIL import Image, ImageDraw

    fine = 2  # supersampling: Pillow's lines are not antialiased
    picture = Image.new("RGB", (sheet.width * SCALE * fine, sheet.height * SCALE * fine), sheet.ground)
    pencil = ImageDraw.Draw(picture)
    for part in sheet.parts:
        _pencil(pencil, picture, part, SCALE * fine)
    picture.resize((sheet.width * SCALE, sheet.height * SCALE), Image.Resampling.LANCZOS).save(file, "PNG")


def _pencil(pencil: ImageDraw, picture: object, part: Line | Area | Disc | Word, scale: int) -> None:
    match part:
        case Line(dots, colour, width, dashes):
            for piece in _dashed(dots, dashes) if dashes else [dots]:
                pencil.line([(x * scale, y * scale) for x, y in piece], rgb(colour), round(width * scale), "curve")
        case Area(dots, colour, _):
            pencil.polygon([(x * scale, y * scale) for x, y in dots], rgb(colour))
        case Disc((x, y), colour):
            pencil.ellipse([(x - 3) * scale, (y - 3) * scale, (x + 3) * scale, (y + 3) * scale], rgb(colour))
        case Word():
            _write(pencil, picture, part, scale)


def _write(pencil: ImageDraw, picture: object, word: Word, scale: int) -> None:
    from PIL import Image, ImageDraw, ImageFont

    font, text = ImageFont.load_default(word.size * scale), word.text.replace(THIN, " ")  # the font has no thin space
    anchor = {"start": "ls", "middle": "ms", "end": "rs"}[word.anchor]
    x, y = word.at[0] * scale, word.at[1] * scale
    stroke = scale // 4 if word.bold else 0
    if not word.turned:
        pencil.text((x, y), text, rgb(word.colour), font, anchor, stroke_width=stroke)
        return
    assert isinstance(picture, Image.Image)
    left, top, right, bottom = (round(v) for v in font.getbbox(text))
    strip = Image.new("L", (right - left, bottom - top), 0)
    ImageDraw.Draw(strip).text((-left, -top), text, 255, font)
    turned = strip.rotate(90, expand=True)
    place = round(x - turned.width / 2), round(y - turned.height / 2)
    picture.paste(Image.new("RGB", turned.size, rgb(word.colour)), place, turned)


def _dashed(dots: Sequence[Dot], dashes: Sequence[float]) -> list[list[Dot]]:
    """Split a line into dashes."""
    pieces: list[list[Dot]] = []
    on, rest, number = True, dashes[0], 0
    for (ax, ay), (bx, by) in pairwise(dots):
        length = math.hypot(bx - ax, by - ay)
        done = 0.0
        while done < length:
            step = min(rest, length - done)
            if on:
                ends = [(ax + (bx - ax) * t / length, ay + (by - ay) * t / length) for t in (done, done + step)]
                pieces.append(ends)
            done, rest = done + step, rest - step
            if rest <= 1e-9:
                number += 1
                on, rest = not on, dashes[number % len(dashes)]
    return pieces


def baseline_text(sweep: Sweep) -> str:
    """`baseline (opened)`, translated."""
    return tr("baseline ({})", message(sweep.baseline_name))
