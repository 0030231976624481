"""The data that trials are scored on: the model's own in one line, or other data by a form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from espalier.app.widgets.heading import link, muted
from espalier.app.words import count
from espalier.model.errors import EspalierError
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.session.session import Session
    from espalier.app.widgets.forms.form import Form

SHORT = ("data", "split", "limit")


class ScoreField(QWidget):
    """`get` gives the options; raises OptionsError."""

    edited = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.form: Form | None = None
        self.words = muted("")
        self.other = link("Other data…", self.open)
        row = QHBoxLayout()
        row.addWidget(self.words, 1)
        row.addWidget(self.other)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addLayout(row)

    def open(self) -> None:
        """Fields for other data."""
        from espalier.app.widgets.forms.form import Form

        if self.form is None:
            self.form = Form(EvaluateOptions, self._session.measured_on, only=SHORT, brief=True)
            self.form.changed.connect(self.edited)
            self._box.addWidget(self.form)
            self.other.hide()
            self.form.editors["data"].setFocus()

    def put(self, score: EvaluateOptions) -> None:
        """Show these; the model's own stand in one line."""
        if not score.data or score == self._session.measured_on:
            self.forget()
            return
        self.open()
        assert self.form is not None
        self.form.put(score)

    def forget(self) -> None:
        """The model's own data again."""
        if self.form is not None:
            self.form.hide()
            self.form.deleteLater()
            self.form = None
            self.other.show()

    def get(self) -> EvaluateOptions:
        """What trials are scored on: the model's own data where none are named; raises OptionsError."""
        named = self.form.value() if self.form else None
        return named if named and named.data else self._session.measured_on

    def tell(self) -> None:
        """Say which data that is."""
        try:
            score = self.get()
        except EspalierError:
            self.words.setText("")
            return
        data = f"{score.data}{f' · {score.split}' if score.split else ''}" if score.data else ""
        most = f" · {count(score.limit)} samples" if score.limit else ""
        self.words.setText(f"Scored on {data}{most}" if data else "No data are named: only costs can be goals")
