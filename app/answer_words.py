"""Figures of answers about kernels as people read them: in the window and on the command line. No Qt."""

from __future__ import annotations

from app.words import NOT_MEASURED, THIN, count, figure, mebibytes, percent
from kernels.bench.answers.lines import Line

_TIMES = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (0.0, 1e6, "µs"))


def seconds(value: float) -> str:
    """1.2 s, 3.45 ms, 6.7 µs."""
    factor, unit = next((f, u) for least, f, u in _TIMES if value >= least)
    return f"{value * factor:.3g}{THIN}{unit}" if value * factor < 1000 else f"{value * factor:.0f}{THIN}{unit}"


def value_text(line: Line) -> str:
    """The value with its unit; what has none says why, or that it is not measured yet."""
    if line.value is None:
        return line.note or NOT_MEASURED
    match line.unit:
        case "s":
            return seconds(line.value)
        case "bytes":
            return mebibytes(line.value)
        case "share":
            return percent(line.value)
        case "count":
            return count(round(line.value))
        case "×":
            return f"{line.value:.3g}{THIN}×"
        case _:
            return f"{figure(line.value)}{THIN}{line.unit}"


def note_text(line: Line) -> str:
    """What stands beside the value."""
    return "" if line.value is None else line.note
