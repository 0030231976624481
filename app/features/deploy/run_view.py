"""The page of Deploy with a run on this machine: what was predicted beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHeaderView, QLabel, QVBoxLayout, QWidget

from espalier.app.features.deploy.summary import run_figures, run_html, run_notes
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import tokens
from espalier.app.widgets.heading import muted
from espalier.app.widgets.table import Table
from espalier.passes.analysis.shard_run import ShardRunOptions
from espalier.passes.base import Report

NONE_YET = tr(
    "Run the plan by one process per device on this machine: outputs and gradients are compared with those of "
    "one process, times and bytes with what was predicted."
)
NUMBER = 102  # pixels of a column of numbers


class RunView(QWidget):
    """The verdict, a table of figures, and notes."""

    def __init__(self) -> None:
        super().__init__()
        self.verdict, self.notes, self.table = QLabel(wordWrap=True), muted(""), Table()
        self.verdict.setTextFormat(Qt.TextFormat.RichText)
        self.table.setAccessibleName(tr("Predicted and measured figures of the run"))
        for label in (self.verdict, self.notes):
            label.setMinimumWidth(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        column.addWidget(self.verdict)
        column.addWidget(self.table, 1)
        column.addWidget(self.notes)
        self.show_report(None, None, False)

    def show_report(self, report: Report | None, ran: ShardRunOptions | None, stale: bool) -> None:
        """Show a run with these options; None: what one would show."""
        rows: Sequence[dict[str, Any]] = run_figures(report.summary, report.rows) if report else ()
        words = ""
        if report and ran:
            what = tr("the plan") if ran.mesh else tr("the model's placements")
            words = run_html(report.summary, what, not ran.data, stale, tokens(self))
        self.verdict.setText(words)
        self.notes.setText(run_notes(report.summary) if report else NONE_YET)
        self.table.show_rows(rows)
        if rows:
            header = self.table.horizontalHeader()
            header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
            for column in range(1, header.count()):
                header.resizeSection(column, NUMBER)
        self.verdict.setVisible(report is not None)
        self.table.setVisible(report is not None)
