"""Drawings of trials: best so far by trial, and two goals against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from espalier.app.figures.curves import Area, Disc, Dot, Drawing, Entry, Frame, Line, line_style, mixed
from espalier.app.figures.sheet import axes, empty, grid, inset_of, roomy, sheet_of
from espalier.app.figures.study.data import Study, nondominated
from espalier.app.figures.study.labels import title, value_words
from espalier.app.theme import LIGHT, Palette
from espalier.app.translation import tr
from espalier.model.data.base import Array
from espalier.passes.figure import is_near, wilson


@dataclass(frozen=True, slots=True)
class Group:
    """Studies that differ only in the seed, usually one; `label`: distinguishes groups."""

    label: str
    studies: tuple[Study, ...]

    def best(self, figure: str) -> tuple[Array, Array]:
        """Mean and standard deviation of the best so far by trial, up to the shortest study."""
        fewest = min(len(s) for s in self.studies)
        with np.errstate(invalid="ignore"):
            so_far = np.stack([_in_order(s, s.best(figure))[:fewest] for s in self.studies])
        return so_far.mean(0), so_far.std(0, ddof=1) if len(so_far) > 1 else np.zeros(fewest)


def _in_order(study: Study, values: Array) -> Array:
    return values[np.argsort(study.number)]


def history(groups: Sequence[Group], figure: str, look: Palette = LIGHT, *, inset: bool = False) -> Drawing:
    """Draw a metric by trial: trials as dots, best so far as a staircase, with mean and spread of repetitions."""
    first = groups[0].studies[0]
    spans = _spans(groups, figure)
    if not len(spans):
        return empty(tr("No trial has this figure yet."), look)
    level = first.baseline.get(figure)
    guess = first.sampled.guessing if first.sampled and figure == first.sampled.name else None
    low, high = float(spans.min()), float(spans.max())
    low, high = (min(low, level), max(high, level)) if level is not None else (low, high)
    near = guess is not None and is_near(guess, low, high)
    low, high = (min(low, guess), max(high, guess)) if near and guess is not None else (low, high)
    entries = _entries(groups, figure, level, guess if near else None, look)
    sheet, frame = sheet_of(
        tr("{} by trial", title(figure).capitalize()), _trials(groups), roomy(low, high, figure), entries, look
    )
    axes(sheet, frame, "trial", tr("trial (number)"), figure, look)
    _groups(sheet, frame, groups, figure, look)
    for height, colour, dashes in ((level, look.muted, (4.0, 4.0)), (guess if near else None, look.bad, (2.0, 3.0))):
        if height is not None:
            ends = tuple(frame.at(x, height) for x in frame.x)
            sheet.parts.append(Line(ends, colour, 1.2, dashes))
    if inset:
        _inset(sheet, frame, groups, figure, look)
    return sheet


def _trials(groups: Sequence[Group]) -> tuple[float, float]:
    numbers = np.concatenate([s.number for g in groups for s in g.studies])
    return float(numbers.min()), float(max(numbers.max(), numbers.min() + 1))


def _spans(groups: Sequence[Group], figure: str) -> Array:
    values = np.concatenate([s.figures[figure] for g in groups for s in g.studies])
    return values[np.isfinite(values)]


def _entries(
    groups: Sequence[Group], figure: str, level: float | None, guess: float | None, look: Palette
) -> list[Entry]:
    """Legend entries."""
    entries: list[Entry] = []
    for place, group in enumerate(groups):
        count = len(group.studies)
        text = tr("best so far") if count == 1 else tr("mean best so far of {}, band ± s", count)
        entries.append((f"{group.label}: {text}", *line_style(place)))
    first = groups[0].studies[0]
    if level is not None:
        entries.append((f"{first.named} {value_words(figure, level)}", look.muted, (4.0, 4.0)))
    if guess is not None:
        entries.append((tr("guessing {}", value_words(figure, guess)), look.bad, (2.0, 3.0)))
    if (
        first.sampled
        and first.sampled.share
        and figure == first.sampled.name
        and len(groups) == 1
        and len(groups[0].studies) == 1
    ):
        entries.append((tr("band: 95 % of n = {}", first.sampled.n), look.line, ()))
    return entries


def _groups(sheet: Drawing, frame: Frame, groups: Sequence[Group], figure: str, look: Palette) -> None:
    """Draw bands, then dots, then lines."""
    for place, group in enumerate(groups):
        sheet.parts += _band(frame, group, figure, mixed(line_style(place)[0], look.panel), len(groups) == 1)
    for place, group in enumerate(groups):
        colour = mixed(line_style(place)[0], look.panel, 0.5)
        for study in group.studies:
            points = zip(study.number, study.figures[figure], strict=True)
            sheet.parts += [Disc(frame.at(x, y), colour) for x, y in points if frame.holds(x, y)]
    for place, group in enumerate(groups):
        colour, dashes = line_style(place)
        dots = _stairs(frame, group.best(figure)[0], min(s.number.min() for s in group.studies))
        if len(dots) > 1:
            sheet.parts.append(Line(dots, colour, 2.0, dashes))


def _stairs(frame: Frame, best: Array, first: float) -> tuple[Dot, ...]:
    """Staircase of the best so far within the frame."""
    dots: list[Dot] = []
    for place, y in enumerate(best):
        x = first + place
        if not frame.holds(x, y):
            continue
        if dots:
            dots.append((frame.across(x), dots[-1][1]))
        dots.append(frame.at(x, y))
    return tuple(dots)


def _band(frame: Frame, group: Group, figure: str, colour: str, alone: bool) -> list[Area]:
    """Band of the spread of repetitions, or of the noise of a single study's best accuracy."""
    mean, spread = group.best(figure)
    sampled = group.studies[0].sampled if alone else None
    sampled = sampled if sampled and sampled.share and figure == sampled.name else None
    if len(group.studies) > 1:
        low, high = mean - spread, mean + spread
    elif sampled:
        ends = [wilson(v, sampled.n) if np.isfinite(v) else (np.nan, np.nan) for v in mean]
        low, high = (np.array(e) for e in zip(*ends, strict=True))
    else:
        return []
    first = min(s.number.min() for s in group.studies)
    low, high = (np.clip(v, *frame.y) for v in (low, high))
    visible = [i for i, v in enumerate(mean) if np.isfinite(v) and frame.x[0] <= first + i <= frame.x[1]]
    if len(visible) < 2:
        return []
    below, above = ([frame.at(first + i, v[i]) for i in visible] for v in (low, high))
    return [Area((*below, *reversed(above)), colour)]


