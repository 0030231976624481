"""Two runs beside each other, such as two machines from their files: times of both, and their ratio."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.features.kernels.state.runs import Run
from espalier.app.features.kernels.state.words import beside, beside_words, busy_words, limits_words
from espalier.app.widgets.forms.fields import Choice
from espalier.app.widgets.forms.flow import Flow
from espalier.app.widgets.heading import empty_state, link, muted
from espalier.app.widgets.table import Table

ALONE = (
    "Compare two runs: this machine against another, or against an earlier run.\n"
    "Run the same kernels twice, or load a file of the command line (kernels … -o FILE) or of another window."
)


HINT = "Run the kernels of one in the types and sizes of the other, or choose another run."
NAMES = (178, 320)  # pixels of a run's name


class KernelsBeside(QWidget):
    """A and B, chosen of all runs. `load_wanted`: a file is to be read."""

    load_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._runs: Mapping[str, Run] = {}
        self.a, self.b, self.table = Choice(), Choice(), Table()
        self.words, self._empty, self._rest = QLabel(wordWrap=True), empty_state(ALONE), QWidget()
        self.table.setAccessibleName("Compared runs")
        self._build()
        for choice, name in ((self.a, "Run A"), (self.b, "Run B")):
            choice.setAccessibleName(name)
            choice.edited.connect(self.refresh)

    def _build(self) -> None:
        bar = Flow(spacing=8)
        bar.setContentsMargins(12, 4, 12, 4)
        swap = link("Swap", self._swap)
        for part in (muted("A", wrap=False), self.a, muted("B", wrap=False), self.b, swap,
                     link("Load a file…", self.load_wanted.emit)):  # fmt: skip
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

    def offer(self, runs: Mapping[str, Run], titles: Mapping[str, str], now: str) -> None:
        """All runs there are; at first the one that is shown against the other that has most in common with it."""
        fresh = [name for name in runs if name not in self._runs]
        self._runs = dict(runs)
        names = tuple(runs)
        for choice in (self.a, self.b):
            choice.offer(names, tuple(titles[n] for n in names))
            show_names(choice)
        others = [n for n in names if n != now]
        if others and (fresh or self.a.get() == self.b.get()):
            self.a.put(now if now in runs else names[0])
            self.b.put(max(others, key=lambda n: (self._common(now, n), names.index(n))))
        if self.isVisible():
            self.refresh()

    def _common(self, a: str, b: str) -> int:
        """How many rows two runs share."""
        held = [{r.key for r in self._runs[n].rows if r.seconds} for n in (a, b) if n in self._runs]
        return len(held[0] & held[1]) if len(held) > 1 else 0

    def _swap(self) -> None:
        if len(self._runs) > 1:
            a, b = self.a.get(), self.b.get()
            self.a.put(b)
            self.b.put(a)
            self.refresh()

    def refresh(self) -> None:
        """Lay the chosen runs beside each other."""
        there = len(self._runs) > 1
        rows = []
        if there:
            a, b = self._runs[self.a.get()], self._runs[self.b.get()]
            rows = beside(a.whole, b.whole) if a is not b else []
            machines = "".join(f"\n{n}: {_told(r)}" for n, r in (("A", a), ("B", b)))
            same = "A and B are the same run: choose another."
            self.words.setText((beside_words(rows, HINT) if a is not b else same) + machines)
        self.table.show_rows(rows)
        self.words.setVisible(there)
        self.table.setVisible(bool(rows))
        self._empty.setVisible(not there)
        self._rest.setVisible(there and not rows)


def _told(run: Run) -> str:
    """Where and when it ran, what can be had there, and whether other programs were in the way."""
    parts = (f"{run.machine}, {run.results.date}", limits_words(run.results.ceilings), busy_words(run.rows))
    return " · ".join(p for p in parts if p)


def show_names(choice: Choice) -> None:
    """Let a choice of runs be as wide as their names, within reason: machines and files tell runs apart at the end."""
    words = [choice.itemText(k) for k in range(choice.count())]
    needed = max((choice.fontMetrics().horizontalAdvance(t) for t in words), default=0) + 30
    choice.setFixedWidth(min(max(needed, NAMES[0]), NAMES[1]))
