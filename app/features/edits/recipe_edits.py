"""Manual edits of the graph as recipe steps: texts on nodes are merged into one step, and mutes can be removed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from espalier.model.document.recipe import Recipe, Step
from espalier.passes.edits.base import Edit
from espalier.passes.edits.mute import Mute
from espalier.passes.select import Select
from espalier.passes.transform.edit_graph import EditGraphOptions


def on_nodes(edit: Edit, ids: Sequence[str] | Select) -> Edit:
    """The edit applied to these nodes, or to a saved selection."""
    if isinstance(ids, Select):
        return replace(edit, node="", select=ids)
    if len(ids) == 1:
        return replace(edit, node=ids[0], select=None)
    return replace(edit, node="", select=Select("name", tuple(ids)))


def with_graph_edit(recipe: Recipe, edit: Edit, ids: Sequence[str] | Select) -> Recipe:
    """The recipe with an added edit of these nodes.

    A text is merged into the last step if that only has texts; it replaces one of the same kind on the same nodes.
    """
    edit = on_nodes(edit, ids)
    last = recipe.steps[-1] if recipe.steps else None
    options = last.options if last is not None and last.enabled else None
    if last and edit.writes and isinstance(options, EditGraphOptions) and all(e.writes for e in options.edits):
        edits = tuple(e for e in options.edits if type(e) is not type(edit) or _where(e) != _where(edit))
        return recipe.set(len(recipe) - 1, replace(last, options=EditGraphOptions((*edits, edit))))
    return recipe.append(Step("edit_graph", EditGraphOptions((edit,))))


def _where(edit: Edit) -> tuple[object, ...]:
    return (edit.node, edit.select)


def without_mute(recipe: Recipe, ids: Collection[str]) -> Recipe:
    """The recipe in which no active step mutes these nodes, named by ids or module paths.

    A step without remaining edits is removed.
    """
    for index in reversed(range(len(recipe))):
        step = recipe.steps[index]
        if not step.enabled or not isinstance(step.options, EditGraphOptions):
            continue
        edits = tuple(e for edit in step.options.edits for e in _unmuted(edit, ids))
        if edits != step.options.edits:
            updated = replace(step, options=EditGraphOptions(edits))
            recipe = recipe.set(index, updated) if edits else recipe.remove(index)
    return recipe


def _unmuted(edit: Edit, ids: Collection[str]) -> tuple[Edit, ...]:
    """A mute without these nodes; other edits and selections without ids are unchanged."""
    if not isinstance(edit, Mute):
        return (edit,)
    names = edit.select.listed if edit.select else (edit.node,)
    if not any(names) or not set(names) & set(ids):
        return (edit,)
    remaining = tuple(n for n in names if n not in ids)
    return (on_nodes(edit, remaining),) if remaining else ()
