"""Drawings of metrics by step: losses and accuracies of trainings, and intermediate values of trials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from espalier.app.figures.curves import Area, Disc, Drawing, Entry, Frame, Line, line_style, mixed
from espalier.app.figures.sheet import Ends, axes, empty, frames_of, grid, inset_box, inset_frame, inset_of, roomy
from espalier.app.figures.study.data import Study
from espalier.app.figures.study.intermediate_values import STEP_TITLES, core_of, figure_of, intermediate_values, leading
from espalier.app.figures.study.labels import title
from espalier.app.figures.trials import Group
from espalier.app.theme import LIGHT, Palette
from espalier.app.translation import tr, translated
from espalier.model.data.base import Array
from espalier.passes.figure import wilson
from espalier.passes.search.trial import Trial
from espalier.passes.tasks.base import TASKS
from espalier.passes.training.curve import ACCURACY, TRAINING_LOSS, VALIDATION, Curve

FAINT = 0.55  # opacity of lines of single batches, below the validations
WEAK = 0.35  # opacity of trials other than the best
SHOWN = {"loss": (TRAINING_LOSS, "validation loss"), "accuracy": (ACCURACY,)}
TITLES = translated({"loss": "loss (nats a sample)"})
MARKED = 40  # maximum of points with markers


@dataclass(frozen=True, slots=True)
class StepLine:
    """Values at steps. `spread`: standard deviation over repetitions, None for a single run; `noise`: 95 % intervals
    of accuracies, if the number of samples is known."""

    steps: Array
    values: Array
    colour: str
    width: float = 2.0
    dashes: tuple[float, ...] = ()
    spread: Array | None = None
    marked: bool = False
    noise: tuple[Array, Array] | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """One frame: metric, axis title, lines, and its range if not that of the lines."""

    figure: str
    title: str
    lines: list[StepLine]
    ends: Ends | None = None


# -- trainings


@dataclass(frozen=True, slots=True)
class Runs:
    """Trainings that differ only in the seed; `label`: distinguishes them from others."""

    label: str
    curves: tuple[Curve, ...]

    def mean(self, name: str) -> tuple[Array, Array, Array | None]:
        """Common steps of a metric, its mean there, and its standard deviation over seeds."""
        series = [dict(c.series.get(name, ())) for c in self.curves]
        steps = sorted(set[int](series[0]).intersection(*series[1:]))
        values = np.array([[s[k] for k in steps] for s in series], float)
        return np.array(steps, float), values.mean(0), values.std(0, ddof=1) if len(series) > 1 else None

    def line(self, name: str, place: int, look: Palette) -> StepLine:
        """The line of one metric; losses of single batches are faint."""
        colour, dashes = line_style(place)
        batches = name == TRAINING_LOSS
        steps, values, spread = self.mean(name)
        return StepLine(steps, values, mixed(colour, look.panel, FAINT) if batches else colour,
                        1.2 if batches else 2.0, dashes, spread, not batches and len(steps) <= MARKED,
                        _noise(values, self.samples) if name == ACCURACY else None)  # fmt: skip

    @property
    def samples(self) -> int:
        """Number of samples of the accuracies of a single training; 0 if unknown."""
        return self.curves[0].samples if len(self.curves) == 1 else 0

    def entry(self, name: str) -> str:
        """Legend text."""
        words = tr("{} with distillation", name) if name == TRAINING_LOSS and self.curves[0].taught else name
        count = len(self.curves)
        return f"{self.label}: {words}" + (tr(", mean of {} seeds, band ± s", count) if count > 1 else "")


def _noise(shares: Array, samples: int) -> tuple[Array, Array] | None:
    if not samples or not len(shares):
        return None
    low, high = np.array([wilson(float(share), samples) for share in shares]).T
    return low, high


def training(runs: Sequence[Runs], look: Palette = LIGHT, *, inset: bool = False) -> Drawing:
    """Draw training and validation loss by step, and below the validation accuracy if measured."""
    panels: list[Panel] = []
    entries: list[Entry] = []
    for figure, names in SHOWN.items():
        lines = [(r, n, r.line(n, i, look)) for n in names for i, r in enumerate(runs)]
        lines = [(r, n, line) for r, n, line in lines if len(line.steps)]
        if lines:
            heading = _loss_title(runs) if figure == "loss" else tr("validation {}", figure)
            panels.append(Panel(figure, heading, [line for _, _, line in lines]))
            entries += [(r.entry(n), line.colour, line.dashes) for r, n, line in lines if figure == "loss"]
    if not panels:
        return empty(tr("No training has reported a loss."), look)
    counts = sorted({r.samples for r in runs if r.samples and any(c.series.get(ACCURACY) for c in r.curves)})
    if counts:
        entries.append((tr("bands of accuracy: 95 % of n = {}", ", ".join(map(str, counts))), look.line, ()))
    return by_step(tr("Loss by training step"), tr("training step (number)"), panels, entries, look, inset=inset)


def _loss_title(runs: Sequence[Runs]) -> str:
    """The axis of losses: of a task whose metrics all were validated, what its loss is."""
    names = {name for r in runs for curve in r.curves for name in curve.series}
    for _, task in TASKS.items():
        own = [m for m in task.metrics if m.name not in ("accuracy", "loss", *task.unvalidated)]
        if own and all(VALIDATION + m.title in names for m in own):
            return tr("loss ({})", task.loss_text)
    return TITLES["loss"]


# -- trials of a search


def on_the_way(groups: Sequence[Group], look: Palette = LIGHT, *, inset: bool = False) -> Drawing:
    """Draw intermediate values, one line per trial: pruned trials grey, the best of each study emphasised."""
    first = groups[0].studies[0]
    figure = figure_of(first)
    values = np.concatenate([intermediate_values(s) for g in groups for s in g.studies])
    if not len(values):
        return empty(tr("No trial has intermediate values. Trials that train, rungs and pruners report them."), look)
    low, high, room = core_of(values, rising=first.sign(figure) > 0)
    panel = Panel(figure, TITLES.get(figure, title(figure)), _by_trial(groups, lambda t: t.steps, look),
                  (low - room, high + room))  # fmt: skip
    heading = tr("{} of trials by step", title(figure).capitalize())
    x_title = tr("{} (number)", STEP_TITLES[first.counted])
    return by_step(heading, x_title, [panel], _entries(groups, lambda t: t.steps, look), look, inset=inset)


def losses(groups: Sequence[Group], look: Palette = LIGHT, *, inset: bool = False) -> Drawing:
    """Draw the training loss, one line per trial."""
    panel = Panel("loss", tr("training {}", TITLES["loss"]), _by_trial(groups, lambda t: t.losses, look))
    if not panel.lines:
        return empty(tr("No trial of this study has reported a training loss."), look)
    entries = _entries(groups, lambda t: t.losses, look)
    return by_step(
        tr("Training loss of trials by step"), tr("training step (number)"), [panel], entries, look, inset=inset
    )


Told = Callable[[Trial], Sequence[tuple[int, float]]]


def _by_trial(groups: Sequence[Group], of: Told, look: Palette) -> list[StepLine]:
    """Lines of all trials, the best last."""
    lines = [line for place, g in enumerate(groups) for s in g.studies for line in _trials(s, of, place, look)]
    return sorted(lines, key=lambda line: line.width)


def _trials(study: Study, of: Told, place: int, look: Palette) -> list[StepLine]:
    """Lines of a study's trials: pruned thinnest, the best widest."""
    colour, dashes = line_style(place)
    best, lines = leading(study), list[StepLine]()
    for number, trial in enumerate(study.trials):
        if of(trial):
            lead, early = number == best, trial.state == "pruned"
            shade = colour if lead else look.muted if early else mixed(colour, look.panel, WEAK)
            steps, values = np.array(of(trial), float).T
            width = 2.4 if lead else 0.8 if early else 1.2
            lines.append(StepLine(steps, values, shade, width, dashes, marked=len(steps) <= (MARKED if lead else 1)))
    return lines


