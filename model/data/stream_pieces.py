"""Long texts tokenised piece by piece: a tokenizer keeps some hundred bytes for each token of what it is given at once.

A piece ends between two words. What follows is tokenised twice, with the words before it and without; where the tokens
are the same, those of the whole text are as well, as words are found from left to right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from espalier.model.data.base import Array

PIECE = 1 << 20  # characters
MARGIN = 4096  # characters before the end of a piece, whose words the end may change


@dataclass(frozen=True, slots=True)
class Tokens:
    """Of a text: ids, the end of each token in characters, and the number of its word, −1 for none; int64 [tokens]."""

    ids: Array
    ends: Array
    words: Array


def in_pieces(encode: Callable[[str], Tokens], text: str, piece: int = PIECE) -> tuple[Array, Array]:
    """Ids and ends of the tokens of a text; as a whole where its tokens depend on what lies far before them."""
    found: list[tuple[Array, Array]] = []
    start, before = 0, None
    while start + piece < len(text):
        part = encode(text[start : start + piece])
        cut = _cut(part, text, start, piece - MARGIN)
        if cut is None or not _agree(before, part):
            break
        found.append((part.ids[:cut], part.ends[:cut] + start))
        before = _rest(part, cut, piece - MARGIN // 2)
        start += int(part.ends[cut - 1])
    else:
        part = encode(text[start:])
        if _agree(before, part):
            found.append((part.ids, part.ends + start))
            ids, ends = zip(*found, strict=True)
            return np.concatenate(ids), np.concatenate(ends)
    whole = encode(text)
    return whole.ids, whole.ends


def _cut(part: Tokens, text: str, start: int, last: int) -> int | None:
    """The number of tokens up to the last end of a word before one space, at most `last` characters; None without."""
    other = np.flatnonzero((part.words[1:] != part.words[:-1]) & (part.words[1:] >= 0) & (part.words[:-1] >= 0)) + 1
    for cut in other[np.searchsorted(part.ends[other - 1], last, side="right") - 1 :: -1][:MARGIN].tolist():
        end = start + int(part.ends[cut - 1])
        if start < end and text[end : end + 1] == " " and not text[end + 1 : end + 2].isspace():
            return cut
    return None


def _rest(part: Tokens, cut: int, last: int) -> Array:
    """Ids of the tokens after a cut that end within `last` characters."""
    return part.ids[cut : int(np.searchsorted(part.ends, last, side="right"))]


def _agree(before: Array | None, part: Tokens) -> bool:
    """Whether a piece begins with the tokens that followed the cut before it."""
    return before is None or np.array_equal(before, part.ids[: len(before)])
