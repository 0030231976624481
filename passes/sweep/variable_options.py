"""The variable options of a recipe, with labels and default values, for the window."""

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
from espalier.passes.sweep.option_paths import Option, find, list_options
from espalier.passes.sweep.sweep import Axis, Setting, step_options, with_settings
from espalier.passes.sweep.values import parse_values, values_text

# Common values, where the range does not suggest them.
USUAL: dict[str, str] = {
    "width": "2, 3, 4, 6, 8, 12, 16, 24, 32", "frac_width": "0:8", "sparsity": "0.1:0.9:0.1", "ratio": "0.1:0.9:0.1",
    "epochs": "1:5", "rank": "1, 2, 4, 8, 16, 32", "alpha": "1, 2, 4, 8, 16, 32", "block": "8, 16, 32, 64, 128",
    "exponent_width": "2:5", "batch_size": "8, 16, 32, 64", "learning_rate": "1e-5, 3e-5, 1e-4, 3e-4, 1e-3",
    "percentile": "99, 99.9, 99.99, 100", "limit": "64, 128, 256, 512", "train_limit": "250, 500, 1000, 2000",
    "max_steps": "50, 100, 200, 400",
}  # fmt: skip
PAIR = ("l1", "random")  # default pruning methods, which need no data
FIRST = ("width", "frac_width", "sparsity", "ratio", "method", "epochs", "rank", "alpha", "learning_rate", "scope")
HIDDEN = ("edit",)  # metadata of options that name data, which are not varied


@dataclass(frozen=True, slots=True)
class Offer:
    """An option of step `step`, or the step itself (no path), with its label and default values."""

    step: int
    path: str
    label: str
    values: str


def offers(recipe: Recipe, index: int) -> tuple[Offer, ...]:
    """The variable options of a step, common ones first, the on/off switch of the step last."""
    step = recipe.steps[index]
    switch = Offer(index, "", "on or off", "on, off")
    if step.pass_name not in PASSES:
        return (switch,)
    try:
        variable = [p for p in list_options(step_options(step)) if _fits(p)]
    except EspalierError:
        return (switch,)
    named = [*_shared(variable), *((p.name, _label(p, variable), p) for p in variable)]
    options = [Offer(index, path, label, _values(recipe, index, path, place)) for path, label, place in named]
    return *sorted((o for o in options if o.values), key=_rank), switch


def offer_for(recipe: Recipe, index: int, path: str) -> Offer | None:
    """The variable option of any of its names, or None."""
    known = {o.path: o for o in offers(recipe, index)}
    if path in known:
        return known[path]
    try:
        matching = find(step_options(recipe.steps[index]), path, "")
    except EspalierError:
        return None
    if len(matching) == 1:
        return known.get(matching[0].name)
    words = " ".join(p for p in path.split(".") if p not in ("rules", "formats", "*")).replace("_", " ")
    return Offer(index, path, f"{words} (all)", _values(recipe, index, path, matching[0]))


def _rank(offer: Offer) -> int:
    last = offer.path.rpartition(".")[2]
    return FIRST.index(last) if last in FIRST else len(FIRST)


def _fits(place: Option) -> bool:
    """Whether an option is variable: a number, a choice, a boolean or a number format."""
    if any(k in place.metadata for k in HIDDEN):
        return False
    kinds = {k for k in (get_args(place.kind) or (place.kind,)) if k is not type(None)}
    return bool(place.choices) or place.is_format or (get_origin(place.kind) is not tuple and kinds <= {int, float})


def _shared(variable: Iterable[Option]) -> list[tuple[str, str, Option]]:
    """Parameters of several formats: `width` sets it in all of them."""
    deep = [p for p in variable if len(p.path) > 1 and not p.is_format]
    counts = Counter(p.path[-1] for p in deep)
    firsts = {n: next(p for p in deep if p.path[-1] == n) for n, count in counts.items() if count > 1}
    return [(n, f"{n.replace('_', ' ')} (all)", p) for n, p in firsts.items()]


def _label(place: Option, variable: Iterable[Option]) -> str:
    """`weight width`, with the rule's number if there are several."""
    words = [p for p in place.path if not p.isdigit() and p not in ("rules", "formats")]
    numbers = {p.path[1] for p in variable if p.path[0] == "rules" and len(p.path) > 1}
    rule = f"rule {int(place.path[1]) + 1}: " if place.path[0] == "rules" and len(numbers) > 1 else ""
    text = " ".join(words).replace("_", " ")
    return f"{rule}{text} format" if place.is_format else f"{rule}{text}"


def _values(recipe: Recipe, index: int, path: str, place: Option) -> str:
    """Default values: the valid ones of the common values, or of some near the present one."""
    last = place.path[-1]
    if place.choices:
        values: tuple[Any, ...] = PAIR if set(PAIR) <= set(place.choices) else place.choices
    elif place.is_format:
        values = tuple(fmt.name for fmt in _formats())
    else:
        values = parse_values(USUAL[last]) if last in USUAL else _near(place)
    return values_text(tuple(v for v in values if _is_valid(recipe, index, path, v)))


def _formats() -> list[Any]:
    """The formats without mandatory parameters."""
    formats: list[Any] = []
    for _, kind in FORMATS.items():
        try:
            formats.append(kind())
        except (TypeError, EspalierError):
            continue
    return formats


def _near(place: Option) -> tuple[Any, ...]:
    """Numbers within the range, or power-of-2 multiples of the present value."""
    low, high, value = place.metadata.get("min"), place.metadata.get("max"), place.value
    whole = int in (get_args(place.kind) or (place.kind,))
    if low is not None and high is not None and high - low <= 1 and not whole:
        return tuple(round(low + (high - low) * i / 10, 2) for i in range(1, 10))
    if not isinstance(value, int | float) or not math.isfinite(value) or not value:
        return (0, 1, 2, 4, 8) if whole else ()
    many = [value * f for f in (0.25, 0.5, 1, 2, 4)]
    return tuple(dict.fromkeys(int(v) for v in many)) if whole else tuple(many)


def _is_valid(recipe: Recipe, index: int, path: str, value: Any) -> bool:
    try:
        with_settings(recipe, [Setting(index, path, value)])
    except EspalierError:
        return False
    return True


def suggested_lines(recipe: Recipe, axis: Axis | None) -> tuple[tuple[str, Offer], ...]:
    """Suggested variants with labels: with and without a training, each method of a pruning."""
    on_axis = (axis.step, axis.path) if axis else None
    lines: list[tuple[str, Offer]] = []
    for i, step in enumerate(recipe.steps):
        for offer in offers(recipe, i):
            title = PASSES.get(step.pass_name).title if step.pass_name in PASSES else step.pass_name
            if offer.path == "" and is_lasting(step.pass_name):
                lines.append((f"with and without {title.lower()}", offer))
            elif offer.path in ("method", "scope"):
                lines.append((f"each {offer.path} of {title.lower()}", offer))
    return tuple((words, o) for words, o in lines if (o.step, o.path) != on_axis)


def usual_axis(recipe: Recipe) -> Offer | None:
    """The default axis: the first common option of the last step that has one, preferably without training."""
    firsts = [offers(recipe, i)[0] for i in range(len(recipe))]
    common = [o for o in firsts if o.path.rpartition(".")[2] in FIRST]
    quick = [o for o in common if not is_lasting(recipe.steps[o.step].pass_name)]
    return next(reversed(quick or common or [o for o in firsts if o.path]), None)