def _entries(groups: Sequence[Group], of: Told, look: Palette) -> list[Entry]:
    """Legend entries."""
    return [entry for place, group in enumerate(groups) for entry in _entries_of(group, of, place, look)]


def _entries_of(group: Group, of: Told, place: int, look: Palette) -> list[Entry]:
    """Legend entries of a group: best trial, others, pruned."""
    colour, dashes = line_style(place)
    bests = [s.trials[b] for s in group.studies if (b := leading(s)) is not None]
    leads = [str(t.number) for t in bests if of(t)]
    drawn = [t for s in group.studies for t in s.trials if of(t)]
    early = sum(t.state == "pruned" for t in drawn)
    others = len(drawn) - early - len(leads)
    entries: list[Entry] = [(tr("{}: best, trial {}", group.label, ", ".join(leads)), colour, dashes)] if leads else []
    entries += (
        [(tr("{}: {} others", group.label, others), mixed(colour, look.panel, WEAK), dashes)] if others > 0 else []
    )
    return [*entries, *([(tr("{}: {} ended early", group.label, early), look.muted, dashes)] if early else [])]


# -- the sheet


def by_step(
    heading: str, x_title: str, panels: Sequence[Panel], entries: list[Entry], look: Palette, *, inset: bool,
) -> Drawing:  # fmt: skip
    """Draw stacked panels over common steps; the inset enlarges the later half of the first."""
    steps = np.concatenate([line.steps for p in panels for line in p.lines])
    x = float(min(steps.min(), 0.0)), float(max(steps.max(), 1.0))
    ys = [p.ends or _ends(p.lines, x, p.figure) for p in panels]
    sheet, frames = frames_of(heading, x, ys, entries, look)
    for panel, frame in zip(panels, frames, strict=True):
        axes(sheet, frame, "step", x_title, panel.figure, look, panel.title)
        _lines(sheet, frame, panel.lines, look)
    later = (x[0] + x[1]) / 2, x[1]
    late = [line for line in panels[0].lines if ((line.steps >= later[0]) & np.isfinite(line.values)).any()]
    if inset and late:
        ends = _ends(late, later, panels[0].figure)
        inner = inset_of(sheet, frames[0], later, ends, look, _free(frames[0], panels[0].lines))
        grid(sheet, inner, "step", panels[0].figure, look, most=4)
        _lines(sheet, inner, late, look)
    return sheet


