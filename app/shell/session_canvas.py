"""The graph canvas of a session: created on first use, then it shows the graph of the open document."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

if TYPE_CHECKING:
    from PySide6.QtWidgets import QStackedWidget, QWidget

    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.session.session import Session
    from espalier.app.widgets.style import Appearance
    from espalier.model.document.document import Change


class SessionCanvas(QObject):
    """Adds the canvas to `pages` and keeps graph, selection and colours in step with the session."""

    def __init__(self, window: QWidget, session: Session, appearance: Appearance, pages: QStackedWidget) -> None:
        super().__init__(window)
        self._session, self._appearance, self._pages = session, appearance, pages
        self._cover: QWidget | None = None

    @cached_property
    def canvas(self) -> GraphCanvas:
        """The canvas widget; importing it takes longer than the first paint may wait."""
        from espalier.app.canvas.view import GraphCanvas

        canvas = GraphCanvas(palette=self._appearance.palette)
        self._pages.addWidget(canvas)
        canvas.selection_changed.connect(self._session.select)
        return canvas

    @property
    def page(self) -> QWidget:
        """The canvas, or the page that covers it."""
        return self._cover or self.canvas

    @property
    def is_covered(self) -> bool:
        """Whether a page covers the canvas."""
        return self._cover is not None

    def cover(self, page: QWidget | None) -> None:
        """Show a page in place of the canvas, until it is None."""
        self._cover = page
        if page is not None and self._pages.indexOf(page) < 0:
            self._pages.addWidget(page)

    @property
    def is_built(self) -> bool:
        """Whether the canvas exists."""
        return "canvas" in self.__dict__

    def build(self) -> bool:
        """Create the canvas, hidden; returns False if it exists already."""
        if self.is_built:
            return False
        self.canvas.hide()
        return True

    def show_document(self) -> None:
        """Show the open document from its start, with the problems and the view that its project holds."""
        document, canvas = self._session.document, self.canvas
        canvas.set_graph(None)
        canvas.set_graph(document.graph if document else None)
        canvas.set_problems({p.node: p.message for p in self._session.problems if p.node})
        if document and (view := document.project.view.get("canvas")):
            canvas.restore(view)

    def show_change(self, change: Change) -> None:
        """Show the graph after an edit."""
        self.canvas.set_graph(change.after.graph, change.delta)

    def show_selection(self, ids: tuple[str, ...]) -> None:
        """Select nodes on the canvas and bring them into view."""
        if ids != self.canvas.selection():
            self.canvas.select(ids, reveal=True)

    def go_to(self, node: str) -> None:
        """Select a node, bring it into view and give the canvas the focus."""
        self._session.select((node,))
        self.canvas.reveal(node)
        self.canvas.setFocus()

    def view_state(self) -> dict[str, Any]:
        """The view settings that the project file stores."""
        return {"canvas": self.canvas.view_state()}
