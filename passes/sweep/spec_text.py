"""Parser of sweep specifications: `prune.sparsity=0.1:0.9:0.1`, `finetune=on,off`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError, nearest
from espalier.passes.sweep.option_paths import find
from espalier.passes.sweep.sweep import Axis, Setting, Variant, step_name, step_options
from espalier.passes.sweep.values import parse_values, value_text


def parse_axis(recipe: Recipe, text: str, first: int = 0, once: bool = True) -> Axis:
    """Parse `step.option=values`, the step by pass name or number. Raises OptionsError with the nearest name.

    `first`: steps before it are matched only if no later one is. `once`: remove duplicate values.
    """
    head, equals, values = text.partition("=")
    if not equals or not values.strip():
        raise OptionsError(f"{text!r} has no values.", "Write step.option=values, such as prune.sparsity=0.1:0.9:0.1.")
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
        raise OptionsError("The recipe has no steps, so there is nothing to vary.", "Add steps.")
    if word.isdigit() and first < int(word) + first <= len(recipe):
        return int(word) + first - 1
    name, _, number = word.partition("#")
    spellings = {"quantise": "quantize", "fine-tune": "finetune"}
    indices = [i for i, s in enumerate(recipe.steps) if s.pass_name == spellings.get(name, name)]
    if number:
        if number.isdigit() and 0 < int(number) <= len(indices):
            return indices[int(number) - 1]
        raise OptionsError(f"There is no {word}.", f"The recipe has {len(indices)} steps {name}.")
    later = [i for i in indices if i >= first] or indices
    if len(later) > 1:
        raise OptionsError(f"The recipe has {len(later)} steps {name}.", f"Write {name}#1 or {name}#2 for one of them.")
    if not later:
        raise OptionsError(f"The recipe has no step {word!r}.", nearest(word, {s.pass_name for s in recipe.steps}))
    return later[0]


def parse_variants(recipe: Recipe, texts: Iterable[str], first: int = 0) -> tuple[Variant, ...]:
    """The product of the texts' values: `prune.method=l1,random` and `finetune=on,off` give four variants."""
    axes = [parse_axis(recipe, t, first) for t in texts]
    if not axes:
        return (Variant(),)
    return variants_of(recipe, axes)


def variants_of(recipe: Recipe, axes: Iterable[Axis]) -> tuple[Variant, ...]:
    """The product of these options' values, with labels."""
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
