"""The data of a score: the model's own in one line, or other data by a form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from espalier.app.widgets.heading import link, muted
from espalier.app.words import count
from espalier.model.errors import EspalierError
from espalier.passes.running.splits import EvaluateOptions

if TYPE_CHECKING:
    from espalier.app.widgets.forms.form import Form

SHORT = ("data", "split", "limit")


class ScoreField(QWidget):
    """`own`: the data of the model; `without`: what it means that none are named, where that is a choice."""

    edited = Signal()

    def __init__(self, own: Callable[[], EvaluateOptions], without: str, optional: bool = False) -> None:
        super().__init__()
        self._own, self._without, self._optional = own, without, optional
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
            self.form = Form(EvaluateOptions, self._own(), only=SHORT, brief=True)
            self.form.changed.connect(self.edited)
            self._box.addWidget(self.form)
            self.other.hide()
            self.form.editors["data"].setFocus()

    def put(self, score: EvaluateOptions) -> None:
        """Show these; the model's own stand in one line."""
        if not score.data or score == self._own():
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
        """The data: the model's own where none are named, unless that is a choice; raises OptionsError."""
        named = self.form.value() if self.form else None
        return named if named and (named.data or self._optional) else self._own()

    def tell(self) -> None:
        """Say which data that is."""
        try:
            score = self.get()
        except EspalierError:
            self.words.setText("")
            return
        data = f"{score.data}{f' · {score.split}' if score.split else ''}" if score.data else ""
        most = f" · {count(score.limit)} samples" if score.limit else ""
        self.words.setText(f"Scored on {data}{most}" if data else self._without)
