"""ROUGE-N and ROUGE-L of a text with one reference (Lin, 2004), as F-measures of words without stemming."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; of ASCII texts those of the package rouge-score."""
    return _WORD.findall(text.lower())


def rouge_n(text: Sequence[str], reference: Sequence[str], n: int) -> float:
    """F-measure of the n-grams that both have, each as often as in both; 0 if one has none."""
    mine, theirs = (Counter(zip(*(ws[i:] for i in range(n)), strict=False)) for ws in (text, reference))
    return _f_measure((mine & theirs).total(), mine.total(), theirs.total())


def rouge_l(text: Sequence[str], reference: Sequence[str]) -> float:
    """F-measure of the longest common subsequence of words; 0 if one has none."""
    return _f_measure(_common(text, reference), len(text), len(reference))


def _f_measure(common: int, mine: int, theirs: int) -> float:
    return 2 * common / (mine + theirs) if common else 0.0


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest common subsequence, with a bit a word of `one` (Hyyrö, 2004, figure 2)."""
    where: dict[str, int] = {}
    for at, word in enumerate(one):
        where[word] = where.get(word, 0) | 1 << at
    whole = (1 << len(one)) - 1
    bits = whole
    for word in other:
        both = bits & where.get(word, 0)
        bits = (bits + both) | (bits - both)
    return len(one) - (bits & whole).bit_count()
