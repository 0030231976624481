"""What the find field lists: nodes of the open graph and commands, best first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from espalier.app.figures.captions import title as op_title
from espalier.app.shell.actions.model import run_plugin
from espalier.app.shell.palette import Entry, rank
from espalier.model.graph.graph import Node

if TYPE_CHECKING:
    from espalier.app.shell.window import Window

NODES = 50


def entries(window: Window, text: str) -> list[Entry]:
    """Commands whose title fits well, then nodes, then the other commands; all commands for an empty text."""
    commands = _commands(window, text)
    if not text:
        return [e for _, e in commands]
    near = [e for score, e in commands if score <= 2]
    far = [e for score, e in commands if score > 2]
    return [*near, *_nodes(window, text), *far]


def _commands(window: Window, text: str) -> list[tuple[int, Entry]]:
    found: list[tuple[int, Entry]] = []
    for row in window.actions_table.rows:
        action = window.actions_table.actions[row.id]
        score = (
            rank(text, f"{action.text()} {row.menu} {row.section}") if action.isEnabled() and row.id != "find" else None
        )
        if score is not None:
            where = f"{row.menu}/{row.section}".rstrip("/").replace("/", " › ")
            detail = f"{where}   {action.shortcut().toString()}".strip()
            found.append((score, Entry(action.text().rstrip("…"), detail, "command", _run(window, row.id))))
    for spec in window.plugins.specs if window.session.document else ():
        score = rank(text, f"{spec.title} {spec.name} Model/Plug-in passes")
        if score is not None:
            found.append(
                (score, Entry(spec.title, "Model › Plug-in passes", "command", _run_plugin(window, spec.name)))
            )
    return sorted(found, key=lambda pair: pair[0]) if text else found


def _run(window: Window, name: str) -> Callable[[], object]:
    return lambda: window.actions_table.run(name)


def _run_plugin(window: Window, name: str) -> Callable[[], object]:
    return lambda: run_plugin(window, name)


def _nodes(window: Window, text: str) -> list[Entry]:
    document = window.session.document
    if document is None:
        return []
    nodes = document.graph.nodes
    return [_node(window, nodes[i]) for i in window.canvas.find(text)[:NODES] if i in nodes]


def _node(window: Window, node: Node) -> Entry:
    name = node.target if node.call == "call_module" else node.id
    return Entry(name, op_title(node.op), "node", lambda: window.go_to(node.id))
