"""The made reviews: the same for a seed, balanced, without leaks, with the stated noise, and not for word counters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from espalier.model.data import review_vocabulary as lex
from espalier.model.data.reviews import CLASSES, NOISE, SIZES, Review, make_reviews

Made = Mapping[str, tuple[Review, ...]]


@pytest.fixture(scope="module")
def made() -> Made:
    return make_reviews()


def test_sizes(made: Made) -> None:
    assert (
        {name: len(rows) for name, rows in made.items()} == SIZES == {"train": 8000, "validation": 1000, "test": 1000}
    )
    assert CLASSES == ("negative", "positive")


def test_the_seed_decides() -> None:
    small = {"train": 50, "test": 20}
    assert make_reviews(small) == make_reviews(small)
    assert make_reviews(small, seed=1) != make_reviews(small, seed=2)


def test_no_text_occurs_twice(made: Made) -> None:
    texts = [row.text for rows in made.values() for row in rows]
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize("split", SIZES)
def test_balanced(made: Made, split: str) -> None:
    positive = sum(row.label for row in made[split]) / SIZES[split]
    assert abs(positive - 0.5) <= 0.03


@pytest.mark.parametrize("split", SIZES)
def test_noise_is_as_stated(made: Made, split: str) -> None:
    wrong = sum(row.label != int(row.score > 0) for row in made[split])
    assert wrong / SIZES[split] == pytest.approx(NOISE, abs=1e-9)


def test_rare_words_are_held_back_from_training(made: Made) -> None:
    rare = [f" {word} " for word in (*lex.RARE_GOOD, *lex.RARE_BAD)]
    share = {name: sum(any(w in r.text for w in rare) for r in rows) / len(rows) for name, rows in made.items()}
    assert 0 < share["train"] < 0.7 * share["test"]


def test_every_domain_and_both_polarities_of_negation_occur(made: Made) -> None:
    texts = [row.text for row in made["train"]]
    assert all(any(f"the {domain.thing} " in text.lower() for text in texts) for domain in lex.DOMAINS)
    clean = [row for row in made["train"] if row.text.count(".") == 1 and " far from " in row.text]
    assert {row.score > 0 for row in clean} == {True, False}


def test_texts_are_sentences(made: Made) -> None:
    for row in made["validation"]:
        assert row.text[0].isupper() and row.text.endswith(" .") and "  " not in row.text and "{" not in row.text
