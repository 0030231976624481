"""The goals of a search, metrics to maximise or minimise, and its constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from espalier.app.figures.study.labels import title
from espalier.app.translation import tr, translated
from espalier.app.widgets.forms.fields import Choice, Line, NumberField
from espalier.app.widgets.forms.flow_layout import FlowLayout
from espalier.app.widgets.heading import link
from espalier.model.errors import OptionsError
from espalier.passes.search.goals import figures
from espalier.passes.search.spec import Goal

BETTER = translated({"": "{} (default)", "high": "high", "low": "low"})  # "" is that of the metric
SIGNS = translated({"<=": "at most", ">=": "at least"})
BEGIN = {"weight_bits": "4.5", "activation_bits": "8", "accuracy": "0.9", "sparsity": "0.5"}


class Row(QWidget):
    """A metric with a goal or a limit."""

    edited = Signal()
    removed = Signal()

    def __init__(self, figure: str, figures: Sequence[str], about: str, remove: str) -> None:
        super().__init__()
        names = tuple(dict.fromkeys([*figures, figure]))
        self.figure = Choice(names, tuple(map(title, names)))
        self.figure.setAccessibleName(about)
        self.figure.put(figure)
        self.drop = link("×", self.removed.emit)
        self.drop.setAccessibleName(remove)

    def arrange(self, *fields: Any) -> None:
        """Arrange the fields behind the metric."""
        flow = FlowLayout(self, spacing=6)
        for part in (self.figure, *fields, self.drop):
            flow.addWidget(part)
        for part in (self.figure, *fields):
            part.edited.connect(self.edited)


class GoalRow(Row):
    """A metric, its direction, and its weight if goals are summed."""

    def __init__(self, goal: Goal, offered: Sequence[str]) -> None:
        super().__init__(goal.figure, offered, tr("Goal"), tr("Remove this goal"))
        self.better = Choice()
        self.better.setAccessibleName(tr("Direction"))
        self.better.setToolTip(tr("Which values of the metric are better"))
        self.figure.edited.connect(self._offer_directions)
        self._offer_directions()
        self.weight = NumberField(float, 0)
        self.weight.setToolTip(tr("Its weight in the sum of the goals"))
        self.weight.setAccessibleName(tr("Weight of the goal"))
        self.better.put(goal.better)
        self.weight.put(goal.weight)
        self.arrange(self.better, self.weight)

    def _offer_directions(self) -> None:
        usual = figures().get(self.figure.get(), "low")
        self.better.offer(tuple(BETTER), tuple(text.format(tr(usual)) for text in BETTER.values()))

    def get(self) -> Goal:
        """The goal; raises OptionsError."""
        return Goal(self.figure.get(), self.better.get(), self.weight.get())


class LimitRow(Row):
    """A constraint such as `weight_bits<=4.5`."""

    def __init__(self, text: str, figures: Sequence[str]) -> None:
        name, sign, number = _parts(text)
        super().__init__(name, figures, tr("Metric of the constraint"), tr("Remove this constraint"))
        self.sign = Choice(tuple(SIGNS), tuple(SIGNS.values()))
        self.sign.setAccessibleName(tr("At most or at least"))
        self.number = Line("4.5")
        self.number.setAccessibleName(tr("Limit"))
        self.number.setFixedWidth(76)
        self.sign.put(sign)
        self.number.put(number)
        self.arrange(self.sign, self.number)

    def get(self) -> str:
        """The constraint as text; raises OptionsError."""
        number = self.number.get().strip()
        if not number:
            raise OptionsError("A constraint has no limit.", "Write a number, or remove it.")
        return f"{self.figure.get()}{self.sign.get()}{number}"


def _parts(text: str) -> tuple[str, str, str]:
    for sign in SIGNS:
        name, relation, number = text.partition(sign)
        if relation:
            return name.strip(), sign, number.strip()
    return text.strip(), "<=", ""


class Goals(QWidget):
    """The goals and constraints, with links to add more; `figures`: the available metrics."""

    edited = Signal()

    def __init__(self, figures: Sequence[str]) -> None:
        super().__init__()
        self._figures = tuple(figures)
        self.goals: list[GoalRow] = []
        self.limits: list[LimitRow] = []
        self.how = Choice((False, True), (tr("trade them off (Pareto front)"), tr("add them up by weight")))
        self.how.setAccessibleName(tr("Several goals"))
        self.wrong = QLabel(wordWrap=True)
        self.wrong.setProperty("role", "wrong")
        self.wrong.hide()
        self._top, self._below = QVBoxLayout(), QVBoxLayout()
        box = QVBoxLayout(self)
        box.setContentsMargins(0, 0, 0, 0)
        box.setSpacing(4)
        box.addLayout(self._top)
        box.addWidget(self.how)
        links = QWidget()
        flow = FlowLayout(links, spacing=10)
        for part in (link(tr("+ goal"), self.add_goal), link(tr("+ constraint"), self.add_limit)):
            flow.addWidget(part)
        box.addLayout(self._below)
        box.addWidget(links)
        box.addWidget(self.wrong)
        self.how.edited.connect(self._edited)
        self.put((Goal(),), (), False)

    def put(self, goals: Sequence[Goal], within: Sequence[str], summed: bool) -> None:
        """Show goals and constraints."""
        for row in [*self.goals, *self.limits]:
            self._drop(row)
        for goal in goals:
            self._add(self.goals, self._top, GoalRow(goal, self._figures))
        for text in within:
            self._add(self.limits, self._below, LimitRow(text, self._figures))
        self.how.put(summed)
        self._adapt()

    def get(self) -> tuple[tuple[Goal, ...], tuple[str, ...], bool]:
        """(goals, constraints, summed); raises OptionsError."""
        goals = tuple(row.get() for row in self.goals)
        return goals, tuple(row.get() for row in self.limits), self.how.get() and len(goals) > 1

    def show_note(self, wrong: str) -> None:
        """Show an error; empty for none."""
        self.wrong.setText(wrong)
        self.wrong.setVisible(bool(wrong))

    def add_goal(self) -> None:
        """Add a goal: the first unused metric."""
        used = {row.figure.get() for row in self.goals}
        first = next((f for f in ("weight_bits", *self._figures) if f not in used), self._figures[0])
        self._add(self.goals, self._top, GoalRow(Goal(first), self._figures))
        self._edited()

    def add_limit(self, figure: str = "weight_bits") -> None:
        """Add a constraint."""
        self._add(self.limits, self._below, LimitRow(f"{figure}<={BEGIN.get(figure, '')}", self._figures))
        self._edited()

    def _add(self, rows: list, layout: QVBoxLayout, row: GoalRow | LimitRow) -> None:  # type: ignore[type-arg]
        row.edited.connect(self._edited)
        row.removed.connect(lambda: (self._drop(row), self._edited()))
        rows.append(row)
        layout.addWidget(row)

    def _drop(self, row: GoalRow | LimitRow) -> None:
        (self.goals if isinstance(row, GoalRow) else self.limits).remove(row)  # type: ignore[arg-type]
        row.hide()
        row.setParent(None)
        row.deleteLater()

    def _edited(self) -> None:
        self._adapt()
        self.edited.emit()

    def _adapt(self) -> None:
        several = len(self.goals) > 1
        self.how.setVisible(several)
        for row in self.goals:
            row.weight.setVisible(several and self.how.get())
            row.drop.setVisible(several)
