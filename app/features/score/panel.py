"""The score in the status bar: accuracy and cost of the model, and the changes from the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QMenu, QPushButton, QSizePolicy, QWidget

from espalier.app.features.score.baseline import BaselineChoice
from espalier.app.features.score.causes import Cause, Causes
from espalier.app.features.score.entries import ENTRIES, Entry, value_of
from espalier.app.features.score.positions import positions_of
from espalier.app.features.score.trace import Trace, Values
from espalier.app.measured.estimate import estimate_of
from espalier.app.number_text import (
    NOT_MEASURED,
    change_text,
    duration,
    noise_text,
)
from espalier.app.translation import message, tr
from espalier.app.widgets.asking import offer_meaning
from espalier.passes.tasks.base import all_metrics

if TYPE_CHECKING:
    from espalier.app.measured.live import LiveMeasure
    from espalier.app.session.session import Session


PAD, GAP, TIGHT_GAP, CHANGE_GAP = 12, 26, 14, 7  # pixels: margin, gap, narrow gap, before a change
SAME, ROUNDED = tr("no change"), "±0"
MORE = tr("{} more")
WITHIN = tr("within noise")
STALE = tr("stale")
MEASURE, STALE_MEASURE = tr("Measure"), tr("stale · Measure")
NOT_AUTOMATIC = tr("Edits are not measured: *Measure after every edit* in the menu Run is off.")


class Figure(QWidget):
    """A label above a figure and its change."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(toolTip=entry.help)
        offer_meaning(self, lambda _: entry.label)
        self._entry = entry
        self._note = self._noise = self._cause = self.texts = self.baseline = ""
        self.chip = QPushButton()
        self.chip.setProperty("chip", "small")
        self.chip.hide()
        self._label, self._value, self._change = QLabel(entry.label), QLabel(), QLabel()
        self._label.setProperty("role", "small")
        self._change.setProperty("tone", "same")
        self._brief, self._max_width = False, 0  # maximum width so far, so that neighbours do not move
        grid = self._grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(CHANGE_GAP)
        grid.setVerticalSpacing(0)
        head = QHBoxLayout()
        head.setSpacing(CHANGE_GAP)
        head.addWidget(self._label)
        head.addWidget(self.chip)
        head.addStretch(1)
        grid.addLayout(head, 0, 0, 1, 2)
        grid.addWidget(self._value, 1, 0)
        grid.addWidget(self._change, 1, 1, Qt.AlignmentFlag.AlignBottom)
        grid.setColumnStretch(1, 1)  # a change stands beside its value, however wide the label is
        self.trace = Trace(entry.label, entry.write) if entry.traced else None
        self._traced = entry.traced
        if self.trace:
            grid.addWidget(self.trace, 0, 2, 2, 1)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(entry.label)
        self.show_value(None, None)

    @property
    def asks(self) -> bool:
        """Whether the figure has the Measure button."""
        return self._entry.asks

    @property
    def text(self) -> str:
        """Value, change, note and button text as shown."""
        note = self._label.text().removeprefix(self._entry.label).strip()
        chip = "" if self.chip.isHidden() else self.chip.text()
        return " ".join(w for w in (self._value.text(), self._change.text(), note, chip) if w)

    def offer(self, text: str, reason: str) -> None:
        """Show the Measure button with a text, or none if it is empty; `why`: reason why it is not measured yet."""
        self._note = reason
        self.chip.setText(text)
        self.chip.setToolTip(reason)
        self.chip.setAccessibleName(f"{self._entry.label}: {text}")
        self.chip.setVisible(bool(text))
        self._max_width = max(self._max_width, self.wide())

    def show_value(
        self, now: float | None, before: float | None, edited: bool = False, noise: str = "", *, within: bool = False
    ) -> None:
        """Show the figure and its change from the baseline (`edited`: the recipe has steps).

        `noise`: tooltip text about samples and change; `within`: whether the change is within noise.
        """
        self._noise = noise
        self._label.setText(self._entry.label)
        self._role(self._value, "role", "muted" if now is None else "score")
        self._value.setText(tr(NOT_MEASURED) if now is None else self._entry.write(now))
        change, tone = self._judge(now, before, edited)
        noisy = within and tone != "same"
        self._show_change(f"{change} {WITHIN}" if noisy else change, "same" if noisy else tone)
        if now is not None or self._entry.measured:
            self._max_width = max(self._max_width, self.wide())

    def name_cause(self, cause: Cause) -> None:
        """Show next to the name what the figure is due to, or what it lacks."""
        self._cause = cause.text
        if cause.label:
            self._label.setText(f"{self._entry.label} · {cause.label}")
            self._max_width = max(self._max_width, self.wide())

    def show_noted(self, value: float, note: str, *, present: bool) -> None:
        """Show a figure with a note of its source, grey unless it belongs to the current graph."""
        self._noise = self._cause = ""
        self._label.setText(f"{self._entry.label} {note}".rstrip())
        self._role(self._value, "role", "score" if present else "muted")
        self._value.setText(self._entry.write(value))
        self._show_change("", "same")
        self._max_width = max(self._max_width, self.wide())

    def _show_change(self, change: str, tone: str) -> None:
        self._role(self._change, "tone", tone)
        self._change.setText(change)
        self._place_change()
        self.setAccessibleDescription(self.text)

    def _place_change(self) -> None:
        """Show or hide the change; a hidden change must not take space from the value."""
        hidden = self._brief or not self._change.text()
        self._change.setHidden(hidden)
        self._grid.setHorizontalSpacing(0 if hidden else CHANGE_GAP)

    def wide(self, *, brief: bool = False, traced: bool = True) -> int:
        """The required width, with the change and the trace or without."""
        change = CHANGE_GAP + self._change.sizeHint().width() if self._change.text() and not brief else 0
        chip = 0 if self.chip.isHidden() else CHANGE_GAP + self.chip.sizeHint().width()
        trace = self.trace.width() + CHANGE_GAP if self.trace and traced else 0
        return max(self._label.sizeHint().width() + chip, self._value.sizeHint().width() + change) + trace

    def sizeHint(self) -> QSize:
        return QSize(self.wide(brief=self._brief, traced=self._traced), super().sizeHint().height())

    @property
    def reserved(self) -> int:
        """The largest width required so far."""
        return max(self._max_width, self.wide())

    def lay_out(self, *, brief: bool, minimum: int, traced: bool = True) -> None:
        """Show the figure with its change, or with the change only in the tooltip; with its trace, or without."""
        self._brief, self._traced = brief, traced
        if self.trace:
            self.trace.setVisible(traced)
        self._place_change()
        self.setMinimumWidth(minimum)
        help_ = self._entry.help
        help_ += f". {self._note}" if self._note else ""
        help_ += f"\n{self._cause}" if self._cause else ""
        help_ += tr("\nTexts: {}", message(self.texts)) if self.texts and self._entry.measured else ""
        compared = self.baseline and self._change.text() not in ("", self._entry.suffix)
        change_text = (
            tr("{}, {} from {}", self._value.text(), self._change.text(), tr(self.baseline)) if compared else ""
        )
        help_ += f"\n{self._noise or change_text}" if self._noise or change_text else ""
        self.setToolTip(f"{help_}\n{self.full_text}" if brief and self._change.text() else help_)

    @property
    def full_text(self) -> str:
        """Name, value and change."""
        return f"{self._entry.label} {self.text}"

    @property
    def listed(self) -> str:
        """Name, value, change and the baseline of the change."""
        compared = self.baseline and self._change.text() not in ("", self._entry.suffix)
        return tr("{} from {}", self.full_text, tr(self.baseline)) if compared else self.full_text

    def _judge(self, current: float | None, previous: float | None, edited: bool) -> tuple[str, str]:
        entry = self._entry
        text = "" if current is None or previous is None else entry.change(current, previous)
        if current is None:
            return "", "same"
        if previous is None or current == previous:
            return (SAME if edited and previous is not None else entry.suffix), "same"
        if text.startswith("±0"):  # it rounds to nothing, but is no equality
            if entry.write(current) == entry.write(previous):
                return (ROUNDED if edited else entry.suffix), "same"
            text = f"{current - previous:+.2g}".replace("-", "−")
        gain = (current - previous) * entry.better
        return text, "same" if not gain else "good" if gain > 0 else "bad"

    def _role(self, label: QLabel, name: str, value: str) -> None:
        if label.property(name) != value:
            label.setProperty(name, value)
            label.style().unpolish(label)
            label.style().polish(label)


