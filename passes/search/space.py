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
    """One thing that a trial decides: one of `values` (formats as text), or a number from `low` to `high`.

    `nodes` and `ports`: where a format, a sparsity or an identity goes; several nodes are tied. `key`: an option's path
    or the configuration's key. `ordered`: the values stand from cheap to dear. `when`: the condition it exists under.
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
        """Whether it can take `value`."""
        if self.values:
            return any(v == value and isinstance(v, bool) is isinstance(value, bool) for v in self.values)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return good and self.low is not None and self.high is not None and self.low <= value <= self.high


@dataclass(frozen=True, slots=True)
class Space:
    """All choices of a study, in order: a condition names a choice before it.

    `fitted`: `node port format` → the format with the binary point or bias that suits that tensor best. `score`: the
    data that scores of a pruning are taken on, where its method needs some.
    """

    choices: tuple[Choice, ...] = ()
    fitted: dict[str, str] = field(default_factory=dict[str, str])
    score: EvaluateOptions = field(default=EvaluateOptions())

    def active(self, params: Mapping[str, Any]) -> Iterator[Choice]:
        """The choices that exist where these were made."""
        there: set[str] = set()
        for choice in self.choices:
            if choice.when is None or (
                choice.when.name in there and params.get(choice.when.name) in choice.when.values
            ):
                there.add(choice.name)
                yield choice

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What of `params` counts; raises OptionsError where a choice is missing or cannot be so."""
        known = {c.name for c in self.choices}
        for name in params:
            if name not in known:
                raise OptionsError(f"The space has no choice {name!r}.", nearest(name, known))
        found: dict[str, Any] = {}
        for choice in self.active(params):
            if choice.name not in params or not choice.holds(params[choice.name]):
                raise OptionsError(f"{choice.name} is {params.get(choice.name)!r}.", "It is not one of its values.")
            found[choice.name] = params[choice.name]
        return found

    def apply(self, recipe: Recipe, params: Mapping[str, Any]) -> Recipe:
        """The recipe of a trial: its own steps with their options set, then identities, formats, pruning, parallelism.

        Choices of a configuration are not in it: they make another model. Raises OptionsError.
        """
        made = [(c, params[c.name]) for c in self.active(self.checked(params))]
        settings = [Setting(*parse_place(recipe, c.key), v) for c, v in made if c.kind == "option"]
        gone = {n for c, v in made if c.kind == "identity" and v == IDENTITY for n in c.nodes}
        steps = [
            *_identities(gone),
            *_formats(self, made, gone),
            *_pruning(self, made, gone, recipe),
            *_parallel(made, gone),
        ]
        return with_settings(recipe, settings).append(*steps)

    def configurations(self) -> float:
        """How many there are; infinite where a number is chosen between limits. Exact but for deep conditions."""
        if any(not c.values and not c.whole for c in self.choices):
            return math.inf
        asked = {c.when.name for c in self.choices if c.when}
        leading = [c for c in self.choices if c.name in asked]
        rest = [c for c in self.choices if c.name not in asked]
        if math.prod(_count(c) for c in leading) > ENUMERATED:
            return math.prod(_count(c) for c in self.choices)
        return sum(self._below(rest, chosen) for chosen in _ways(leading, {}))

    def _below(self, rest: list[Choice], chosen: Mapping[str, Any]) -> int:
        there = {c.name for c in self.active(chosen)}
        return math.prod(_count(c) for c in rest if c.name in there)


def values_of(choice: Choice) -> tuple[Any, ...]:
    """All that it can take; raises OptionsError for numbers between limits."""
    if choice.values:
        return choice.values
    if not choice.whole or choice.low is None or choice.high is None:
        raise OptionsError(f"{choice.name} is any number between two limits.", "List its values.")
    return tuple(range(int(choice.low), int(choice.high) + 1))


def _count(choice: Choice) -> int:
    return len(choice.values) or int((choice.high or 0) - (choice.low or 0)) + 1


def _ways(choices: list[Choice], chosen: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of choices, each of those that exist."""
    if not choices:
        yield chosen
        return
    first, *rest = choices
    if first.when is not None and chosen.get(first.when.name) not in first.when.values:
        yield from _ways(rest, chosen)
        return
    for value in values_of(first):
        yield from _ways(rest, {**chosen, first.name: value})


# -- what is tried before anything is known


def uniform(space: Space, count: int) -> Iterator[dict[str, Any]]:
    """`count` configurations in which all choices stand equally high, from the cheapest to the dearest."""
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


Made = list[tuple[Choice, Any]]


def _identities(gone: set[str]) -> list[Step]:
    return [Step("replace_linear", ReplaceLinearOptions(Select("name", tuple(sorted(gone)))))] if gone else []


def _formats(space: Space, made: Made, gone: set[str]) -> list[Step]:
    """One step; nodes whose ports have the same formats share a rule."""
    chosen: dict[str, dict[str, Format | None]] = {}
    for choice, value in made:
        if choice.kind == "format":
            for node in choice.nodes:
                if node not in gone:
                    held = chosen.setdefault(node, {})
                    held |= {p: _format(space, node, p, value) for p in choice.ports}
    rules: dict[str, tuple[list[str], dict[str, Format | None]]] = {}
    for node, formats in chosen.items():
        rules.setdefault(repr(sorted((p, str(f)) for p, f in formats.items())), ([], formats))[0].append(node)
    found = tuple(Rule(Select("name", tuple(nodes)), formats) for nodes, formats in rules.values())
    return [Step("quantize", QuantizeOptions(found))] if found else []


def fit_key(node: str, port: str, value: str) -> str:
    """The key of `Space.fitted`."""
    return f"{node} {port} {value}"


def _format(space: Space, node: str, port: str, value: str) -> Format | None:
    return format_of(space.fitted.get(fit_key(node, port, value), value))


def _pruning(space: Space, made: Made, gone: set[str], recipe: Recipe) -> list[Step]:
    """One step a method, with a share for each node; a 0 takes an earlier mask away."""
    shares: dict[str, dict[str, float]] = {}
    for choice, value in made:
        if choice.kind == "sparsity":
            shares.setdefault(choice.method, {}).update({n: float(value) for n in choice.nodes if n not in gone})
    before = any(s.pass_name.startswith("prune") for s in recipe.active)
    return [_pruned(space, m, held) for m, held in shares.items() if held and (before or any(held.values()))]


def _parallel(made: Made, gone: set[str]) -> list[Step]:
    """One step; nodes with as many products a cycle share a rule."""
    names: dict[int, list[str]] = {}
    for choice, value in made:
        if choice.kind == "parallel":
            names.setdefault(int(value), []).extend(n for n in choice.nodes if n not in gone)
    rules = tuple(ParallelRule(Select("name", tuple(n)), products=p) for p, n in names.items() if n)
    return [Step("parallelize", ParallelizeOptions(rules=rules))] if rules else []


def _pruned(space: Space, method: Any, shares: dict[str, float]) -> Step:
    """Nodes without a share of their own would stay whole: each has one."""
    by_share: dict[float, list[str]] = {}
    for node, share in shares.items():
        by_share.setdefault(share, []).append(node)
    budgets = tuple(Budget(Select("name", tuple(nodes)), share) for share, nodes in by_share.items())
    data = space.score
    options = PruneOptions(0.0, method, select=Select("name", tuple(shares)), budgets=budgets, data=data.data,
                           text=data.text, label=data.label, tokenizer=data.tokenizer,
                           max_length=data.max_length)  # fmt: skip
    return Step("prune", options)
