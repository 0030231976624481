"""The choices of a search on one model: entries of a space, expanded over the graph's nodes and the recipe's steps.

`Space.apply` turns what a trial chose into the recipe that is measured, and that the window applies: one function.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from espalier.model.document.recipe import Recipe, Step
from espalier.model.errors import OptionsError, nearest
from espalier.model.formats.base import Format
from espalier.passes.choices.parallelize import ParallelizeOptions, ParallelRule
from espalier.passes.choices.prune import Budget, PruneOptions
from espalier.passes.choices.quantize import QuantizeOptions, Rule
from espalier.passes.running.splits import EvaluateOptions
from espalier.passes.search.format_lists import format_of
from espalier.passes.search.spec import Kind, When
from espalier.passes.select import Select
from espalier.passes.sweep.spec_text import parse_place
from espalier.passes.sweep.sweep import Setting, with_settings
from espalier.passes.transform.replace_linear import ReplaceLinearOptions

Plain = str | int | float | bool | None
LINEAR, IDENTITY = "linear", "identity"
ENUMERATED = 20_000  # combinations of the choices that others hang on, for an exact count


@dataclass(frozen=True, slots=True)
class Choice:
    """One parameter of a trial: one of `values` (formats as text), or a number from `low` to `high`.

    `nodes` and `ports`: where a format, a sparsity or an identity applies; several nodes are tied. `key`: an option's
    path or a configuration key. `ordered`: `values` go from cheap to dear. `when`: the condition under which it exists.
    """

    name: str
    kind: Kind
    values: tuple[Plain, ...] = ()
    low: float | None = None
    high: float | None = None
    log: bool = False
    whole: bool = False
    ordered: bool = False
    nodes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    key: str = ""
    method: str = ""
    fit: bool = False
    when: When | None = None

    def holds(self, value: Any) -> bool:
        """Whether `value` is allowed."""
        if self.values:
            return any(v == value and isinstance(v, bool) is isinstance(value, bool) for v in self.values)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and self.low is not None and self.high is not None and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Space:
    """All choices of a study, in order: a condition names an earlier choice.

    `fitted`: `node port format` → the format with a fitted binary point or bias. `score`: the data of pruning methods
    that need some.
    """

    choices: tuple[Choice, ...] = ()
    fitted: dict[str, str] = field(default_factory=dict[str, str])
    score: EvaluateOptions = field(default=EvaluateOptions())

    def active(self, params: Mapping[str, Any]) -> Iterator[Choice]:
        """The choices whose conditions `params` meets."""
        active: set[str] = set()
        for choice in self.choices:
            if choice.when is None or (
                choice.when.name in active and params.get(choice.when.name) in choice.when.values
            ):
                active.add(choice.name)
                yield choice

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The active part of `params`; raises OptionsError for an unknown, missing or invalid choice."""
        names = {c.name for c in self.choices}
        for name in params:
            if name not in names:
                raise OptionsError(f"The space has no choice {name!r}.", nearest(name, names))
        values: dict[str, Any] = {}
        for choice in self.active(params):
            if choice.name not in params or not choice.holds(params[choice.name]):
                raise OptionsError(f"{choice.name} is {params.get(choice.name)!r}.", "It is not one of its values.")
            values[choice.name] = params[choice.name]
        return values

    def apply(self, recipe: Recipe, params: Mapping[str, Any]) -> Recipe:
        """The recipe of a trial: the steps of `recipe` with their options set, then identities, formats, pruning,
        parallelism. Configuration keys are not in it: they give another model. Raises OptionsError.
        """
        decisions = [(c, params[c.name]) for c in self.active(self.checked(params))]
        settings = [Setting(*parse_place(recipe, c.key), v) for c, v in decisions if c.kind == "option"]
        removed = {n for c, v in decisions if c.kind == "identity" and v == IDENTITY for n in c.nodes}
        steps = [
            *_identities(removed),
            *_formats(self, decisions, removed),
            *_pruning(self, decisions, removed, recipe),
            *_parallel(decisions, removed),
        ]
        return with_settings(recipe, settings).append(*steps)

    def configurations(self) -> float:
        """The number of configurations; infinite with a continuous choice. An upper bound with many conditions."""
        if any(not c.values and not c.whole for c in self.choices):
            return math.inf
        names = {c.when.name for c in self.choices if c.when}
        leading = [c for c in self.choices if c.name in names]
        others = [c for c in self.choices if c.name not in names]
        if math.prod(_count(c) for c in leading) > ENUMERATED:
            return math.prod(_count(c) for c in self.choices)
        return sum(self._count_active(others, chosen) for chosen in _combinations(leading, {}))

    def _count_active(self, choices: list[Choice], chosen: Mapping[str, Any]) -> int:
        active = {c.name for c in self.active(chosen)}
        return math.prod(_count(c) for c in choices if c.name in active)


