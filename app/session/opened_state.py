"""What forms begin with: the state in which the document was opened, and the first data that it was measured on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from espalier.model.graph.graph import Graph
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session


def opened_state_of(session: Session) -> OpenedState:
    """The session's OpenedState, created once."""
    return session.findChild(OpenedState) or OpenedState(session)


class OpenedState(QObject):
    """`graph`: as the document was opened, None without a document. `data`: the first that names any."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self.graph: Graph | None = None
        self.data = EvaluateOptions()
        session.opened.connect(self._opened)
        session.data_changed.connect(self._on_data)
        self._opened()

    def _opened(self) -> None:
        document = self._session.document
        self.graph, self.data = document.graph if document else None, self._session.measured_on

    def _on_data(self) -> None:
        if not self.data.data:
            self.data = self._session.measured_on
