"""What of a model trains: all of it, the nodes that are selected, or all but some selections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.form import Rows
from espalier.app.words import plural
from espalier.model.errors import OptionsError
from espalier.passes.select import Select

if TYPE_CHECKING:
    from espalier.app.session.session import Session

ALL, CHOSEN, BUT = "all", "selection", "but"


class WhatTrains(QWidget):
    """`get()` gives the selections that stay as they are (`freeze`); "the selection" is read when it is asked for."""

    edited = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.choice = Choice((ALL, CHOSEN, BUT), ("all weights", "the selected nodes alone", "all but…"))
        self.choice.setAccessibleName("what trains")
        self._words = QLabel(wordWrap=True)
        self._words.setProperty("role", "small")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(3)
        self._column.addWidget(self.choice)
        self._column.addWidget(self._words)
        self.rows: Rows | None = None
        self.choice.edited.connect(self._chosen)
        session.selection_changed.connect(self._selected)
        self._adapt()

    def put(self, freeze: tuple[Select, ...]) -> None:
        """Show which selections stay."""
        self.choice.put(BUT if freeze else ALL)
        self._adapt()
        if self.rows is not None:
            self.rows.put(freeze)

    def get(self) -> tuple[Select, ...]:
        """The selections that stay; raises OptionsError where nothing is selected that could train."""
        if self.choice.get() == BUT and self.rows is not None:
            return self.rows.get()
        if self.choice.get() == ALL:
            return ()
        chosen, rest = self._parts()
        if not chosen:
            raise OptionsError("No node with weights is selected.", "Select some on the graph, or train all weights.")
        return (Select("name", tuple(rest)),) if rest else ()

    def _parts(self) -> tuple[list[str], list[str]]:
        """The nodes with weights that are selected, and the others."""
        document = self._session.document
        nodes = [n.id for n in document.graph if n.weights] if document else []
        wish = set(self._session.selection)
        return [n for n in nodes if n in wish], [n for n in nodes if n not in wish]

    def _chosen(self) -> None:
        self._adapt()
        self.edited.emit()

    def _selected(self) -> None:
        if self.choice.get() == CHOSEN:
            self._adapt()
            self.edited.emit()

    def _adapt(self) -> None:
        what = self.choice.get()
        if what == BUT and self.rows is None:
            document = self._session.document
            self.rows = Rows(Select, document.graph if document else None)
            self.rows.edited.connect(self.edited)
            self._column.addWidget(self.rows)
        if self.rows is not None:
            self.rows.setVisible(what == BUT)
        chosen = len(self._parts()[0])
        words = f"{plural(chosen, 'node')} with weights selected" if chosen else "nothing with weights is selected"
        self._words.setText(words)
        self._words.setVisible(what == CHOSEN)

    def forget_graph(self) -> None:
        """Another model is open: its names are offered."""
        if self.rows is not None:
            self._column.removeWidget(self.rows)
            self.rows.deleteLater()
            self.rows = None
        self.put(())
