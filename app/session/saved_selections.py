"""The named selections of the open project: saved, removed, selected, and named by the steps of edits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from PySide6.QtCore import QObject, Signal

from espalier.model.document.document import Document
from espalier.model.document.selections import MEMBER, plain_name, selections_of, selections_to_bytes, with_selection
from espalier.model.graph.graph import Node
from espalier.passes.select import Select


class SelectionContext(Protocol):
    """The parts of a session that saved selections use."""

    document: Document | None
    selection: tuple[str, ...]

    @property
    def selection_changed(self) -> Any:
        """The signal of another selection."""
        ...

    def select(self, ids: Iterable[str]) -> None:
        """Select nodes."""
        ...


class SavedSelections(QObject):
    """Saves, selects and removes named selections of the open document. `changed`: the project has to be saved."""

    changed = Signal()

    def __init__(self, session: SelectionContext, parent: QObject) -> None:
        super().__init__(parent)
        self._session = session
        self._read: tuple[bytes | None, dict[str, tuple[str, ...]]] = (None, {})
        self._picked: tuple[str, tuple[str, ...]] | None = None  # the name that the user chose last, its nodes then

    @property
    def saved(self) -> dict[str, tuple[str, ...]]:
        """Name → ids of nodes; empty without a document."""
        document = self._session.document
        data = document.project.extras.get(MEMBER) if document else None
        if document is None or data is None:
            return {}
        if data is not self._read[0]:  # a project can hold many nodes, and this is asked at every edit
            self._read = data, selections_of(document.project)
        return self._read[1]

    @property
    def picked(self) -> str:
        """The saved selection that the user chose, while exactly its nodes are selected; else empty."""
        if self._picked is None or set(self._picked[1]) != set(self._session.selection):
            return ""
        return self._picked[0] if self._picked[0] in self.saved else ""

    def forget(self) -> None:
        """Name no selection any more: another document is open."""
        self._picked, self._read = None, (None, {})

    def selecting(self, ids: Sequence[str], able: Callable[[Node], bool] = lambda _: True) -> Select | tuple[str, ...]:
        """How an edit of these nodes selects them: by the saved selection that the user chose, or else by name.

        `able`: whether the step takes a node; a step by selection means all those of the selection that it takes.
        """
        name, document = self.picked, self._session.document
        if not name or document is None:
            return tuple(ids)
        nodes = (document.graph.nodes[i] for i in self._session.selection)
        if {n.id for n in nodes if able(n)} != set(ids):
            return tuple(ids)
        return Select("saved", (name,), self.saved[name])

    def save(self, name: str) -> None:
        """Save the present selection under a name; replaces the one of that name."""
        document, name = self._session.document, plain_name(name)
        if document is not None and name and self._session.selection:
            self.keep(with_selection(self.saved, name, self._session.selection))
            self.select(name)

    def remove(self, name: str) -> None:
        """Forget a selection; steps that name it keep its nodes."""
        if self._session.document is not None:
            self.keep({n: ids for n, ids in self.saved.items() if n != name})

    def select(self, name: str) -> None:
        """Select the nodes of a saved selection that the graph still has."""
        if (document := self._session.document) is not None:
            ids = self._present(self.saved.get(name, ()))
            self._picked = (name, ids) if ids else None
            if ids == self._session.selection:
                self._session.selection_changed.emit(ids)  # the same nodes have a name now
            self._session.select(i for i in ids if i in document.graph.nodes)

    def _present(self, ids: Iterable[str]) -> tuple[str, ...]:
        document = self._session.document
        return tuple(i for i in ids if i in document.graph.nodes) if document else ()

    def offers(self) -> list[tuple[str, int, int]]:
        """(name, nodes that the graph has, nodes in all) of each, for a menu."""
        return [(name, len(self._present(ids)), len(ids)) for name, ids in self.saved.items()]

    def keep(self, selections: dict[str, tuple[str, ...]]) -> None:
        """Replace the saved selections."""
        if self._session.document is not None:
            self._session.document.keep(MEMBER, selections_to_bytes(selections))
            self.changed.emit()
