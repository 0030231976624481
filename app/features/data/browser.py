"""Samples to read: of a split, of a class, holding some words, or those that the model gets wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QStackedWidget, QVBoxLayout, QWidget

from espalier.app.features.data.samples import Pictures, SampleTable
from espalier.app.widgets.forms.fields import Check, Choice
from espalier.app.widgets.heading import empty_state, link
from espalier.app.words import count, plural
from espalier.model.data.summary import DataLook
from espalier.passes.analysis.data_rows import DataRowsOptions
from espalier.passes.analysis.predictions import Predictions
from espalier.passes.base import Report

PAUSE = 300  # milliseconds after the last key
MOST = 20_000  # samples named one by one


class DataBrowser(QWidget):
    """`rows_wanted` asks for a page, `predictions_wanted` for what the model says of a split."""

    rows_wanted = Signal(object)
    predictions_wanted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._base = DataRowsOptions()
        self.told: Predictions | None = None
        self._cell: tuple[int, int] | None = None
        self.split, self.of_class, self.words = Choice(), Choice(), QLineEdit()
        self.wrong = Check("wrong ones")
        self.predict = link("Find what the model gets wrong", self._predict)
        self.counts = QLabel()
        self.table = SampleTable()
        self._pages, self._empty = QStackedWidget(), empty_state("")
        self._wait = QTimer(self, singleShot=True, interval=PAUSE)
        self._wait.timeout.connect(self.begin)
        self._build()

    def _build(self) -> None:
        self.counts.setProperty("role", "muted")
        self.words.setPlaceholderText("Search the texts")
        self.words.setClearButtonEnabled(True)
        self.words.setMaximumWidth(200)
        self.words.setMinimumWidth(60)
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 0, 4)
        bar.setSpacing(8)
        for name, widget in (("Split", self.split), ("Class", self.of_class), ("Search", self.words)):
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
        self.split.edited.connect(self._other_split)
        self.of_class.edited.connect(self.begin)
        self.words.textEdited.connect(self._wait.start)
        self.wrong.edited.connect(self._toggle)
        self.table.samples.wanted.connect(self._more)

    def show_data(self, seen: DataLook, base: DataRowsOptions) -> None:
        """Begin with other data."""
        self._base, self.told, self._cell = base, None, None
        held = self.split.get() if self.split.values else ""
        names = tuple(s.name for s in seen.splits)
        self.split.offer(names, tuple(f"{s.name} {count(s.samples)}" for s in seen.splits))
        self.split.put(held if held in names else seen.judged.name)
        self.of_class.offer(("", *seen.classes), ("all classes", *seen.classes))
        self.of_class.put("")
        self.words.setVisible(seen.kind == "text")
        self.wrong.put(False)
        self._adapt()
        self.begin()

    def show_predictions(self, told: Predictions) -> None:
        """Show which samples are taken for others."""
        self.told, self._cell = told, None
        self.wrong.put(True)
        self._adapt()
        self.begin()

    def show_cell(self, label: int, told: int) -> None:
        """Show the samples of a cell of the confusion matrix."""
        self._cell = label, told
        self.of_class.put("")
        self.wrong.put(label != told)
        self.begin()

    def forget_predictions(self) -> None:
        """The model has changed."""
        if self.told is not None:
            self.told, self._cell = None, None
            self.wrong.put(False)
            self._adapt()
            self.begin()

    def _adapt(self) -> None:
        known = self.told is not None and self.told.split == self.split.get()
        self.wrong.setVisible(known)
        self.predict.setVisible(not known)

    def _predict(self) -> None:
        self.predictions_wanted.emit(self.split.get())

    def _other_split(self) -> None:
        self._cell = None
        self.wrong.put(False)
        self._adapt()
        self.begin()

    def _toggle(self) -> None:
        self._cell = None
        self.begin()

    def begin(self) -> None:
        """Ask for the first page of what is chosen."""
        self._wait.stop()
        self.table.samples.clear()
        self._say("Samples are being loaded.")
        among = self._among()
        if among == ():
            self._say("No sample is predicted wrong." if self._cell is None else "There is no such sample.")
            return
        self.rows_wanted.emit(self._wish(0, among))

    def _wish(self, start: int, among: tuple[int, ...] | None) -> DataRowsOptions:
        chosen = self.of_class.get() if self.of_class.values else ""
        return replace(self._base, split=self.split.get(), start=start, of_class=chosen,
                       holding=self.words.text().strip(), among=among or ())  # fmt: skip

    def _among(self) -> tuple[int, ...] | None:
        """The numbers of the samples to choose from; None for all."""
        told = self.told
        if told is None or told.split != self.split.get():
            return None
        if self._cell is not None:
            inside = (told.labels == self._cell[0]) & (told.told == self._cell[1])
            return tuple(inside.nonzero()[0].tolist()[:MOST])
        return tuple(told.wrong.tolist()[:MOST]) if self.wrong.get() else None

    def _more(self, start: int) -> None:
        self.rows_wanted.emit(self._wish(start, self._among()))

    def show_rows(self, report: Report, pictures: Pictures, start: int) -> None:
        """Take a page that arrived."""
        rows = [self._with_told(dict(row)) for row in report.rows]
        found = int(report.summary["found"])
        if start:
            self.table.samples.append(rows, pictures)
        else:
            self.table.samples.begin(rows, found, pictures)
        if rows or start:
            self._pages.setCurrentIndex(1)
        else:
            self._say("No sample matches. Choose all classes, or search for other words.")
        self.counts.setText(plural(found, "sample"))

    def _with_told(self, row: dict[str, Any]) -> dict[str, Any]:
        told = self.told
        if told is None or told.split != self.split.get():
            return row
        at, extra = row["sample"], {}
        extra = {"told": told.classes[int(told.told[at])], "confidence": float(told.confidence[at])}
        head = {k: row[k] for k in ("sample", "class")}
        return head | extra | {k: v for k, v in row.items() if k not in head}

    def _say(self, words: str) -> None:
        self._empty.setText(words)
        self._pages.setCurrentIndex(0)
        self.counts.setText("")

    def fail(self, words: str) -> None:
        """Say why there is no page."""
        self._say(words)
