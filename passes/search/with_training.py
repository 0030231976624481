"""Recipes of trials that train: a fine-tuning before its steps, after them, or both. No torch: the window imports it.

Compression-aware search (tutorial 5 of the MASE labs): the model is trained, compressed, and trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.passes.running.splits import WHICH, EvaluateOptions
from espalier.passes.search.spec import SearchSpec
from espalier.passes.training.options import FinetuneOptions

FINETUNE, IDENTITIES = "finetune", "replace_linear"
SHARED = WHICH  # defaults of training that come from the score


def finetuning(spec: SearchSpec) -> FinetuneOptions:
    """The training options of a search, on the data of its score unless it names others; raises OptionsError."""
    values: dict[str, Any] = dict(spec.finetune)
    if "data" not in values:
        plain = EvaluateOptions()
        values |= {n: v for n in SHARED if (v := getattr(spec.score, n)) != getattr(plain, n) and n not in values}
    options: FinetuneOptions = decode(FinetuneOptions, values, "finetune")
    if not options.data:
        raise OptionsError(f"The search trains ({spec.train}), but there is no data to train on.",
                           "Name it: finetune.data, or score.data.")  # fmt: skip
    return options


def with_training(spec: SearchSpec, recipe: Recipe) -> Recipe:
    """A trial's recipe with the trainings of `spec`, as measured and as applied. Raises OptionsError.

    Identities are part of the architecture, so they come before the training that comes before compression.
    """
    if spec.train == "none":
        return recipe
    step = Step(FINETUNE, finetuning(spec), spec.seed)
    if spec.train == "after":
        return recipe.append(step)
    chosen = [i for i, s in enumerate(recipe.steps) if s.pass_name == IDENTITIES and s.enabled]
    first = tuple(recipe.steps[i] for i in chosen[-1:] if any(e.kind == "identity" for e in spec.space))
    others = tuple(s for i, s in enumerate(recipe.steps) if not first or i != chosen[-1])
    return Recipe((*first, step, *others, *((step,) if spec.train == "both" else ())))


def trained_first(spec: SearchSpec, steps: Sequence[Step]) -> int:
    """The index of the training before compression among a trial's steps; −1 if there is none."""
    if spec.train not in ("before", "both"):
        return -1
    return next(i for i, s in enumerate(steps) if s.pass_name == FINETUNE)


def fitted_to(recipe: Recipe, ids: frozenset[str] | set[str], square: frozenset[str] | set[str]) -> Recipe:
    """The recipe without names of nodes that a smaller model lacks, or of identities that are not square there."""
    steps = [_fitted_step(step, ids, square) for step in recipe.steps]
    return Recipe(tuple(s for s in steps if s is not None))


def _fitted_step(step: Step, ids: frozenset[str] | set[str], square: frozenset[str] | set[str]) -> Step | None:
    options, empty = _narrowed(step.options, square if step.pass_name == IDENTITIES else ids)
    return None if empty else replace(step, options=options)


def _narrowed(value: Any, ids: frozenset[str] | set[str]) -> tuple[Any, bool]:
    """(options that name only nodes of `ids`, whether they select nothing)."""
    select = getattr(value, "select", None)
    changes: dict[str, Any] = {}
    if select is not None and select.listed:
        names = tuple(v for v in select.listed if v in ids)
        if not names:
            return value, True
        changes["select"] = replace(select, **{"nodes" if select.by == "saved" else "values": names})
    for field in ("rules", "budgets"):
        parts = getattr(value, field, ())
        fitted = [part for part, empty in (_narrowed(v, ids) for v in parts) if not empty]
        if parts and not fitted and not hasattr(value, "select"):
            return value, True
        if parts:
            changes[field] = tuple(fitted)
    return (replace(value, **changes) if changes else value), False
