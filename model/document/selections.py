"""Named selections of nodes that a project keeps: a member of its file, beside the recipe and outside its undo."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from espalier.model.borders import parse_json, tried
from espalier.model.errors import OptionsError

if TYPE_CHECKING:
    from espalier.model.document.project import Project

MEMBER = "selections.json"  # of the project's file
LONGEST_NAME = 80  # characters
Selections = Mapping[str, tuple[str, ...]]  # name → ids of nodes


def selections_of(project: Project) -> dict[str, tuple[str, ...]]:
    """Name → ids of nodes, each once, in the order in which they were saved; what cannot be read is left out."""
    data = tried(lambda: parse_json(project.extras[MEMBER].decode())["selections"], None)
    entries = cast("list[object]", data) if isinstance(data, list) else []
    selections: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "nodes": list(nodes)} if name := plain_name(name):
                ids = (n for n in cast("list[object]", nodes) if isinstance(n, str))
                selections.setdefault(name, tuple(dict.fromkeys(ids)))
            case _:
                pass
    return selections


def selections_to_bytes(selections: Selections) -> bytes | None:
    """The member of the project's file; None for no selections. Names that are no Unicode are escaped."""
    data = {"selections": [{"name": name, "nodes": list(nodes)} for name, nodes in selections.items()]}
    return json.dumps(data).encode() if selections else None


def with_selections(project: Project, selections: Selections) -> Project:
    """The project with these saved selections in the place of its own."""
    data = selections_to_bytes(selections)
    extras = {k: v for k, v in project.extras.items() if k != MEMBER}
    return replace(project, extras={**extras, MEMBER: data} if data else extras)


def plain_name(name: str) -> str:
    """A name on one line of at most 80 characters, without control characters and halves of surrogate pairs."""
    text = "".join(" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in name[: 4 * LONGEST_NAME])
    return " ".join(text.split())[:LONGEST_NAME].strip()


def with_selection(selections: Selections, name: str, ids: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The selections with one more, last; it replaces the one of that name.

    Raises OptionsError for a name that is empty, longer than 80 characters or of more than a line, and for no nodes.
    """
    nodes = tuple(dict.fromkeys(ids))
    if not name or name != plain_name(name):
        text = f"{name!r} cannot name a selection."
        raise OptionsError(text, f"Write 1 to {LONGEST_NAME} characters on one line, with single spaces.")
    if not nodes:
        raise OptionsError(f"The selection {name!r} has no nodes.", "Give the ids of one node at least.")
    return {**{n: held for n, held in selections.items() if n != name}, name: nodes}