def values_of(choice: Choice) -> tuple[Any, ...]:
    """All values of a choice; raises OptionsError for a continuous one."""
    if choice.values:
        return choice.values
    if not choice.whole or choice.low is None or choice.high is None:
        raise OptionsError(f"{choice.name} is any number between two limits.", "List its values.")
    return tuple(range(int(choice.low), int(choice.high) + 1))


def _count(choice: Choice) -> int:
    return len(choice.values) or int((choice.high or 0) - (choice.low or 0)) + 1


def _combinations(choices: list[Choice], chosen: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the active choices."""
    if not choices:
        yield chosen
        return
    first, *rest = choices
    if first.when is not None and chosen.get(first.when.name) not in first.when.values:
        yield from _combinations(rest, chosen)
        return
    for value in values_of(first):
        yield from _combinations(rest, {**chosen, first.name: value})


# -- configurations without a prediction


def uniform(space: Space, count: int) -> Iterator[dict[str, Any]]:
    """`count` configurations with all choices at the same relative level, from the cheapest to the dearest."""
    for i in range(count):
        level = i / (count - 1) if count > 1 else 1.0
        everything = {c.name: _at(c, level) for c in space.choices}
        yield {c.name: everything[c.name] for c in space.active(everything)}


def _at(choice: Choice, level: float) -> Any:
    if choice.values:
        return choice.values[round(level * (len(choice.values) - 1))] if choice.ordered else choice.values[0]
    assert choice.low is not None and choice.high is not None
    if choice.log:
        value = math.exp(math.log(choice.low) + level * (math.log(choice.high) - math.log(choice.low)))
    else:
        value = choice.low + level * (choice.high - choice.low)
    value = min(max(value, choice.low), choice.high)
    return round(value) if choice.whole else value


# -- steps


Decisions = list[tuple[Choice, Any]]


def _identities(removed: set[str]) -> list[Step]:
    return [Step("replace_linear", ReplaceLinearOptions(Select("name", tuple(sorted(removed)))))] if removed else []


def _formats(space: Space, decisions: Decisions, removed: set[str]) -> list[Step]:
    """One quantize step; nodes with the same formats share a rule."""
    chosen: dict[str, dict[str, Format | None]] = {}
    for choice, value in decisions:
        if choice.kind == "format":
            for node in choice.nodes:
                if node not in removed:
                    by_port = chosen.setdefault(node, {})
                    by_port |= {p: _format(space, node, p, value) for p in choice.ports}
    rules: dict[str, tuple[list[str], dict[str, Format | None]]] = {}
    for node, formats in chosen.items():
        rules.setdefault(repr(sorted((p, str(f)) for p, f in formats.items())), ([], formats))[0].append(node)
    steps = tuple(Rule(Select("name", tuple(nodes)), formats) for nodes, formats in rules.values())
    return [Step("quantize", QuantizeOptions(steps))] if steps else []


def fit_key(node: str, port: str, value: str) -> str:
    """The key of `Space.fitted`."""
    return f"{node} {port} {value}"


def _format(space: Space, node: str, port: str, value: str) -> Format | None:
    return format_of(space.fitted.get(fit_key(node, port, value), value))


def _pruning(space: Space, decisions: Decisions, removed: set[str], recipe: Recipe) -> list[Step]:
    """One prune step per method, with a sparsity for each node; 0 removes an earlier mask."""
    shares: dict[str, dict[str, float]] = {}
    for choice, value in decisions:
        if choice.kind == "sparsity":
            shares.setdefault(choice.method, {}).update({n: float(value) for n in choice.nodes if n not in removed})
    before = any(s.pass_name.startswith("prune") for s in recipe.active)
    return [_prune_step(space, m, by_node) for m, by_node in shares.items()
            if by_node and (before or any(by_node.values()))]  # fmt: skip


def _parallel(decisions: Decisions, removed: set[str]) -> list[Step]:
    """One parallelize step; nodes with the same number of products a cycle share a rule."""
    names: dict[int, list[str]] = {}
    for choice, value in decisions:
        if choice.kind == "parallel":
            names.setdefault(int(value), []).extend(n for n in choice.nodes if n not in removed)
    rules = tuple(ParallelRule(Select("name", tuple(n)), products=p) for p, n in names.items() if n)
    return [Step("parallelize", ParallelizeOptions(rules=rules))] if rules else []


def _prune_step(space: Space, method: Any, shares: dict[str, float]) -> Step:
    """A prune step with one budget per sparsity."""
    by_share: dict[float, list[str]] = {}
    for node, share in shares.items():
        by_share.setdefault(share, []).append(node)
    budgets = tuple(Budget(Select("name", tuple(nodes)), share) for share, nodes in by_share.items())
    data = space.score
    options = PruneOptions(0.0, method, select=Select("name", tuple(shares)), budgets=budgets, data=data.data,
                           text=data.text, label=data.label, tokenizer=data.tokenizer,
                           max_length=data.max_length)  # fmt: skip
    return Step("prune", options)