def _ends(lines: Iterable[StepLine], x: Ends, figure: str) -> Ends:
    """Range of all values between two steps, with their spread."""
    values = [v[(line.steps >= x[0]) & (line.steps <= x[1])] for line in lines for v in _spans(line)]
    flat = np.concatenate(values)
    flat = flat[np.isfinite(flat)]
    return roomy(float(flat.min()), float(flat.max()), figure) if len(flat) else (0.0, 1.0)


def _spans(line: StepLine) -> tuple[Array, Array]:
    """Lower and upper ends of a line's band."""
    if line.noise is not None:
        return line.noise
    spread = 0.0 if line.spread is None else line.spread
    floor = 0.0 if (line.values >= 0).all() else -np.inf
    return np.maximum(line.values - spread, floor), line.values + spread


def _free(frame: Frame, lines: Sequence[StepLine]) -> float:
    """Relative height at which an inset covers the fewest points, weighted by line width."""

    def hidden(down: float) -> float:
        left, right, top, foot = inset_box(inset_frame(frame, frame.x, frame.y, down))
        total = 0.0
        for line in lines:
            points = [frame.at(x, y) for x, y in zip(line.steps, line.values, strict=True)]
            total += line.width * sum(left <= x <= right and top <= y <= foot for x, y in points) / len(points)
        return total

    return min((0.0, 0.25, 0.5, 0.75, 1.0), key=hidden)


def _lines(sheet: Drawing, frame: Frame, lines: Sequence[StepLine], look: Palette) -> None:
    """Draw bands, then lines, then markers."""
    for line in lines:
        sheet.parts += _band(frame, line, look)
    for line in lines:
        points = list(zip(line.steps.tolist(), line.values.tolist(), strict=True))
        for part in _in_sight(frame, points):
            sheet.parts.append(Line(tuple(frame.at(*p) for p in part), line.colour, line.width, line.dashes))
        if line.marked:
            sheet.parts += [Disc(frame.at(*p), line.colour) for p in points if frame.holds(*p)]


def _in_sight(frame: Frame, points: Sequence[Ends]) -> list[list[Ends]]:
    """Clip a line to the frame; NaN makes a gap."""
    parts: list[list[Ends]] = []
    for a, b in pairwise(points):
        if (cut := _cut(frame, a, b)) is None:
            continue
        if parts and parts[-1][-1] == cut[0]:
            parts[-1].append(cut[1])
        else:
            parts.append(list(cut))
    return parts


def _cut(frame: Frame, a: Ends, b: Ends) -> tuple[Ends, Ends] | None:
    """Clip a segment to the frame (Liang and Barsky)."""
    if not np.isfinite([*a, *b]).all():
        return None
    begin, end = 0.0, 1.0
    for p, q, (low, high) in zip(a, b, (frame.x, frame.y), strict=True):
        if p == q:
            if not low <= p <= high:
                return None
            continue
        enter, leave = sorted(((low - p) / (q - p), (high - p) / (q - p)))
        begin, end = max(begin, enter), min(end, leave)
    if begin >= end:
        return None
    at = [a if t == 0 else b if t == 1 else (a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])) for t in (begin, end)]
    return at[0], at[1]


def _band(frame: Frame, line: StepLine, look: Palette) -> list[Area]:
    if line.spread is None and line.noise is None:
        return []
    visible = [i for i, x in enumerate(line.steps) if frame.x[0] <= x <= frame.x[1] and np.isfinite(line.values[i])]
    if len(visible) < 2:
        return []
    low, high = (np.clip(v, *frame.y) for v in _spans(line))
    below, above = ([frame.at(line.steps[i], v[i]) for i in visible] for v in (low, high))
    return [Area((*below, *reversed(above)), mixed(line.colour, look.panel))]
