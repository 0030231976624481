"""Selects the parameters to train: all, the selected nodes, or all except some selections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.number_text import plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.form import Rows
from espalier.model.errors import OptionsError
from espalier.passes.select import Select

if TYPE_CHECKING:
    from espalier.app.session.session import Session

ALL, SELECTED, EXCEPT = "all", "selection", "but"


class TrainableSelection(QWidget):
    """Choice of the frozen selections (`freeze`); the selected nodes are read at `get`."""

    edited = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.choice = Choice(
            (ALL, SELECTED, EXCEPT), (tr("all weights"), tr("only the selected nodes"), tr("all except…"))
        )
        self.choice.setAccessibleName(tr("trainable"))
        self._note = QLabel(wordWrap=True)
        self._note.setProperty("role", "small")
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(3)
        self._column.addWidget(self.choice)
        self._column.addWidget(self._note)
        self.rows: Rows | None = None
        self.choice.edited.connect(self._chosen)
        session.selection_changed.connect(self._selected)
        self._update_rows()

    def put(self, freeze: tuple[Select, ...]) -> None:
        """Set the frozen selections."""
        self.choice.put(EXCEPT if freeze else ALL)
        self._update_rows()
        if self.rows is not None:
            self.rows.put(freeze)

    def get(self) -> tuple[Select, ...]:
        """The frozen selections; raises OptionsError if no node with weights is selected."""
        if self.choice.get() == EXCEPT and self.rows is not None:
            return self.rows.get()
        if self.choice.get() == ALL:
            return ()
        chosen, rest = self._parts()
        if not chosen:
            raise OptionsError("No node with weights is selected.", "Select some on the graph, or train all weights.")
        return (Select("name", tuple(rest)),) if rest else ()

    def _parts(self) -> tuple[list[str], list[str]]:
        """The nodes with weights: the selected ones and the others."""
        document = self._session.document
        nodes = [n.id for n in document.graph if n.weights] if document else []
        selected = set(self._session.selection)
        return [n for n in nodes if n in selected], [n for n in nodes if n not in selected]

    def _chosen(self) -> None:
        self._update_rows()
        self.edited.emit()

    def _selected(self) -> None:
        if self.choice.get() == SELECTED:
            self._update_rows()
            self.edited.emit()

    def _update_rows(self) -> None:
        kind = self.choice.get()
        if kind == EXCEPT and self.rows is None:
            document = self._session.document
            self.rows = Rows(Select, document.graph if document else None)
            self.rows.edited.connect(self.edited)
            self._column.addWidget(self.rows)
        if self.rows is not None:
            self.rows.setVisible(kind == EXCEPT)
        chosen = len(self._parts()[0])
        text = (
            tr("{} with weights selected", plural(chosen, "node")) if chosen else tr("no node with weights is selected")
        )
        self._note.setText(text)
        self._note.setVisible(kind == SELECTED)

    def forget_graph(self) -> None:
        """Drop the rows of the previous model's names."""
        if self.rows is not None:
            self._column.removeWidget(self.rows)
            self.rows.deleteLater()
            self.rows = None
        self.put(())
