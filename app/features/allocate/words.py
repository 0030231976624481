"""What an allocation says of itself in a line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache

from espalier.app.features.allocate.state.allocation import Allocations, title_of
from espalier.app.features.allocate.state.truth import Truth
from espalier.app.figures.curves import figure_title, figure_words
from espalier.app.words import figure, percent
from espalier.model.document.recipe import Recipe
from espalier.passes.allocation.decisions import Place
from espalier.passes.sensitivity.table import Candidate

MOST = 6  # kinds of choices that are counted
FIRST = "First predictions, not yet corrected by measurements"
GAP = 5e-4  # share above the best from which it is told


def summary(held: Allocations, truth: Truth) -> str:
    """What is reached, what was measured, and how near it is to the best."""
    if held.now is None or held.found is None or held.reached is None or held.kl is None:
        return _present(held, truth)
    words = [_reached(held.figure, held.reached), f"KL {figure(held.kl)} from {held.baseline}, estimated"]
    words += [FIRST[:1].lower() + FIRST[1:]] if held.known.uncorrected else []
    words += _measured(truth, held.made_recipe())
    if held.found.gap > GAP:
        words.append(f"sum of layers ≤ {percent(held.found.gap)} above the least")
    return " · ".join(words)


def _reached(name: str, value: float) -> str:
    """A cost with what it is of: `2.81 weight bits`, `125.8 kBitOPs`."""
    title = figure_title(name)
    words = figure_words(name, value)
    if words[-1].isalpha() and name == "bitops":
        return f"{words}{title}"
    return f"{words} {title}"


def _present(held: Allocations, truth: Truth) -> str:
    """What the model has now, while nothing is tried."""
    present = held.present()
    if present is None:
        return "Drag the budget." if held.now else ""
    words = [_reached(held.figure, present[0])]
    how, name = held.estimate.how, held.estimate.baseline
    words.append("KL not known" if present[1] is None else f"KL {figure(present[1])} from {name}, {how}")
    known = _measured(truth, held.recipe)
    words += known[1:] if how == "measured" else known  # the divergence stands there already
    return f"Now {' · '.join(words)}. Drag the budget."


def _measured(truth: Truth, recipe: Recipe | None) -> list[str]:
    """What was measured of a recipe."""
    known = truth.last(recipe) if truth.found and recipe is not None else None
    if known is None:
        return []
    accuracy = [] if known.accuracy is None else [f"accuracy {percent(known.accuracy)}"]
    return [f"measured {figure(known.kl)}", *accuracy]


def counts(chosen: Mapping[Place, Candidate]) -> str:
    """`12 × int 4 · 3 × float`, the most frequent first."""
    found = Counter(map(short, chosen.values()))
    return " · ".join(f"{n} × {name}" for name, n in found.most_common(MOST))


@lru_cache(maxsize=4096)
def short(candidate: Candidate) -> str:
    """A candidate without what is fitted: `int 4, 50 %`."""
    pruned = f"{percent(candidate.sparsity, 0)} pruned" if candidate.sparsity else ""
    name = title_of(candidate) if candidate.format or not pruned else ""
    return ", ".join(filter(None, (name, pruned)))
