"""ROUGE held to the package rouge-score: its figures, and itself where it is installed."""

from __future__ import annotations

import random

import pytest

from espalier.passes.tasks.rouge import rouge_l, rouge_n, words

# (text, reference, ROUGE-1, ROUGE-2, ROUGE-L) of rouge-score 0.1.2 without stemming
KNOWN = (
    ("the cat sat on the mat", "the cat is on the mat", 0.8333333333333334, 0.6, 0.8333333333333334),
    ("", "a text", 0.0, 0.0, 0),
    ("police killed the gunman", "police kill the gunman", 0.75, 0.3333333333333333, 0.75),
    ("the gunman kill police", "police kill the gunman", 1.0, 0.3333333333333333, 0.5),
    ("The dog's bone, 12 x-ray!", "the dog s bone 12 xray", 0.7692307692307692, 0.7272727272727272, 0.7692307692307692),
    ("a a a b", "a b a b a", 0.888888888888889, 0.28571428571428575, 0.6666666666666665),
    ("on the mat the cat sat", "the cat sat on the mat", 1.0, 0.8000000000000002, 0.5),
)


@pytest.mark.parametrize(("text", "reference", "one", "two", "longest"), KNOWN)
def test_figures_of_the_package(text: str, reference: str, one: float, two: float, longest: float) -> None:
    a, b = words(text), words(reference)
    assert (rouge_n(a, b, 1), rouge_n(a, b, 2), rouge_l(a, b)) == pytest.approx((one, two, longest), abs=1e-12)


def test_random_texts() -> None:
    """Only where the package is installed: it brings nltk."""
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rouge1", "rouge2", "rougeL"])
    drawn = random.Random(0)
    pool = ["the", "a", "cat", "dog's", "sat_on", "mat", "12", "x-y", "It,", "THE"]
    for _ in range(1000):
        text, reference = (" ".join(drawn.choice(pool) for _ in range(drawn.randint(0, 12))) for _ in "ab")
        found, a, b = scorer.score(reference, text), words(text), words(reference)
        assert rouge_n(a, b, 1) == pytest.approx(found["rouge1"].fmeasure, abs=1e-12)
        assert rouge_n(a, b, 2) == pytest.approx(found["rouge2"].fmeasure, abs=1e-12)
        assert rouge_l(a, b) == pytest.approx(found["rougeL"].fmeasure, abs=1e-12)


def test_words_of_other_scripts_count() -> None:
    """The package leaves them out."""
    assert words("Schöne Grüße, мир_2!") == ["schöne", "grüße", "мир", "2"]
    assert rouge_l(words("schöne Welt"), words("Schöne neue Welt")) == pytest.approx(0.8)
