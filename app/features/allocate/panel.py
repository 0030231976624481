"""Panel Allocate: drag a budget along the front of predicted divergence, preview it on the graph and apply it."""

from __future__ import annotations

import contextlib
import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from espalier.app.features.allocate.chart import Mark
from espalier.app.features.allocate.state.allocation import Allocations
from espalier.app.features.allocate.state.cost_inputs import CostInputs
from espalier.app.features.allocate.state.measured import Measurement, MeasureRequest
from espalier.app.features.allocate.summary import FIRST, counts, summary
from espalier.app.features.allocate.widgets import ABOUT, STEPS, WORDS, AllocateWidgets
from espalier.app.figures.curves import figure_text
from espalier.app.figures.facts import node_path
from espalier.app.number_text import figure, percent
from espalier.app.translation import error_text, tr
from espalier.model.errors import EspalierError
from espalier.passes.allocation.decisions import PortRef

if TYPE_CHECKING:
    from espalier.app.session.session import Session

NOWHERE = ("",)
NO_MODEL = tr("Open a model to allocate formats to its layers.")
UNITS = {"size_bytes": (1024.0, "KiB"), "bitops": (1e6, "M"), "sparsity": (0.01, "%")}


class AllocatePanel(AllocateWidgets):
    """Emits `preview_wanted` with a graph to preview (None: end the preview) and `node_wanted` with a layer to show."""

    preview_wanted = Signal(object)
    node_wanted = Signal(str)
    save_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._session = session
        self.allocations = Allocations(session)
        self.measurement, self.cost_inputs = Measurement(session), CostInputs(session)
        self._divergences: dict[PortRef, dict[int, float]] = {}  # port → candidate's id → divergence
        self._connect()
        self.refresh()

    def _connect(self) -> None:
        sensitivities = self.allocations.sensitivities
        self.choices.edited.connect(self._choose)
        self.slider.valueChanged.connect(self._slid)
        self.number.edited.connect(self._typed)
        self.number.editingFinished.connect(self._put_number)
        self.chart.dragged.connect(self._dragged)
        self.chart.themed.connect(self._name_colours)
        self.apply.clicked.connect(self.allocations.apply)
        self.finder.clicked.connect(self._find)
        self.choices.wanted.connect(lambda: self.cost_inputs.begin(self.allocations))
        self.cost_inputs.changed.connect(self.refresh)
        self.table.node_wanted.connect(self.node_wanted)
        self.allocations.built.connect(self.refresh)
        self.allocations.moved.connect(self._moved)
        self.measurement.changed.connect(self._measured)
        sensitivities.changed.connect(self.refresh)
        self._session.score_changed.connect(lambda: self.when_visible(self._scored))
        self.allocations.estimate.changed.connect(lambda: self.when_visible(self._scored))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.choices.offer_costs()
        self.allocations.set_visible(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.allocations.set_visible(False)

    # -- display

    def refresh(self) -> None:
        """Show the front, or why there is none."""
        state, sensitivities = self.allocations, self.allocations.sensitivities
        document = self._session.document
        first = sensitivities.running and not sensitivities.refining  # predictions are missing or incomplete
        filled = document is not None and bool(sensitivities.table) and not (first and state.current is None)
        self.strip.show_job(sensitivities.job if document else None)
        self.pages.setCurrentIndex(1 if filled else 0)
        self.finder.setVisible(document is not None)
        self.finder.setEnabled(not sensitivities.running)
        status = sensitivities.status
        text = f"{ABOUT}\n\n{status[:1].upper()}{status[1:]}." if sensitivities.error else ABOUT
        self.about.setText(text.replace("..", ".") if document else NO_MODEL)
        self.about.setMinimumHeight(self.about.heightForWidth(WORDS))
        if not filled or document is None:
            return
        self.choices.offer(state.offered(), state.offered_ports())
        text = (
            state.error
            or self.cost_inputs.words
            or (f"{FIRST}." if sensitivities.uncorrected else "")
            or _single(state)
        )
        self.choices.show_message(
            tr("Counting what everything costs …") if state.counting else text, self.cost_inputs.can(state)
        )
        places = [p for g in state.current.problem.groups for s in g.slots for p in s.places] if state.current else []
        order = {name: i for i, name in enumerate(document.graph.nodes)}
        places.sort(key=lambda p: order.get(p[0], len(order)))
        table = sensitivities.table
        self._divergences = {(r.node, r.port): dict(zip(map(id, r.candidates), r.known, strict=True)) for r in table}
        self.table.rows.begin(places, {n.id: node_path(n) for n in document.graph})
        self.table.fit()
        for part in (self.slider, self.number, self.chart):
            part.setEnabled(state.current is not None)
        self.unit.setText(self._unit[1])
        self._mark()
        self._moved()

    @property
    def _unit(self) -> tuple[float, str]:
        """(factor, name) of the number field's unit."""
        state = self.allocations
        return UNITS.get(state.figure) or (1.0, state.current.cost.unit if state.current else "")

    def _mark(self) -> None:
        """Draw the front, the present configuration and the measured ones."""
        state = self.allocations
        points = state.current.points() if state.current else []
        marks: list[Mark] = []
        if present := state.present():
            text, estimate = tr("present: {}", figure_text(state.figure, present[0])), state.estimate
            divergence = (
                ""
                if present[1] is None
                else tr("\nKL {} from {}, {}", figure(present[1]), tr(estimate.baseline), estimate.how)
            )
            kl = present[1] if estimate.baseline == state.baseline else None
            marks.append(Mark(present[0], kl, "present", text + divergence))
        for point in self.measurement.along(state.figure):
            accuracy = "" if point.accuracy is None else tr("\naccuracy {}", percent(point.accuracy))
            cost = figure_text(state.figure, point.of.at)
            text = tr("measured: {}\nKL {}, measured; estimated ", cost, figure(point.kl))
            marks.append(Mark(point.of.at, point.kl, "measured", f"{text}{figure(point.of.predicted)}{accuracy}"))
        self.chart.show_front(state.figure, points, marks)
        self._name_colours()

    def _name_colours(self) -> None:
        """The legend, in the theme's colours."""
        self.legend.setText(
            " &nbsp; ".join(f'<span style="color:{c}">● {escape(w)}</span>' for w, c in self.chart.legend())
        )

    def _moved(self) -> None:
        """Update preview, table, texts and fields after the budget has changed."""
        state = self.allocations
        solution, current = state.solution, state.current
        for part in (self.apply, self.measure, self.reset):
            part.setEnabled(solution is not None)
        self.preview_wanted.emit(state.preview())
        if current is None or solution is None:
            self._show_present()
            return
        chosen = state.chosen
        kl: dict[PortRef, float | None] = {p: self._divergences.get(p, {}).get(id(c), 0.0) for p, c in chosen.items()}
        self.table.rows.show_choices(chosen, kl)
        assert state.wanted is not None and state.reached is not None
        self.chart.show_budget((current.problem.figure(0, state.wanted), state.reached, state.kl or 0.0))
        with QSignalBlocker(self.slider):
            self.slider.setValue(self._place(state.wanted))
        if not self.number.hasFocus():
            self._put_number()
        self._show_result()

    def _put_number(self) -> None:
        """Show the current budget in the number field, clamped to the feasible range."""
        state, current = self.allocations, self.allocations.current
        if current is not None and state.wanted is not None:
            self.number.put(float(f"{current.problem.figure(0, state.wanted) / self._unit[0]:.4g}"))

    def _show_present(self) -> None:
        """Show the present choices of the document while no budget is set."""
        state, current = self.allocations, self.allocations.current
        choices, present = state.present_choices(), state.present()
        self.table.rows.show_choices({p: c for p, (c, _) in choices.items()}, {p: k for p, (_, k) in choices.items()})
        self.chart.show_budget(None)
        at = (
            min(max(current.problem.amount(0, present[0]), current.front.ends[0]), current.front.ends[1])
            if current and present
            else 0
        )
        with QSignalBlocker(self.slider):
            self.slider.setValue(self._place(at) if current and present else STEPS)
        if not self.number.hasFocus():
            self.number.put(float(f"{present[0] / self._unit[0]:.4g}") if present else None)
        self._show_result()

    def _scored(self) -> None:
        """Update marks: some costs need the score."""
        self._mark()
        if self.allocations.solution is None:
            self._moved()

    def _show_result(self) -> None:
        """Show the result line, the counts and errors."""
        state, measurement = self.allocations, self.measurement
        error = state.beyond or measurement.error
        self.wrong.setText(error)
        self.wrong.setVisible(bool(error))
        self.measure.setText(tr("Stop measuring") if measurement.running else tr("Measure"))
        self.measure.setEnabled(measurement.running or state.solution is not None)
        self.result.show_text(summary(state, measurement))
        self.counts.show_text(counts(state.chosen or {p: c for p, (c, _) in state.present_choices().items()}))

    # -- actions

    def _choose(self) -> None:
        state, figure_ = self.allocations, self.choices.cost.get()
        if figure_ != state.figure:  # another cost depends on other ports
            state.figure = figure_
            self.choices.offer(state.offered(), state.offered_ports())
        state.choose(figure_, self.choices.get_ports() or NOWHERE, self.choices.columns())

    def _place(self, amount: float) -> int:
        """The slider position of an amount."""
        low, high = self.allocations.ends or (0.0, 1.0)
        if high <= low:
            return STEPS
        if low > 0:
            return round(STEPS * math.log(max(amount, low) / low) / math.log(high / low))
        return round(STEPS * (amount - low) / (high - low))

    def _slid(self, position: int) -> None:
        if ends := self.allocations.ends:
            low, high = ends
            fraction = position / STEPS
            self.allocations.aim(low * (high / low) ** fraction if low > 0 else low + (high - low) * fraction)

    def _dragged(self, figure_: float) -> None:
        with contextlib.suppress(EspalierError):  # the budget is clamped to the least
            self.allocations.aim_at(figure_)

    def _typed(self) -> None:
        try:
            self.allocations.aim_at(float(self.number.get()) * self._unit[0])
        except EspalierError as error:
            self.wrong.setText(error_text(error))
            self.wrong.show()

    def _find(self) -> None:
        try:
            self.allocations.sensitivities.run()
        except EspalierError as error:
            self._session.problem.emit(error)

    def want_measure(self) -> None:
        """Measure the divergence of the current allocation, or stop the measurement."""
        state = self.allocations
        if self.measurement.running:
            self.measurement.stop()
            self._show_result()
            return
        recipe, base = state.allocated_recipe(), state.base
        if recipe is None or base is None or state.reached is None or state.kl is None:
            return
        try:
            self.measurement.measure(MeasureRequest(recipe, state.figure, state.reached, state.kl), base)
        except EspalierError as error:
            self._session.problem.emit(error)

    def want_reset(self) -> None:
        """Clear the budget."""
        self.allocations.reset()

    def _measured(self) -> None:
        self._mark()
        self.chart.show_budget(self.chart.budget)
        self._show_result()

    def export(self, path: Path) -> None:
        """Write the chart to a .png, .svg or .csv file; raises FileError."""
        self.chart.export(path)


def _single(state: Allocations) -> str:
    """Message for a front with a single allocation."""
    if state.current is None or len(state.current.front.solutions) > 1:
        return ""
    cost = state.current.cost
    return tr("One allocation is the best at every budget. {} is {}.", tr(cost.title), tr(cost.about))
