"""What of a recipe can be varied, in words, with values worth trying: what the window offers to choose from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError
from espalier.model.registry import FORMATS, PASSES
from espalier.passes.base import is_lasting
from espalier.passes.sweep.places import Place, find, places
from espalier.passes.sweep.sweep import Axis, Setting, step_options, with_settings
from espalier.passes.sweep.values import parse_values, values_text

# What people try, where the range alone does not say it.
USUAL: dict[str, str] = {
    "width": "2, 3, 4, 6, 8, 12, 16, 24, 32", "frac_width": "0:8", "sparsity": "0.1:0.9:0.1", "ratio": "0.1:0.9:0.1",
    "epochs": "1:5", "rank": "1, 2, 4, 8, 16, 32", "alpha": "1, 2, 4, 8, 16, 32", "block": "8, 16, 32, 64, 128",
    "exponent_width": "2:5", "batch_size": "8, 16, 32, 64", "learning_rate": "1e-5, 3e-5, 1e-4, 3e-4, 1e-3",
    "percentile": "99, 99.9, 99.99, 100", "limit": "64, 128, 256, 512", "train_limit": "250, 500, 1000, 2000",
    "max_steps": "50, 100, 200, 400",
}  # fmt: skip
PAIR = ("l1", "random")  # of many methods of pruning, those that need no data
FIRST = ("width", "frac_width", "sparsity", "ratio", "method", "epochs", "rank", "alpha", "learning_rate", "scope")
HIDDEN = ("edit",)  # texts that name data: no list of values to compare along


@dataclass(frozen=True, slots=True)
class Offer:
    """An option of step `step`, or the step itself (no path), with its name and values to begin with."""

    step: int
    path: str
    label: str
    values: str


def offers(recipe: Recipe, index: int) -> tuple[Offer, ...]:
    """The options of a step that can be varied, the usual ones first; whether it runs at all comes last."""
    step = recipe.steps[index]
    switch = Offer(index, "", "on or off", "on, off")
    if step.pass_name not in PASSES:
        return (switch,)
    try:
        found = [p for p in places(step_options(step)) if _fits(p)]
    except EspalierError:
        return (switch,)
    named = [*_shared(found), *((p.name, _label(p, found), p) for p in found)]
    made = [Offer(index, path, label, _values(recipe, index, path, place)) for path, label, place in named]
    return *sorted((o for o in made if o.values), key=_rank), switch


def offer_for(recipe: Recipe, index: int, path: str) -> Offer | None:
    """The offer of an option by any of its names; None where it is none that can be varied."""
    known = {o.path: o for o in offers(recipe, index)}
    if path in known:
        return known[path]
    try:
        found = find(step_options(recipe.steps[index]), path, "")
    except EspalierError:
        return None
    if len(found) == 1:
        return known.get(found[0].name)
    words = " ".join(p for p in path.split(".") if p not in ("rules", "formats", "*")).replace("_", " ")
    return Offer(index, path, f"{words} (all)", _values(recipe, index, path, found[0]))


def _rank(offer: Offer) -> int:
    last = offer.path.rpartition(".")[2]
    return FIRST.index(last) if last in FIRST else len(FIRST)


def _fits(place: Place) -> bool:
    """A number, one of several words, yes or no, or a number format."""
    if any(k in place.metadata for k in HIDDEN):
        return False
    kinds = {k for k in (get_args(place.kind) or (place.kind,)) if k is not type(None)}
    return bool(place.choices) or place.is_format or (get_origin(place.kind) is not tuple and kinds <= {int, float})


def _shared(found: Iterable[Place]) -> list[tuple[str, str, Place]]:
    """Names that several formats have: `width` sets it in all of them."""
    deep = [p for p in found if len(p.path) > 1 and not p.is_format]
    counts = Counter(p.path[-1] for p in deep)
    firsts = {n: next(p for p in deep if p.path[-1] == n) for n, count in counts.items() if count > 1}
    return [(n, f"{n.replace('_', ' ')} (all)", p) for n, p in firsts.items()]


def _label(place: Place, found: Iterable[Place]) -> str:
    """`weight width`; with the rule's number where there are several."""
    words = [p for p in place.path if not p.isdigit() and p not in ("rules", "formats")]
    numbers = {p.path[1] for p in found if p.path[0] == "rules" and len(p.path) > 1}
    rule = f"rule {int(place.path[1]) + 1}: " if place.path[0] == "rules" and len(numbers) > 1 else ""
    text = " ".join(words).replace("_", " ")
    return f"{rule}{text} format" if place.is_format else f"{rule}{text}"


def _values(recipe: Recipe, index: int, path: str, place: Place) -> str:
    """Values to begin with: those that are possible of the usual ones, or of some round the present one."""
    last = place.path[-1]
    if place.choices:
        wished: tuple[Any, ...] = PAIR if set(PAIR) <= set(place.choices) else place.choices
    elif place.is_format:
        wished = tuple(fmt.name for fmt in _formats())
    else:
        wished = parse_values(USUAL[last]) if last in USUAL else _round(place)
    return values_text(tuple(v for v in wished if _possible(recipe, index, path, v)))


def _formats() -> list[Any]:
    """The formats that need no parameter named."""
    found: list[Any] = []
    for _, kind in FORMATS.items():
        try:
            found.append(kind())
        except (TypeError, EspalierError):
            continue
    return found


def _round(place: Place) -> tuple[Any, ...]:
    """Numbers between the ends of the range, or halves and doubles of the present one."""
    low, high, value = place.metadata.get("min"), place.metadata.get("max"), place.value
    whole = int in (get_args(place.kind) or (place.kind,))
    if low is not None and high is not None and high - low <= 1 and not whole:
        return tuple(round(low + (high - low) * i / 10, 2) for i in range(1, 10))
    if not isinstance(value, int | float) or not math.isfinite(value) or not value:
        return (0, 1, 2, 4, 8) if whole else ()
    many = [value * f for f in (0.25, 0.5, 1, 2, 4)]
    return tuple(dict.fromkeys(int(v) for v in many)) if whole else tuple(many)


def _possible(recipe: Recipe, index: int, path: str, value: Any) -> bool:
    try:
        with_settings(recipe, [Setting(index, path, value)])
    except EspalierError:
        return False
    return True


def suggested_lines(recipe: Recipe, axis: Axis | None) -> tuple[tuple[str, Offer], ...]:
    """What is often worth a line of its own, in words: with and without a training, each method of a pruning."""
    taken = (axis.step, axis.path) if axis else None
    found: list[tuple[str, Offer]] = []
    for i, step in enumerate(recipe.steps):
        for offer in offers(recipe, i):
            title = PASSES.get(step.pass_name).title if step.pass_name in PASSES else step.pass_name
            if offer.path == "" and is_lasting(step.pass_name):
                found.append((f"with and without {title.lower()}", offer))
            elif offer.path in ("method", "scope"):
                found.append((f"each {offer.path} of {title.lower()}", offer))
    return tuple((words, o) for words, o in found if (o.step, o.path) != taken)


def usual_axis(recipe: Recipe) -> Offer | None:
    """What one would vary first: the first usual option of the last step that has one."""
    found = [offers(recipe, i)[0] for i in range(len(recipe))]
    usual = [o for o in found if o.path.rpartition(".")[2] in FIRST]
    quick = [o for o in usual if not is_lasting(recipe.steps[o.step].pass_name)]
    return next(reversed(quick or usual or [o for o in found if o.path]), None)
