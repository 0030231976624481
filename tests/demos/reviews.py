"""Generates the texts of `demo:reviews`: opinions that a bag of words cannot classify.

Negation, contrast, comparison and intensity decide a review's score, so a compressed transformer has accuracy to
lose. Seeded, with a known rate of wrong labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from tests.demos import lexicon as lex
from tests.demos.clauses import Clause, Writer, sentence

SIZES = {"train": 8000, "validation": 1000, "test": 1000}
NOISE = 0.04  # share of labels flipped in every split: the expected accuracy of any model is at most 1 − NOISE
MARGIN = 1.0  # minimum absolute score of a review
SEED = 17
RARE = {"train": 0.03, "validation": 0.06, "test": 0.06}  # share of rare synonyms, lower in training


@dataclass(frozen=True, slots=True)
class Review:
    """One generated review: text, label (0 or 1, possibly flipped) and the score of its grammar."""

    text: str
    label: int
    score: float


def make_reviews(sizes: dict[str, int] | None = None, seed: int = SEED) -> dict[str, tuple[Review, ...]]:
    """All splits: balanced classes, unique texts, a share NOISE of the labels of each split flipped."""
    seen: set[str] = set()
    return {
        split: _split(Random(f"{seed}/{split}"), size, RARE.get(split, RARE["train"]), seen)
        for split, size in (sizes or SIZES).items()
    }


def _split(rng: Random, size: int, rare: float, seen: set[str]) -> tuple[Review, ...]:
    fresh = _fresh(rng, rare, seen)
    wanted = {0: size - size // 2, 1: size // 2}
    rows: list[Review] = []
    while len(rows) < size:
        review = next(fresh)
        if wanted[review.label]:
            wanted[review.label] -= 1
            rows.append(review)
    return _flip(rng, rows)


def _fresh(rng: Random, rare: float, seen: set[str]) -> Iterator[Review]:
    while True:
        review = _review(Writer(rng, _pick_domain(rng), rare))
        if abs(review.score) >= MARGIN and review.text not in seen:
            seen.add(review.text)
            yield review


def _pick_domain(rng: Random) -> lex.Domain:
    return lex.DOMAINS[int(rng.random() * len(lex.DOMAINS))]


def _review(writer: Writer) -> Review:
    mood = 1 if writer.chance(0.5) else -1
    opinions: list[Clause] = [sentence(writer, mood) for _ in range(writer.pick((1, 1, 2, 2, 3)))]
    texts = [text for text, _ in opinions]
    for _ in range(writer.pick((0, 0, 0, 1, 1, 2))):
        texts.insert(int(writer.rng.random() * (len(texts) + 1)), writer.filler())
    score = sum(value for _, value in opinions)
    return Review(" ".join(texts), int(score > 0), score)


def _flip(rng: Random, rows: list[Review]) -> tuple[Review, ...]:
    """Flip the labels of a share NOISE of the rows, half of them of each class to keep the balance."""
    share = round(len(rows) * NOISE / 2)
    for label in (0, 1):
        candidates = [at for at, row in enumerate(rows) if row.label == int(row.score > 0) == label]
        for _ in range(share):
            at = candidates.pop(int(rng.random() * len(candidates)))
            rows[at] = replace(rows[at], label=1 - label)
    return tuple(rows)