@dataclass(frozen=True, slots=True)
class Plan:
    """How figures are shown: the gap, the width of each, how many, and whether with changes and traces."""

    gap: int
    widths: list[int]
    shown: int = len(ENTRIES)
    brief: bool = False
    traced: bool = True


def _sum(gap: int, widths: Sequence[int]) -> int:
    """The total width of figures in a row."""
    return sum(widths) + gap * (len(widths) - 1)


class ScorePanel(QWidget):
    """All figures in a row, updated from the session. `wanted` requests a measurement of the score."""

    wanted = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._live: LiveMeasure | None = None
        self._session = session
        self._estimate = estimate_of(session)
        self._shown = tuple(e.key for e in ENTRIES)
        self._causes = Causes()
        self._read: object = None  # the state that the figures show
        self.figures = {e.key: Figure(e) for e in ENTRIES}
        self.baseline = BaselineChoice(session)
        row = QHBoxLayout(self)
        row.setContentsMargins(PAD, 3, PAD, 4)
        self._folded: list[Figure] = []
        self.more = QPushButton(MORE.format(len(ENTRIES)))
        self.more.setProperty("chip", "true")
        self.more.setAccessibleName(tr("More figures"))
        self.more.ensurePolished()
        self.more.setFixedWidth(self.more.sizeHint().width())  # whatever the number, so that nothing moves
        self.more.clicked.connect(self._list_folded)
        for figure in self.figures.values():
            row.addWidget(figure)
            figure.chip.clicked.connect(self.wanted)
            if figure.trace:
                figure.trace.wanted.connect(self._go_to)
        row.addWidget(self.more, 0, Qt.AlignmentFlag.AlignBottom)
        row.addWidget(self.baseline, 0, Qt.AlignmentFlag.AlignBottom)
        row.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        session.score_changed.connect(self.refresh)
        session.compared_changed.connect(self._fit)
        session.opened.connect(self.refresh)
        self._estimate.changed.connect(self.refresh)
        self.refresh()

    def follow(self, live: LiveMeasure) -> None:
        """Show from now on whether a missing figure is being measured or can be."""
        self._live = live
        live.state_changed.connect(self.refresh)
        self.refresh()

    def _missing(self) -> str:
        """Why the current model has no measured score and none is pending; empty otherwise."""
        live = self._live
        has_score = self._session.score.loss is not None or not self._session.measured_on.data
        if live is None or has_score or live.due:
            return ""
        if not live.enabled:
            return NOT_AUTOMATIC
        takes = duration(live.expected)
        if live.on_request:
            return tr(
                "An evaluation takes about {} of processor time, so that edits do not start one. Click Measure.", takes
            )
        return tr("An evaluation takes about {} of processor time: it starts after that long without an edit.", takes)

    def _metrics(self) -> tuple[dict[str, float], dict[str, float]]:
        """The measured metrics of the present state and of the baseline."""
        session = self._session
        if session.document is None:
            return {}, {}
        return session.measures.metrics(session.document.recipe), session.measures.metrics(session.compared.recipe)

    def _noise(self) -> tuple[str, bool]:
        """Text about the samples and the change of the main metric, and whether the change is within noise."""
        session = self._session
        if session.document is None or (main := session.measures.main(session.document.recipe)) is None:
            return "", False
        base = session.compared
        before = session.measures.main(base.recipe) if session.document.recipe.active else None
        if before is None or before.name != main.name:
            return noise_text(main), False
        change = main.against(before, base.name)
        return f"{noise_text(main)}\n{change_text(change)}", change.noise

    def refresh(self) -> None:
        """Read the score again."""
        self._show_traces()
        score, before, document = self._session.score, self._session.baseline, self._session.document
        edited = bool(document and document.recipe.active)
        estimate = self._estimate
        missing = self._missing()
        texts = self._session.measures.truncation
        noise, within = self._noise()
        causes = self._causes.of(document.graph if document else None)
        named = tr("{}, from {}", estimate.how, tr(estimate.baseline))
        base = self._session.compared.name if document else ""
        metrics, compared = self._metrics()
        task = self._session.main_task
        read = (
            score,
            before,
            metrics,
            compared,
            task.name,
            edited,
            estimate.kl,
            named,
            dict(estimate.last),
            missing,
            texts,
            noise,
            causes,
            base,
        )
        if read == self._read:
            return
        self._read = read
        for key, figure in self.figures.items():
            figure.texts, figure.baseline = texts, base
            current, old = value_of(score, metrics, key), estimate.last.get(key)
            if key == "kl":
                figure.show_noted(estimate.kl or 0.0, named, present=True)
            elif current is None and old is not None and edited:
                figure.show_noted(old, "" if missing and figure.asks else STALE, present=False)
            else:
                main = key == task.main.name
                was = value_of(before, compared, key)
                figure.show_value(current, was, edited, noise if main else "", within=within and main)
                figure.name_cause(causes.get(key, Cause()))
            if figure.asks:
                figure.offer((STALE_MEASURE if old is not None else MEASURE) if missing else "", missing)
        has_divergence = edited and estimate.kl is not None
        own = {m.name for m in task.metrics} - task.hidden
        shown = {"kl": has_divergence, **{n: n in own for n in all_metrics()}}
        self._shown = tuple(k for k in self.figures if shown.get(k, True))
        self._fit()

    def _show_traces(self) -> None:
        """Draw the figures of the last edits."""
        session = self._session
        states, at = positions_of(session.document, session.measures) if session.document else ((), 0)
        name = session.compared.name if session.document else ""
        for key, figure in self.figures.items():
            if figure.trace:
                values = tuple(getattr(state, key) for state in states)
                labels, counts = tuple(s.label for s in states), tuple(s.count for s in states)
                base = getattr(session.baseline, key) if states else None
                figure.trace.show_values(Values(values, labels, counts, at, base, name))

    def _go_to(self, count: int) -> None:
        """Undo or redo until `count` edits are done, after the click that asked for it."""

        def go() -> None:
            if self._session.document is not None:
                self._session.document.go_to(count)

        QTimer.singleShot(0, self, go)

    def spare(self, wide: int) -> int:
        """The width that the figures would leave free within `wide` pixels."""
        plan = self._plan(wide)
        rest = self._rest() if plan.shown < len(plan.widths) else 0
        return max(0, self._room(wide) - _sum(plan.gap, plan.widths[: plan.shown]) - rest)

    def _room(self, wide: int) -> int:
        """The width available to figures, without the name of the baseline."""
        return wide - 2 * PAD - (0 if self.baseline.isHidden() else self.baseline.sizeHint().width() + GAP)

    def _plan(self, wide: int) -> Plan:
        """The first way to show the figures that fits a width: the last ones fold, then changes and traces go."""
        figures, room = [self.figures[k] for k in self._shown], self._room(wide)
        plans = [Plan(GAP, [f.reserved for f in figures]), Plan(TIGHT_GAP, [f.reserved for f in figures])]
        least = sum(f.trace is not None for f in figures)
        for plan in plans:
            if _sum(plan.gap, plan.widths) <= room:
                return plan
        ways = [(False, True), (True, True), (True, False)]
        for brief, traced in ways:
            widths = [f.wide(brief=brief, traced=traced) if brief else f.reserved for f in figures]
            shown = len(figures)
            while shown and _sum(TIGHT_GAP, widths[:shown]) + (self._rest() if shown < len(figures) else 0) > room:
                shown -= 1
            if shown >= least or (brief, traced) == ways[-1]:
                return Plan(TIGHT_GAP, widths, shown, brief, traced)
        raise AssertionError("the last way always fits")

    def _fit(self) -> None:
        """Fit the figures: reduce the gaps, then fold the last ones, then hide the changes, then the traces."""
        if not self.isVisible():
            return
        figures = [self.figures[k] for k in self._shown]
        for key in self.figures.keys() - set(self._shown):
            self.figures[key].hide()
        plan = self._plan(self.width())
        layout = self.layout()
        assert layout is not None
        layout.setSpacing(plan.gap)
        for at, (figure, wide) in enumerate(zip(figures, plan.widths, strict=True)):
            figure.lay_out(brief=plan.brief, traced=plan.traced, minimum=wide)
            figure.setHidden(at >= plan.shown)
        self._folded = figures[plan.shown :]
        self.more.setHidden(not self._folded)
        self.more.setText(MORE.format(len(self._folded)))
        text = "\n".join(f.full_text for f in self._folded)
        self.more.setToolTip(text)
        self.more.setAccessibleDescription(text)

    def _rest(self) -> int:
        return TIGHT_GAP + self.more.width()

    def _list_folded(self) -> None:
        """Show the folded figures in a list."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for figure in self._folded:
            menu.addAction(figure.listed.replace("&", "&&")).setEnabled(False)
        menu.popup(self.more.mapToGlobal(QPoint(0, -menu.sizeHint().height())))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        return QSize(120, super().minimumSizeHint().height())
