"""Generates the texts of `demo:stories`: short stories whose words follow from what was told before.

Names, animals, things and numbers come back: who lost what, who helped, how many are left after some were given away.
Each choice is among alternatives of equal chance, so the information of a story is known, which no model can predict
better on average (Shannon, 1948).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

SIZES = {"train": 2000, "validation": 300, "test": 400}
SEED = 29
ANIMALS = {
    "fox": "den", "bear": "cave", "mouse": "hole", "owl": "tree", "frog": "pond", "rabbit": "burrow", "duck": "nest",
    "cat": "house", "hedgehog": "garden", "squirrel": "oak", "beaver": "lodge", "bee": "hive",
}  # fmt: skip
NAMES = {
    "Mia": "she", "Tom": "he", "Lily": "she", "Ben": "he", "Anna": "she", "Max": "he", "Rosa": "she", "Leo": "he",
    "Ida": "she", "Sam": "he", "Nora": "she", "Finn": "he",
}  # fmt: skip
HIS, HIM = {"he": "his", "she": "her"}, {"he": "him", "she": "her"}
SIZES_OF = ("little", "big", "young", "old")
NATURES = ("brave", "shy", "clever", "kind", "lazy", "proud", "curious", "gentle")
COLOURS = ("red", "blue", "green", "yellow", "white", "golden")
THINGS = ("ball", "hat", "boat", "kite", "drum", "cup", "ring", "scarf", "lamp", "bell")
FOODS = ("apples", "berries", "nuts", "cakes", "pears", "plums", "carrots", "buns")
PLACES = ("river", "hill", "forest", "bridge", "meadow", "mill", "lake", "barn")
SPOTS = ("under the stone", "behind the fence", "in the grass", "beside the path", "on the roof", "inside the basket")
WEATHER = ("sunny", "rainy", "windy", "cold", "warm", "foggy")
TIMES = ("morning", "evening", "day", "night")
GAMES = ("sing", "dance", "swim", "run", "read", "paint", "jump", "climb")
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(slots=True)
class Draw:
    """Choices from a generator; `nats`: the information of those made so far.

    Uses `Random.random` alone: its sequence is the same in every Python.
    """

    rng: Random
    nats: float = field(default=0.0)

    def of(self, items: Sequence[str], *without: str) -> str:
        """One of `items` but those in `without`, all alike."""
        left = [item for item in items if item not in without]
        self.nats += math.log(len(left))
        return left[int(self.rng.random() * len(left))]


@dataclass(frozen=True, slots=True)
class Story:
    """A story and the nats of the choices that made it."""

    text: str
    nats: float


@dataclass(frozen=True, slots=True)
class Hero:
    """Someone of a story."""

    name: str
    animal: str

    @property
    def he(self) -> str:
        """The pronoun."""
        return NAMES[self.name]


def story(draw: Draw) -> Story:
    """One story: who, where, what happens, and an end that follows from it."""
    hero = Hero(draw.of(tuple(NAMES)), draw.of(tuple(ANIMALS)))
    friend = Hero(draw.of(tuple(NAMES), hero.name), draw.of(tuple(ANIMALS), hero.animal))
    nature, place = draw.of(NATURES), draw.of(PLACES)
    game = draw.of(GAMES)
    opening = draw.of(("Once upon a time there was", "Long ago there lived", "In a far land there was"))
    he = hero.he
    parts = [
        f"{opening} {a(draw.of(SIZES_OF))} {hero.animal} named {hero.name}.",
        f"{he.capitalize()} was very {nature} and lived in {a(ANIMALS[hero.animal])} near the {place}.",
        f"{hero.name} liked to {game} all day.",
        f"One {draw.of(WEATHER)} {draw.of(TIMES)} {he} met {a(friend.animal)} named {friend.name}.",
    ]
    happening = {"lost": _lost, "shared": _shared, "taught": _taught}[draw.of(("lost", "shared", "taught"))]
    parts += happening(draw, hero, friend, game)
    parts.append(draw.of((
        f"From then on {hero.name} and {friend.name} were friends.",
        f"And the {hero.animal} and the {friend.animal} walked home to the {place}.",
        f"Everyone near the {place} still tells of the {nature} {hero.animal}.",
    )))  # fmt: skip
    return Story(" ".join(parts), draw.nats)


def _lost(draw: Draw, hero: Hero, friend: Hero, game: str) -> list[str]:
    """Something is lost, looked for in two spots and found in a third one."""
    colour, thing = draw.of(COLOURS), draw.of(THINGS)
    first = draw.of(SPOTS)
    second = draw.of(SPOTS, first)
    last = draw.of(SPOTS, first, second)
    return [
        f'"Why are you so sad?" asked {friend.name}.',
        f'"I have lost my {colour} {thing}," said {hero.name}.',
        f"They looked {first}, but the {thing} was not there.",
        f"They looked {second}, but it was not there.",
        f"At last {friend.name} found the {colour} {thing} {last} and gave it back to {HIM[hero.he]}.",
    ]


def _shared(draw: Draw, hero: Hero, friend: Hero, game: str) -> list[str]:
    """Food is shared: what is left is the difference."""
    food = draw.of(FOODS)
    had = NUMBERS.index(draw.of(NUMBERS[2:])) + 1
    gave = NUMBERS.index(draw.of(NUMBERS[: had - 1])) + 1
    left = NUMBERS[had - gave - 1]
    return [
        f"{hero.name} had {NUMBERS[had - 1]} {food} in {HIS[hero.he]} basket.",
        f'"I am hungry," said {friend.name}.',
        f"So {hero.name} gave {NUMBERS[gave - 1]} of the {food} to {HIM[friend.he]}, and {left} were left.",
        f'"Thank you, {hero.name}," said the {friend.animal}.',
    ]


def _taught(draw: Draw, hero: Hero, friend: Hero, game: str) -> list[str]:
    """The friend wants to learn what the hero likes, and teaches something else in return."""
    other = draw.of(GAMES, game)
    return [
        f'"Can you teach me to {game}?" asked {friend.name}.',
        f'"Yes," said {hero.name}, "if you teach me to {other}."',
        f"So {hero.name} learned to {other} and {friend.name} learned to {game}.",
        f"Soon the {friend.animal} could {game} as well as the {hero.animal}.",
    ]


def a(words: str) -> str:
    """The words after an indefinite article."""
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def make_stories(sizes: dict[str, int] | None = None, seed: int = SEED) -> dict[str, tuple[Story, ...]]:
    """All splits; no story is in two of them."""
    seen: set[str] = set()
    found: dict[str, tuple[Story, ...]] = {}
    for split, size in (sizes or SIZES).items():
        rng = Random(f"{seed}/{split}")
        rows: list[Story] = []
        while len(rows) < size:
            made = story(Draw(rng))
            if made.text not in seen:
                seen.add(made.text)
                rows.append(made)
        found[split] = tuple(rows)
    return found
