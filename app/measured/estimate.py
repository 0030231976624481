"""Divergence of the present formats and masks: estimated from the sensitivities, then measured.

Estimates are cached per port, so an edit recomputes only the ports that it changed; candidates that the table lacks
are predicted from gradient statistics in a pool thread, for the latest edit only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PySide6.QtCore import QObject, Signal

from espalier.app.figures.tensor_chunks import Stop, Stopped
from espalier.app.jobs.previews import Previews
from espalier.app.measured.sensitivities import sensitivities_of
from espalier.app.translation import tr
from espalier.model.graph.graph import Graph, Node
from espalier.model.store.weights import WeightStore
from espalier.passes.analysis.sensitivity import gradient_ports
from espalier.passes.figure import OPENED
from espalier.passes.sensitivity.combined import CombinedDivergences, Part, part, together
from espalier.passes.sensitivity.correction import Correction
from espalier.passes.sensitivity.full_table import changed, chosen, fixed, mask_of
from espalier.passes.sensitivity.gradient_statistics import load
from espalier.passes.sensitivity.port_predictor import Mask, port_predictor
from espalier.passes.sensitivity.ports import FormatPort as PortRef
from espalier.passes.sensitivity.table import Candidate

if TYPE_CHECKING:
    from espalier.app.session.session import Session

SLOT = "estimate"
QUICK = 1 << 16  # elements of a stored tensor that an estimate uses


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice at a port, and all that its estimate depends on; `mask`: key of a stored tensor's mask."""

    place: str
    candidate: Candidate
    mask: str | None


Choices = dict[Choice, tuple[PortRef, Node]]


def choices(graph: Graph, places: Sequence[PortRef], run: Graph) -> Choices:
    """The choices of a graph with their places and nodes."""
    return {
        Choice(place.key, candidate, sparsity.mask if (sparsity := node.sparsity.get(place.port)) else None): (
            place,
            node,
        )
        for place, candidate, node in changed(graph, places, run)
    }


def from_table(table: CombinedDivergences, place: PortRef, choice: Choice) -> Part | None:
    """The table's part of a choice; None if it lacks the candidate."""
    if choice.candidate.sparsity or choice.mask:
        return None
    return table.part(place.node, place.port, choice.candidate)


def predicted(
    wanted: Choices, statistics_file: Path, run: Graph, store: WeightStore, correction: Correction, stop: Stop
) -> dict[Choice, Part]:
    """Predict choices from the gradient statistics; choices without statistics count as 0. Raises Stopped."""
    statistics, parts = load(statistics_file), dict[Choice, Part]()
    for choice, (place, node) in wanted.items():
        if stop():
            raise Stopped
        predictor = port_predictor(place, statistics, run, store, QUICK)
        mask = None if predictor is None or not choice.mask else _mask(node, place, run, store)
        prediction = fixed(predictor.predict(choice.candidate, mask=mask), correction) if predictor else None
        parts[choice] = part(prediction.kl, prediction.along) if prediction else part(0.0, np.zeros(0))
    return parts


def _mask(node: Node, place: PortRef, run: Graph, store: WeightStore) -> Mask | None:
    name = place.weight
    return None if name is None else mask_of(node, place, store, run.weights[name].shape)


def correction_of(summary: Mapping[str, Any]) -> Correction:
    """The run's correction of predictions by measurements."""
    values = summary.get("correction")
    if not isinstance(values, list | tuple) or len(values) != 3:
        return Correction()
    return Correction(*(float(v) for v in values), count=1)


def estimate_of(session: Session) -> Estimate:
    """The session's Estimate, created once."""
    return session.findChild(Estimate) or Estimate(session)


