"""Drawings of a search's choices: importance of choices, and formats by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from espalier.app.figures.curves import COLOURS, TOP, WIDTH, Area, Drawing, Line, Word, mixed
from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.importance_process import MIN_TRIALS, importances
from espalier.app.figures.study.labels import bits_of, plain, title, value_words
from espalier.app.figures.study.short_names import short_names
from espalier.app.theme import LIGHT, Palette
from espalier.app.translation import tr
from espalier.model.data.base import Array

LEFT, RIGHT, BAR, GAP = 250, 70, 16, 8
MAX_ITEMS = 30  # maximum of bars, and of trials in the map
CELL = 22
LETTERS = 34
WORDS = 46  # minimum pixels of a cell with its format's name


def asked(study: Study, goals: Sequence[str], method: str) -> tuple[dict[str, Any], list[Array]]:
    """Input of the importance of choices: choices and goals, and their columns in the same order."""
    done = np.flatnonzero(study.state == COMPLETE)
    spaces: dict[str, Any] = {}
    columns: list[Array] = []
    for name in study.params.names:
        scale, column = study.scales[name], study.params[name][done]
        finite = column[np.isfinite(column)]
        if not len(finite):
            continue
        low, high = min(scale.ends[0], finite.min()), max(scale.ends[1], finite.max())
        spaces[name] = {"low": low, "high": high, "log": scale.log and low > 0, "whole": scale.choice.whole}
        if not scale.numeric:
            spaces[name] = {"values": list(range(len(scale.values)))}
        columns.append(column)
    columns += [-study.sign(g) * study.figures[g][done] for g in goals]
    return {"choices": spaces, "goals": list(goals), "method": method, "rows": len(done)}, columns


def importance(study: Study, goal: str, look: Palette = LIGHT) -> Drawing:
    """Bar chart of the importance of choices for a goal, by PED-ANOVA."""
    about, columns = asked(study, [goal], "ped")
    if about["rows"] < MIN_TRIALS:
        return _message(tr("{} trials are complete; importance needs {}.", about["rows"], MIN_TRIALS), look)
    names = [*about["choices"], f"goal {goal}"]
    shares = importances(about, {n: c.tolist() for n, c in zip(names, columns, strict=True)})[goal]
    short = short_names([study.scales[n].choice for n in shares])
    bars = sorted(shares.items(), key=lambda b: -b[1])[:MAX_ITEMS]
    omitted = tr(" ({} of {} choices)", MAX_ITEMS, len(shares)) if len(shares) > MAX_ITEMS else ""
    sheet = Drawing(WIDTH, TOP + (BAR + GAP) * len(bars) + 54, look.panel)
    heading = tr("Importance of choices for {}, n = {} trials{}", title(goal), about["rows"], omitted)
    sheet.parts.append(Word((24, 24), heading, look.text, size=14, bold=True))
    room, largest = WIDTH - LEFT - RIGHT, max((v for _, v in bars), default=1.0) or 1.0
    for place, (name, value) in enumerate(bars):
        y = TOP + 6 + place * (BAR + GAP)
        sheet.parts.append(Word((LEFT - 8, y + 12), _short(short[name]), look.text, "end"))
        sheet.parts.append(_box(LEFT, y, room * value / largest, BAR, COLOURS[0]))
        sheet.parts.append(Word((LEFT + room * value / largest + 6, y + 12), f"{100 * value:.1f} %", look.muted))
    foot = TOP + 6 + len(bars) * (BAR + GAP)
    sheet.parts.append(Line(((LEFT, TOP), (LEFT, foot)), look.muted))
    axis_title = tr("importance, % (PED-ANOVA)")
    sheet.parts.append(Word((LEFT + room / 2, foot + 26), axis_title, look.text, "middle"))
    return sheet


def precision(study: Study, goal: str, look: Palette = LIGHT) -> Drawing:
    """Map of formats: one row per choice, one column per trial (best first); darker cells have more bits."""
    merit = study.merit(goal)
    best = [int(i) for i in np.argsort(-merit, kind="stable") if np.isfinite(merit[i])][:MAX_ITEMS]
    rows = [n for n in study.params.names if any(bits_of(study.trials[i].params.get(n, 0)) is not None for i in best)]
    if not best or not rows:
        return _message(tr("No complete trial has chosen formats."), look)
    cells = {(n, i): study.trials[i].params[n] for n in rows for i in best if n in study.trials[i].params}
    bits = {v: b for v in cells.values() if (b := bits_of(v)) is not None}
    low, high = min(bits.values()), max(bits.values())
    short = short_names([study.scales[n].choice for n in rows])
    width = (WIDTH - LEFT - 24) / len(best)
    sheet = Drawing(WIDTH, TOP + 26 + CELL * len(rows) + 74, look.panel)
    heading = tr("Formats of the best {} trials by {}", len(best), title(goal))
    sheet.parts.append(Word((24, 24), heading, look.text, size=14, bold=True))
    for column, i in enumerate(best):
        x = LEFT + (column + 0.5) * width
        if width >= 20 or column % 5 == 0:
            sheet.parts.append(Word((x, TOP + 18), str(study.trials[i].number), look.muted, "middle", size=11))
    for row, name in enumerate(rows):
        y = TOP + 26 + row * CELL
        sheet.parts.append(Word((LEFT - 8, y + 15), _short(short[name]), look.text, "end"))
        for column, i in enumerate(best):
            if (value := cells.get((name, i))) in bits and (name, i) in cells:
                fill = _shade(bits[value], low, high, look)
                sheet.parts.append(_box(LEFT + column * width, y, width - 1, CELL - 1, fill))
                if width >= WORDS:
                    at = LEFT + (column + 0.5) * width, y + 15
                    sheet.parts.append(Word(at, plain(value)[: int(width / 6)], look.text, "middle", size=10))
    _key(sheet, sorted(set(bits.values())), (low, high), look)
    lead = study.trials[best[0]]
    caption = tr(
        "trial (number), best first: trial {} has {}", lead.number, value_words(goal, study.figures[goal][best[0]])
    )
    sheet.parts.append(
        Word((LEFT + (WIDTH - LEFT - 24) / 2, TOP + 26 + CELL * len(rows) + 20), caption, look.text, "middle")
    )
    return sheet


def _shade(bits: float, low: float, high: float, look: Palette) -> str:
    return mixed(COLOURS[0], look.panel, 0.12 + 0.7 * ((bits - low) / (high - low) if high > low else 0.5))


def _key(sheet: Drawing, shown: Sequence[float], ends: tuple[float, float], look: Palette) -> None:
    """Draw the key of shades: bits an element."""
    y, x = sheet.height - 30, float(LEFT)
    sheet.parts.append(Word((x - 8, y + 11), tr("bits an element"), look.text, "end"))
    step = -(-len(shown) // 8)
    for value in shown[::step]:
        sheet.parts.append(_box(x, y, 16, 14, _shade(value, *ends, look)))
        sheet.parts.append(Word((x + 20, y + 11), f"{value:.4g}", look.muted))
        x += 58


def _box(x: float, y: float, width: float, height: float, colour: str) -> Area:
    return Area(((x, y), (x + width, y), (x + width, y + height), (x, y + height)), colour, 1.0)


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else "…" + text[1 - LETTERS :]


def _message(text: str, look: Palette) -> Drawing:
    sheet = Drawing(WIDTH, 120, look.panel)
    sheet.parts.append(Word((WIDTH / 2, 60), text, look.muted, "middle"))
    return sheet
