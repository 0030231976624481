"""Lays out a space with configuration keys on the deepest model, so that every layer has its own choices.

Choices of layers that only deeper models have get a condition on the number of layers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.model.errors import OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.sources.info import SourceInfo
from espalier.passes.base import Context, is_lasting
from espalier.passes.recipes.replay import replay
from espalier.passes.search.architecture.building import Architect, Built
from espalier.passes.search.architecture.configuration import LAYERS, UNKNOWN_SOURCE
from espalier.passes.search.space import Choice, Space, values_of
from espalier.passes.search.spec import SearchSpec, When

MAX_ATTEMPTS = 100  # combinations that are checked until one can be built
_LAYER = re.compile(r"^(.*?)\.(\d+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Layout:
    """The deepest model, the recipe's result on it, and the builder of the others. `layers`: choice of the depth."""

    architect: Architect
    built: Built
    graph: Graph
    layers: Choice | None

    def conditioned(self, space: Space) -> Space:
        """The space with conditions on choices of deeper models only; the number of layers is chosen first."""
        layers = self.layers
        if layers is None or layers.when is not None:
            return space
        first = [c for c in space.choices if c.name == layers.name]
        others = [c for c in space.choices if c.name != layers.name]
        count = _max_layers(layers)
        return replace(space, choices=tuple([*first, *(self._when(c, layers, count) for c in others)]))

    def _when(self, choice: Choice, layers: Choice, count: int) -> Choice:
        numbers = [_number(self.graph.nodes[n], self.graph, count) for n in choice.nodes if n in self.graph.nodes]
        inside = [n for n in numbers if n is not None]
        if choice.when is not None or not inside or len(inside) < len(numbers):
            return choice
        depths = tuple(v for v in layers.values if isinstance(v, int) and v > min(inside))
        return choice if len(depths) == len(layers.values) else replace(choice, when=When(layers.name, depths))


def layout(
    spec: SearchSpec, choices: list[Choice], recipe: Recipe, base: Graph, info: SourceInfo | None, context: Context
) -> Layout:
    """The layout; raises OptionsError for unknown keys or values without a model, PassError for a source without a
    configuration.
    """
    if info is None:
        raise OptionsError(UNKNOWN_SOURCE, "Open it from its source.")
    architect = Architect(info, base, context.store, spec.seed, spec.inherit)
    for choice in choices:
        architect.origin.key(choice.key)
    _possible(architect, choices)
    layers = _layers(architect, choices)
    built = architect.build(_deepest(architect, choices, layers))
    steps = tuple(replace(s, enabled=s.enabled and not is_lasting(s.pass_name)) for s in recipe.steps)
    return Layout(architect, built, replay(built.graph, Recipe(steps), built.context(context)).graph, layers)


def _layers(architect: Architect, choices: list[Choice]) -> Choice | None:
    """The choice of the number of layers, if its values are listed."""
    names = {architect.origin.key(k) for k in LAYERS if k in architect.origin.known}
    return next((c for c in choices if architect.origin.key(c.key) in names and _lists_integers(c)), None)


def _lists_integers(choice: Choice) -> bool:
    return bool(choice.values) and all(isinstance(v, int) and not isinstance(v, bool) for v in choice.values)


def _max_layers(layers: Choice) -> int:
    return max(v for v in layers.values if isinstance(v, int))


def _deepest(architect: Architect, choices: list[Choice], layers: Choice | None) -> dict[str, Any]:
    """The source's values with the most layers or, if they give no model, the first combination that does."""
    depth: dict[str, Any] = {layers.key: _max_layers(layers)} if layers else {}
    if not architect.why_not(depth):
        return depth
    return next(v | depth for v in _combinations(choices) if not architect.why_not(v | depth))


def _possible(architect: Architect, choices: list[Choice]) -> None:
    reason = ""
    for values in itertools.islice(_combinations(choices), MAX_ATTEMPTS):
        reason = architect.why_not(values)
        if not reason:
            return
    raise OptionsError(f"No model can be built from these values: {reason}", "Correct the configuration's values.")


def _combinations(choices: list[Choice]) -> Iterator[dict[str, Any]]:
    sides = [_ends(c) for c in choices]
    return (dict(zip((c.key for c in choices), v, strict=True)) for v in itertools.product(*sides))


def _ends(choice: Choice) -> tuple[Any, ...]:
    try:
        return values_of(choice)
    except OptionsError:
        return choice.low, choice.high


def _number(node: Node, graph: Graph, count: int) -> int | None:
    """The index of a node's layer among `count` layers; None outside of them."""
    path = node.target if node.call == "call_module" else node.module_path
    match = _LAYER.match(path)
    if match is None or _length(match[1], graph) != count:
        return None
    return int(match[2])


def _length(prefix: str, graph: Graph) -> int:
    """The number of layers in the list at a path."""
    matches = (_LAYER.match(name) for name in graph.weights)
    return max((int(m[2]) + 1 for m in matches if m and m[1] == prefix), default=0)
