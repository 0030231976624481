"""Allocate: drag a budget along the front of predicted divergence; the graph follows, and one button applies it."""

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
from espalier.app.features.allocate.parts import ABOUT, STEPS, WORDS, AllocateParts
from espalier.app.features.allocate.state.allocation import Allocations
from espalier.app.features.allocate.state.finding import Finding
from espalier.app.features.allocate.state.truth import Truth, Wanted
from espalier.app.features.allocate.words import FIRST, counts, summary
from espalier.app.figures.curves import figure_words
from espalier.app.figures.facts import node_path
from espalier.app.words import figure, percent
from espalier.model.errors import EspalierError
from espalier.passes.allocation.decisions import Place

if TYPE_CHECKING:
    from espalier.app.session.session import Session

NOWHERE = ("",)
UNITS = {"size_bytes": (1024.0, "KiB"), "bitops": (1e6, "M"), "sparsity": (0.01, "%")}


class AllocatePanel(AllocateParts):
    """`preview_wanted` tells a graph to show in place of the document's, or None; `node_wanted` a layer to show."""

    preview_wanted = Signal(object)
    node_wanted = Signal(str)
    save_wanted = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(session, parent)
        self._session = session
        self.allocations, self.truth, self.finding = Allocations(session), Truth(session), Finding(session)
        self._lost: dict[Place, dict[int, float]] = {}  # place → candidate's id → what it costs
        self._connect()
        self.refresh()

    def _connect(self) -> None:
        known = self.allocations.known
        self.choices.edited.connect(self._choose)
        self.slider.valueChanged.connect(self._slid)
        self.number.edited.connect(self._typed)
        self.number.editingFinished.connect(self._put_number)
        self.chart.dragged.connect(self._dragged)
        self.chart.themed.connect(self._name_colours)
        self.apply.clicked.connect(self.allocations.apply)
        self.finder.clicked.connect(self._find)
        self.choices.wanted.connect(lambda: self.finding.begin(self.allocations))
        self.finding.changed.connect(self.refresh)
        self.table.node_wanted.connect(self.node_wanted)
        self.allocations.built.connect(self.refresh)
        self.allocations.moved.connect(self._moved)
        self.truth.changed.connect(self._measured)
        known.changed.connect(self.refresh)
        self._session.score_changed.connect(lambda: self.when_seen(self._scored))
        self.allocations.estimate.changed.connect(lambda: self.when_seen(self._scored))

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.choices.offer_costs()
        self.allocations.look(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.allocations.look(False)

    # -- what is shown

    def refresh(self) -> None:
        """Show the front, or what is missing for one."""
        held, known = self.allocations, self.allocations.known
        document = self._session.document
        first = known.running and not known.refining  # no prediction is there yet, or not all
        filled = document is not None and bool(known.table) and not (first and held.now is None)
        self.strip.show_job(known.job if document else None)
        self.pages.setCurrentIndex(1 if filled else 0)
        self.finder.setVisible(document is not None)
        self.finder.setEnabled(not known.running)
        words = f"{ABOUT}\n\n{known.words[:1].upper()}{known.words[1:]}." if known.error else ABOUT
        self.about.setText(words.replace("..", ".") if document else "Open a model to allocate formats to its layers.")
        self.about.setMinimumHeight(self.about.heightForWidth(WORDS))
        if not filled or document is None:
            return
        self.choices.offer(held.offered(), held.offered_ports())
        words = held.error or self.finding.words or (f"{FIRST}." if known.uncorrected else "") or _single(held)
        self.choices.tell("Counting what everything costs …" if held.counting else words, self.finding.can(held))
        places = [p for g in held.now.problem.groups for s in g.slots for p in s.places] if held.now else []
        order = {name: i for i, name in enumerate(document.graph.nodes)}
        places.sort(key=lambda p: order.get(p[0], len(order)))
        table = known.table
        self._lost = {(r.node, r.port): dict(zip(map(id, r.candidates), r.known, strict=True)) for r in table}
        self.table.rows.begin(places, {n.id: node_path(n) for n in document.graph})
        self.table.fit()
        for part in (self.slider, self.number, self.chart):
            part.setEnabled(held.now is not None)
        self.unit.setText(self._unit[1])
        self._mark()
        self._moved()

    @property
    def _unit(self) -> tuple[float, str]:
        """What one of the number field is, and its name."""
        held = self.allocations
        return UNITS.get(held.figure) or (1.0, held.now.cost.unit if held.now else "")

    def _mark(self) -> None:
        """Draw the front, the present configuration and what was measured."""
        held = self.allocations
        points = held.now.points() if held.now else []
        marks: list[Mark] = []
        if present := held.present():
            words, known = f"present: {figure_words(held.figure, present[0])}", held.estimate
            more = "" if present[1] is None else f"\nKL {figure(present[1])} from {known.baseline}, {known.how}"
            kl = present[1] if known.baseline == held.baseline else None  # from another it has no place on the axis
            marks.append(Mark(present[0], kl, "present", words + more))
        for found in self.truth.along(held.figure):
            accuracy = "" if found.accuracy is None else f"\naccuracy {percent(found.accuracy)}"
            words = f"measured: {figure_words(held.figure, found.of.at)}\nKL {figure(found.kl)}, measured; estimated "
            marks.append(Mark(found.of.at, found.kl, "measured", f"{words}{figure(found.of.predicted)}{accuracy}"))
        self.chart.show_front(held.figure, points, marks)
        self._name_colours()

    def _name_colours(self) -> None:
        """The legend, in the theme's colours."""
        self.legend.setText(
            " &nbsp; ".join(f'<span style="color:{c}">● {escape(w)}</span>' for w, c in self.chart.legend())
        )

    def _moved(self) -> None:
        """Another budget is tried, or none: the graph, the table, the words and the fields follow."""
        held = self.allocations
        found, now = held.found, held.now
        for part in (self.apply, self.measure, self.reset):
            part.setEnabled(found is not None)
        self.preview_wanted.emit(held.preview())
        if now is None or found is None:
            self._show_present()
            return
        chosen = held.chosen
        kl: dict[Place, float | None] = {p: self._lost.get(p, {}).get(id(c), 0.0) for p, c in chosen.items()}
        self.table.rows.show_choices(chosen, kl)
        assert held.wanted is not None and held.reached is not None
        self.chart.show_budget((now.problem.figure(0, held.wanted), held.reached, held.kl or 0.0))
        with QSignalBlocker(self.slider):
            self.slider.setValue(self._place(held.wanted))
        if not self.number.hasFocus():
            self._put_number()
        self._say()

    def _put_number(self) -> None:
        """The budget that is tried: what was typed below the least gives way to it once the field is done with."""
        held, now = self.allocations, self.allocations.now
        if now is not None and held.wanted is not None:
            self.number.put(float(f"{now.problem.figure(0, held.wanted) / self._unit[0]:.4g}"))

    def _show_present(self) -> None:
        """Nothing is tried: what the ports have now, as it was applied or edited."""
        held, now = self.allocations, self.allocations.now
        choices, present = held.present_choices(), held.present()
        self.table.rows.show_choices({p: c for p, (c, _) in choices.items()}, {p: k for p, (_, k) in choices.items()})
        self.chart.show_budget(None)
        at = min(max(now.problem.amount(0, present[0]), now.front.ends[0]), now.front.ends[1]) if now and present else 0
        with QSignalBlocker(self.slider):
            self.slider.setValue(self._place(at) if now and present else STEPS)
        if not self.number.hasFocus():
            self.number.put(float(f"{present[0] / self._unit[0]:.4g}") if present else None)
        self._say()

    def _scored(self) -> None:
        """Some costs are known only when the score is."""
        self._mark()
        if self.allocations.found is None:
            self._moved()

    def _say(self) -> None:
        """What is reached in a line, and what went wrong."""
        held, truth = self.allocations, self.truth
        wrong = held.beyond or truth.error
        self.wrong.setText(wrong)
        self.wrong.setVisible(bool(wrong))
        self.measure.setText("Stop measuring" if truth.running else "Measure")
        self.measure.setEnabled(truth.running or held.found is not None)
        self.told.show_text(summary(held, truth))
        self.counts.show_text(counts(held.chosen or {p: c for p, (c, _) in held.present_choices().items()}))

    # -- what is done

    def _choose(self) -> None:
        held, figure_ = self.allocations, self.choices.cost.get()
        if figure_ != held.figure:  # another cost looks at other ports
            held.figure = figure_
            self.choices.offer(held.offered(), held.offered_ports())
        held.choose(figure_, self.choices.get_ports() or NOWHERE, self.choices.columns())

    def _place(self, amount: float) -> int:
        """Where an amount stands on the slider."""
        low, high = self.allocations.ends or (0.0, 1.0)
        if high <= low:
            return STEPS
        if low > 0:
            return round(STEPS * math.log(max(amount, low) / low) / math.log(high / low))
        return round(STEPS * (amount - low) / (high - low))

    def _slid(self, place: int) -> None:
        if ends := self.allocations.ends:
            low, high = ends
            share = place / STEPS
            self.allocations.aim(low * (high / low) ** share if low > 0 else low + (high - low) * share)

    def _dragged(self, figure_: float) -> None:
        with contextlib.suppress(EspalierError):  # beyond the least, the least is tried
            self.allocations.aim_at(figure_)

    def _typed(self) -> None:
        try:
            self.allocations.aim_at(float(self.number.get()) * self._unit[0])
        except EspalierError as error:
            self.wrong.setText(f"{error.message} {error.hint}")
            self.wrong.show()

    def _find(self) -> None:
        try:
            self.allocations.known.run()
        except EspalierError as error:
            self._session.problem.emit(error)

    def want_measure(self) -> None:
        """Find the true divergence of what is tried, or stop that."""
        held = self.allocations
        if self.truth.running:
            self.truth.stop()
            self._say()
            return
        recipe, ground = held.made_recipe(), held.ground
        if recipe is None or ground is None or held.reached is None or held.kl is None:
            return
        try:
            self.truth.measure(Wanted(recipe, held.figure, held.reached, held.kl), ground)
        except EspalierError as error:
            self._session.problem.emit(error)

    def want_reset(self) -> None:
        """Try nothing any more."""
        self.allocations.reset()

    def _measured(self) -> None:
        self._mark()
        self.chart.show_budget(self.chart.budget)
        self._say()

    def export(self, path: Path) -> None:
        """Write the chart to a .png, .svg or .csv file; raises FileError."""
        self.chart.export(path)


def _single(held: Allocations) -> str:
    """Said where there is nothing to trade: one choice is both the cheapest and the best."""
    if held.now is None or len(held.now.front.solutions) > 1:
        return ""
    return f"One allocation is the best at every budget. {held.now.cost.title} is {held.now.cost.about}."
