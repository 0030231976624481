"""Text of the answers' metrics, for the window and the command line. No Qt."""

from __future__ import annotations

from espalier.app.number_text import NOT_MEASURED, THIN, count, figure, mebibytes, percent, time_text
from espalier.app.translation import message
from espalier.kernels.bench.answers.lines import Line


def value_text(line: Line) -> str:
    """The value with its unit; without a value its note, or that it is not measured."""
    if line.value is None:
        return message(line.note or NOT_MEASURED)
    match line.unit:
        case "s":
            return time_text(line.value)
        case "bytes":
            return mebibytes(line.value)
        case "TFLOP/s" if line.value < 1:
            return f"{figure(line.value * 1e3)}{THIN}GFLOP/s"
        case "share":
            return percent(line.value)
        case "count":
            return count(round(line.value))
        case "×":
            return f"{line.value:.3g}{THIN}×"
        case _:
            return f"{figure(line.value)}{THIN}{line.unit}"


def note_text(line: Line) -> str:
    """The note beside a value."""
    return "" if line.value is None else line.note
