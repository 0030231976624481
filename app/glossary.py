"""The glossary of the guide, for tooltips: each term with its meaning in one line. Free of Qt.

Its other tables explain columns, operations and workspaces: common words, which no tooltip on a label explains.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from espalier.app.translation import english, tr

PAGE = Path(__file__).resolve().parents[1] / "resources" / "guide" / "glossary.md"
COLUMNS, OPERATIONS, WORKSPACES = "## Columns of tables", "## Operations", "## Workspaces"
SECTIONS = {COLUMNS: "column", OPERATIONS: "operation", WORKSPACES: "workspace"}
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.M)
ABBREVIATED = re.compile(r"(.+) \((\w+)\)")  # block floating point (BFP)


@cache
def terms() -> dict[str, str]:
    """Each spelling of a term → its line, `TERM: MEANING`; empty without the guide."""
    return _lines(_table(""))


@cache
def columns() -> dict[str, str]:
    """Each column → its line, as `terms`."""
    return _lines(_table(COLUMNS))


@cache
def common_words() -> dict[str, dict[str, str]]:
    """By kind (column, operation, workspace): each word → its line, as `terms`."""
    return {kind: _lines(_table(section)) for section, kind in SECTIONS.items()}


def _table(section: str) -> str:
    """The part of the page below a heading; of the beginning for an empty one."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    part = text.partition(f"{section}\n")[2] if section else text
    return part.partition("\n## ")[0]


def _lines(text: str) -> dict[str, str]:
    lines: dict[str, str] = {}
    for names, meaning in ROW.findall(text)[1:]:
        for name in names.split(", "):
            both = ABBREVIATED.fullmatch(name)
            lines |= {spelling: f"{name}: {meaning}" for spelling in (both.groups() if both else (name,))}
    return lines


@cache
def _pattern() -> re.Pattern[str]:
    """Matches each term as a whole word, the longest first; lower-case terms in any case, also with a plural s."""
    forms = [re.escape(t) if t != t.lower() else f"(?i:{re.escape(t)})s?" for t in sorted(terms(), key=len)[::-1]]
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])")


def meaning(word: str) -> str:
    """The line of a term in a label; empty for other words."""
    word = english(word)
    return tr(_line(word)) if terms() and _pattern().fullmatch(word) else ""


def first_term(text: str) -> str:
    """The first term in a text; empty if there is none."""
    match = _pattern().search(text) if terms() else None
    return match.group() if match else ""


def line_at(text: str, at: int) -> str:
    """The line of the term at character index `at` of a text; empty if there is none."""
    matches = _pattern().finditer(text) if terms() else ()
    return tr(next((_line(m.group()) for m in matches if m.start() <= at < m.end()), ""))


def _line(word: str) -> str:
    lower = word.lower()
    return terms().get(word) or next((terms()[w] for w in (lower, lower.removesuffix("s")) if w in terms()), "")
