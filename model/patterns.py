"""Regular expressions of users and files, in the syntax of `re`, with limits of time and memory.

`re` may backtrack exponentially and cannot be stopped. The package `regex` has a time limit, but accepts more and
unrolls counted repeats: `re` checks patterns first, and their size is limited here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from espalier.model.errors import OptionsError

SECONDS = 0.5  # of thread time, for all texts searched by a set of patterns
MAX_CHARACTERS = 10_000  # of a pattern
MOST_UNROLLED = 200_000  # characters of a pattern times the product of its counts
MOST_REMEMBERED = 100_000
_COUNT = re.compile(r"\{(\d{0,9})(?:,(\d{0,9}))?\}")
_LITERAL = re.compile(r"(?<!\\)((?:\\\\)*)\{(?!(?:\d+(?:,\d*)?|,\d*)\})")  # `regex` may parse it as a fuzzy count
_MARKS = re.compile(r"[,\[\]()]")
_SLOW = "{!r} takes more than {} s."
_SIMPLER = "Simplify it: avoid a repeat within a repeat, such as (a+)+."


def check(pattern: str) -> None:
    """Raise OptionsError unless `pattern` is a valid regular expression within the limits of size."""
    shown = pattern if len(pattern) <= 60 else f"{pattern[:60]}…"
    if len(pattern) > MAX_CHARACTERS:
        raise OptionsError(
            f"The pattern {shown!r} has {len(pattern)} characters.", f"Shorten it to at most {MAX_CHARACTERS}."
        )
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
    """The parts of `text` between commas outside brackets; a comma is inside if the next bracket is a closing one."""
    ends, inside = [len(text)], False
    for mark in reversed(list(_MARKS.finditer(text))):
        if mark[0] == ",":
            ends += [] if inside else [mark.start()]
        else:
            inside = mark[0] in ")]"
    return [text[a + 1 : b] for a, b in pairwise([-1, *reversed(ends)])]


class Patterns:
    """A set of patterns with a limit of `SECONDS` for all searched texts; results are cached by text."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = tuple(patterns)
        self._compiled: dict[str, Any] = {}
        self._found: dict[str, str | None] = {}
        self._left = SECONDS
        for pattern in self._patterns:
            check(pattern)

    def first(self, text: str) -> str | None:
        """The first pattern that occurs in `text`, or None. Raises OptionsError if the time limit is exceeded."""
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
            # `regex` accepts no negative time limit.
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
