"""Tab Compare of the panel Kernels: times of two runs and their ratio."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.row_text import busy_text, comparison_rows, comparison_text, limits_text
from espalier.app.features.kernels.state.runs import Run
from espalier.app.translation import tr
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import empty_state, link, muted
from espalier.app.widgets.table import Table

ALONE = tr(
    "Compare two runs: this machine with another, or with an earlier run.\n"
    "Run the same kernels twice, or load a results file of the command line (kernels … -o FILE) or of another window."
)


HINT = tr("Run the same kernels with the same types and sizes, or choose another run.")
NAMES = (178, 320)  # pixels of a run's name


class KernelsComparison(QWidget):
    """Comparison of runs A and B; emits `load_wanted` to load a file."""

    load_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._runs: Mapping[str, Run] = {}
        self.a, self.b, self.table = Choice(), Choice(), Table()
        self.words, self._empty, self._rest = QLabel(wordWrap=True), empty_state(ALONE), QWidget()
        self.table.setAccessibleName(tr("Compared runs"))
        self._build()
        for choice, name in ((self.a, tr("Run A")), (self.b, tr("Run B"))):
            choice.setAccessibleName(name)
            choice.edited.connect(self.refresh)

    def _build(self) -> None:
        bar = FlowLayout(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        swap = link(tr("Swap"), self._swap)
        for part in (muted("A", wrap=False), self.a, muted("B", wrap=False), self.b, swap,
                     link(tr("Load a file…"), self.load_wanted.emit)):  # fmt: skip
            bar.addWidget(part)
        self.words.setMinimumWidth(1)
        self.words.setContentsMargins(12, 0, 12, 4)
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(0)
        box.addLayout(bar)
        box.addWidget(self.words)
        box.addWidget(self.table, 1)
        for part in (self._empty, self._rest):
            box.addWidget(part, 1)

    def offer(self, runs: Mapping[str, Run], titles: Mapping[str, str], current: str) -> None:
        """Offer runs; preselect the current one and the one that shares most rows with it."""
        fresh = [name for name in runs if name not in self._runs]
        self._runs = dict(runs)
        names = tuple(runs)
        for choice in (self.a, self.b):
            choice.offer(names, tuple(titles[n] for n in names))
            show_names(choice)
        others = [n for n in names if n != current]
        if others and (fresh or self.a.get() == self.b.get()):
            self.a.put(current if current in runs else names[0])
            self.b.put(max(others, key=lambda n: (self._common(current, n), names.index(n))))
        if self.isVisible():
            self.refresh()

    def _common(self, a: str, b: str) -> int:
        """Number of timed rows that two runs share."""
        keys = [{r.key for r in self._runs[n].rows if r.seconds} for n in (a, b) if n in self._runs]
        return len(keys[0] & keys[1]) if len(keys) > 1 else 0

    def _swap(self) -> None:
        if len(self._runs) > 1:
            a, b = self.a.get(), self.b.get()
            self.a.put(b)
            self.b.put(a)
            self.refresh()

    def refresh(self) -> None:
        """Compare the chosen runs."""
        comparable = len(self._runs) > 1
        rows = []
        if comparable:
            a, b = self._runs[self.a.get()], self._runs[self.b.get()]
            rows = comparison_rows(a.all_results, b.all_results) if a is not b else []
            machines = "".join(f"\n{n}: {_run_text(r)}" for n, r in (("A", a), ("B", b)))
            same = tr("A and B are the same run: choose another.")
            self.words.setText((comparison_text(rows, HINT) if a is not b else same) + machines)
        self.table.show_rows(rows)
        self.words.setVisible(comparable)
        self.table.setVisible(bool(rows))
        self._empty.setVisible(not comparable)
        self._rest.setVisible(comparable and not rows)


def _run_text(run: Run) -> str:
    """Machine, date, ceilings and disturbances of a run."""
    parts = (f"{run.machine}, {run.results.date}", limits_text(run.results.ceilings), busy_text(run.rows))
    return " · ".join(p for p in parts if p)


def show_names(choice: Choice) -> None:
    """Widen a choice of runs to its longest name within NAMES: names often differ only at their end."""
    texts = [choice.itemText(k) for k in range(choice.count())]
    needed = max((choice.fontMetrics().horizontalAdvance(t) for t in texts), default=0) + 30
    choice.setFixedWidth(min(max(needed, NAMES[0]), NAMES[1]))
