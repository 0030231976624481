"""Edits by hand as recipe steps: many small edits in a row become one readable step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model.codec import decode
from model.formats.base import Format
from model.recipe import Recipe, Step
from passes.select import Select
from passes.transform.prune import PruneOptions
from passes.transform.quantize import QuantizeOptions, Rule


def with_format(recipe: Recipe, ids: tuple[str, ...], port: str, fmt: Format | None) -> Recipe:
    """The recipe with one more choice by hand; it joins the last step if that is of the same kind."""
    select = Select("name", ids)
    last = recipe.steps[-1] if recipe.steps else None
    if last is None or not _by_hand(last):
        return recipe.append(Step("quantize", QuantizeOptions((Rule(select, {port: fmt}),))))
    joined = _joined(last.options.rules, Rule(select, {port: fmt}))
    return recipe.set(len(recipe) - 1, replace(last, options=QuantizeOptions(joined)))


def _joined(rules: tuple[Rule, ...], new: Rule) -> tuple[Rule, ...]:
    """The rules with a newer one: in the place of that of the same nodes, if none after it is of any of these."""
    names = set(new.select.values)
    for i in reversed(range(len(rules))):
        if rules[i].select == new.select:
            return (*rules[:i], replace(rules[i], formats={**rules[i].formats, **new.formats}), *rules[i + 1 :])
        if names & set(rules[i].select.values):
            break
    return (*rules, new)


def _by_hand(step: Step) -> bool:
    return (
        step.pass_name == "quantize"
        and step.enabled
        and isinstance(step.options, QuantizeOptions)
        and bool(step.options.rules)
        and all(r.select.by == "name" for r in step.options.rules)
    )


def with_sparsity(recipe: Recipe, ids: tuple[str, ...], ratio: float, method: str, scope: str, **more: Any) -> Recipe:
    """The recipe with a pruning by hand; it replaces the last step if that pruned the same nodes."""
    values: dict[str, Any] = {"sparsity": ratio, "method": method, "scope": scope, **more,
                              "select": {"by": "name", "values": list(ids)}}  # fmt: skip
    step = Step("prune", decode(PruneOptions, values))
    last = recipe.steps[-1] if recipe.steps else None
    same = last and last.pass_name == "prune" and isinstance(last.options, PruneOptions) and last.enabled
    if last and same and last.options.select == step.options.select:
        return recipe.set(len(recipe) - 1, replace(step, seed=last.seed))
    return recipe.append(step)
