"""Finds nodes by what people type: part of an id, a module path or an op, or its letters in order."""

from __future__ import annotations

from model.graph import Graph, Node

Fields = tuple[str, ...]


class Finder:
    """Searches one graph; keeps its texts folded, so that every letter typed costs little."""

    def __init__(self, graph: Graph) -> None:
        self.ids = list(graph.nodes)
        self.fields = [_fields(n) for n in graph]
        self.texts = ["\n".join(f) for f in self.fields]

    def find(self, text: str) -> list[str]:
        """Ids of matching nodes, the best first; letters in order count only where nothing else matches."""
        words = text.casefold().split()
        if not words:
            return []
        whole = [k for k, t in enumerate(self.texts) if all(w in t for w in words)]
        ranked = [(sum(_place(w, self.fields[k]) for w in words), k) for k in whole]
        if not ranked:
            spread = ((self._spread(k, words), k) for k in range(len(self.ids)))
            ranked = [(far, k) for far, k in spread if far is not None]
        return [self.ids[k] for _, k in sorted(ranked)]

    def _spread(self, k: int, words: list[str]) -> int | None:
        """How far apart the letters of all words lie in a node's texts."""
        total = 0
        for word in words:
            found = (
                [0] if word in self.texts[k] else [s for f in self.fields[k] if (s := _letters(word, f)) is not None]
            )
            if not found:
                return None
            total += min(found)
        return total


def find(graph: Graph, text: str) -> list[str]:
    """Ids of the nodes of `graph` that match, the best first."""
    return Finder(graph).find(text)


def _fields(node: Node) -> Fields:
    return tuple(dict.fromkeys(f.casefold() for f in (node.id, node.target, node.module_path, node.op)))


def _place(word: str, fields: Fields) -> int:
    """0 exact, 1 a last part, 2 a part's beginning, 3 anywhere."""
    if word in fields:
        return 0
    if any(f.rpartition(".")[2] == word for f in fields):
        return 1
    return 2 if any(f.startswith(word) or f".{word}" in f or f"_{word}" in f for f in fields) else 3


def _letters(word: str, field: str) -> int | None:
    """How many other letters lie between those of a word, if it occurs in order and not too spread out."""
    place, first = 0, -1
    for letter in word if len(word) > 2 else "":
        found = field.find(letter, place)
        if found < 0:
            return None
        first = found if first < 0 else first
        place = found + 1
    spread = place - first - len(word)
    return spread if place and spread <= 2 * len(word) else None
