"""Words that the field does not use stay out of what people read: strings of the product, pages of the guide."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from espalier.app.features.guide.pages import ROOT
from tests.test_architecture import sources

# By what to say instead.
BANNED = {
    "true class × predicted class": r"what is told|told wrong|told as such",
    "resume the same study": r"go on together",
    "pause after the current step": r"wait between two steps",
    "stop now and keep partial results": r"what has come is kept|End it now",
    "the range is empty": r"has no inside",
    "supports a single objective": r"judges one goal",
    "no design meets the budget": r"keeps? the budgets?",
    "higher is better (default)": r"as it is meant",
    "automatic": r"what is there\b",
    "one module per operation": r"a module an operation",
    "lints": r"looks through it",
    "majority-class accuracy": r"[Tt]elling the most frequent class",
    "inferred": r"found by itself",
    "in-place, layer-wise, wrapped": r"\b(unheard|abreast|surrounded|furnishing|hopeless|foretell|foretold)\b",
    "gradient statistics": r"\bevidence\b",
}


@cache
def texts() -> list[tuple[str, str]]:
    """(place, text) of the pages, and of all strings of the product that hold words, docstrings aside."""
    found = [(f.name, f.read_text(encoding="utf-8")) for f in ROOT.rglob("*.md") if f.name != "measured.md"]
    for path, tree in sources().items():
        docs = {id(n.body[0].value) for n in ast.walk(tree)
                if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and n.body and isinstance(n.body[0], ast.Expr)}  # fmt: skip
        held = (n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str))
        found += [(f"{path}:{n.lineno}", n.value) for n in held if id(n) not in docs and " " in n.value.strip()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("instead", BANNED)
def test_no_banned_words(instead: str) -> None:
    pattern = re.compile(BANNED[instead])
    found = [f"{place}: {text[:120]}" for place, text in texts() if pattern.search(text)]
    assert not found, "\n".join([f"say: {instead}", *found])
