"""Grammar of the generated reviews: each rule is a function `Writer → (text, score)` of a clause or sentence.

Polarity depends on structure as much as on words.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from espalier.model.data import review_vocabulary as lex

T = TypeVar("T")
Clause = tuple[str, float]
COHERENCE = 0.9  # share of sentences with the review's sentiment

_SLOTS = {
    "month": lex.MONTHS,
    "day": lex.DAYS,
    "place": lex.PLACES,
    "count": lex.COUNTS,
    "relation": lex.RELATIONS,
    "order": lex.ORDERS,
    "name": lex.NAMES,
    "name2": lex.NAMES,
    "colour": lex.COLOURS,
    "object": lex.OBJECTS,
    "weather": lex.WEATHER,
}


@dataclass(frozen=True, slots=True)
class Writer:
    """Draws the parts of one review. Uses only `Random.random`: its sequence is equal in every Python version."""

    rng: Random
    domain: lex.Domain
    rare: float

    def pick(self, items: Sequence[T]) -> T:
        """One of `items`, uniformly."""
        return items[int(self.rng.random() * len(items))]

    def chance(self, share: float) -> bool:
        """True with probability `share`."""
        return self.rng.random() < share

    def aspect(self) -> tuple[str, str]:
        """An aspect of the domain and its verb: ("the plot", "was")."""
        name = self.pick(self.domain.aspects)
        return (name[1:], "were") if name.startswith("*") else (name, "was")

    def adjective(self) -> Clause:
        """An adjective and its polarity: ±1."""
        good = self.chance(0.5)
        if self.chance(self.rare):
            return self.pick(lex.RARE_GOOD if good else lex.RARE_BAD), 1 if good else -1
        if self.chance(0.3):
            return self.pick(self.domain.good if good else self.domain.bad), 1 if good else -1
        return self.pick(lex.GOOD if good else lex.BAD), 1 if good else -1

    def filler(self) -> str:
        """A neutral sentence."""
        pattern = self.pick(self.domain.fillers if self.chance(0.5) else lex.ANY_FILLERS)
        return pattern.format(**{slot: self.pick(words) for slot, words in _SLOTS.items()})


def plain(w: Writer) -> Clause:
    """The plot was very dull."""
    (name, verb), (word, sign) = w.aspect(), w.adjective()
    degree = w.pick(tuple(lex.INTENSITY))
    return f"{name} {verb} {degree} {word}".replace("  ", " "), sign * lex.INTENSITY[degree]


def negated(w: Writer) -> Clause:
    """The plot was far from dull."""
    (name, verb), (word, sign) = w.aspect(), w.adjective()
    negation = w.pick(tuple(lex.NEGATIONS))
    return f"{name} {verb} {negation} {word}", sign * lex.NEGATIONS[negation]


def extreme(w: Writer) -> Clause:
    """The plot could not have been more dull: a negation that asserts."""
    (name, _), (word, sign) = w.aspect(), w.adjective()
    return f"{name} could not have been more {word}", 2.0 * sign


def quirk(w: Writer) -> Clause:
    """The battery was unpredictable: the noun decides the polarity."""
    name, word, sign = w.pick(w.domain.quirks)
    degree = w.pick(tuple(lex.INTENSITY))
    return f"{name} was {degree} {word}".replace("  ", " "), sign * lex.INTENSITY[degree]


def feeling(w: Writer) -> Clause:
    """My brother loved the plot; nobody in our group enjoyed it."""
    verb = w.pick(tuple(lex.VERBS))
    base, score = lex.VERBS[verb]
    name, _ = w.aspect()
    who = w.pick(lex.SUBJECTS)
    forms = (
        (f"{who} {verb} {name}", score),
        (f"{who} {verb} {name}", score),
        (f"{who} did not {base} {name}", -score),
        (f"{who} never {verb} {name}", -score),
        (f"{who} could not help but {base} {name}", score),
        (f"{w.pick(lex.NOBODY)} {verb} {name}", -score),
    )
    return w.pick(forms)


def comparison(w: Writer) -> Clause:
    """The plot was no better than the trailer."""
    better = w.chance(0.5)
    word, sign = w.pick(lex.BETTER if better else lex.WORSE), 1.0 if better else -1.0
    (name, verb), than = w.aspect(), w.pick(w.domain.standards)
    forms = ((f"{verb} {word} than", 1), (f"{verb} much {word} than", 1.5), (f"{verb} no {word} than", -1))
    phrase, factor = w.pick(forms)
    return f"{name} {phrase} {than}", sign * factor


def degree_comparison(w: Writer) -> Clause:
    """The plot was less dull than the trailer."""
    (name, verb), (word, sign), than = w.aspect(), w.adjective(), w.pick(w.domain.standards)
    forms = (
        (f"more {word} than", 1.0),
        (f"less {word} than", -1.0),
        (f"not as {word} as", -1.0),
        (f"every bit as {word} as", 1.0),
    )
    phrase, factor = w.pick(forms)
    return f"{name} {verb} {phrase} {than}", sign * factor


def report(w: Writer) -> Clause:
    """My brother called the plot dull, and he was wrong."""
    name, _ = w.aspect()
    word, sign = w.adjective()
    who = w.pick(lex.RELATIONS)
    verdict, factor = w.pick((("rightly", 1.0), ("wrongly", -1.0)))
    return f"my {who} {verdict} called {name} {word}", sign * factor


RULES: tuple[tuple[Callable[[Writer], Clause], int], ...] = (
    (plain, 58),
    (negated, 14),
    (extreme, 2),
    (quirk, 4),
    (feeling, 12),
    (comparison, 4),
    (degree_comparison, 4),
    (report, 2),
)
_WEIGHTED = tuple(rule for rule, weight in RULES for _ in range(weight))
_CONTRASTS = (  # A is conceded and counts nothing, B decides, whichever comes first
    "although {a} , {b}",
    "even though {a} , {b}",
    "{a} , but {b}",
    "{a} , yet {b}",
    "{a} ; however , {b}",
    "{b} , although {a}",
    "{b} , even if {a}",
    "people say that {a} , but in truth {b}",
)
_JOINS = ("{a} and {b}", "{a} ; {b}", "{a} , and {b}", "{a} , while {b}")


def clause(w: Writer, sign: int) -> Clause:
    """A clause by any rule whose score has the given sign."""
    text, score = w.pick(_WEIGHTED)(w)
    while score * sign <= 0:
        text, score = w.pick(_WEIGHTED)(w)
    return text, score


def sentence(w: Writer, mood: int) -> Clause:
    """One sentence of one or two clauses, with probability COHERENCE of sentiment `mood` (±1)."""
    sign = mood if w.chance(COHERENCE) else -mood
    kind = w.rng.random()
    text, score = contrast(w, sign) if kind < 0.18 else joined(w, sign) if kind < 0.36 else clause(w, sign)
    return f"{text[0].upper()}{text[1:]} .", score


def contrast(w: Writer, sign: int) -> Clause:
    """Although A, B: A and B have opposite signs, the score is B's."""
    (a, _), (b, score) = clause(w, -sign), clause(w, sign)
    return w.pick(_CONTRASTS).format(a=a, b=b), score


def joined(w: Writer, sign: int) -> Clause:
    """Two clauses joined, mostly of one sentiment."""
    (a, first), (b, second) = clause(w, sign), clause(w, sign if w.chance(COHERENCE) else -sign)
    return w.pick(_JOINS).format(a=a, b=b), first + second
