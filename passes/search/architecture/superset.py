"""The model on which a space with choices of a configuration is laid out: the deepest, so that every layer has its own.

What only deeper models have is chosen only there, so that no trial decides what it has not got.
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
from espalier.passes.search.architecture.configuration import LAYERS
from espalier.passes.search.space import Choice, Space, values_of
from espalier.passes.search.spec import SearchSpec, When

TRIED = 100  # combinations that are asked for one that can be built
_LAYER = re.compile(r"^(.*?)\.(\d+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Layout:
    """The deepest model, what the recipe leads to there, and who builds the others."""

    architect: Architect
    built: Built
    graph: Graph
    layers: Choice | None

    def conditioned(self, space: Space) -> Space:
        """The space with a condition on what only deeper models have; the number of layers is chosen first."""
        layers = self.layers
        if layers is None or layers.when is not None:
            return space
        first = [c for c in space.choices if c.name == layers.name]
        rest = [c for c in space.choices if c.name != layers.name]
        count = _most(layers)
        return replace(space, choices=tuple([*first, *(self._when(c, layers, count) for c in rest)]))

    def _when(self, choice: Choice, layers: Choice, count: int) -> Choice:
        numbers = [_number(self.graph.nodes[n], self.graph, count) for n in choice.nodes if n in self.graph.nodes]
        found = [n for n in numbers if n is not None]
        if choice.when is not None or not found or len(found) < len(numbers):
            return choice
        there = tuple(v for v in layers.values if isinstance(v, int) and v > min(found))
        return choice if len(there) == len(layers.values) else replace(choice, when=When(layers.name, there))


def layout(
    spec: SearchSpec, choices: list[Choice], recipe: Recipe, base: Graph, info: SourceInfo | None, context: Context
) -> Layout:
    """Raises OptionsError for keys that there are not, values that no model has, a source without configuration."""
    if info is None:
        raise OptionsError("Where the model came from is not known, so no other can be built.", "Open its source.")
    architect = Architect(info, base, context.store, spec.seed, spec.inherit)
    for choice in choices:
        architect.origin.key(choice.key)
    _possible(architect, choices)
    layers = _layers(architect, choices)
    built = architect.build(_deepest(architect, choices, layers))
    steps = tuple(replace(s, enabled=s.enabled and not is_lasting(s.pass_name)) for s in recipe.steps)
    return Layout(architect, built, replay(built.graph, Recipe(steps), built.context(context)).graph, layers)


def _layers(architect: Architect, choices: list[Choice]) -> Choice | None:
    """The choice of the number of layers, where its values are listed."""
    names = {architect.origin.key(k) for k in LAYERS if k in architect.origin.known}
    return next((c for c in choices if architect.origin.key(c.key) in names and _counts(c)), None)


def _counts(choice: Choice) -> bool:
    return bool(choice.values) and all(isinstance(v, int) and not isinstance(v, bool) for v in choice.values)


def _most(layers: Choice) -> int:
    return max(v for v in layers.values if isinstance(v, int))


def _deepest(architect: Architect, choices: list[Choice], layers: Choice | None) -> dict[str, Any]:
    """The source with the most layers or, where such a model cannot be, the first that can."""
    wish: dict[str, Any] = {layers.key: _most(layers)} if layers else {}
    if not architect.why_not(wish):
        return wish
    return next(v | wish for v in _combinations(choices) if not architect.why_not(v | wish))


def _possible(architect: Architect, choices: list[Choice]) -> None:
    reason = ""
    for values in itertools.islice(_combinations(choices), TRIED):
        reason = architect.why_not(values)
        if not reason:
            return
    raise OptionsError(f"No model can be made of these values: {reason}", "Correct the values of the configuration.")


def _combinations(choices: list[Choice]) -> Iterator[dict[str, Any]]:
    sides = [_ends(c) for c in choices]
    return (dict(zip((c.key for c in choices), v, strict=True)) for v in itertools.product(*sides))


def _ends(choice: Choice) -> tuple[Any, ...]:
    try:
        return values_of(choice)
    except OptionsError:
        return choice.low, choice.high


def _number(node: Node, graph: Graph, count: int) -> int | None:
    """In which of `count` layers a node lies; None outside of them."""
    path = node.target if node.call == "call_module" else node.module_path
    match = _LAYER.match(path)
    if match is None or _length(match[1], graph) != count:
        return None
    return int(match[2])


def _length(prefix: str, graph: Graph) -> int:
    """How many layers the list at a path has."""
    found = (_LAYER.match(name) for name in graph.weights)
    return max((int(m[2]) + 1 for m in found if m and m[1] == prefix), default=0)
