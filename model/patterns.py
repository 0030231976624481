"""Regular expressions of users and files: what `re` accepts, searched within a limit of time and memory.

`re` backtracks without end ("^(\\w+)+!$" on thirty letters) and cannot be stopped. The package `regex` can; it accepts
more than `re` and unrolls counted repeats, so that a pattern is checked by `re` first, and its size here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from espalier.model.errors import OptionsError

SECONDS = 0.5  # of one thread, for all texts together that a set of patterns is asked for
LONGEST = 10_000  # characters of a pattern
MOST_UNROLLED = 200_000  # characters times the product of its counts
MOST_REMEMBERED = 100_000
_COUNT = re.compile(r"\{(\d{0,9})(?:,(\d{0,9}))?\}")
_LITERAL = re.compile(r"(?<!\\)((?:\\\\)*)\{(?!(?:\d+(?:,\d*)?|,\d*)\})")  # what `regex` may read as a fuzzy count
_MARKS = re.compile(r"[,\[\]()]")
_SLOW = "{!r} takes more than {} s."
_SIMPLER = "Simplify it: avoid a repeat within a repeat, such as (a+)+."


def check(pattern: str) -> None:
    """Raise OptionsError unless `pattern` is a regular expression of a size that can be searched."""
    shown = pattern if len(pattern) <= 60 else f"{pattern[:60]}…"
    if len(pattern) > LONGEST:
        raise OptionsError(f"The pattern {shown!r} has {len(pattern)} characters.", f"Write at most {LONGEST}.")
    unrolled = len(pattern) * prod(max(1, *(int(n or 1) for n in m.groups())) for m in _COUNT.finditer(pattern))
    try:
        re.compile(pattern)
    except (re.error, OverflowError) as error:
        raise OptionsError(f"{shown!r} is not a regular expression ({error}).", "Correct it.") from error
    except RecursionError as error:
        raise OptionsError(f"The pattern {shown!r} nests its groups too deeply.", "Write fewer groups.") from error
    if unrolled > MOST_UNROLLED:
        raise OptionsError(f"The counts in the pattern {shown!r} are too large.", "Write + or *, or smaller counts.")


def comma_parts(text: str) -> list[str]:
    """The parts of `text` between commas outside brackets; a comma is inside where the next bracket closes one."""
    ends, inside = [len(text)], False
    for mark in reversed(list(_MARKS.finditer(text))):
        if mark[0] == ",":
            ends += [] if inside else [mark.start()]
        else:
            inside = mark[0] in ")]"
    return [text[a + 1 : b] for a, b in pairwise([-1, *reversed(ends)])]


class Patterns:
    """Patterns that are searched in texts, at most `SECONDS` for all texts together; a text is searched once."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        self._compiled: dict[str, Any] = {}
        self._found: dict[str, str | None] = {}
        self._left = SECONDS
        for pattern in self._patterns:
            check(pattern)

    def first(self, text: str) -> str | None:
        """The first pattern that occurs in `text`; raises OptionsError where the time is spent."""
        if text not in self._found:
            if len(self._found) >= MOST_REMEMBERED:
                self._found.clear()
                self._left = SECONDS
            self._found[text] = next((p for p in self._patterns if self._search(p, text)), None)
        return self._found[text]

    def _search(self, pattern: str, text: str) -> bool:
        start = time.thread_time()
        try:
            compiled = self._compiled.get(pattern)
            if compiled is None:
                compiled = self._compiled[pattern] = _compile(pattern)
            # A spent limit stays so; `regex` takes none below zero.
            return compiled.search(text, timeout=max(self._left, 1e-6)) is not None
        except (TimeoutError, MemoryError) as error:
            self._left = 0.0
            raise OptionsError(_SLOW.format(pattern, SECONDS), _SIMPLER) from error
        except RecursionError as error:
            raise OptionsError(
                f"The pattern {pattern!r} nests its groups too deeply.", "Write fewer groups."
            ) from error
        finally:
            self._left -= time.thread_time() - start


def _compile(pattern: str) -> Any:
    import regex

    return regex.compile(_LITERAL.sub(r"\1\\{", pattern), regex.V0)
