"""What stays in sight below the form of a training: its buttons, estimate, run, and how it ended."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from espalier.app.features.training.run import TrainingRun
from espalier.app.widgets.heading import link, muted, warning
from espalier.app.words import count
from espalier.passes.training.checkpoint_folders import Unfinished


class TrainingFoot(QFrame):
    """`begun`: train, or go on with what was interrupted; `restarted`: from the beginning."""

    begun = Signal()
    restarted = Signal()
    time_wanted = Signal()

    def __init__(self, run: TrainingRun) -> None:
        super().__init__()
        self.words, self.error, self.ended, self.left = QLabel(wordWrap=True), warning(), muted(""), muted("")
        self.train, self.go_on, self.anew = QPushButton("Train"), QPushButton("Continue"), QPushButton("Restart")
        self.time = link("Estimate the time", self.time_wanted.emit)
        self.train.clicked.connect(self.begun)
        self.go_on.clicked.connect(self.begun)
        self.anew.clicked.connect(self.restarted)
        self._build(run)

    def _build(self, run: TrainingRun) -> None:
        self.setProperty("foot", True)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 4, 12, 6)
        column.setSpacing(4)
        self.train.setProperty("primary", True)
        self.words.setProperty("role", "muted")
        again = QHBoxLayout()
        again.addWidget(self.go_on)
        again.addWidget(self.anew)
        again.addStretch(1)
        row, told = QHBoxLayout(), QVBoxLayout()
        told.setSpacing(2)
        told.addWidget(self.words)
        told.addWidget(self.time, 0, Qt.AlignmentFlag.AlignLeft)
        row.addLayout(told, 1)
        row.addWidget(self.train, 0, Qt.AlignmentFlag.AlignVCenter)
        for widget in (self.error, self.left):
            column.addWidget(widget)
        column.addLayout(again)
        for widget in (run, self.ended):
            column.addWidget(widget)
        column.addLayout(row)

    def offer(self, able: bool, words: str, busy: bool) -> None:
        """Offer a training and its estimate, where a model is open."""
        self.train.setEnabled(able)
        self.time.setEnabled(able)
        self.time.setVisible(not busy)
        self.words.setText(words)

    def offer_unfinished(self, found: Unfinished | None) -> None:
        """Offer to go on with what was interrupted; None: there is nothing of the kind."""
        if found is not None:
            self.left.setText(f"This training was interrupted at step {count(found.step)} of {count(found.steps)}.")
        for widget in (self.left, self.go_on, self.anew):
            widget.setVisible(found is not None)
        self.train.setVisible(found is None)

    def tell_estimate(self, words: str, busy: bool) -> None:
        """The estimate stands where it could be asked for."""
        self.words.setText(words)
        self.time.setVisible(not words and not busy)

    def rest(self, on: bool) -> None:
        """Show what a training begins with, while none runs."""
        for widget in (self.train, self.time, self.words):
            widget.setVisible(on)
