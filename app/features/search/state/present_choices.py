"""The document's configuration as choices of a space, so that it can compete in a search."""

from __future__ import annotations

import math
from typing import Any

from espalier.model.document.recipe import Recipe
from espalier.model.errors import EspalierError, OptionsError
from espalier.model.graph.graph import Graph, Node
from espalier.model.graph.meta import Parallel
from espalier.passes.costs.parallel import with_products
from espalier.passes.search.format_lists import FLOAT, unfitted_text
from espalier.passes.search.space import Choice, Space, fit_key
from espalier.passes.sweep.option_paths import find
from espalier.passes.sweep.spec_text import parse_place
from espalier.passes.sweep.sweep import step_options
from espalier.passes.sweep.values import value_text


def present_choices(space: Space, graph: Graph, recipe: Recipe) -> dict[str, Any]:
    """The value of each choice in the present document; raises OptionsError if the space lacks it."""
    values: dict[str, Any] = {}
    for choice in space.choices:
        if choice.when is not None and values.get(choice.when.name) not in choice.when.values:
            continue
        value = _value(choice, space, graph, recipe)
        if not choice.holds(value):
            raise OptionsError(
                f"The present configuration is outside this search: {choice.name} is {value_text(value)}.",
                "Start a search that includes this value, or change it to one of the search's values.",
            )
        values[choice.name] = value
    return values


def _value(choice: Choice, space: Space, graph: Graph, recipe: Recipe) -> Any:
    nodes = [graph.nodes[n] for n in choice.nodes if n in graph.nodes]
    match choice.kind:
        case "format":
            return _same({_format(choice, space, n) for n in nodes}, choice)
        case "sparsity":
            shares = {n.sparsity["weight"].ratio if "weight" in n.sparsity else 0.0 for n in nodes}
            return _near(_same(shares, choice), choice)
        case "identity":
            return "linear" if len(nodes) == len(choice.nodes) and all(n.op == "linear" for n in nodes) else "identity"
        case "parallel":
            return next((v for v in choice.values if all(_computes(n, graph, v) for n in nodes)), None)
        case "option":
            return _option(choice, recipe)
        case _:
            raise OptionsError(
                f"{choice.name} changes the architecture of the model.", "Start a search without this choice."
            )


def _computes(node: Node, graph: Graph, products: Any) -> bool:
    return with_products(node, graph, int(products)).parallel == (node.parallel or Parallel())


def _same(values: set[Any], choice: Choice) -> Any:
    if len(values) != 1:
        raise OptionsError(
            f"{choice.name} differs between the layers that share it.", "Set them to the same value first."
        )
    return values.pop()


def _near(fraction: float, choice: Choice) -> float:
    """The nearest value of a choice, since stored shares are rounded to whole elements."""
    close = [v for v in choice.values if isinstance(v, int | float) and math.isclose(v, fraction, abs_tol=1e-6)]
    return float(close[0]) if close else fraction


def _format(choice: Choice, space: Space, node: Node) -> str:
    """The value of the choice that equals the node's format, fitted or as written."""
    chosen = next((node.precision[p].format for p in choice.ports if p in node.precision), None)
    if chosen is None:
        return FLOAT
    for value in choice.values:
        fitted = [space.fitted.get(fit_key(node.id, p, str(value)), str(value)) for p in choice.ports]
        if any(_reads(f) == str(chosen) for f in fitted) or str(value) == unfitted_text(chosen):
            return str(value)
    return str(chosen)


def _reads(text: str) -> str:
    from espalier.model.formats.base import parse_format

    try:
        return str(parse_format(text)) if text != FLOAT else FLOAT
    except EspalierError:
        return text


def _option(choice: Choice, recipe: Recipe) -> Any:
    index, path = parse_place(recipe, choice.key)
    if not path:
        return recipe.steps[index].enabled
    value = find(step_options(recipe.steps[index]), path, "")[0].value
    written = [v for v in choice.values if value_text(v) == value_text(value)]
    return written[0] if written else value