class Estimate(QObject):
    """Divergence of the present graph: `kl`, and `how` it is known ("estimated", "measured" or ""); emits `changed`.

    `baseline`: name of the reference; for an estimate the point at which the gradients were taken.
    """

    changed = Signal()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._session = session
        self._sensitivities = sensitivities_of(session)
        self.kl: float | None = None
        self.how = self.baseline = ""
        self.last: dict[str, float] = {}  # accuracy and loss measured last
        self._costs: dict[Choice, Part] = {}
        self._layout: tuple[Graph, Graph, tuple[PortRef, ...]] | None = None
        self._previews = Previews(self, until=session.opened)
        self._previews.ready.connect(lambda slot, key, predictions: self._on_predictions(predictions))
        self._previews.failed.connect(lambda slot, error: self._on_predictions({}))
        session.opened.connect(self._forget)
        session.changed.connect(lambda _: self.refresh())
        session.score_changed.connect(self._note)
        self._sensitivities.changed.connect(self._table_changed)

    @property
    def _measured(self) -> float | None:
        """The measured divergence of the present recipe on the current data, or None."""
        session = self._session
        return session.measures.divergence(session.document.recipe, session.compared) if session.document else None

    def cost(self, node: str, port: str) -> float | None:
        """Estimated divergence of the present choice at a port alone; None if unknown."""
        document = self._session.document
        node_ = document.graph.nodes.get(node) if document else None
        if node_ is None:
            return None
        candidate = chosen(node_, port)
        same = (v[0] for c, v in self._costs.items() if c.place == f"{node}:{port}" and c.candidate == candidate)
        return next(same, None)

    def refresh(self) -> None:
        """Update the divergence of the present graph, computing what is missing."""
        document = self._session.document
        self.kl, self.how, self.baseline = None, "", ""
        if document is None:
            self.changed.emit()
            return
        measured = self._measured
        if measured is not None:
            self.kl, self.how, self.baseline = measured, tr("measured"), self._session.compared.name
        elif self._sensitivities.table and not self._sensitivities.stale:
            self._estimate(document.graph)
        self.changed.emit()

    def _estimate(self, graph: Graph) -> None:
        """Sum the divergences of all choices; missing ones are predicted from the gradient statistics."""
        document, statistics = self._session.open_document, self._sensitivities.statistics_file
        run, places = self._places(document.project.base, graph)
        table = self._sensitivities.combined
        missing, parts = Choices(), list[Part]()
        for choice, location in choices(graph, places, run).items():
            value = self._costs.get(choice)
            value = from_table(table, location[0], choice) if value is None else value
            if value is None:
                missing[choice] = location
            else:
                self._costs[choice] = value
                parts.append(value)
        predictions = dict[Choice, Part]() if not missing else self._predict(missing, statistics, run, document.store)
        if predictions is not None:
            self._costs |= predictions
            self.kl, self.how = together([*parts, *predictions.values()], table.by), "estimated"
            self.baseline = str(self._sensitivities.summary.get("baseline", OPENED))

    def _predict(
        self, wanted: Choices, statistics: Path | None, run: Graph, store: WeightStore
    ) -> dict[Choice, Part] | None:
        """Predictions of choices; None while they are computed, or without gradient statistics."""
        if statistics is None:
            return None
        by = correction_of(self._sensitivities.summary)
        key = statistics, by, frozenset(wanted)
        return self._previews.ask(SLOT, key, lambda stop: predicted(wanted, statistics, run, store, by, stop))

    def _places(self, base: Graph, graph: Graph) -> tuple[Graph, tuple[PortRef, ...]]:
        """The graph and places of the gradient statistics; they depend on the weights only."""
        if self._layout is None or self._layout[0] is not base:
            _, run, places = gradient_ports(graph, base)
            self._layout = base, run, places
        return self._layout[1:]

    def _on_predictions(self, predictions: Mapping[Choice, Part]) -> None:
        self._costs.update(predictions)
        if predictions:
            self.refresh()

    def _table_changed(self) -> None:
        self._costs.clear()
        self._layout = None
        self.refresh()

    def _note(self) -> None:
        """Store the last measured score, shown in grey until the next one; refresh if the divergence was measured with
        it."""
        document = self._session.document
        if document and (metrics := self._session.measures.metrics(document.recipe)):
            self.last = dict(metrics)
        if (self._measured is None) == (self.how == "measured"):
            self.refresh()

    def _forget(self) -> None:
        self.last.clear()
        self._costs.clear()
        self._layout = None
        self._previews.forget(SLOT)
        self.refresh()
