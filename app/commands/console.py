"""Output of a command: the answer on stdout, notes on stderr, a progress bar on terminals only."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from espalier.app.commands.interrupts import raise_lost
from espalier.app.number_text import row_value

THIN = "\u2009"
BAR = 24
QUIET = 20.0  # seconds without output until a progress line is written where no bar is shown


class Console:
    """Output streams of one command."""

    def __init__(self, out: TextIO, json: bool) -> None:
        self.out = out
        self.json = json
        self._drawn = 0
        self._last = 0.0
        self._last_note = time.monotonic()
        self._warned = set[str]()

    @property
    def live(self) -> bool:
        """Whether a progress bar can be shown."""
        return not self.json and sys.stderr.isatty()

    def progress(self, done: int, total: int, text: str) -> None:
        """Draw a progress bar at most ten times a second; without a terminal write a line every QUIET seconds.

        Raises KeyboardInterrupt for a Ctrl+C that was lost.
        """
        raise_lost()
        now = time.monotonic()
        if not self.live:
            if now - self._last_note >= QUIET:
                self.note(f"… {text}, {done} of {total}" if total else f"… {text}")
            return
        if now - self._last < 0.1:
            return
        self._last = now
        part = min(done / total, 1.0) if total else 0.0
        bar = "█" * round(part * BAR) + "░" * (BAR - round(part * BAR)) + " " if total else ""
        self._draw(f"{bar}{text}"[: shutil.get_terminal_size().columns - 1])

    def _draw(self, line: str) -> None:
        sys.stderr.write("\r" + line.ljust(self._drawn))
        sys.stderr.flush()
        self._drawn = len(line)

    def clear(self) -> None:
        """Clear the progress bar."""
        if self._drawn:
            self._draw("")
            sys.stderr.write("\r")
            self._drawn = 0

    def note(self, text: str) -> None:
        """Write one line to stderr, without what `warn` wrote; nothing else leaves nothing."""
        for line in self._warned:
            text = text.replace(line, "")
        if not text.strip():
            return
        self.clear()
        self._last_note = time.monotonic()
        sys.stderr.write(one_line(text) + "\n")
        sys.stderr.flush()

    def warn(self, lines: Iterable[str]) -> None:
        """Write lines to stderr that a later `note` leaves out."""
        for line in lines:
            self.note(line)
            self._warned.add(line)


def one_line(text: str) -> str:
    """`text` without line breaks."""
    return " ".join(text.split())


# -- numbers


def count(value: float) -> str:
    """Format an integer with thin spaces: 14 480 258."""
    return f"{round(value):,}".replace(",", THIN)


def size(value: float) -> str:
    """Format bytes: 16.7 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024 or unit == "GiB":
            return f"{value:.0f}{THIN}{unit}" if unit == "B" else f"{value:.1f}{THIN}{unit}"
        value /= 1024
    return ""


def big(value: float) -> str:
    """Format with an SI prefix: 1.32 G."""
    for unit in ("", "k", "M", "G", "T"):
        if abs(value) < 1000 or unit == "T":
            return f"{value:.3g}{THIN}{unit}".strip() if unit else f"{value:.4g}"
        value /= 1000
    return ""


def seconds(value: float) -> str:
    """Format a duration: 2.31 s or 14 ms."""
    return f"{value * 1000:.0f}{THIN}ms" if value < 1 else f"{value:.2f}{THIN}s"


def age(when: float) -> str:
    """Format the age of a Unix time: 5 min ago."""
    past = max(time.time() - when, 0.0)
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if past >= length:
            return f"{past // length:.0f}{THIN}{unit} ago"
    return f"{past:.0f}{THIN}s ago"


def cell(value: Any) -> str:
    """Format a value for a table."""
    match value:
        case None:
            return "–"
        case bool() | str():
            return str(value)
        case int():
            return count(value)
        case float() if 1e3 <= abs(value) < 1e6:
            return count(value)
        case float():
            return f"{value:.4g}" if math.isfinite(value) else str(value)
        case tuple() | list():
            simple = all(isinstance(v, int | str) for v in value)
            return " × ".join(map(str, value)) if simple else ", ".join(map(cell, value))
        case Mapping():
            return ", ".join(f"{k} {cell(v)}" for k, v in value.items())
        case _:
            return str(value)


def table(rows: Sequence[Mapping[str, Any]], indent: str = "") -> Iterable[str]:
    """Lines of a table with aligned columns; numbers are right-aligned."""
    names = list(dict.fromkeys(k for row in rows for k in row))
    right = [all(isinstance(r.get(n), int | float | None) for r in rows) for n in names]
    lines = [[n.replace("_", " ") for n in names], *([cell(row_value(r, n)) for n in names] for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    for line in lines:
        cells = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        yield (indent + "  ".join(cells)).rstrip()


def facts(pairs: Mapping[str, str], indent: str = "") -> Iterable[str]:
    """`name  value` lines, the values aligned."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        yield f"{indent}{name.ljust(width)}  {value}"


def plain(value: Any) -> Any:
    """Convert to strict JSON values: non-finite numbers become None, arrays become lists."""
    match value:
        case float():
            return value if value - value == 0 else None
        case None | bool() | int() | str():
            return value
        case Mapping():
            return {str(k): plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(v) for v in value]
        case _ if hasattr(value, "tolist"):
            return plain(value.tolist())
        case _:
            return str(value)
