"""Saved selections in options: their members are written beside the name when a step enters a recipe.

The recipe stays the only source of the graph: a selection that is changed later changes no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from espalier.model.document.recipe import Raw, Recipe
from espalier.model.document.selections import Selections
from espalier.model.errors import EspalierError, OptionsError, nearest
from espalier.model.graph.graph import Graph
from espalier.passes.select import Select

T = TypeVar("T")


def with_members(options: T, selections: Selections, *, strict: bool = True, renew: bool = False) -> T:
    """Options whose saved selections have their nodes: those they list, or else those of the project's selection.

    `renew`: the project's nodes replace those listed. `strict`: raise OptionsError for a name that neither has; else
    it stays without nodes, and fails where it is used.
    """

    def fill(select: Select) -> Select:
        if select.by != "saved" or (select.nodes is not None and not renew):
            return select
        missing = next((v for v in select.values if not selections.get(v)), None)
        if missing is None:
            return replace(select, nodes=_union(select.values, selections))
        if strict and select.nodes is None:
            raise OptionsError(f"There is no saved selection {missing!r} in this project.", _hint(missing, selections))
        return select

    return cast("T", _mapped(options, fill))


def _hint(name: str, selections: Selections) -> str:
    if not selections:
        return 'It has none. Save one of this name, or list its nodes in the recipe: nodes = ["…"].'
    return nearest(name, selections)


def _union(names: tuple[str, ...], selections: Selections) -> tuple[str, ...]:
    return tuple(dict.fromkeys(i for n in names for i in selections.get(n, ())))


def recipe_with_members(recipe: Recipe, selections: Selections, *, strict: bool = True) -> Recipe:
    """The recipe with members in all steps; a disabled step may name what the project lacks."""
    steps = list(recipe.steps)
    for i, step in enumerate(steps):
        try:
            options = with_members(step.options, selections, strict=strict and step.enabled)
        except EspalierError as error:
            error.message = f"Step {i + 1} ({step.pass_name}): {error.message}"
            raise
        steps[i] = step if options is step.options else replace(step, options=options)
    return recipe if all(a is b for a, b in zip(steps, recipe.steps, strict=True)) else Recipe(tuple(steps))


def saved_in(options: Any) -> Iterator[Select]:
    """The saved selections in options, those in plain JSON of plug-ins included."""
    held: list[Select] = []

    def note(select: Select) -> Select:
        held.append(select)
        return select

    _mapped(options, note)
    return (s for s in held if s.by == "saved")


def gone(options: Any, graph: Graph) -> str:
    """A sentence on nodes of saved selections that the graph lacks; empty where it has all."""
    texts: list[str] = []
    for select in saved_in(options):
        nodes = select.nodes or ()
        count = sum(n not in graph.nodes for n in nodes)
        if count:
            texts.append(f"{count} of the {len(nodes)} nodes of {select.names} are not in the model here.")
    return " ".join(dict.fromkeys(texts))


def outdated(options: Any, selections: Selections) -> tuple[str, ...]:
    """Names of saved selections whose members in the project are others than in the options."""
    own = (s for s in saved_in(options) if all(v in selections for v in s.values))
    return tuple(v for s in own if set(s.nodes or ()) != set(_union(s.values, selections)) for v in s.values)


def _mapped(value: Any, change: Callable[[Select], Select]) -> Any:
    """The value with every selection in it replaced; the value itself where none changes."""
    match value:
        case Select():
            return change(value)
        case Raw(data=data):
            after = _mapped_json(data, change)
            return value if after is data else Raw(after)
        case tuple():
            parts = cast("tuple[Any, ...]", value)
            changed = tuple(_mapped(v, change) for v in parts)
            return value if all(a is b for a, b in zip(changed, parts, strict=True)) else changed
        case _ if is_dataclass(value) and not isinstance(value, type):
            held = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
            changes = {n: after for n, v in held.items() if (after := _mapped(v, change)) is not v}
            return replace(value, **changes) if changes else value
        case _:
            return value


def _mapped_json(data: Any, change: Callable[[Select], Select]) -> Any:
    """The same for options of a plug-in's pass, which are tables here."""
    match data:
        case Mapping():
            table = cast("Mapping[str, Any]", data)
            if (select := _saved(table)) is not None:
                after = change(select)
                return data if after is select else {**table, "nodes": list(after.nodes or ())}
            changed = {k: _mapped_json(v, change) for k, v in table.items()}
            return data if all(changed[k] is v for k, v in table.items()) else changed
        case list():
            parts = cast("list[Any]", data)
            listed = [_mapped_json(v, change) for v in parts]
            return data if all(a is b for a, b in zip(listed, parts, strict=True)) else listed
        case _:
            return data


def _saved(table: Mapping[str, Any]) -> Select | None:
    """The saved selection that a table writes; None for any other: a plug-in's own may have the same fields."""
    nodes = table.get("nodes")
    names, members = _texts(table.get("values")), _texts(nodes)
    if table.get("by") != "saved" or names is None or (members is None and nodes is not None):
        return None
    return Select("saved", names, members)


def _texts(value: Any) -> tuple[str, ...] | None:
    """The texts of a list; None for anything else."""
    if not isinstance(value, list):
        return None
    parts = cast("list[Any]", value)
    return tuple(parts) if all(isinstance(p, str) for p in parts) else None
