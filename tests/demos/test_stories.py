"""The made stories: the same for a seed, without leaks, consistent in themselves, and not for counters of words."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from espalier.model.data.base import Array
from espalier.model.data.demo import STORIES
from espalier.model.data.loading import load_data
from tests.demos.stories import FOODS, NUMBERS, SIZES, Draw, Story, make_stories

Made = Mapping[str, tuple[Story, ...]]
FOOD = "|".join(FOODS)


@pytest.fixture(scope="module")
def made() -> Made:
    return make_stories()


def test_the_seed_decides_and_no_story_is_in_two_splits(made: Made) -> None:
    assert {name: len(rows) for name, rows in made.items()} == SIZES
    small = {"train": 20, "test": 10}
    assert make_stories(small) == make_stories(small) != make_stories(small, seed=1)
    texts = [row.text for rows in made.values() for row in rows]
    assert len(set(texts)) == len(texts)


def test_what_is_left_is_the_difference(made: Made) -> None:
    counted = 0
    for row in made["train"]:
        had = re.search(rf"had (\w+) (?:{FOOD}) in", row.text)
        gave = re.search(rf"gave (\w+) of the (?:{FOOD}) to h\w+, and (\w+) were left", row.text)
        assert bool(had) == bool(gave)
        if had and gave:
            n, k, left = (NUMBERS.index(word) for word in (had[1], *gave.groups()))
            assert left == n - k - 1
            counted += 1
    assert counted > 0.25 * len(made["train"])


def test_articles_and_pronouns_fit(made: Made) -> None:
    for row in made["test"]:
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", row.text)
        name = re.search(r"named (\w+)\. (She|He) ", row.text)
        assert name and (name[2] == "She") == (name[1] in ("Mia", "Lily", "Anna", "Rosa", "Ida", "Nora"))


def test_the_information_is_that_of_the_choices() -> None:
    """Shannon's: the sum of log(alternatives); by hand for three choices."""
    from random import Random

    draw = Draw(Random(0))
    draw.of("abcd")
    draw.of("ab")
    assert draw.of("ab", "a") == "b" and draw.nats == pytest.approx(math.log(8))


def _trigram_loss(train: Array, test: Array, vocabulary: int) -> float:
    """Mean nats of a token by interpolated counts of one, two and three tokens (Jelinek and Mercer, 1980)."""
    ones, pairs, triples = (Counter(zip(*(train[k:] for k in range(n)), strict=False)) for n in (1, 2, 3))
    total = 0.0
    for a, b, c in zip(test, test[1:], test[2:], strict=False):
        one = (ones[(c,)] + 1) / (len(train) + vocabulary)
        two = pairs[(b, c)] / ones[(b,)] if ones[(b,)] else one
        three = triples[(a, b, c)] / pairs[(a, b)] if pairs[(a, b)] else two
        total -= math.log(0.05 * one + 0.25 * two + 0.7 * three)
    return total / (len(test) - 2)


@pytest.mark.slow
def test_the_model_knows_more_than_counts_and_not_more_than_there_is(made: Made) -> None:
    card = json.loads((STORIES / "card.json").read_text(encoding="utf-8"))
    data = load_data("demo:stories")
    flat = {name: np.append(s.inputs["input_ids"].ravel(), s.labels[-1, -1]) for name, s in data.splits.items()}
    counted = _trigram_loss(flat["train"].tolist(), flat["test"].tolist(), 706)
    least = sum(row.nats for row in made["test"]) / len(flat["test"])
    assert least < card["loss"]["test"] < 0.7 * counted
    assert card["perplexity"]["test"] == pytest.approx(math.exp(card["loss"]["test"]))
