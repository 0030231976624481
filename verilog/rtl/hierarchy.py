"""What a module is made of: the instances in its text, each with the lines it stands at."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

_ASIDE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_PARAMETERS = re.compile(r"\s*#\s*\(")
_BRACKET = re.compile(r"[()]")


@dataclass(frozen=True, slots=True)
class Inside:
    """An instance in a text: its name, its module, its first and last line (from 1)."""

    name: str
    module: str
    line: int
    last: int


def inside(text: str, modules: Collection[str]) -> tuple[Inside, ...]:
    """The instances of these modules in a text, in its order; what a loop generates stands once."""
    if not modules:
        return ()
    plain = _ASIDE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    starts = [0, *(m.end() for m in re.finditer("\n", plain))]
    found: list[Inside] = []
    end = 0
    for word in re.finditer(rf"\b(?:{'|'.join(map(re.escape, modules))})\b", plain):
        if word.start() < end:
            continue
        at = word.end()
        if given := _PARAMETERS.match(plain, at):
            at = _closed(plain, given.end())
        if named := _NAMED.match(plain, at):
            end = _closed(plain, named.end())
            found.append(Inside(named[1], word[0], bisect_right(starts, word.start()), bisect_right(starts, end - 1)))
    return tuple(found)


def _closed(text: str, at: int) -> int:
    """Past the bracket that closes the one before `at`; the end where none does."""
    depth = 1
    for each in _BRACKET.finditer(text, at):
        depth += 1 if each[0] == "(" else -1
        if not depth:
            return each.end()
    return len(text)