def _inset(sheet: Drawing, outer: Frame, groups: Sequence[Group], figure: str, look: Palette) -> None:
    """Draw an enlarged inset of the best so far over the later half of the trials."""
    half = outer.x[0] + (outer.x[1] - outer.x[0]) / 2
    late = [v for g in groups for i, v in enumerate(g.best(figure)[0])
            if np.isfinite(v) and min(s.number.min() for s in g.studies) + i >= half]  # fmt: skip
    if not late:
        return
    rising = groups[0].studies[0].sign(figure) > 0  # position of the best values
    frame = inset_of(sheet, outer, (half, outer.x[1]), roomy(min(late), max(late), figure), look, float(rising))
    grid(sheet, frame, "trial", figure, look, most=4)
    _groups(sheet, frame, groups, figure, look)


# -- two goals


def pareto(groups: Sequence[Group], across: str, up: str, look: Palette = LIGHT) -> Drawing:
    """Draw two metrics of all trials with the Pareto front of each group as a staircase."""
    studies = [s for g in groups for s in g.studies]
    xs, ys = (np.concatenate([s.figures[f] for s in studies]) for f in (across, up))
    finite = np.isfinite(xs) & np.isfinite(ys)
    if not finite.any():
        return empty(tr("No trial has both figures yet."), look)
    base = studies[0].baseline
    entries: list[Entry] = [(tr("{}: Pareto front", g.label), *line_style(i)) for i, g in enumerate(groups)]
    if across in base and up in base:
        entries.append(
            (
                tr("{} {} at {}", studies[0].named, value_words(up, base[up]), value_words(across, base[across])),
                look.bad,
                (),
            )
        )
        xs, ys, finite = np.append(xs, base[across]), np.append(ys, base[up]), np.append(finite, True)
    ends = [roomy(float(v[finite].min()), float(v[finite].max()), n) for v, n in ((xs, across), (ys, up))]
    sheet, frame = sheet_of(tr("{} against {}", title(up).capitalize(), title(across)), ends[0], ends[1], entries, look)
    axes(sheet, frame, across, title(across), up, look)
    for place, group in enumerate(groups):
        _front(sheet, frame, group, (across, up), place, look)
    if across in base and up in base:
        sheet.parts.append(Disc(frame.at(base[across], base[up]), look.bad))
    return sheet


def _front(sheet: Drawing, frame: Frame, group: Group, names: tuple[str, str], place: int, look: Palette) -> None:
    colour, dashes = line_style(place)
    points = np.concatenate([np.stack([s.figures[n] for n in names], 1) for s in group.studies])
    merits = np.concatenate([np.stack([s.merit(n) for n in names], 1) for s in group.studies])
    sheet.parts += [Disc(frame.at(x, y), mixed(colour, look.panel, 0.4)) for x, y in points if x == x and y == y]
    best = sorted({(float(x), float(y)) for x, y in points[nondominated(merits)]})
    dots: list[Dot] = []
    low = group.studies[0].sign(names[0]) < 0
    for x, y in best:
        at = frame.at(x, y)
        if dots:  # staircase: between two trials the dominating one holds
            x_before, y_before = dots[-1]
            dots.append((at[0], y_before) if low else (x_before, at[1]))
        dots.append(at)
    if len(dots) > 1:
        sheet.parts.append(Line(tuple(dots), colour, 2.0, dashes))
    sheet.parts += [Disc(frame.at(x, y), colour) for x, y in best]
