"""Base class of all charts of a study: options, texts, and hovering and picking of trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from PySide6.QtCore import QEvent, QPointF, Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QToolTip, QWidget

from espalier.app.figures.study.data import COMPLETE, Study
from espalier.app.figures.study.labels import title, trial_text
from espalier.app.theme import Palette
from espalier.app.translation import tr
from espalier.app.widgets.charts.chart_export import Table

Base = QWidget if TYPE_CHECKING else object  # at run time the other base class is the widget
MOVED = 4  # pixels from which a click is a drag


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a chart: one of `values`, or a switch if that is None."""

    name: str
    values: tuple[Any, ...] | None = None
    texts: tuple[str, ...] = ()
    hint: str = ""

    def offered(self, is_drawn: bool) -> bool:
        """Whether to offer the option: lists need values, switches a drawn chart."""
        return is_drawn if self.values is None else len(self.values) > (0 if is_drawn else 1)


def figure_option(name: str, figures: list[str], head: str = "", hint: str = "") -> Option:
    """An option with a list of metrics, each with the prefix `head`."""
    return Option(name, tuple(figures), tuple(head + title(f) for f in figures), hint)


class StudyView(Base):
    """Base of the charts. `fields`: attribute of each option. Subclasses declare the signals hovered,
    picked and applied (with a trial), and changed (of legend or options).
    """

    fields: ClassVar[Mapping[str, str]] = {}
    hovered: Any
    picked: Any
    applied: Any
    changed: Any
    look: Palette

    def begin(self) -> None:
        """Initialise the common state, before that of the chart."""
        self.study = Study()
        self.pick: int | None = None
        self.under: int | None = None
        self._pressed: QPointF | None = None

    # -- options and texts

    def options(self) -> list[Option]:
        """The options."""
        return []

    def option(self, name: str) -> Any:
        """The value of an option."""
        return getattr(self, self.fields[name])

    def choose(self, name: str, value: Any) -> None:
        """Set the value of an option."""
        setattr(self, self.fields[name], value)
        self.redraw()
        self.changed.emit()

    def redraw(self) -> None:
        """Redraw everything."""

    def empty(self) -> str:
        """The reason why there is nothing to draw; empty if there is something."""
        return "" if len(self.study) else tr("No trials yet. The first one is drawn here once it has ended.")

    def none_complete(self) -> str:
        """`empty` for charts of complete trials."""
        has_complete = not len(self.study) or bool((self.study.state == COMPLETE).any())
        return (
            StudyView.empty(self)
            if has_complete
            else tr("No trial is complete yet. The first complete one is drawn here.")
        )

    def legend(self) -> str:
        """The legend as rich text."""
        return ""

    def scale(self, low: str, high: str) -> str:
        """A colour scale between two texts, for legends."""
        stops = "".join(f'<span style="color:{self.look.sequential(k / 4)}">■</span>' for k in range(5))
        return f"{low} {stops} {high}"

    def table(self) -> Table:
        """A table of all trials with choices and metrics."""
        return study_table(self.study)

    # -- pointing

    def near(self, at: QPointF) -> int | None:
        """The index of the trial at a position of the widget."""
        return None

    def marked(self) -> None:
        """Draw the picked trial and the one under the pointer."""
        self.update()

    def hover_metrics(self) -> tuple[str, ...]:
        """The metrics in the hover text."""
        return tuple(g.figure for g in self.study.goals)

    def hover_text_at(self, index: int) -> str:
        """The hover text of a trial."""
        names = (n for n in dict.fromkeys(self.hover_metrics()) if n in self.study.figures)
        figures = {n: float(self.study.figures[n][index]) for n in names}
        return trial_text(self.study.trials[index], self.study.goals, figures, self.study.counted)

    def hover_text(self, at: QPointF) -> str:
        """The hover text at a position."""
        return "" if self.under is None else self.hover_text_at(self.under)

    def cursor_at(self, at: QPointF) -> Qt.CursorShape:
        """The cursor at a position: a hand over clickable trials."""
        return Qt.CursorShape.ArrowCursor if self.under is None else Qt.CursorShape.PointingHandCursor

    def mark(self, index: int | None) -> None:
        """Mark the trial picked in this or another chart."""
        if index != self.pick:
            self.pick = index
            self.marked()

    def point(self, index: int | None) -> None:
        """Set the trial under the pointer, or None."""
        if index != self.under:
            self.under = index
            self.marked()
            self.hovered.emit(None if index is None else self.study.trials[index])

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        if event.buttons() == Qt.MouseButton.NoButton:
            self.point(self.near(event.position()))
            self.setCursor(self.cursor_at(event.position()))
            QToolTip.showText(event.globalPosition().toPoint(), self.hover_text(event.position()), self)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        event.accept()
        self._pressed = event.position()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        still = self._pressed is not None and (event.position() - self._pressed).manhattanLength() < MOVED
        self._pressed = None
        index = self.near(event.position()) if still and event.button() == Qt.MouseButton.LeftButton else None
        if index is not None:
            self.mark(index)
            self.picked.emit(self.study.trials[index])

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if (index := self.near(event.position())) is not None:
            self.applied.emit(self.study.trials[index])
        else:
            self.reset()

    def reset(self) -> None:
        """Reset the view."""

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self.point(None)


def study_table(study: Study) -> Table:
    """All trials as rows: number, state, figures, choices, times, reason."""
    figures, choices = study.names, list(study.scales)
    head = ("trial", "state", "feasible", *figures, *choices, "origin", "started", "seconds", "worker", "error")
    rows = []
    for index, trial in enumerate(study.trials):
        figures_of_trial = [study.figures[n][index] for n in figures]
        rows.append((trial.number, trial.state, trial.feasible, *("" if v != v else float(v) for v in figures_of_trial),
                     *(trial.params.get(c, "") for c in choices), trial.origin, trial.started,
                     "" if trial.seconds is None else trial.seconds, trial.worker, trial.error))  # fmt: skip
    return head, rows
