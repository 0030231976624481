"""Edits by hand as recipe steps: many small edits in a row become one readable step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from espalier.model.document.codec import decode, encode
from espalier.model.document.recipe import Recipe, Step
from espalier.model.formats.base import Format
from espalier.model.graph.meta import Parallel
from espalier.passes.choices.freeze import FreezeOptions
from espalier.passes.choices.lora import LoraOptions
from espalier.passes.choices.prune import PruneOptions
from espalier.passes.choices.prune_activations import PruneActivationsOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.select import Select

Nodes = tuple[str, ...] | Select  # ids, or a saved selection


def selecting(nodes: Nodes) -> Select:
    """The selection of an edit by hand."""
    return nodes if isinstance(nodes, Select) else Select("name", nodes)


def with_format(recipe: Recipe, ids: Nodes, port: str, fmt: Format | None) -> Recipe:
    """The recipe with one more choice by hand; it joins the last step if that is of the same kind."""
    select = selecting(ids)
    last = recipe.steps[-1] if recipe.steps else None
    if last is None or not _by_hand(last):
        return recipe.append(Step("quantize", QuantizeOptions((Rule(select, {port: fmt}),))))
    joined = _joined(last.options.rules, Rule(select, {port: fmt}))
    return recipe.set(len(recipe) - 1, replace(last, options=QuantizeOptions(joined)))


def with_formats(recipe: Recipe, port: str, chosen: dict[str, Format]) -> Recipe:
    """The recipe with a format for each node: all of them what most take, which overrides what was, then the others."""
    (usual, _), *others = Counter(chosen.values()).most_common()
    recipe = with_format(recipe, tuple(chosen), port, usual)
    for fmt, _ in others:
        recipe = with_format(recipe, tuple(n for n, own in chosen.items() if own == fmt), port, fmt)
    return recipe


def _joined(rules: tuple[Rule, ...], new: Rule) -> tuple[Rule, ...]:
    """The rules with a newer one: in the place of that of the same nodes, if none after it is of any of these.

    What it overrides goes, so that the step says what holds.
    """
    names = set(new.select.listed)
    rules = tuple(r for r in (_without(r, new) for r in rules) if r.formats)
    for i in reversed(range(len(rules))):
        if rules[i].select == new.select:
            return (*rules[:i], replace(rules[i], formats={**rules[i].formats, **new.formats}), *rules[i + 1 :])
        if names & set(rules[i].select.listed):
            break
    return (*rules, new)


def _without(rule: Rule, new: Rule) -> Rule:
    """A rule without the formats that `new` gives to all of its nodes."""
    if rule.select == new.select or rule.gradient != new.gradient or not {*rule.select.listed} <= {*new.select.listed}:
        return rule
    return replace(rule, formats={port: fmt for port, fmt in rule.formats.items() if port not in new.formats})


def _by_hand(step: Step) -> bool:
    return (
        step.pass_name == "quantize"
        and step.enabled
        and isinstance(step.options, QuantizeOptions)
        and bool(step.options.rules)
        and all(r.select.listed for r in step.options.rules)
    )


def with_activation_sparsity(recipe: Recipe, ids: Nodes, values: dict[str, Any]) -> Recipe:
    """The recipe with a pruning of activations by hand; it replaces the last step if that was of the same nodes."""
    options = decode(PruneActivationsOptions, {**values, "select": encode(selecting(ids))})
    step = Step("prune_activations", options)
    last = recipe.steps[-1] if recipe.steps else None
    held = last.options if last and last.enabled else None
    if last and isinstance(held, PruneActivationsOptions) and held.select == step.options.select:
        return recipe.set(len(recipe) - 1, replace(step, seed=last.seed))
    return recipe.append(step)


def with_sparsity(recipe: Recipe, ids: Nodes, ratio: float, method: str, scope: str, **more: Any) -> Recipe:
    """The recipe with a pruning by hand; it replaces the last step if that pruned the same nodes."""
    values: dict[str, Any] = {"sparsity": ratio, "method": method, "scope": scope, **more,
                              "select": encode(selecting(ids))}  # fmt: skip
    step = Step("prune", decode(PruneOptions, values))
    last = recipe.steps[-1] if recipe.steps else None
    same = last and last.pass_name == "prune" and isinstance(last.options, PruneOptions) and last.enabled
    if last and same and last.options.select == step.options.select:
        return recipe.set(len(recipe) - 1, replace(step, seed=last.seed))
    return recipe.append(step)


def with_lora(recipe: Recipe, wishes: Mapping[tuple[int, float, float], Nodes]) -> Recipe:
    """The recipe with adapters by hand: (rank, alpha, dropout) → nodes. They replace those just given."""
    ids = {name for nodes in wishes.values() for name in selecting(nodes).listed}
    while recipe.steps and _gives_adapters(recipe.steps[-1], ids):
        recipe = recipe.remove(len(recipe) - 1)
    for (rank, alpha, dropout), nodes in wishes.items():
        recipe = recipe.append(Step("lora", LoraOptions(rank, alpha, dropout, select=selecting(nodes))))
    return recipe


def _gives_adapters(step: Step, ids: set[str]) -> bool:
    options = step.options
    listed = options.select.listed if isinstance(options, LoraOptions) else ()
    own = isinstance(options, LoraOptions) and bool(listed) and set(listed) <= ids
    return own and step.enabled and options == LoraOptions(options.rank, options.alpha, options.dropout,
                                                           select=options.select)  # fmt: skip


def with_training(recipe: Recipe, ids: Nodes, trains: bool) -> Recipe:
    """The recipe in which the nodes' own parameters train, or do not; a choice for the same nodes is replaced."""
    step = Step("unfreeze" if trains else "freeze", FreezeOptions(selecting(ids), "own"))
    last = recipe.steps[-1] if recipe.steps else None
    if last and last.enabled and last.pass_name in ("freeze", "unfreeze") and last.options == step.options:
        return recipe.set(len(recipe) - 1, step)
    return recipe.append(step)


def with_parallel(recipe: Recipe, ids: Nodes, parallel: Parallel) -> Recipe:
    """The recipe with what hardware computes of nodes at once; it replaces the last step if that was of the same."""
    from espalier.passes.choices.parallelize import ParallelizeOptions

    select = selecting(ids)
    step = Step("parallelize", ParallelizeOptions(select, parallel.inputs, parallel.outputs, parallel.tokens))
    last = recipe.steps[-1] if recipe.steps else None
    if last and last.enabled and isinstance(last.options, ParallelizeOptions) and last.options.select == select:
        options = replace(step.options, sizes=last.options.sizes)
        return recipe.set(len(recipe) - 1, replace(last, options=options))
    return recipe.append(step)


def bare(fmt: Format | None) -> str:
    """A format's text with 0 in the place of the parameter that is fitted; empty for float."""
    if fmt is None:
        return ""
    return str(replace(fmt, **{fmt.shift: 0})) if fmt.shift else str(fmt)
