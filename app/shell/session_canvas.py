"""The graph canvas of a session: created on first use, then it shows the graph of the open document."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject

from espalier.model.document.arrangement import UNARRANGED

if TYPE_CHECKING:
    from PySide6.QtWidgets import QWidget

    from espalier.app.canvas.view import GraphCanvas
    from espalier.app.session.session import Session
    from espalier.app.shell.workbench import Workbench
    from espalier.app.widgets.style import Appearance
    from espalier.model.document.document import Change


class SessionCanvas(QObject):
    """Adds the canvas to the workbench and keeps graph, selection and colours in step with the session."""

    def __init__(self, window: QWidget, session: Session, appearance: Appearance, workbench: Workbench) -> None:
        super().__init__(window)
        self._session, self._appearance, self._workbench = session, appearance, workbench

    @cached_property
    def canvas(self) -> GraphCanvas:
        """The canvas widget; importing it takes longer than the first paint may wait."""
        from espalier.app.canvas.bars import CanvasFrame
        from espalier.app.canvas.view import GraphCanvas

        canvas = GraphCanvas(palette=self._appearance.palette)
        self._workbench.set_canvas(canvas, CanvasFrame(canvas, canvas.bars))
        canvas.selection_changed.connect(self._session.select)
        return canvas

    @property
    def is_built(self) -> bool:
        """Whether the canvas exists."""
        return "canvas" in self.__dict__

    def build(self) -> bool:
        """Create the canvas; returns False if it exists already."""
        return not self.is_built and self.canvas is not None

    def show_document(self) -> None:
        """Show the open document from its start, with the problems and the view that its project holds."""
        document, canvas = self._session.document, self.canvas
        self._workbench.forget_cameras()
        canvas.set_graph(None)
        canvas.set_arrangement(document.arrangement if document else UNARRANGED)
        canvas.set_graph(document.graph if document else None)
        canvas.set_problems({p.node: p.message for p in self._session.problems if p.node})
        if document and (view := document.project.view.get("canvas")):
            canvas.restore(view)

    def show_change(self, change: Change) -> None:
        """Show the graph, the pins and the frames after an edit."""
        self.canvas.set_arrangement(change.after.arrangement)
        if not change.only_arranges:
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
