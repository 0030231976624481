"""The last step of the recipe as a line of Python, at the right of the drawer's tabs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtGui import QFont, QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QWidget

from espalier.app.translation import tr
from espalier.app.widgets.heading import Elided, link, muted
from espalier.passes.export.script import line_of, opening_line

if TYPE_CHECKING:
    from espalier.app.session.session import Session

LONGEST = 2000  # characters that are shown; a step may name thousands of nodes


class CodeLine(QWidget):
    """Shows how the Python interface repeats what was done last; *Copy* copies every line from the opening on."""

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self.setProperty("surface", "panel")
        self.text = Elided("", "muted")
        self.text.setFont(QFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont).family(), 9))
        self.text.setAccessibleName(tr("The last step in Python"))
        self.text.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.copy_link = link(tr("Copy code"), self.copy)
        self.copy_link.setToolTip(tr("Copy the whole recipe as Python: import, open and every step"))
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 0, 8, 0)
        row.setSpacing(6)
        row.addWidget(muted(">>>", wrap=False))
        row.addWidget(self.text, 1)
        row.addWidget(self.copy_link)
        session.opened.connect(self.refresh)
        session.changed.connect(self.refresh)
        self.refresh()

    def lines(self) -> list[str]:
        """The statements that repeat the recipe; empty while no model is open."""
        document = self._session.document
        if document is None:
            return []
        return [opening_line(document.project), *(line_of(step) for step in document.recipe.steps)]

    def refresh(self) -> None:
        """Show the line of the last step."""
        document = self._session.document
        if document is None:
            line = ""
        elif document.recipe.steps:
            line = line_of(document.recipe.steps[-1])
        else:
            line = opening_line(document.project)
        self.text.show_text(line if len(line) <= LONGEST else f"{line[:LONGEST]}…")
        self.copy_link.setVisible(document is not None)

    def copy(self) -> None:
        """Copy the statements."""
        QGuiApplication.clipboard().setText("\n".join(["import espalier as es", "", *self.lines(), ""]))
