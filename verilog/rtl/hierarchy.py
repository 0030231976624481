"""Instances in the text of a module, with their line numbers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_PARAMETERS = re.compile(r"\s*#\s*\(")
_BRACKET = re.compile(r"[()]")


@dataclass(frozen=True, slots=True)
class TextInstance:
    """An instance in a text: its name, its module, its first and last line (1-based)."""

    name: str
    module: str
    line: int
    last: int


def instances_in(text: str, modules: Collection[str]) -> tuple[TextInstance, ...]:
    """The instances of these modules in a text, in order; instances of a generate loop count once."""
    if not modules:
        return ()
    plain = _COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    starts = [0, *(m.end() for m in re.finditer("\n", plain))]
    instances: list[TextInstance] = []
    end = 0
    for word in re.finditer(rf"\b(?:{'|'.join(map(re.escape, modules))})\b", plain):
        if word.start() < end:
            continue
        at = word.end()
        if parameters := _PARAMETERS.match(plain, at):
            at = _closing(plain, parameters.end())
        if named := _NAMED.match(plain, at):
            end = _closing(plain, named.end())
            first, last = (bisect_right(starts, place) for place in (word.start(), end - 1))
            instances.append(TextInstance(named[1], word[0], first, last))
    return tuple(instances)


def _closing(text: str, at: int) -> int:
    """Position after the bracket that closes the one before `at`; the end of the text if there is none."""
    depth = 1
    for each in _BRACKET.finditer(text, at):
        depth += 1 if each[0] == "(" else -1
        if not depth:
            return each.end()
    return len(text)
