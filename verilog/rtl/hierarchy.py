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
    code = _COMMENT_OR_STRING.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)
    starts = [0, *(m.end() for m in re.finditer("\n", code))]
    instances: list[TextInstance] = []
    end = 0
    for match in re.finditer(rf"\b(?:{'|'.join(map(re.escape, modules))})\b", code):
        if match.start() < end:
            continue
        at = match.end()
        if parameters := _PARAMETERS.match(code, at):
            at = _closing(code, parameters.end())
        if instance_name := _NAMED.match(code, at):
            end = _closing(code, instance_name.end())
            first, last = (bisect_right(starts, position) for position in (match.start(), end - 1))
            instances.append(TextInstance(instance_name[1], match[0], first, last))
    return tuple(instances)


def _closing(text: str, at: int) -> int:
    """Position after the bracket that closes the one before `at`; the end of the text if there is none."""
    depth = 1
    for bracket in _BRACKET.finditer(text, at):
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            return bracket.end()
    return len(text)
