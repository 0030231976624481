"""A field for the data of a score: the model's own as a line, or other data as a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from espalier.app.number_text import count
from espalier.app.translation import tr
from espalier.app.widgets.heading import link, muted
from espalier.model.errors import EspalierError
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.widgets.forms.form import Form

SHORT = ("data", "split", "limit")


class ScoreField(QWidget):
    """`own`: returns the data of the model; `without`: text shown without data; `optional`: data may be empty."""

    edited = Signal()

    def __init__(self, own: Callable[[], EvaluateOptions], without: str, optional: bool = False) -> None:
        super().__init__()
        self._own, self._without, self._optional = own, without, optional
        self.form: Form | None = None
        self.summary = muted("")
        self.other = link(tr("Other data…"), self.open)
        row = QHBoxLayout()
        row.addWidget(self.summary, 1)
        row.addWidget(self.other)
        self._box = QVBoxLayout(self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.addLayout(row)

    def open(self) -> None:
        """Show the fields for other data."""
        from espalier.app.widgets.forms.form import Form

        if self.form is None:
            self.form = Form(EvaluateOptions, self._own(), only=SHORT, brief=True)
            self.form.changed.connect(self.edited)
            self._box.addWidget(self.form)
            self.other.hide()
            self.form.editors["data"].setFocus()

    def put(self, score: EvaluateOptions) -> None:
        """Show data; the model's own as a line."""
        if not score.data or score == self._own():
            self.forget()
            return
        self.open()
        assert self.form is not None
        self.form.put(score)

    def forget(self) -> None:
        """Return to the model's own data."""
        if self.form is not None:
            self.form.hide()
            self.form.deleteLater()
            self.form = None
            self.other.show()

    def get(self) -> EvaluateOptions:
        """The data; the model's own if none are given, unless `optional`. Raises OptionsError."""
        other = self.form.value() if self.form else None
        return other if other and (other.data or self._optional) else self._own()

    def show_summary(self) -> None:
        """Update the line that names the data."""
        try:
            score = self.get()
        except EspalierError:
            self.summary.setText("")
            return
        data = f"{score.data}{f' · {score.split}' if score.split else ''}" if score.data else ""
        limit = tr(" · {} samples", count(score.limit)) if score.limit else ""
        self.summary.setText(tr("Scored on {}{}", data, limit) if data else self._without)
