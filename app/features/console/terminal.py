"""Output of programs as lines of plain text: carriage returns, escape sequences, long lines. Free of Qt."""

from __future__ import annotations

import re
from collections import deque

# ECMA-48 control sequences (CSI), operating system commands (OSC), and other two-character escapes.
ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
CONTROL = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]")
LINES, LENGTH = 5000, 4000  # lines that are kept, and characters of a line

Line = tuple[str, str]  # kind of output, text


class Terminal:
    """The last lines of the output. The last one is open until its line end comes.

    `take` gives what changed: whether the open line of before is replaced, and the new lines.
    """

    def __init__(self, limit: int = LINES) -> None:
        self._lines: deque[Line] = deque(maxlen=limit)
        self._kind, self._open = "", ""
        self._shown_open = False  # whether the open line was given out
        self._returned = False  # whether the next text begins the open line again

    def feed(self, kind: str, text: str) -> None:
        """Add output; another kind begins a new line."""
        text = ESCAPE.sub("", text).replace("\r\n", "\n")
        if kind != self._kind and (self._open or self._returned):
            self._close()
        self._kind = kind
        first, *rest = text.split("\n")
        self._put(first)
        for part in rest:
            self._close()
            self._put(part)

    def add(self, kind: str, text: str) -> None:
        """Add whole lines."""
        self.end_line()
        self.feed(kind, f"{text}\n")

    def end_line(self) -> None:
        """Begin a new line, unless the last one is empty."""
        if self._open:
            self._close()

    def _put(self, text: str) -> None:
        """Add to the open line; a carriage return begins it again, a backspace takes a character back."""
        for i, part in enumerate(text.split("\r")):
            if i:
                self._returned = True
            if not part:
                continue
            if self._returned:
                self._open, self._returned = "", False
            while "\b" in part:
                head, _, part = part.partition("\b")
                self._open = (self._open + head)[:-1]
            room = LENGTH - len(self._open)
            if room > 0:
                part = CONTROL.sub("", part)
                self._open += part if len(part) <= room else f"{part[:room]}…"

    def _close(self) -> None:
        self._lines.append((self._kind, self._open))
        self._open, self._returned = "", False

    def take(self) -> tuple[bool, list[Line]]:
        """(whether the last line given before is replaced, lines since); the open line is the last, if any."""
        replaces, lines = self._shown_open, list(self._lines)
        self._lines.clear()
        self._shown_open = bool(self._open)
        if self._open:
            lines.append((self._kind, self._open))
        elif replaces and not lines:
            lines.append((self._kind, ""))
            self._shown_open = True
        return replaces, lines
