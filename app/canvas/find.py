"""Finds nodes by what people type: part of an id, a module path or an op, or its letters in order."""

from __future__ import annotations

from model.graph import Graph, Node


def find(graph: Graph, text: str) -> list[str]:
    """Ids of matching nodes, the best first; empty when nothing matches."""
    words = text.casefold().split()
    if not words:
        return []
    ranked = [(score, k, n.id) for k, n in enumerate(graph) if (score := _score(n, words)) is not None]
    return [name for _, _, name in sorted(ranked)]


def _score(node: Node, words: list[str]) -> int | None:
    total = 0
    for word in words:
        fields = (node.id.casefold(), node.target.casefold(), node.module_path.casefold(), node.op.casefold())
        found = [s for f in fields if (s := _match(word, f)) is not None]
        if not found:
            return None
        total += min(found)
    return total


def _match(word: str, field: str) -> int | None:
    """0 exact, 1 the last part, 2 a part's beginning, 3 anywhere, 10 and more letters in order."""
    if word == field:
        return 0
    if word in field:
        if field.rpartition(".")[2] == word:
            return 1
        return 2 if field.startswith(word) or f".{word}" in field or f"_{word}" in field else 3
    return _fuzzy(word, field) if len(word) > 2 else None


def _fuzzy(word: str, field: str) -> int | None:
    place, first = 0, -1
    for letter in word:
        found = field.find(letter, place)
        if found < 0:
            return None
        first = found if first < 0 else first
        place = found + 1
    spread = place - first - len(word)
    return 10 + spread if spread <= 2 * len(word) else None
