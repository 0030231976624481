"""Sample browser of the Data panel: filters by split, class, text and wrong prediction, and a paged table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.data.samples import Pictures, SampleTable
from espalier.app.number_text import count, plural
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Check, Choice
from espalier.app.widgets.heading import empty_state, link
from espalier.model.data.summary import DataSummary
from espalier.passes.analysis.data_rows import DataRowsOptions
from espalier.passes.analysis.predictions import Predictions
from espalier.passes.base import Report

PAUSE = 300  # milliseconds after the last key
MAX_LISTED = 20_000  # sample indices sent in one request


class DataBrowser(QWidget):
    """`rows_wanted` requests a page of samples, `predictions_wanted` the model's predictions for a split."""

    rows_wanted = Signal(object)
    predictions_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._base = DataRowsOptions()
        self.predictions: Predictions | None = None
        self._cell: tuple[int, int] | None = None
        self._has_classes = True
        self.split, self.of_class, self.words = Choice(), Choice(), QLineEdit()
        self.wrong = Check(tr("wrong ones"))
        self.predict = link(tr("Find what the model gets wrong"), self._predict)
        self.counts = QLabel()
        self.table = SampleTable()
        self._pages, self._empty = QStackedWidget(), empty_state("")
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.begin)
        self._build()

    def _build(self) -> None:
        self.counts.setProperty("role", "muted")
        self.words.setPlaceholderText(tr("Search the texts"))
        self.words.setClearButtonEnabled(True)
        self.words.setMaximumWidth(200)
        self.words.setMinimumWidth(60)
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 0, 4)
        bar.setSpacing(8)
        for name, widget in ((tr("Split"), self.split), (tr("Class"), self.of_class), (tr("Search"), self.words)):
            widget.setAccessibleName(name)
            widget.setFixedHeight(25)
            bar.addWidget(widget)
        for choice in (self.split, self.of_class):
            choice.setMinimumWidth(90)
        for widget in (self.wrong, self.predict, self.counts):
            bar.addWidget(widget)
        bar.addStretch(1)
        self._pages.addWidget(self._empty)
        self._pages.addWidget(self.table)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self._pages, 1)
        self.split.edited.connect(self._on_split_edited)
        self.of_class.edited.connect(self.begin)
        self.words.textEdited.connect(self._wait.start)
        self.wrong.edited.connect(self._on_wrong_toggled)
        self.table.samples.wanted.connect(self._more)

    def show_data(self, summary: DataSummary, base: DataRowsOptions) -> None:
        """Show another data set, from its first page."""
        self._base, self.predictions, self._cell = base, None, None
        previous = self.split.get() if self.split.values else ""
        names = tuple(s.name for s in summary.splits)
        self.split.offer(names, tuple(f"{s.name} {count(s.samples)}" for s in summary.splits))
        self.split.put(previous if previous in names else summary.evaluated.name)
        self.of_class.offer(("", *summary.classes), (tr("all classes"), *summary.classes))
        self.of_class.put("")
        self.of_class.setVisible(bool(summary.classes))
        self._has_classes = bool(summary.classes)
        self.words.setVisible(summary.kind == "text")
        self.wrong.put(False)
        self._adapt()
        self.begin()

    def show_predictions(self, predictions: Predictions) -> None:
        """Take over predictions and list the misclassified samples."""
        self.predictions, self._cell = predictions, None
        self.wrong.put(True)
        self._adapt()
        self.begin()

    def show_cell(self, label: int, predicted: int) -> None:
        """List the samples of a cell of the confusion matrix."""
        self._cell = label, predicted
        self.of_class.put("")
        self.wrong.put(label != predicted)
        self.begin()

    def forget_predictions(self) -> None:
        """Drop the predictions: the model has changed."""
        if self.predictions is not None:
            self.predictions, self._cell = None, None
            self.wrong.put(False)
            self._adapt()
            self.begin()

    def _adapt(self) -> None:
        has_predictions = self.predictions is not None and self.predictions.split == self.split.get()
        self.wrong.setVisible(has_predictions)
        self.predict.setVisible(self._has_classes and not has_predictions)

    def _predict(self) -> None:
        self.predictions_wanted.emit(self.split.get())

    def _on_split_edited(self) -> None:
        self._cell = None
        self.wrong.put(False)
        self._adapt()
        self.begin()

    def _on_wrong_toggled(self) -> None:
        self._cell = None
        self.begin()

    def begin(self) -> None:
        """Request the first page for the current filters."""
        self._wait.stop()
        self.table.samples.clear()
        self._show_message(tr("Samples are being loaded."))
        among = self._candidates()
        if among == ():
            self._show_message(
                tr("No sample is predicted wrong.") if self._cell is None else tr("This cell holds no sample.")
            )
            return
        self.rows_wanted.emit(self._request(0, among))

    def _request(self, start: int, among: tuple[int, ...] | None) -> DataRowsOptions:
        chosen = self.of_class.get() if self.of_class.values else ""
        return replace(self._base, split=self.split.get(), start=start, of_class=chosen,
                       holding=self.words.text().strip(), among=among or ())  # fmt: skip

    def _candidates(self) -> tuple[int, ...] | None:
        """Indices of the samples to choose from; None for all."""
        predictions = self.predictions
        if predictions is None or predictions.split != self.split.get():
            return None
        if self._cell is not None:
            inside = (predictions.labels == self._cell[0]) & (predictions.predicted == self._cell[1])
            return tuple(inside.nonzero()[0].tolist()[:MAX_LISTED])
        return tuple(predictions.wrong.tolist()[:MAX_LISTED]) if self.wrong.get() else None

    def _more(self, start: int) -> None:
        self.rows_wanted.emit(self._request(start, self._candidates()))

    def show_rows(self, report: Report, pictures: Pictures, start: int) -> None:
        """Show a page of samples that has arrived."""
        rows = [self._with_prediction(dict(row)) for row in report.rows]
        matches = int(report.summary["found"])
        if start:
            self.table.samples.append(rows, pictures)
        else:
            self.table.samples.begin(rows, matches, pictures)
        if rows or start:
            self._pages.setCurrentIndex(1)
        else:
            self._show_message(tr("No sample matches. Choose all classes, or change the search text."))
        self.counts.setText(plural(matches, "sample"))

    def _with_prediction(self, row: dict[str, Any]) -> dict[str, Any]:
        predictions = self.predictions
        if predictions is None or predictions.split != self.split.get():
            return row
        at = row["sample"]
        predicted = predictions.classes[int(predictions.predicted[at])]
        extra = {"predicted": predicted, "confidence": float(predictions.confidence[at])}
        head = {k: row[k] for k in ("sample", "class")}
        return head | extra | {k: v for k, v in row.items() if k not in head}

    def _show_message(self, text: str) -> None:
        self._empty.setText(text)
        self._pages.setCurrentIndex(0)
        self.counts.setText("")

    def fail(self, message: str) -> None:
        """Show why there is no page."""
        self._show_message(message)
