"""The glossary of the guide, for tooltips: what a word means, in a line. Free of Qt."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "resources" / "guide" / "glossary.md"
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.M)
OTHER = re.compile(r"(.+) \((\w+)\)")  # block floating point (BFP)


@cache
def terms() -> dict[str, str]:
    """Each spelling of a term → the line that explains it; empty without the guide."""
    found: dict[str, str] = {}
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    for names, meaning in ROW.findall(text)[1:]:
        for name in names.split(", "):
            both = OTHER.fullmatch(name)
            found |= {spelling: f"{name}: {meaning}" for spelling in (both.groups() if both else (name,))}
    return found


@cache
def _words() -> re.Pattern[str]:
    """All terms as whole words, the longest first; those in small letters also with a capital or in the plural."""
    forms = [re.escape(t) if t != t.lower() else f"(?i:{re.escape(t)})s?" for t in sorted(terms(), key=len)[::-1]]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])")


def meaning(word: str) -> str:
    """The line of a term, as labels write it; empty for other words."""
    return _line(word) if terms() and _words().fullmatch(word) else ""


def line_at(text: str, at: int) -> str:
    """The line of the term that has the letter number `at` of a text; empty where none has."""
    matches = _words().finditer(text) if terms() else ()
    return next((_line(m.group()) for m in matches if m.start() <= at < m.end()), "")


def _line(word: str) -> str:
    small = word.lower()
    return terms().get(word) or next((terms()[w] for w in (small, small.removesuffix("s")) if w in terms()), "")
