"""Named selections of nodes that the project keeps, and the menu that offers them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QInputDialog, QMenu, QWidget

from espalier.model.borders import parse_json, tried

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.model.document.document import Document
    from espalier.model.document.project import Project

MEMBER = "selections.json"  # of the project's file
LONGEST_NAME = 80  # characters


def selections_of(project: Project) -> dict[str, tuple[str, ...]]:
    """Name → ids of nodes, in the order in which they were saved; what cannot be read is left out."""
    data = tried(lambda: parse_json(project.extras[MEMBER].decode())["selections"], None)
    entries = cast("list[object]", data) if isinstance(data, list) else []
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        match entry:
            case {"name": str(name), "nodes": list(nodes)} if name.strip():
                found[name[:LONGEST_NAME]] = tuple(n for n in cast("list[object]", nodes) if isinstance(n, str))
            case _:
                pass
    return found


def keep_selections(document: Document, selections: dict[str, tuple[str, ...]]) -> None:
    """Replace the saved selections."""
    data = {"selections": [{"name": name, "nodes": list(nodes)} for name, nodes in selections.items()]}
    document.keep(MEMBER, json.dumps(data, ensure_ascii=False).encode() if selections else None)


class SavedSelections(QObject):
    """Saves, selects and removes named selections of the open document. `changed`: the project has to be saved."""

    changed = Signal()

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session

    def save(self, name: str) -> None:
        """Save the present selection under a name; replaces the one of that name."""
        document, name = self._session.document, " ".join(name.split())[:LONGEST_NAME]
        if document is not None and name and self._session.selection:
            others = {n: ids for n, ids in selections_of(document.project).items() if n != name}
            keep_selections(document, {**others, name: tuple(self._session.selection)})
            self.changed.emit()

    def remove(self, name: str) -> None:
        """Forget a selection."""
        if (document := self._session.document) is not None:
            keep_selections(document, {n: ids for n, ids in selections_of(document.project).items() if n != name})
            self.changed.emit()

    def select(self, name: str) -> None:
        """Select the nodes of a saved selection that the graph still has."""
        if (document := self._session.document) is not None:
            nodes = document.graph.nodes
            self._session.select(n for n in selections_of(document.project).get(name, ()) if n in nodes)

    def ask(self, parent: QWidget) -> None:
        """Ask for a name, and save the present selection under it."""
        dialog = QInputDialog(parent)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle("Save the selection")
        dialog.setLabelText("Name of the selection")
        dialog.textValueSelected.connect(self.save)
        dialog.open()

    def fill(self, menu: QMenu, parent: QWidget) -> None:
        """Fill a menu: the saved selections, *Save this selection…*, and those to remove."""
        menu.clear()
        document = self._session.document
        if document is None:
            return
        saved = selections_of(document.project)
        for name, ids in saved.items():
            there = sum(i in document.graph.nodes for i in ids)
            action = menu.addAction(f"{name.replace('&', '&&')} ({there})", lambda n=name: self.select(n))
            action.setEnabled(there > 0)
            if there < len(ids):
                action.setToolTip(f"{len(ids) - there} of its nodes are not in the graph now")
        menu.setToolTipsVisible(True)
        menu.addSeparator()
        menu.addAction("Save this selection…", lambda: self.ask(parent)).setEnabled(bool(self._session.selection))
        if saved:
            removing = menu.addMenu("Remove")
            for name in saved:
                removing.addAction(name.replace("&", "&&"), lambda n=name: self.remove(n))
