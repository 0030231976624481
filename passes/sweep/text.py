"""Sweeps as people write them: `prune.sparsity=0.1:0.9:0.1`, `finetune=on,off`; or a table in a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError, nearest
from espalier.passes.sweep.places import find
from espalier.passes.sweep.sweep import Axis, Setting, Variant, step_name, step_options
from espalier.passes.sweep.values import parse_values, value_text


def parse_axis(recipe: Recipe, text: str, first: int = 0, once: bool = True) -> Axis:
    """`step.option=values`; the step by its pass's name or its number. Raises OptionsError with the nearest name.

    `first`: the steps before it are another recipe's, and only meant where no later one is. `once`: each value.
    """
    head, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise OptionsError(
            f"{text!r} names no values.", "Write step.option=values, such as prune.sparsity=0.1:0.9:0.1."
        )
    index, path = parse_place(recipe, head.strip(), first)
    return Axis(index, path, parse_values(values, once))


def parse_place(recipe: Recipe, text: str, first: int = 0) -> tuple[int, str]:
    """(index of the step, path of the option) of `prune.sparsity`, `2.sparsity`, `prune#2.sparsity` or `finetune`."""
    word, _, path = text.partition(".")
    index = _step(recipe, word, first)
    if path:
        find(step_options(recipe.steps[index]), path, step_name(recipe, index))
    return index, path


def _step(recipe: Recipe, word: str, first: int) -> int:
    if not recipe.steps:
        raise OptionsError("The recipe has no steps, so there is nothing to vary.", "Give it some.")
    if word.isdigit() and first < int(word) + first <= len(recipe):
        return int(word) + first - 1
    name, _, number = word.partition("#")
    ways = {"quantise": "quantize", "fine-tune": "finetune"}
    found = [i for i, s in enumerate(recipe.steps) if s.pass_name == ways.get(name, name)]
    if number:
        if number.isdigit() and 0 < int(number) <= len(found):
            return found[int(number) - 1]
        raise OptionsError(f"There is no {word}.", f"The recipe has {len(found)} steps {name}.")
    later = [i for i in found if i >= first] or found
    if len(later) > 1:
        raise OptionsError(f"The recipe has {len(later)} steps {name}.", f"Write {name}#1 or {name}#2 for one of them.")
    if not later:
        raise OptionsError(f"The recipe has no step {word!r}.", nearest(word, {s.pass_name for s in recipe.steps}))
    return later[0]


def parse_variants(recipe: Recipe, texts: Iterable[str], first: int = 0) -> tuple[Variant, ...]:
    """Each text's values against each other's: `prune.method=l1,random` and `finetune=on,off` are four lines."""
    axes = [parse_axis(recipe, t, first) for t in texts]
    if not axes:
        return (Variant(),)
    return variants_of(recipe, axes)


def variants_of(recipe: Recipe, axes: Iterable[Axis]) -> tuple[Variant, ...]:
    """The product of these options' values, named after them."""
    settings = [[Setting(a.step, a.path, v) for v in a.values] for a in axes]
    return tuple(Variant(" · ".join(_word(recipe, s) for s in row), row) for row in itertools.product(*settings))


def _word(recipe: Recipe, setting: Setting) -> str:
    """`random`; `with finetune`; `epochs 3`."""
    if not setting.path:
        name = step_name(recipe, setting.step)
        return f"with {name}" if setting.value else f"without {name}"
    if isinstance(setting.value, str):
        return setting.value
    return f"{setting.path.rpartition('.')[2].replace('_', ' ')} {value_text(setting.value)}"
