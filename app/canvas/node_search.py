"""Searches nodes by part of their id, module path or op, or by its letters in order.

The texts of all nodes form one array of bytes, so that a search takes a few vectorised passes over it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from espalier.model.graph.graph import Graph, Node

Numbers = NDArray[np.int64]
MISS = 1 << 20
NODE_END, FIELD_END, DOT, UNDERSCORE = 0, 10, ord("."), ord("_")


class NodeSearch:
    """Searches one graph; `letters`: the case-folded fields of all nodes, each terminated by FIELD_END or NODE_END."""

    def __init__(self, graph: Graph) -> None:
        self.ids = list(graph.nodes)
        text = "\0".join([_text(n) for n in graph])
        self.letters = np.frombuffer(f"\0{text}\0".casefold().encode(), np.uint8)
        self.fields = np.flatnonzero((self.letters == NODE_END) | (self.letters == FIELD_END))
        self.nodes = self.fields[self.letters[self.fields] == NODE_END][: len(self.ids)]
        self.counts = np.bincount(self.letters, minlength=256)

    def find(self, text: str) -> list[str]:
        """Ids of matching nodes, best first; letters in order are tried only if nothing else matches."""
        words = [w.encode() for w in text.casefold().split()]
        if not words or not self.ids:
            return []
        score = sum((self._places(w) for w in words), np.zeros(len(self.ids), np.int64))
        if score.min() >= MISS:
            score = sum((self._spreads(w) for w in words), np.zeros(len(self.ids), np.int64))
        matches = np.flatnonzero(score < MISS)
        matches = matches[np.argsort(score[matches], kind="stable")]
        return list(map(self.ids.__getitem__, matches.tolist()))

    def _where(self, word: bytes) -> Numbers:
        """The positions of a word, searched by its rarest letter first."""
        rare = sorted(range(len(word)), key=lambda i: self.counts[word[i]])
        positions = np.flatnonzero(self.letters == word[rare[0]]) - rare[0]
        positions = positions[(positions >= 0) & (positions + len(word) <= len(self.letters))]
        for i in rare[1:]:
            positions = positions[self.letters[positions + i] == word[i]]
        return positions

    def _places(self, word: bytes) -> Numbers:
        """Rank by node: 0 the word is a field, 1 its last part, 2 the start of a part, 3 anywhere, MISS nowhere."""
        spots = self._where(word)
        before, after = self.letters[spots - 1], self.letters[spots + len(word)]
        begins, ends = before <= FIELD_END, after <= FIELD_END
        dotted = before == DOT
        place = np.where(begins | dotted | (before == UNDERSCORE), 2, 3)
        place[ends & dotted] = 1
        place[ends & begins] = 0
        return self._best(spots, place)

    def _best(self, spots: Numbers, values: Numbers) -> Numbers:
        """By node the smallest of the values at its positions, which are sorted."""
        best = np.full(len(self.ids), MISS, np.int64)
        starts = np.searchsorted(spots, self.nodes)
        some = np.append(starts[1:], len(spots)) > starts
        if some.any():
            best[some] = np.minimum.reduceat(values, starts[some])
        return best

    def _spreads(self, word: bytes) -> Numbers:
        """By node: the number of letters between those of a word, if they occur in order and close together."""
        whole = self._places(word)
        if len(word) <= 2:
            return np.where(whole < MISS, 0, MISS)
        rare = min(word, key=lambda letter: self.counts[letter])
        known = np.searchsorted(self.fields, np.flatnonzero(self.letters == rare)) - 1
        known = known[np.flatnonzero(np.diff(known, prepend=-1))]
        first = place = self.fields[known] + 1
        ends = self.fields[known + 1]
        for n, letter in enumerate(word):
            spots = np.append(np.flatnonzero(self.letters == letter), len(self.letters))
            next_ = spots[np.searchsorted(spots, place)]
            first = first if n else next_
            kept = (next_ < ends) & (next_ - first < 3 * len(word))
            place, ends, first = next_[kept] + 1, ends[kept], first[kept]
        return np.where(whole < MISS, 0, self._best(first, place - first - len(word)))


def _text(node: Node) -> str:
    own, path, title = node.target, node.module_path, node.annotation.title
    text = f"{node.id}\n{own}\n{node.op}" if own == path else f"{node.id}\n{own}\n{path}\n{node.op}"
    return f"{text}\n{title}" if title else text


def find(graph: Graph, text: str) -> list[str]:
    """Ids of the matching nodes of `graph`, best first."""
    return NodeSearch(graph).find(text)
