"""The menu Edit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from espalier.app.menu import Action, always
from espalier.app.session.session import Session
from espalier.app.translation import tr
from espalier.model.graph.twins import twins


def rows(session: Session, find: Callable[[], object]) -> list[Action]:
    """Rows for undo, selection and find."""
    undo, redo = partial(_undo_label, session), partial(_redo_label, session)
    has_selection = partial(is_selected, session)
    return [
        Action("undo", "Undo", "Edit", session.undo, "Ctrl+Z", "Undo", lambda: bool(undo()),
               dynamic_title=lambda: _title(tr("Undo"), undo())),
        Action("redo", "Redo", "Edit", session.redo, "Ctrl+Shift+Z", "Redo", lambda: bool(redo()),
               dynamic_title=lambda: _title(tr("Redo"), redo())),
        Action("select_all", "Select all nodes", "Edit", partial(select_all, session), "Ctrl+A", group=1),
        Action("select_alike", "Select all of the same type", "Edit", partial(select_alike, session), "Ctrl+Shift+A",
               needs=has_selection, group=1),
        Action("select_twins", "Select its twins in the other blocks", "Edit", partial(select_twins, session),
               "Ctrl+Shift+B", needs=has_selection, group=1,
               help="The nodes at the same place of repeated blocks"),
        Action("select_none", "Clear the selection", "Edit", partial(session.select, ()), needs=has_selection, group=1),
        Action("find", "Find a node or a command", "Edit", find, "Ctrl+F", needs=always, group=2,
               more_keys=("Ctrl+Shift+P",)),
    ]  # fmt: skip


def is_selected(session: Session) -> bool:
    """Whether any node is selected."""
    return bool(session.selection)


def select_all(session: Session) -> None:
    """Select every node."""
    if session.document:
        session.select(session.document.graph.nodes)


def select_alike(session: Session) -> None:
    """Select all nodes of the selected nodes' types."""
    document = session.document
    if document:
        ops = {document.graph.nodes[i].op for i in session.selection}
        session.select(n.id for n in document.graph if n.op in ops)


def select_twins(session: Session) -> None:
    """Select the nodes at the same place of the other blocks, for each selected node."""
    if document := session.document:
        graph = document.graph
        session.select(dict.fromkeys(t for i in session.selection for t in twins(graph, graph.nodes[i])))


def _undo_label(session: Session) -> str | None:
    return session.document.undo_label if session.document else None


def _redo_label(session: Session) -> str | None:
    return session.document.redo_label if session.document else None


def _title(verb: str, label: str | None) -> str:
    return f"{verb} {label}" if label else verb
