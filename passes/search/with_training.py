"""The recipe of a trial that trains: a fine-tuning before its steps, after them, or both. No torch: window reads it.

Compression-aware search (the labs' tutorial 5): the uncompressed model is trained, compressed, and trained again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from espalier.model.document.codec import decode
from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.spec import SearchSpec
from espalier.passes.training.options import FinetuneOptions

FINETUNE, IDENTITIES = "finetune", "replace_linear"
SHARED = (
    "data",
    "text",
    "label",
    "tokenizer",
    "max_length",
)  # what training takes from the score where it says nothing


def finetuning(spec: SearchSpec) -> FinetuneOptions:
    """How a search trains, on the data of its score unless it names others; raises OptionsError."""
    told: dict[str, Any] = dict(spec.finetune)
    if "data" not in told:
        plain = EvaluateOptions()
        told |= {n: v for n in SHARED if (v := getattr(spec.score, n)) != getattr(plain, n) and n not in told}
    options: FinetuneOptions = decode(FinetuneOptions, told, "finetune")
    if not options.data:
        raise OptionsError(f"The search trains ({spec.train}), but there is no data to train on.",
                           "Name it: finetune.data, or score.data.")  # fmt: skip
    return options


def with_training(spec: SearchSpec, recipe: Recipe) -> Recipe:
    """A trial's recipe with what `spec` trains: what is measured, and what is applied. Raises OptionsError.

    Identities are part of the architecture, so they come before the training that comes before compression.
    """
    if spec.train == "none":
        return recipe
    step = Step(FINETUNE, finetuning(spec), spec.seed)
    if spec.train == "after":
        return recipe.append(step)
    chosen = [i for i, s in enumerate(recipe.steps) if s.pass_name == IDENTITIES and s.enabled]
    first = tuple(recipe.steps[i] for i in chosen[-1:] if any(e.kind == "identity" for e in spec.space))
    rest = tuple(s for i, s in enumerate(recipe.steps) if not first or i != chosen[-1])
    return Recipe((*first, step, *rest, *((step,) if spec.train == "both" else ())))


def trained_first(spec: SearchSpec, steps: Sequence[Step]) -> int:
    """The place of the training before compression among a trial's steps; −1 where there is none."""
    if spec.train not in ("before", "both"):
        return -1
    return next(i for i, s in enumerate(steps) if s.pass_name == FINETUNE)


def fitted_to(recipe: Recipe, ids: frozenset[str] | set[str], square: frozenset[str] | set[str]) -> Recipe:
    """The recipe without what it says by name of nodes that a smaller model lacks, or that are not square there."""
    steps = [_kept(step, ids, square) for step in recipe.steps]
    return Recipe(tuple(s for s in steps if s is not None))


def _kept(step: Step, ids: frozenset[str] | set[str], square: frozenset[str] | set[str]) -> Step | None:
    there = square if step.pass_name == IDENTITIES else ids
    options, empty = _narrowed(step.options, there)
    return None if empty else replace(step, options=options)


def _narrowed(value: Any, ids: frozenset[str] | set[str]) -> tuple[Any, bool]:
    """(options that name only nodes there are, whether nothing is left of them)."""
    select = getattr(value, "select", None)
    changes: dict[str, Any] = {}
    if select is not None and select.by == "name":
        left = tuple(v for v in select.values if v in ids)
        if select.values and not left:
            return value, True
        changes["select"] = replace(select, values=left)
    for name in ("rules", "budgets"):
        held = getattr(value, name, ())
        kept = [part for part, empty in (_narrowed(v, ids) for v in held) if not empty]
        if held and not kept and not hasattr(value, "select"):
            return value, True
        if held:
            changes[name] = tuple(kept)
    return (replace(value, **changes) if changes else value), False
